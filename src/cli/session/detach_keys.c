#include "cli/session/detach_keys.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

/* One key: a character, or ctrl- and a letter or one of @ [ \ ] ^ _; -1 if it is none. */
static int take_key(const char *text, size_t len) {
    const char *prefix = "ctrl-";
    size_t skip = strlen(prefix);
    if (len == 1 && (unsigned char)text[0] > ' ' && (unsigned char)text[0] < 0x7f)
        return text[0];
    if (len != skip + 1 || strncmp(text, prefix, skip) != 0)
        return -1;
    int c = toupper((unsigned char)text[skip]);
    return c >= '@' && c <= '_' ? c & 0x1f : -1;
}

static int refuse(const char *text, struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT, "'%.64s' are no keys to detach with", text);
    return error_remedy(err, "write up to %d keys with commas between, as in " DETACH_KEYS_DEFAULT,
                        DETACH_KEYS_MAX);
}

int detach_keys_parse(const char *text, struct detach_keys *ret, struct cay_error *err) {
    *ret = (struct detach_keys){0};
    for (const char *p = text; *text != '\0';) {
        size_t len = strcspn(p, ",");
        int key = take_key(p, len);
        if (key < 0 || ret->count == DETACH_KEYS_MAX)
            return refuse(text, err);
        ret->keys[ret->count++] = (char)key;
        if (p[len] == '\0')
            break;
        p += len + 1;
    }
    return 0;
}

void detach_keys_release(struct detach_keys *k, struct buf *out) {
    (void)buf_append(out, k->keys, k->matched); /* failures are sticky */
    k->matched = 0;
}

/* After a key that does not fit, what was held back may still begin the keys anew further on. */
static void fall_back(struct detach_keys *k, struct buf *out) {
    size_t at = 0;
    do {
        (void)buf_putc(out, k->keys[at++]);
        k->matched--;
    } while (k->matched > 0 && memcmp(k->keys, k->keys + at, k->matched) != 0);
}

bool detach_keys_take(struct detach_keys *k, const char *typed, size_t len, struct buf *out) {
    for (size_t i = 0; i < len; i++) {
        while (k->matched > 0 && typed[i] != k->keys[k->matched])
            fall_back(k, out);
        if (k->count == 0 || typed[i] != k->keys[k->matched]) {
            (void)buf_putc(out, typed[i]);
            continue;
        }
        if (++k->matched == k->count) {
            k->matched = 0;
            return true;
        }
    }
    return false;
}
