/* Looking at files, and changing their names and attributes. */
#include "api/toolbox/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json/jsonw.h"

enum {
    LIST_MAX = 50 * 1000,              /* entries of one listing, whatever its depth, */
    LIST_BYTES_MAX = 32 * 1024 * 1024, /* and bytes of their paths */
    DEPTH_MAX = 64,
};

/* ---- what others use too ---- */

int toolbox_need_query(const struct call *c, const char *key, const char **ret,
                       struct cay_error *err) {
    *ret = target_query(&c->target, key);
    if (*ret != NULL && **ret != '\0')
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the query '%s' is missing", key);
    return error_remedy(err, "add ?%s=… to the request", key);
}

int toolbox_absolute(const struct toolbox *t, const char *path, char out[static PATH_MAX],
                     struct cay_error *err) {
    const char *folder = t->record.work_dir;
    while (str_starts(path, "./"))
        path += 2 + strspn(path + 2, "/");
    if (str_equal(path, "."))
        path = "";
    int r;
    if (path[0] == '/')
        r = str_copy(out, PATH_MAX, path);
    else if (folder[0] == '\0' || path[0] == '\0')
        r = str_copy(out, PATH_MAX, path[0] != '\0' ? path : folder[0] != '\0' ? folder : ".");
    else
        r = str_format(out, PATH_MAX, "%s%s%s", folder, str_ends(folder, "/") ? "" : "/", path);
    if (r == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the path is longer than %d bytes", PATH_MAX - 1);
    return error_remedy(err, "use a shorter one");
}

const char *toolbox_file_code(const struct cay_error *err, unsigned *ret_status) {
    /* a folder where a file is needed, or the reverse */
    if (err->code == CAY_CONFLICT || err->sys == ENOTDIR) {
        *ret_status = 400;
        return "INVALID_FILE_PATH";
    }
    *ret_status = (unsigned)cay_code_http(err->code);
    if (err->code == CAY_NOT_FOUND)
        return "FILE_NOT_FOUND";
    return err->code == CAY_FORBIDDEN ? "FILE_ACCESS_DENIED" : NULL;
}

int toolbox_file_result(struct call *c, int result, const struct cay_error *err) {
    unsigned status;
    if (result >= 0)
        return result;
    const char *code = toolbox_file_code(err, &status);
    return toolbox_fault(c, code, status, err);
}

/* ---- an operation on a path ---- */

static int begin_at(struct call *c, const char *path, struct toolbox_job *j,
                    struct cay_error *err) {
    int r = toolbox_begin(c, &j->toolbox, err);
    toolbox_hurry(&j->toolbox);
    return r < 0 ? r : toolbox_absolute(&j->toolbox, path, j->path, err);
}

int toolbox_job_begin(struct call *c, const char *key, struct toolbox_job *j,
                      struct cay_error *err) {
    const char *path;
    int r = toolbox_need_query(c, key, &path, err);
    if (r < 0)
        return r;
    (void)str_escape(c->detail, sizeof c->detail, path);
    return begin_at(c, path, j, err);
}

void toolbox_job_end(struct toolbox_job *j) {
    toolbox_end(&j->toolbox);
}

/* What is at a path, in a connection of its own. */
static int look(struct call *c, const char *path, bool follow, struct wire_file *ret,
                struct cay_error *err) {
    char target[PATH_MAX];
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    int r = begin_at(c, path, &j, err);
    if (r == 0)
        r = toolbox_file_result(c, wire_stat(&j.toolbox.wire, j.path, follow, ret, target, err),
                                err);
    return r;
}

/* "755", "0755": at most all bits of a mode. */
static int read_mode(const struct call *c, int fallback, int *ret, struct cay_error *err) {
    const char *text = target_query(&c->target, "mode");
    *ret = fallback;
    if (text == NULL || *text == '\0')
        return 0;
    int mode = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '7' && mode <= 07777; p++)
        mode = mode * 8 + (*p - '0');
    if (*p == '\0' && mode <= 07777) {
        *ret = mode;
        return 0;
    }
    error_set(err, CAY_INVALID_ARGUMENT, "mode: '%.20s' is no octal mode", text);
    return error_remedy(err, "give one such as 755");
}

/* ---- FileInfo ---- */

