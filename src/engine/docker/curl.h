/* What the files share that talk to Docker by libcurl; not for others. */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>

#include "engine/docker/api.h"

/* Where to, and how: every request and stream begins with it. */
bool docker_curl_set_host(CURL *curl, const struct docker_host *host, const char *url,
                          char message[static CURL_ERROR_SIZE]);
/* The error of a connection that could not be had. */
int docker_unreachable(const struct docker_host *host, CURLcode code, const char *message,
                       struct cay_error *err);
const struct docker_host *docker_api_host(const struct docker_api *api);
