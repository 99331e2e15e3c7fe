/* What a sandbox sends to the proxy, and a list of what it may reach: whatever the head is, what is
 * written anew is one head with one host, the one that is checked. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "egress/network.h"
#include "egress/request.h"

static size_t count_lines(const char *text, const char *prefix) {
    size_t n = 0;
    for (const char *p = strstr(text, "\r\n"); p != NULL; p = strstr(p + 2, "\r\n"))
        n += strncasecmp(p + 2, prefix, strlen(prefix)) == 0;
    return n;
}

static void check_rewritten(const char *data, const struct proxy_request *r) {
    struct buf out = BUF_INIT((size_t)2 * PROXY_HEAD_MAX);
    if (proxy_request_rewrite(data, r, &out) == 0) {
        const char *end = strstr(out.data, "\r\n\r\n");
        if (strlen(out.data) != out.len || end == NULL || end[4] != '\0' ||
            count_lines(out.data, "host:") != 1 || count_lines(out.data, "connection:") != 1 ||
            count_lines(out.data, "content-length:") + count_lines(out.data, "transfer-encoding:") >
                1)
            abort();
    }
    buf_free(&out);
}

static void check_network(const char *text) {
    static struct network n;
    const struct sockaddr_in loopback = {
        .sin_family = AF_INET, .sin_port = 80, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct sockaddr_in private = {
        .sin_family = AF_INET, .sin_port = htons(80), .sin_addr = {htonl(0x0a000001)}};
    if (network_parse(text, &n, NULL) < 0)
        return;
    if (network_judge(&n, (const struct sockaddr *)&loopback, true) != NETWORK_CLOSED)
        abort();
    if (network_reach(&n) != NETWORK_REACH_PRIVATE &&
        network_judge(&n, (const struct sockaddr *)&private, true) == NETWORK_OPEN)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    struct proxy_request r;
    if (size > 0 && input[0] == 'a') {
        char *text = strndup((const char *)input, size);
        check_network(text);
        free(text);
        return 0;
    }
    char *data = malloc(size + 1);
    memcpy(data, input, size);
    if (proxy_request_parse(data, size, &r, NULL) == 1) {
        char name[NETWORK_NAME_SIZE];
        if (r.port == 0 || r.port > UINT16_MAX || r.head_len > size ||
            (!r.is_address && !network_take_name(r.host, strlen(r.host), name)))
            abort();
        if (!r.is_tunnel)
            check_rewritten(data, &r);
    }
    free(data);
    return 0;
}