/* As Go prints a mode, which clients know: type letters, then nine for the rights. */
static void put_mode(uint32_t mode, char out[static 20]) {
    static const struct {
        uint32_t mask, value;
        char letter;
    } kinds[] = {
        {S_IFMT, S_IFDIR, 'd'},  {S_IFMT, S_IFLNK, 'L'},  {S_IFMT, S_IFBLK, 'D'},
        {S_IFMT, S_IFCHR, 'D'},  {S_IFMT, S_IFIFO, 'p'},  {S_IFMT, S_IFSOCK, 'S'},
        {S_ISUID, S_ISUID, 'u'}, {S_ISGID, S_ISGID, 'g'}, {S_IFMT, S_IFCHR, 'c'},
        {S_ISVTX, S_ISVTX, 't'},
    };
    char *p = out;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if ((mode & kinds[i].mask) == kinds[i].value)
            *p++ = kinds[i].letter;
    if (p == out)
        *p++ = '-';
    for (int bit = 8; bit >= 0; bit--)
        *p++ = (mode >> bit & 1) != 0 ? "xwr"[bit % 3] : '-';
    *p = '\0';
}

static void put_owner(struct jsonw *w, const struct wire_file *f) {
    char text[16];
    (void)snprintf(text, sizeof text, "%u", (unsigned)f->uid);
    jsonw_put_string(w, "owner", text);
    (void)snprintf(text, sizeof text, "%u", (unsigned)f->gid);
    jsonw_put_string(w, "group", text);
    (void)snprintf(text, sizeof text, "%04o", (unsigned)f->mode & 0777);
    jsonw_put_string(w, "permissions", text);
}

/* modifiedAt, and modTime as Go's time.String() has it. */
static void put_times(struct jsonw *w, int64_t mtime_ms) {
    char iso[32], go[64];
    (void)clock_iso8601(mtime_ms, iso);
    jsonw_put_string(w, "modifiedAt", iso);
    (void)snprintf(go, sizeof go, "%.10s %.12s +0000 UTC", iso, iso + 11);
    jsonw_put_string(w, "modTime", go);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL || slash[1] == '\0' ? path : slash + 1;
}

static void write_info(struct jsonw *w, const char *path, const struct wire_file *f) {
    char mode[20];
    put_mode(f->mode, mode);
    jsonw_begin_object(w);
    jsonw_put_string(w, "name", base_name(path));
    jsonw_put_string(w, "path", path);
    jsonw_put_unsigned(w, "size", f->size);
    jsonw_put_string(w, "mode", mode);
    jsonw_put_bool(w, "isDir", S_ISDIR(f->mode));
    put_owner(w, f);
    put_times(w, f->mtime_ms);
    jsonw_end_object(w);
}

/* Without slashes at its end, which would leave it without a name. */
static void trim(char *path) {
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = '\0';
}

static int info(struct call *c, struct cay_error *err) {
    char target[PATH_MAX];
    struct wire_file f = {0};
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    int r = toolbox_job_begin(c, "path", &j, err);
    if (r < 0)
        return r;
    r = wire_stat(&j.toolbox.wire, j.path, true, &f, target, err);
    if (r < 0)
        return toolbox_file_result(c, r, err);
    struct jsonw w = JSONW_INIT(&c->answer.body);
    trim(j.path);
    write_info(&w, j.path, &f);
    return 0;
}

/* ---- list ---- */

struct listed {
    char *path;
    int level;             /* 1: right in the folder that was asked for */
    struct wire_file file; /* without its texts */
};

struct listing {
    struct call *call;
    int64_t deadline_ms;   /* of all folders together */
    bool is_work_dir;      /* the folder at hand is the work folder */
    char folder[PATH_MAX]; /* the one at hand, */
    int level;             /* and that of what is in it */
    struct listed *v;
    size_t len, cap;
    size_t bytes; /* of all paths */
};

static void listing_free(struct listing *l) {
    for (size_t i = 0; i < l->len; i++)
        free(l->v[i].path);
    free(l->v);
}

static int make_room(struct listing *l, struct cay_error *err) {
    if (l->len < l->cap)
        return 0;
    size_t cap = MAX(2 * l->cap, (size_t)64);
    struct listed *v = reallocarray(l->v, cap, sizeof *v);
    if (v == NULL)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for the listing");
    l->v = v;
    l->cap = cap;
    return 0;
}

static int refuse_size(struct cay_error *err) {
    error_set(err, CAY_LIMIT_REACHED, "there are more than %d files, or their names are too long",
              LIST_MAX);
    return error_remedy(err, "list a folder below, or with less depth");
}

