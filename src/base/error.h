/* Filling and decorating struct cay_error. Every function accepts err == NULL. */
#pragma once

#include <cay/errors.h>
#include <stddef.h>

#include "base/auto.h"

/* Fills err and returns -code. The message says what failed, on what, and why. */
int error_set(struct cay_error *err, enum cay_code code, const char *fmt, ...) _printf_(3, 4);

/* As error_set, with errno's text appended (": No such file or directory") and the class derived
 * from errno. Call it right after the failing call. */
int error_errno(struct cay_error *err, const char *fmt, ...) _printf_(2, 3);

/* As error_errno for an errno value that was saved or came from elsewhere. */
int error_sys(struct cay_error *err, int sys, const char *fmt, ...) _printf_(3, 4);

/* Prepends "context: " to the message; returns -err->code (-CAY_INTERNAL if err is NULL). */
int error_prefix(struct cay_error *err, const char *fmt, ...) _printf_(2, 3);

/* Sets what the user can do about it; returns -err->code like error_prefix. */
int error_remedy(struct cay_error *err, const char *fmt, ...) _printf_(2, 3);

/* Marks a limit that ends by itself: the API adds Retry-After to the answer. */
void error_try_later(struct cay_error *err);

/* The same for a file of ours that could not be used, in the state folder: no right of the caller's
 * is missing and no argument of his is wrong, so the class is another one. Sets the remedy too. */
int error_storage(struct cay_error *err, int sys, const char *fmt, ...) _printf_(3, 4);

/* The class that fits an errno value. */
enum cay_code error_class(int sys);

/* The class with this JSON name, or CAY_INTERNAL. */
enum cay_code error_code_from_name(const char *name);

/* Makes the code of an error that came from outside one of ours, and its text terminated and free
 * of control characters. */
void error_sanitize(struct cay_error *err);
