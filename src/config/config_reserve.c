#include <string.h>

#include "base/error.h"
#include "config/config.h"

enum { PERCENT_MAX = 50, PERCENT_AUTO = 5 };
static const uint64_t auto_max = UINT64_C(1) << 30;

static int refuse(const char *what, const char *text, struct cay_error *err) {
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "%s: '%s' is neither a size nor a percentage", what,
              str_escape(shown, sizeof shown, text));
    return error_remedy(err, "use a size such as 2g, a percentage from 0%% to %d%%, or auto",
                        PERCENT_MAX);
}

int config_parse_reserve(const char *what, const char *text, struct config_reserve *ret,
                         struct cay_error *err) {
    char number[8];
    uint64_t percent;
    size_t len = strlen(text);
    *ret = (struct config_reserve){.percent = PERCENT_AUTO, .max_bytes = auto_max};
    if (str_equal(text, "auto"))
        return 0;
    if (len > 0 && text[len - 1] != '%') {
        *ret = (struct config_reserve){0};
        if (str_equal(text, "0"))
            return 0;
        return str_to_size(what, text, &ret->max_bytes, NULL) < 0 ? refuse(what, text, err) : 0;
    }
    if (len < 2 || len > sizeof number)
        return refuse(what, text, err);
    memcpy(number, text, len - 1);
    number[len - 1] = '\0';
    if (str_to_u64(number, PERCENT_MAX, &percent) < 0)
        return refuse(what, text, err);
    *ret = (struct config_reserve){.percent = (unsigned)percent,
                                   .max_bytes = percent == 0 ? 0 : UINT64_MAX};
    return 0;
}
