/* Answering a challenge: the value of the Authorization header to send. */
#pragma once

#include "imager/registry/challenge.h"
#include "imager/registry/credentials.h"
#include "imager/registry/http.h"

struct cay_error;

/* What the challenge is about. */
struct auth_subject {
    const char *registry; /* as users name it */
    const char *scope;    /* if the challenge names none; "" for none */
    const struct credential *credential;
};

/* 1 with *ret for secret_free; 0 if we have nothing to answer with. Of a failure, *trouble
 * says whether it may be better next time. */
int auth_answer(struct http *http, const struct challenge *challenge,
                const struct auth_subject *subject, char **ret, enum http_trouble *trouble,
                struct cay_error *err);
