/* Any text as an id, as a name, and as a list of subprotocols. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/toolbox/id.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

/* Whatever is taken as an id comes back, and is a good name inside. */
static void check_id(const char *id) {
    char name[WIRE_NAME_MAX + 1], back[WIRE_NAME_MAX + 1];
    if (!str_is_utf8(id, strlen(id)) || toolbox_name_of(id, name, NULL) < 0)
        return;
    require(wire_call_is_name(name));
    toolbox_id_of(name, back);
    require(str_equal(back, id));
}

static void check_name(const char *name) {
    char id[WIRE_NAME_MAX + 1];
    if (!wire_call_is_name(name))
        return;
    toolbox_id_of(name, id);
    require(id[0] != '\0' && str_is_utf8(id, strlen(id)));
}

static void check_offers(const char *text) {
    char rest[64];
    if (toolbox_find_offer(text, "X-Daytona-Pty-Envs~", rest, sizeof rest))
        require(strpbrk(rest, ", \t") == NULL && strlen(rest) < strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    require(text != NULL);
    check_id(text);
    check_name(text);
    check_offers(text);
    free(text);
    return 0;
}
