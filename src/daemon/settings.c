#include "daemon/settings.h"

#include "base/log.h"

void settings_apply_level(const struct settings *s) {
    enum log_level level;
    const char *name = s->log_level != NULL ? s->log_level : s->config->server.log_level;
    if (log_level_from_name(name, &level))
        log_set_level(level);
}
