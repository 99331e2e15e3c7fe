#include "config/config_limited.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/error.h"
#include "config/config_value.h"

/* ---- networks ---- */

struct word {
    const char *text;
    size_t len;
};

/* Takes the next entry of a list that is separated by commas. */
static bool next_entry(const char **list, struct word *ret) {
    *list += strspn(*list, ", ");
    *ret = (struct word){*list, strcspn(*list, ",")};
    *list += ret->len;
    while (ret->len > 0 && ret->text[ret->len - 1] == ' ')
        ret->len--;
    return ret->len > 0;
}

static bool is_same(const struct word *a, const struct word *b) {
    return a->len == b->len && strncasecmp(a->text, b->text, a->len) == 0;
}

/* A domain without a port, maybe with "*." in front. An address is none: its last character is a
 * digit, or it has a slash, a colon or a bracket. */
static bool is_domain(const struct word *w) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    size_t from = w->len > 2 && strncmp(w->text, "*.", 2) == 0 ? 2 : 0;
    char last = w->text[w->len - 1];
    bool is_letter = (last >= 'a' && last <= 'z') || (last >= 'A' && last <= 'Z');
    return is_letter && strspn(w->text + from, allowed) >= w->len - from;
}

/* True if the entry `by` opens all that `wanted` opens. */
static bool covers(const struct word *by, const struct word *wanted) {
    if (is_same(by, wanted))
        return true;
    if (!is_domain(wanted) || by->text[0] != '*')
        return false;
    if (by->len == 1)
        return true;
    struct word suffix = {by->text + 1, by->len - 1}; /* ".a.com" */
    if (!is_domain(by) || wanted->len <= suffix.len)
        return false;
    struct word end = {wanted->text + wanted->len - suffix.len, suffix.len};
    return is_same(&suffix, &end);
}

static bool has_cover(const char *list, const struct word *wanted) {
    struct word by;
    while (next_entry(&list, &by))
        if (covers(&by, wanted))
            return true;
    return false;
}

bool config_network_is_narrower(const char *now, const char *wanted) {
    static const char prefix[] = "allow=";
    struct word entry;
    if (str_equal(wanted, "none") || str_equal(wanted, now))
        return true;
    if (!str_starts(now, prefix) || !str_starts(wanted, prefix))
        return false;
    for (wanted += strlen(prefix); next_entry(&wanted, &entry);)
        if (!has_cover(now + strlen(prefix), &entry))
            return false;
    return true;
}

/* ---- rows ---- */

static double number_of(const struct config *config, const struct config_key *key) {
    const void *field = (const char *)config + key->offset;
    switch (key->kind) {
    case CONFIG_SIZE:
        return (double)*(const uint64_t *)field;
    case CONFIG_INTEGER:
    case CONFIG_DURATION:
        return (double)*(const int64_t *)field;
    case CONFIG_NUMBER:
        return *(const double *)field;
    case CONFIG_BOOL: /* what narrows is off by default */
        return *(const bool *)field ? 1 : 0;
    default:
        return 0;
    }
}

int config_refuse(struct config *config, const char *name, enum config_source source, unsigned line,
                  bool widens, struct cay_error *err) {
    size_t n = config->refusal_count;
    struct config_refusal *more = reallocarray(config->refusals, n + 1, sizeof *more);
    if (more == NULL)
        return error_sys(err, ENOMEM, "reading the configuration");
    config->refusals = more;
    more[n] = (struct config_refusal){.source = source, .line = line, .widens = widens};
    (void)str_escape(more[n].name, sizeof more[n].name, name);
    config->refusal_count = n + 1;
    return 0;
}

static int refuse_row(struct config *config, const struct config_key *key,
                      const struct config_value *value, struct cay_error *err) {
    char name[64];
    (void)snprintf(name, sizeof name, "%s.%s", key->section, key->name);
    return config_refuse(config, name, value->source, value->line, key->trust == CONFIG_NARROWS,
                         err);
}

