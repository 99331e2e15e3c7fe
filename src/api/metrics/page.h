/* The parts of the page of metrics that are looked up when somebody asks. */
#pragma once

struct buf;
struct interpreters;
struct lender;
struct key;
struct manager;

void metrics_page_build(struct buf *out);
/* Sandboxes by state, their use, limits and the pool: of what the caller sees, NULL of all. */
void metrics_page_sandboxes(struct buf *out, struct manager *m, const struct key *caller);
/* Budgets of the keys that the caller sees, NULL of all. */
void metrics_page_keys(struct buf *out, struct manager *m, const struct key *caller);
/* The disk of the state folder: reserve, over-commitment, and the sandboxes it concerns. */
void metrics_page_space(struct buf *out, struct manager *m);
/* Warm interpreters, and the sandboxes in which they wait. */
void metrics_page_python(struct buf *out, struct interpreters *python);
/* Sandboxes of `cay run` and `cay python` that came from here. */
void metrics_page_prepared(struct buf *out, struct lender *lender);
/* Whether engines answer, and how fast. */
void metrics_page_engines(struct buf *out, struct manager *m);
/* Disks and processes of the daemon, as the watcher last measured them. */
void metrics_page_vitals(struct buf *out);
/* Requests and connections that are open. */
struct call;
void metrics_page_http(struct buf *out, const struct call *c);
/* This process, by the names that Prometheus' own libraries use. */
void metrics_page_process(struct buf *out);
