/* Any text as DOCKER_HOST and as whatever a Docker Engine answers: what is taken from it is bounded
 * and usable. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "engine/docker/parse.h"
#include "engine/docker/transport/demux.h"
#include "engine/docker/transport/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_host(const char *text) {
    struct docker_host h;
    if (docker_host_find(&(struct docker_host_env){.host = text}, &h, NULL) < 0)
        return;
    require(h.url[0] != '\0' && strpbrk(h.url, " \r\n\t@?#\\") == NULL);
    require(h.socket[0] == '\0' || h.socket[0] == '/');
}

static void check_version(const char *text, size_t len) {
    struct docker_version v;
    char api[DOCKER_API_SIZE];
    if (docker_parse_version(text, len, &v, NULL) == 0 && docker_choose_api(&v, api, NULL) == 0)
        require(strspn(api, "0123456789.") == strlen(api));
}

static void check_list(const char *text, size_t len) {
    _cleanup_(freep) struct engine_sandbox *v = NULL;
    size_t count = 0;
    if (docker_parse_list(text, len, "/s", &v, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        require(id_is_valid(v[i].id) && (unsigned)v[i].state <= ENGINE_PAUSED);
}

static void check_texts(const char *text, size_t len) {
    char out[DOCKER_TEXT_SIZE];
    docker_parse_error(text, len, out);
    require(strnlen(out, sizeof out) < sizeof out && strchr(out, '\n') == NULL);
    if (docker_parse_loaded(text, len, out, NULL) == 0)
        require(out[0] != '\0' && strpbrk(out, " \r\n\t") == NULL);
}

static void check_progress(const char *text, size_t len) {
    struct docker_progress p;
    if (docker_parse_progress(text, len, &p, NULL) == 0)
        require(strpbrk(p.id, "\r\n") == NULL && strpbrk(p.status, "\r\n") == NULL &&
                strpbrk(p.error, "\r\n") == NULL);
}

/* However it is cut, the same content comes out, and nothing is read beyond the end. */
static size_t demux_all(const uint8_t *data, size_t size, size_t step) {
    struct demux d = {0};
    size_t content = 0;
    for (size_t at = 0; at < size;) {
        size_t used = 0, len = 0;
        enum demux_stream which;
        if (demux_take(&d, data + at, MIN(size - at, step), &used, &which, &len) < 0)
            break;
        require(used > 0 && len <= used && used <= step && which <= DEMUX_FAILURE);
        at += used;
        content += len;
    }
    return content;
}

static void check_files(const char *text, size_t len) {
    struct docker_context context;
    struct docker_network network;
    char exec[DOCKER_EXEC_SIZE], current[DOCKER_TEXT_SIZE], image[HEX_SIZE];
    (void)docker_parse_context(text, len, &context, NULL);
    (void)docker_parse_current(text, len, current, NULL);
    if (docker_parse_image_id(text, len, image, NULL) == 0)
        require(hex_is_valid(image));
    if (docker_parse_network(text, len, &network, NULL) == 0)
        require(hex_is_valid(network.id) && strpbrk(network.gateway, "\r\n") == NULL);
    if (docker_parse_exec(text, len, exec, NULL) == 0)
        require(exec[0] != '\0' && strpbrk(exec, "/? \r\n") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_(freep) char *text = strndup((const char *)data, size);
    require(text != NULL);
    struct docker_info info;
    struct docker_container container;
    struct engine_stats stats;
    struct docker_event event;
    check_host(text);
    check_version((const char *)data, size);
    check_list((const char *)data, size);
    check_texts((const char *)data, size);
    check_progress((const char *)data, size);
    check_files((const char *)data, size);
    require(demux_all(data, size, 1) == demux_all(data, size, size + 1));
    (void)docker_parse_info((const char *)data, size, &info, NULL);
    if (docker_parse_inspect((const char *)data, size, "/state", &container, NULL) == 0)
        require(container.exit_code >= 0 && container.exit_code <= 255);
    (void)docker_parse_stats((const char *)data, size, &stats, NULL);
    if (docker_parse_event((const char *)data, size, "/s", &event, NULL) == 0)
        require(id_is_valid(event.id));
    return 0;
}