static int take_entry(void *arg, const struct wire_file *f, struct cay_error *err) {
    struct listing *l = arg;
    if (strlen(f->path) > NAME_MAX)
        return wire_call_broken(err, "a name that no file can have");
    int r = make_room(l, err);
    if (r < 0)
        return r;
    struct listed *entry = &l->v[l->len];
    int len =
        asprintf(&entry->path, "%s%s%s", l->folder, str_ends(l->folder, "/") ? "" : "/", f->path);
    if (len < 0)
        return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for the listing");
    l->bytes += (size_t)len;
    entry->level = l->level;
    entry->file = *f;
    entry->file.path = entry->file.target = NULL;
    l->len++;
    return l->bytes > LIST_BYTES_MAX ? refuse_size(err) : 0;
}

/* One folder, whose absolute path is left in l->folder. */
static int list_folder(struct listing *l, const char *path, struct cay_error *err) {
    bool truncated = false;
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    int r = begin_at(l->call, path, &j, err);
    if (r < 0)
        return r;
    memcpy(l->folder, j.path, sizeof l->folder);
    trim(l->folder);
    l->is_work_dir = str_equal(l->folder, j.toolbox.record.work_dir);
    j.toolbox.wire.deadline_ms = l->deadline_ms;
    /* one more than there may be, since none cannot be asked for */
    r = wire_list(&j.toolbox.wire, j.path, LIST_MAX + 1 - l->len, take_entry, l, &truncated, err);
    if (r == 0 && (truncated || l->len > LIST_MAX))
        r = refuse_size(err);
    return r == -CAY_LIMIT_REACHED ? toolbox_fault(l->call, NULL, 400, err)
                                   : toolbox_file_result(l->call, r, err);
}

/* Level by level: what is listed grows at its end while it is gone through. A folder that is not
 * ours to read, or has gone meanwhile, is shown without what is in it. */
static int list_below(struct listing *l, int depth, struct cay_error *err) {
    for (size_t i = 0; i < l->len; i++) {
        if (!S_ISDIR(l->v[i].file.mode) || l->v[i].level >= depth)
            continue;
        l->level = l->v[i].level + 1;
        int r = list_folder(l, l->v[i].path, err);
        if (r < 0 && r != -CAY_NOT_FOUND && r != -CAY_FORBIDDEN)
            return r;
        if (r < 0)
            (void)toolbox_fault(l->call, NULL, 0, err);
    }
    return 0;
}

static int rank(char c) {
    return c == '\0' ? 0 : c == '/' ? 1 : (unsigned char)c + 1;
}

/* By path, folders right before what is in them. */
static int compare(const void *a, const void *b) {
    const char *x = ((const struct listed *)a)->path, *y = ((const struct listed *)b)->path;
    while (*x != '\0' && *x == *y) {
        x++;
        y++;
    }
    return rank(*x) - rank(*y);
}

static void write_listing(struct call *c, struct listing *l) {
    struct jsonw w = JSONW_INIT(&c->answer.body);
    if (l->len > 0)
        qsort(l->v, l->len, sizeof *l->v, compare);
    jsonw_begin_array(&w);
    for (size_t i = 0; i < l->len; i++)
        write_info(&w, l->v[i].path, &l->v[i].file);
    jsonw_end_array(&w);
}

static int read_depth(const struct call *c, int *ret, struct cay_error *err) {
    const char *text = target_query(&c->target, "depth");
    int64_t depth = 1;
    if (text != NULL && str_to_i64(text, 1, DEPTH_MAX, &depth) < 0) {
        error_set(err, CAY_INVALID_ARGUMENT, "depth: '%.20s' is not 1 to %d", text, DEPTH_MAX);
        return error_remedy(err, "give the number of levels to list, or leave it away");
    }
    *ret = (int)depth;
    return 0;
}

static int list(struct call *c, struct cay_error *err) {
    const char *path = target_query(&c->target, "path");
    int depth;
    _cleanup_(listing_free) struct listing l = {
        .call = c, .deadline_ms = clock_deadline(TOOLBOX_WAIT_MS), .level = 1};
    int r = read_depth(c, &depth, err);
    if (r == 0)
        r = list_folder(&l, path != NULL ? path : "", err);
    if (r == -CAY_NOT_FOUND && l.is_work_dir) /* the first command makes it */
        r = 0;
    else if (r == 0 && depth > 1)
        r = list_below(&l, depth, err);
    if (r == 0)
        write_listing(c, &l);
    return r;
}

/* ---- changes ---- */

