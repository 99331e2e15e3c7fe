/* Identifiers of sandboxes and requests, and the names that users may give. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cay_error;

enum { ID_LEN = 16, ID_SIZE = ID_LEN + 1, NAME_MAX_LEN = 63 };

/* 64 random bits as lower-case hex. */
int id_new(char out[static ID_SIZE], struct cay_error *err);

bool id_is_valid(const char *text);

/* A user-given name: letters, digits, '.', '_', '-', starting with a letter or digit, at most
 * NAME_MAX_LEN. It is also the hostname inside. */
int id_check_name(const char *what, const char *name, struct cay_error *err);

/* Random bytes from the kernel; 0 or -errno. */
int id_random(void *data, size_t len);
