#include "daemon/front/reload.h"
#include "daemon/capacity.h"

#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/control.h"

/* What is bound, or was told to a process that runs. */
static const char *const fixed[][2] = {{"sandbox", "engine"},
                                       {"server", "socket"},
                                       {"server", "listen"},
                                       {"manager", "volume_folders"},
                                       {"manager", "volume_root_folders"},
#define ENGINE_KEY(id, kind, section, key, text) {section, key},
                                       ENGINE_KEY_LIST(ENGINE_KEY)};

static bool is_same(const struct tls *a, const struct tls *b) {
    return str_equal(a->cert, b->cert) && str_equal(a->key, b->key);
}

/* TLS itself comes and goes with a restart: whether an address may be served depends on it. */
static int read_tls(const struct settings *s, struct reload *r, struct cay_error *err) {
    int e = tls_read(r->config, &r->tls, err);
    if (e < 0)
        return e;
    bool had = s->tls.cert != NULL, has = r->tls.cert != NULL;
    if (had != has)
        log_event(LOG_LEVEL_WARN, "a change counts after a restart", "key", "server.tls_cert");
    if (had != has || !has || is_same(&s->tls, &r->tls))
        tls_free(&r->tls);
    return 0;
}

int reload_read(const struct settings *s, struct reload *ret, struct cay_error *err) {
    reload_drop(ret);
    ret->number++;
    int r = config_load_trusted(s->config_file, (const char *const *)environ, &ret->config, err);
    if (r == 0)
        r = config_check_refusals(ret->config, err);
    if (r == 0)
        r = settings_check_folders(ret->config, err);
    if (r == 0 && s->engine == ENGINE_NATIVE)
        r = capacity_check_config(ret->config, s->is_root, err);
    if (r == 0)
        r = read_tls(s, ret, err);
    if (r < 0)
        reload_drop(ret);
    return r;
}

int reload_send(int control, const struct reload *r, struct cay_error *err) {
    struct control_message m = {.op = CONTROL_RELOAD, .number = r->number};
    _cleanup_(closep) int config = config_pack(r->config, err);
    _cleanup_(closep) int tls = -1;
    if (config < 0)
        return config;
    if (r->tls.cert != NULL && (tls = tls_pack(&r->tls, err)) < 0)
        return tls;
    int sent = control_send(control, &m, (const int[]){config, tls}, tls >= 0 ? 2 : 1);
    return sent < 0 ? error_sys(err, -sent, "telling the front of the configuration") : 0;
}

static void report_fixed(const struct config *before, const struct config *after) {
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < ARRAY_LEN(fixed); j++)
            if (str_equal(keys[i].section, fixed[j][0]) && str_equal(keys[i].name, fixed[j][1]) &&
                !str_equal(before->values[i].text, after->values[i].text))
                log_event(LOG_LEVEL_WARN, "a change counts after a restart", "key", "%s.%s",
                          fixed[j][0], fixed[j][1]);
}

/* The one that counts most. */
static const char *last_file(const struct config *config) {
    for (size_t i = CONFIG_SOURCES; i-- > 0;)
        if (config->files[i].path != NULL)
            return config->files[i].path;
    return "none";
}

void reload_finish(struct reload *r, struct settings *s) {
    report_fixed(s->config, r->config);
    config_free(s->config);
    s->config = TAKE_PTR(r->config);
    if (r->tls.cert != NULL) {
        tls_free(&s->tls);
        s->tls = r->tls;
        r->tls = (struct tls){0};
    }
    settings_apply_level(s->log_level, s->config);
    settings_apply_format(s->log_format, s->config);
    log_event(LOG_LEVEL_INFO, "the configuration was read again", "file", "%s",
              last_file(s->config));
}

void reload_drop(struct reload *r) {
    config_free(r->config);
    r->config = NULL;
    tls_free(&r->tls);
}