static int folder(struct call *c, struct cay_error *err) {
    int mode;
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    int r = read_mode(c, 0755, &mode, err);
    if (r == 0)
        r = toolbox_job_begin(c, "path", &j, err);
    if (r < 0)
        return r;
    c->answer.status = 201;
    return toolbox_file_result(c, wire_mkdir(&j.toolbox.wire, j.path, mode, true, err), err);
}

static int move(struct call *c, struct cay_error *err) {
    const char *to;
    char target[PATH_MAX];
    struct wire_file f = {0};
    int r = toolbox_need_query(c, "destination", &to, err);
    if (r < 0)
        return r;
    r = look(c, to, false, &f, err);
    if (r == 0) {
        error_set(err, CAY_CONFLICT, "moving to '%.256s': there is something already", to);
        (void)error_remedy(err, "choose another name, or delete that first");
        return toolbox_fault(c, NULL, 409, err);
    }
    if (r != -CAY_NOT_FOUND)
        return r;
    (void)toolbox_fault(c, NULL, 0, err);
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    r = toolbox_job_begin(c, "source", &j, err);
    if (r == 0)
        r = toolbox_absolute(&j.toolbox, to, target, err);
    if (r < 0)
        return r;
    return toolbox_file_result(c, wire_move(&j.toolbox.wire, j.path, target, err), err);
}

/* Only who says so removes a folder. */
static int check_no_folder(struct call *c, struct cay_error *err) {
    const char *path;
    struct wire_file f = {0};
    int r = toolbox_need_query(c, "path", &path, err);
    if (r == 0)
        r = look(c, path, false, &f, err);
    if (r < 0 || !S_ISDIR(f.mode))
        return r;
    error_set(err, CAY_INVALID_ARGUMENT, "deleting '%.256s': it is a folder", path);
    return error_remedy(err, "add recursive=true to delete it with all that is in it");
}

static int remove_it(struct call *c, struct cay_error *err) {
    bool recursive;
    int r = target_flag(&c->target, "recursive", &recursive, err);
    if (r == 0 && !recursive)
        r = check_no_folder(c, err);
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    if (r == 0)
        r = toolbox_job_begin(c, "path", &j, err);
    if (r < 0)
        return r;
    c->answer.status = 204;
    return toolbox_file_result(c, wire_remove(&j.toolbox.wire, j.path, recursive, err), err);
}

/* "user:group" of what the request names of the two; "" if neither. */
static int read_owner(const struct call *c, char *out, size_t size, struct cay_error *err) {
    const char *owner = target_query(&c->target, "owner");
    const char *group = target_query(&c->target, "group");
    bool has_group = group != NULL && *group != '\0';
    int r = str_format(out, size, "%s%s%s", owner != NULL ? owner : "", has_group ? ":" : "",
                       has_group ? group : "");
    if (r == 0)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the names of owner and group are too long");
    return error_remedy(err, "give those that the sandbox has, or their numbers");
}

/* The owner first: a change of it takes set-id bits away. */
static int permissions(struct call *c, struct cay_error *err) {
    int mode;
    char owner[256];
    const char *path;
    struct wire_file f = {0};
    int r = read_mode(c, -1, &mode, err);
    if (r == 0)
        r = read_owner(c, owner, sizeof owner, err);
    if (r == 0)
        r = toolbox_need_query(c, "path", &path, err);
    if (r == 0)
        r = look(c, path, true, &f, err);
    if (r == 0 && owner[0] != '\0') {
        _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
        r = toolbox_job_begin(c, "path", &j, err);
        if (r == 0)
            r = toolbox_file_result(c, wire_chown(&j.toolbox.wire, j.path, owner, false, err), err);
    }
    if (r < 0 || mode < 0)
        return r;
    _cleanup_(toolbox_job_end) struct toolbox_job j = TOOLBOX_JOB_INIT;
    r = toolbox_job_begin(c, "path", &j, err);
    if (r < 0)
        return r;
    r = wire_chmod(&j.toolbox.wire, j.path, (uint32_t)mode, false, err);
    return toolbox_file_result(c, r, err);
}

static const struct route routes[] = {
    {"GET", "/toolbox/{who}/files", list, NEED_USE},
    {"DELETE", "/toolbox/{who}/files", remove_it},
    {"GET", "/toolbox/{who}/files/info", info, NEED_USE},
    {"POST", "/toolbox/{who}/files/folder", folder},
    {"POST", "/toolbox/{who}/files/move", move},
    {"POST", "/toolbox/{who}/files/permissions", permissions},
};

const struct route_table toolbox_files_routes = {routes, ARRAY_LEN(routes)};
