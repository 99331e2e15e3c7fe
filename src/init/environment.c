/* The environment of commands: what the host wants, and what only the sandbox knows. */
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

const char **op_environment(const struct op_conn *c, const struct wire_message *m) {
    static char home[sizeof "HOME=" + sizeof((struct user *)0)->home];
    static char proxies[ARRAY_LEN(proxy_names)][PROXY_TEXT_SIZE];
    size_t count = m->count[WIRE_TAG_ENV];
    const char **env = wire_string_array(m, WIRE_TAG_ENV);
    const char **more =
        env == NULL
            ? NULL
            : realloc(env, (count + 2 + ARRAY_LEN(proxy_names) + ARRAY_LEN(direct)) * sizeof *env);
    if (more == NULL || str_format(home, sizeof home, "HOME=%s", c->home) < 0) {
        free(more == NULL ? env : more);
        return NULL;
    }
    add(more, &count, home);
    if (c->proxy_port == 0)
        return more;
    for (size_t i = 0; i < ARRAY_LEN(proxy_names); i++)
        if (str_format(proxies[i], sizeof proxies[i], "%s=http://127.0.0.1:%u", proxy_names[i],
                       c->proxy_port) == 0)
            add(more, &count, proxies[i]);
    for (size_t i = 0; i < ARRAY_LEN(direct); i++)
        add(more, &count, direct[i]);
    return more;
}
