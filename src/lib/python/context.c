#include "lib/python/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"
#include "lib/python/python.h"
#include "wire/client_session.h"

extern const char context_python[], context_charts[], context_node[];

static const struct {
    const char *asked, *name;
} languages[] = {
    {"python", "python"}, {"python3", "python"},    {"javascript", "javascript"},
    {"js", "javascript"}, {"node", "javascript"},   {"bash", "bash"},
    {"sh", "bash"},       {"nodejs", "javascript"}, {"shell", "bash"},
};

const char *context_language(const char *asked, struct cay_error *err) {
    char shown[64];
    if (asked == NULL || asked[0] == '\0')
        return "python";
    for (size_t i = 0; i < ARRAY_LEN(languages); i++)
        if (str_equal(languages[i].asked, asked))
            return languages[i].name;
    error_set(err, CAY_INVALID_ARGUMENT, "language: '%s' has no contexts",
              str_escape(shown, sizeof shown, asked));
    (void)error_remedy(err, "use python, javascript or bash");
    return NULL;
}

static int advise(const char *language, int r, struct cay_error *err) {
    if (r != -CAY_NOT_FOUND)
        return r;
    error_set(err, CAY_UNSUPPORTED, "the sandbox's image has nothing that runs %s", language);
    return error_remedy(err, "make the sandbox from an image that has it");
}

static enum context_warmth judge(const struct wire_context_made *made) {
    return made->is_woken                      ? CONTEXT_WARM
           : made->exit_code == PYTHON_CHANGED ? CONTEXT_CHANGED
                                               : CONTEXT_COLD;
}

int context_create(const struct wire_call *c, const char *name, const struct context_start *wish,
                   enum context_warmth *ret, struct cay_error *err) {
    const char *language = wish->language;
    bool is_python = str_equal(language, "python");
    struct wire_context_start start = {.language = language,
                                       .env = wish->env,
                                       .program = is_python ? wish->warm : 0,
                                       .woken = python_context_argv};
    struct wire_context_made made = {0};
    if (str_equal(language, "bash"))
        return wire_context_create(c, name, &start, &made, err);
    _cleanup_(freep) char *text = NULL;
    int r = is_python
                ? asprintf(&text, "%s\n\n%s\n\n_cay_context()\n", context_charts, context_python)
                : asprintf(&text, "%s", context_node);
    if (r < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    const char *const python[] = {"python3", "-c", text, NULL};
    /* Without it, versions before 20 refuse import() in what a context runs. */
    const char *const node[] = {"node", "--experimental-vm-modules", "-e", text, NULL};
    start.driver = is_python ? python : node;
    r = advise(language, wire_context_create(c, name, &start, &made, err), err);
    if (ret != NULL)
        *ret = judge(&made);
    return r;
}