/* Sets it, and takes it back if it is more than before. */
static int set_smaller(struct config *config, size_t row, const char *what, const char *text,
                       struct config_value value, struct cay_error *err) {
    size_t count;
    const struct config_key *key = &config_keys(&count)[row];
    double before = number_of(config, key);
    struct config_value old = config->values[row];
    _cleanup_(freep) char *old_text = strdup(old.text);
    if (old_text == NULL)
        return error_sys(err, ENOMEM, "%s", what);
    int r = config_set(config, row, what, text, value, err);
    if (r < 0 || number_of(config, key) <= before)
        return r;
    r = config_set(config, row, what, old_text, old, err);
    return r < 0 ? r : refuse_row(config, key, &value, err);
}

int config_set_limited(struct config *config, size_t row, const char *what, const char *text,
                       struct config_value value, struct cay_error *err) {
    size_t count;
    const struct config_key *key = &config_keys(&count)[row];
    const char *now = config->values[row].text;
    if (str_equal(now, text)) /* a template with the defaults in it is no attempt */
        return 0;
    if (key->trust == CONFIG_HARMLESS)
        return config_set(config, row, what, text, value, err);
    if (key->trust != CONFIG_NARROWS)
        return refuse_row(config, key, &value, err);
    if (key->is_narrower == NULL)
        return set_smaller(config, row, what, text, value, err);
    return key->is_narrower(now, text) ? config_set(config, row, what, text, value, err)
                                       : refuse_row(config, key, &value, err);
}

bool config_image_is_limited(const struct config *config) {
    size_t count, row = 0;
    const struct config_key *keys = config_keys(&count);
    while (keys[row].offset != offsetof(struct config, sandbox.image))
        row++;
    return config->files[config->values[row].source].limited != NULL;
}

/* ---- telling ---- */

enum { NAMES_TOLD = 8 };

/* The first few: the note is one line, and `cay config --origin` has all of them. */
static void put_names(const struct config *config, enum config_source source, struct buf *b) {
    size_t found = 0;
    for (size_t i = 0; i < config->refusal_count; i++) {
        const struct config_refusal *r = &config->refusals[i];
        if (r->source == source && found++ < NAMES_TOLD)
            (void)buf_printf(b, "%s%s (line %u%s)", found > 1 ? ", " : "", r->name, r->line,
                             r->widens ? ", would widen" : "");
    }
    if (found > NAMES_TOLD)
        (void)buf_printf(b, " and %zu more", found - NAMES_TOLD);
}

static void put_remedy(const struct config *config, enum config_source source, struct buf *b) {
    const struct config_file *file = &config->files[source];
    if (source == CONFIG_FROM_FOLDER)
        (void)buf_printf(b, "; to trust it, use --config %s", file->path);
    else
        (void)buf_printf(b, "; make it and its folder yours alone (chown, chmod go-w)");
}

const char *config_refusal_note(const struct config *config, enum config_source source, char *out,
                                size_t size) {
    _cleanup_(buf_free) struct buf names = BUF_INIT(1024);
    _cleanup_(buf_free) struct buf all = BUF_INIT(8 * 1024);
    out[0] = '\0';
    put_names(config, source, &names);
    if (names.len == 0)
        return out;
    (void)buf_printf(&all, "ignored in %s: %s: %s, so it may only narrow limits",
                     config->files[source].path, buf_text(&names), config->files[source].limited);
    put_remedy(config, source, &all);
    (void)snprintf(out, size, "%s", buf_text(&all));
    return out;
}

static config_listener *listener;

void config_listen(config_listener *l) {
    listener = l;
}

void config_report_refusals(const struct config *config) {
    char note[2048];
    for (size_t i = 0; listener != NULL && config->refusal_count > 0 && i < CONFIG_SOURCES; i++)
        if (config_refusal_note(config, (enum config_source)i, note, sizeof note)[0] != '\0')
            listener((enum config_source)i, note);
}

int config_check_refusals(const struct config *config, struct cay_error *err) {
    if (config->refusal_count == 0)
        return 0;
    const struct config_refusal *first = &config->refusals[0];
    const struct config_file *file = &config->files[first->source];
    error_set(err, CAY_FORBIDDEN, "%s:%u: %s is not taken from this file: %s", file->path,
              first->line, first->name, file->limited);
    return error_remedy(err, "make the file and its folder yours or root's alone (chown, chmod "
                             "go-w), or name it with --config");
}
