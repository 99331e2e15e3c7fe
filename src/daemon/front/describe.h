/* What an image says about its commands. Its record is in the image store, which the front cannot
 * open: the supervisor opens it for the front, and does not read it. */
#pragma once

#include "manager/record/record.h"

struct cay_error;

/* The supervisor's side: sends the record of an image over sock, as a descriptor, or nothing if
 * there is none. Never waits. */
void describe_send(const char *state_dir, const char *id, int sock);

/* The front's side: fills user and work_dir of r where they are empty, and adds what r->env does
 * not have, from the image r->image. */
int describe_ask(int control, struct sandbox_record *r, struct cay_error *err);
