/* Arguments and environment of commands: what the host wants, and what only the sandbox knows. */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/op.h"
#include "init/user.h"

enum { PROXY_TEXT_SIZE = 64 };

/* Both spellings are looked for by programs. ALL_PROXY is HTTP too: libraries that do not know
 * SOCKS refuse to work at all if it is named there. */
static const char *const proxy_names[] = {
    "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy",
};
static const char *const direct[] = {
    "NO_PROXY=localhost,127.0.0.1,::1",
    "no_proxy=localhost,127.0.0.1,::1",
};

static bool has_variable(const char *const *env, const char *entry) {
    size_t name = strcspn(entry, "=") + 1;
    for (; *env != NULL; env++)
        if (strncmp(*env, entry, name) == 0)
            return true;
    return false;
}

static void add(const char **env, size_t *count, const char *entry) {
    if (has_variable(env, entry))
        return;
    env[(*count)++] = entry;
    env[*count] = NULL;
}

void op_strings_free(struct op_strings *s) {
    if (s->v != s->few)
        free(s->v);
}

/* Those of the request, with room for more. */
static int take_strings(const struct wire_message *m, enum wire_tag tag, size_t more,
                        struct op_strings *ret) {
    size_t room = (size_t)m->count[tag] + more + 1;
    ret->v = room <= ARRAY_LEN(ret->few) ? ret->few : calloc(room, sizeof *ret->v);
    if (ret->v == NULL)
        return -ENOMEM;
    wire_copy_strings(m, tag, ret->v);
    return 0;
}

int op_arguments(const struct wire_message *m, struct op_strings *ret) {
    return take_strings(m, WIRE_TAG_ARG, 0, ret);
}

OP_ROOM char environment_proxies[ARRAY_LEN(proxy_names)][PROXY_TEXT_SIZE];

static void add_proxies(const char **env, size_t *count, unsigned port) {
    for (size_t i = 0; i < ARRAY_LEN(proxy_names); i++)
        if (str_format(environment_proxies[i], PROXY_TEXT_SIZE, "%s=http://127.0.0.1:%u",
                       proxy_names[i], port) == 0)
            add(env, count, environment_proxies[i]);
    for (size_t i = 0; i < ARRAY_LEN(direct); i++)
        add(env, count, direct[i]);
}

int op_environment(const struct op_conn *c, const struct wire_message *m, struct op_strings *ret) {
    static char home[sizeof "HOME=" + sizeof((struct user *)0)->home];
    size_t count = m->count[WIRE_TAG_ENV];
    int r = take_strings(m, WIRE_TAG_ENV, 1 + ARRAY_LEN(proxy_names) + ARRAY_LEN(direct), ret);
    if (r < 0)
        return r;
    if (str_format(home, sizeof home, "HOME=%s", c->home) == 0) /* there is room for any */
        add(ret->v, &count, home);
    if (c->proxy_port != 0)
        add_proxies(ret->v, &count, c->proxy_port);
    return 0;
}
