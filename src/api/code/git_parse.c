#include "api/code/git_parse.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/json/jsonw.h"
#include "base/str.h"

/* A piece of text, up to a separator. */
struct piece {
    const char *data;
    size_t len;
};

/* Takes the next piece off; false at the end. */
static bool next(struct piece *rest, char separator, struct piece *ret) {
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->data, separator, rest->len);
    ret->data = rest->data;
    ret->len = end != NULL ? (size_t)(end - rest->data) : rest->len;
    size_t used = end != NULL ? ret->len + 1 : ret->len;
    rest->data += used;
    rest->len -= used;
    return true;
}

static bool starts(const struct piece *p, const char *prefix) {
    size_t len = strlen(prefix);
    return p->len >= len && memcmp(p->data, prefix, len) == 0;
}

static void skip(struct piece *p, size_t len) {
    p->data += len;
    p->len -= len;
}

static void put(struct jsonw *w, const char *key, const struct piece *p) {
    jsonw_key(w, key);
    jsonw_bytes(w, p->data, p->len);
}

/* ---- status ---- */

struct status {
    struct piece head, upstream;
    int64_t ahead, behind;
    bool is_published;
};

static const char *word_of(char letter) {
    static const struct {
        char letter;
        const char *word;
    } words[] = {
        {'M', "Modified"}, {'T', "Modified"}, {'A', "Added"},     {'D', "Deleted"},
        {'R', "Renamed"},  {'C', "Copied"},   {'?', "Untracked"}, {'U', "Updated but unmerged"}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (words[i].letter == letter)
            return words[i].word;
    return "Unmodified";
}

/* "+3 -1" */
static void read_distance(struct status *s, const struct piece *p) {
    char text[64];
    s->is_published = true;
    (void)snprintf(text, sizeof text, "%.*s", (int)MIN(p->len, sizeof text - 1), p->data);
    char *behind = strchr(text, ' ');
    if (text[0] != '+' || behind == NULL || behind[1] != '-')
        return;
    *behind = '\0';
    (void)str_to_i64(text + 1, 0, INT32_MAX, &s->ahead); /* stays 0 */
    (void)str_to_i64(behind + 2, 0, INT32_MAX, &s->behind);
}

static void read_header(struct status *s, struct piece p) {
    static const char head[] = "# branch.head ", upstream[] = "# branch.upstream ",
                      distance[] = "# branch.ab ";
    if (starts(&p, head)) {
        skip(&p, sizeof head - 1);
        s->head = p;
    } else if (starts(&p, upstream)) {
        skip(&p, sizeof upstream - 1);
        s->upstream = p;
    } else if (starts(&p, distance)) {
        skip(&p, sizeof distance - 1);
        read_distance(s, &p);
    }
}

/* How many fields stand before the name, by the kind of a line. */
static size_t fields_before_name(char kind) {
    switch (kind) {
    case '1':
        return 8;
    case '2':
        return 9;
    case 'u':
        return 10;
    default:
        return 1;
    }
}

static int write_file(struct jsonw *w, struct piece line, struct piece *rest) {
    struct piece field, codes = {"??", 2}, before = {"", 0};
    char kind = line.data[0];
    for (size_t i = 0; i < fields_before_name(kind); i++) {
        if (!next(&line, ' ', &field))
            return -EPROTO;
        if (i == 1)
            codes = field;
    }
    if (line.len == 0 || codes.len != 2 || (kind == '2' && !next(rest, '\0', &before)))
        return -EPROTO;
    jsonw_begin_object(w);
    put(w, "name", &line);
    put(w, "extra", &before);
    jsonw_put_string(w, "staging", word_of(kind == 'u' ? 'U' : codes.data[0]));
    jsonw_put_string(w, "worktree", word_of(kind == 'u' ? 'U' : codes.data[1]));
    jsonw_end_object(w);
    return 0;
}

static int write_files(struct jsonw *w, struct status *s, struct piece rest) {
    struct piece line;
    int r = 0;
    while (r == 0 && next(&rest, '\0', &line)) {
        if (starts(&line, "# "))
            read_header(s, line);
        else if (line.len > 1 && strchr("12u?", line.data[0]) != NULL)
            r = write_file(w, line, &rest);
    }
    return r;
}

int git_write_status(struct jsonw *w, const char *text, size_t len) {
    static const char detached[] = "(detached)";
    struct status s = {.head = {"", 0}, .upstream = {"", 0}};
    jsonw_begin_object(w);
    jsonw_key(w, "fileStatus");
    jsonw_begin_array(w);
    int r = write_files(w, &s, (struct piece){text, len});
    jsonw_end_array(w);
    bool is_detached = s.head.len == sizeof detached - 1 && starts(&s.head, detached);
    if (is_detached)
        s.head = (struct piece){"HEAD", 4};
    put(w, "currentBranch", &s.head);
    jsonw_put_bool(w, "detached", is_detached);
    put(w, "upstream", &s.upstream);
    jsonw_put_integer(w, "ahead", s.ahead);
    jsonw_put_integer(w, "behind", s.behind);
    jsonw_put_bool(w, "branchPublished", s.is_published);
    jsonw_end_object(w);
    return r;
}

/* ---- history ---- */

static int write_commit(struct jsonw *w, struct piece line) {
    static const char *const keys[] = {"hash", "author", "email", "timestamp"};
    struct piece field;
    jsonw_begin_object(w);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (!next(&line, '\x1f', &field))
            return -EPROTO;
        put(w, keys[i], &field);
    }
    while (line.len > 0 && line.data[line.len - 1] == '\n')
        line.len--;
    put(w, "message", &line);
    jsonw_end_object(w);
    return 0;
}

int git_write_history(struct jsonw *w, const char *text, size_t len) {
    struct piece rest = {text, len}, line;
    int r = 0;
    jsonw_begin_array(w);
    while (r == 0 && next(&rest, '\0', &line))
        r = write_commit(w, line);
    jsonw_end_array(w);
    return r;
}

/* ---- names ---- */

int git_write_branches(struct jsonw *w, const char *text, size_t len) {
    struct piece rest = {text, len}, line, current = {"", 0};
    jsonw_begin_object(w);
    jsonw_key(w, "branches");
    jsonw_begin_array(w);
    while (next(&rest, '\n', &line)) {
        if (line.len < 2)
            return -EPROTO;
        bool is_current = line.data[0] == '*';
        skip(&line, 1);
        if (is_current)
            current = line;
        jsonw_bytes(w, line.data, line.len);
    }
    jsonw_end_array(w);
    put(w, "current", &current);
    jsonw_end_object(w);
    return 0;
}

/* "remote.NAME.url", a line break, and the URL. */
static int write_remote(struct jsonw *w, struct piece line) {
    static const char before[] = "remote.", after[] = ".url";
    size_t around = sizeof before - 1 + sizeof after - 1;
    struct piece key;
    if (!next(&line, '\n', &key) || !starts(&key, before) || key.len <= around)
        return -EPROTO;
    skip(&key, sizeof before - 1);
    key.len -= sizeof after - 1;
    jsonw_begin_object(w);
    put(w, "name", &key);
    put(w, "url", &line);
    jsonw_end_object(w);
    return 0;
}

int git_write_remotes(struct jsonw *w, const char *text, size_t len) {
    struct piece rest = {text, len}, line;
    int r = 0;
    jsonw_begin_object(w);
    jsonw_key(w, "remotes");
    jsonw_begin_array(w);
    while (r == 0 && next(&rest, '\0', &line))
        r = write_remote(w, line);
    jsonw_end_array(w);
    jsonw_end_object(w);
    return r;
}
