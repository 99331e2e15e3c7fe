/* Where a Docker Engine is, as DOCKER_HOST and its companions say it. */
#pragma once

#include <limits.h>
#include <stdbool.h>

struct cay_error;

struct docker_host {
    char socket[108];     /* of a unix socket, as long as the kernel takes; "" else */
    char url[512];        /* what requests begin with: "http://docker", "https://host:2376" */
    char certs[PATH_MAX]; /* folder of ca.pem, cert.pem and key.pem; "" without TLS */
    bool verify;          /* the certificate of the server; never off but where one says so */
    char shown[512];      /* as the user knows it, for errors */
};

/* What the environment can say; NULL where it says nothing. */
struct docker_host_env {
    const char *host, *tls_verify, *cert_path, *home;
    const char *context, *config; /* DOCKER_CONTEXT, DOCKER_CONFIG */
};

/* "unix://PATH", "tcp://HOST[:PORT]", "http://…", "https://…"; the socket of the distribution
 * without one. TCP uses TLS if tls_verify is set, or if the port is the one for it. */
int docker_host_find(const struct docker_host_env *env, struct docker_host *ret,
                     struct cay_error *err);

/* The same, and what a context of the docker command says if the environment names no host: the
 * one of DOCKER_CONTEXT, or the current one of its config.json. Reads its files. */
int docker_host_look_up(const struct docker_host_env *env, struct docker_host *ret,
                        struct cay_error *err);
