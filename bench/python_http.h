/* POST /api/cay/python over one connection that stays. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cay_error;

struct python_http {
    int fd;
};

/* Connects to the daemon at this socket, and waits until programs are warm. */
int python_http_open(struct python_http *h, const char *path, struct cay_error *err);
/* Runs a program; with on_demand one that no interpreter can wait for. */
int python_http_run(struct python_http *h, const char *code, bool on_demand, int64_t *ret_us,
                    struct cay_error *err);
