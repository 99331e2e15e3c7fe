/* Sessions of the toolbox: what their two files share. */
#pragma once

#include "api/toolbox/command.h"

struct wire_session_command;

/* How a client wants output that has two streams. */
enum toolbox_form {
    TOOLBOX_PLAIN,  /* both as one text: SDKs before 0.27, and who does not say */
    TOOLBOX_MARKED, /* a text with marks: before 0.167 */
    TOOLBOX_SPLIT,  /* apart */
};
enum toolbox_form toolbox_form_of(const struct call *c);

/* The name of the call's session inside, and the number of its command. */
int toolbox_session_name(const struct call *c, char name[static WIRE_NAME_MAX + 1],
                         struct cay_error *err);
int toolbox_session_number(struct call *c, uint64_t *ret, struct cay_error *err);

/* Writes both streams as {output, stdout, stderr} members. */
struct jsonw;
void toolbox_put_output(struct jsonw *w, const struct toolbox_output *out, enum toolbox_form form);

/* Handlers. */
int toolbox_logs_handle(struct call *c, struct cay_error *err);
int toolbox_no_logs_handle(struct call *c, struct cay_error *err);
