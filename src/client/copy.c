#include "client/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "client/copy_path.h"
#include "init/files/tar.h"
#include "wire/client_tar.h"

/* ---- how far it is ---- */

struct job {
    const struct daemon *daemon;
    const char *who;
    const struct copy_watch *watch; /* or NULL */
    uint64_t total;                 /* of bytes; 0: not known */
    struct copy_totals *totals;
};

static void count(const struct job *j, size_t len) {
    j->totals->bytes += len;
    if (j->watch != NULL)
        j->watch->tell(j->watch->arg, j->totals->bytes, j->total);
}

/* ---- the sandbox's side ---- */

/* Each operation is a connection of its own. */
struct operation {
    struct daemon_connection connection;
    struct wire_call call;
};

static int operation_open(const struct job *j, struct operation *ret, struct cay_error *err) {
    int r = daemon_connect(j->daemon, j->who, &ret->connection, err);
    if (r == 0)
        ret->call = (struct wire_call){.fd = ret->connection.fd,
                                       .user = ret->connection.user,
                                       .cwd = ret->connection.work_dir};
    return r;
}

static void operation_close(struct operation *o) {
    daemon_disconnect(&o->connection);
}

#define OPERATION_INIT                                                                             \
    {                                                                                              \
        .connection = {.fd = -1 }                                                                  \
    }

enum kind { KIND_ABSENT, KIND_FILE, KIND_FOLDER };

static enum kind kind_of(mode_t mode) {
    return S_ISDIR(mode) ? KIND_FOLDER : KIND_FILE;
}

/* What is at a path inside; a symlink counts as what it leads to if `follow`. */
static int look_inside(struct job *j, const char *path, bool follow, enum kind *ret,
                       struct cay_error *err) {
    _cleanup_(operation_close) struct operation o = OPERATION_INIT;
    struct wire_file file;
    char target[PATH_MAX];
    int r = operation_open(j, &o, err);
    if (r < 0)
        return r;
    r = wire_stat(&o.call, path, follow, &file, target, err);
    *ret = r == 0 ? kind_of(file.mode) : KIND_ABSENT;
    j->total = *ret == KIND_FILE ? file.size : 0; /* if it is what is copied */
    return r == -CAY_NOT_FOUND ? 0 : r;
}

/* ---- where it goes ---- */

struct place {
    char folder[PATH_MAX];   /* an archive is extracted here */
    char name[NAME_MAX + 1]; /* under this name; "": its members as they are */
    bool make;               /* the folder is to be made */
};

static int refuse(struct cay_error *err, const char *path, const char *why, const char *remedy) {
    char shown[256];
    error_set(err, CAY_INVALID_ARGUMENT, "'%s' %s", str_escape(shown, sizeof shown, path), why);
    return error_remedy(err, "%s", remedy);
}

/* As cp does it. `from` is what is copied, `exists` what is at the destination now. */
static int find_place(const struct copy_path *from, bool is_folder, const char *to,
                      enum kind exists, struct place *ret, struct cay_error *err) {
    struct copy_path dest;
    int r = copy_path_parse(to, &dest, err);
    if (r < 0)
        return r;
    *ret = (struct place){0};
    if (exists == KIND_FOLDER || from->content) {
        if (exists == KIND_FILE)
            return refuse(err, to, "is no folder", "name a folder to copy into");
        ret->make = exists == KIND_ABSENT;
        memcpy(ret->name, from->name, sizeof ret->name); /* "" if only its content is copied */
        r = str_copy(ret->folder, sizeof ret->folder, to[0] != '\0' ? to : ".");
        return r < 0 ? error_sys(err, -r, "copying") : 0;
    }
    if (exists == KIND_FILE && (is_folder || dest.is_folder))
        return refuse(err, to, "is no folder", "name a folder, or a name that is not taken");
    if (dest.content || (dest.is_folder && !is_folder))
        return refuse(err, to, "does not exist", "make the folder first");
    memcpy(ret->folder, dest.folder, sizeof ret->folder);
    memcpy(ret->name, dest.name, sizeof ret->name);
    return 0;
}

/* ---- into the sandbox ---- */

struct source {
    const struct job *job;
    const char *path;
    const char *name; /* NULL: its content */
    struct tar_written written;
    wire_sink_fn *take;
    void *take_arg;
};

static int send_piece(void *arg, const char *data, size_t len, struct cay_error *err) {
    const struct source *s = arg;
    count(s->job, len);
    return s->take(s->take_arg, data, len, err);
}

static int produce(void *arg, wire_sink_fn *take, void *take_arg, struct cay_error *err) {
    struct source *s = arg;
    s->take = take;
    s->take_arg = take_arg;
    const struct tar_output to = {.take = send_piece, .arg = s};
    return tar_write(s->path, s->name, &to, &s->written, err);
}

static int send_tree(const struct job *j, const char *from, const struct place *place,
                     struct cay_error *err) {
    _cleanup_(operation_close) struct operation o = OPERATION_INIT;
    struct copy_totals *ret = j->totals;
    struct source s = {.job = j, .path = from, .name = place->name[0] != '\0' ? place->name : NULL};
    struct wire_tar_totals totals = {0};
    int r = operation_open(j, &o, err);
    if (r == 0)
        r = wire_tar_in_from(&o.call, place->folder, place->make, produce, &s, &totals, err);
    if (r < 0)
        return r;
    ret->members = totals.members;
    if (s.written.skipped > 0)
        (void)snprintf(ret->note, sizeof ret->note, "left out %llu devices, fifos and sockets",
                       (unsigned long long)s.written.skipped);
    return 0;
}

static ssize_t read_input(void *arg, char *data, size_t size, struct cay_error *err) {
    const struct job *j = arg;
    int in = STDIN_FILENO;
    ssize_t n = wire_source_fd(&in, data, size, err);
    if (n > 0)
        count(j, (size_t)n);
    return n;
}

/* An archive for a folder, else the content of a file. */
static int send_input(struct job *j, const char *to, struct cay_error *err) {
    _cleanup_(operation_close) struct operation o = OPERATION_INIT;
    struct copy_totals *ret = j->totals;
    struct wire_tar_totals totals = {0};
    enum kind exists = KIND_ABSENT;
    int r = look_inside(j, to, true, &exists, err);
    j->total = 0;
    if (r == 0)
        r = operation_open(j, &o, err);
    if (r < 0)
        return r;
    if (exists != KIND_FOLDER) {
        ret->members = 1;
        return wire_write(&o.call, to, WIRE_MODE_DEFAULT, false, read_input, j, err);
    }
    r = wire_tar_in(&o.call, to, false, 0, read_input, j, &totals, err);
    ret->members = totals.members;
    memcpy(ret->note, totals.note, sizeof ret->note);
    return r;
}

int copy_in(const struct daemon *d, const char *from, const char *who, const char *to,
            const struct copy_watch *watch, struct copy_totals *ret, struct cay_error *err) {
    *ret = (struct copy_totals){0};
    struct job j = {.daemon = d, .who = who, .watch = watch, .totals = ret};
    const char *dest = to[0] != '\0' ? to : ".";
    if (strcmp(from, "-") == 0)
        return send_input(&j, dest, err);
    struct copy_path source;
    struct place place = {0};
    struct stat st;
    enum kind exists = KIND_ABSENT;
    int r = copy_path_parse(from, &source, err);
    if (r < 0)
        return r;
    /* "link/" is the folder that it leads to, "link" the link */
    if (fstatat(AT_FDCWD, from, &st, source.is_folder ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, "reading '%.256s'", from);
    r = look_inside(&j, dest, true, &exists, err);
    if (r == 0)
        r = find_place(&source, S_ISDIR(st.st_mode), dest, exists, &place, err);
    j.total = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    return r < 0 ? r : send_tree(&j, from, &place, err);
}

/* ---- out of the sandbox ---- */

struct arrival {
    struct tar_input input;
    struct wire_tar_stream *stream;
    const struct job *job;
};

static int more(struct tar_input *in, struct cay_error *err) {
    struct arrival *a = (struct arrival *)in; /* its first member */
    int r = wire_tar_out_next(a->stream, &in->data, &in->len, err);
    if (r > 0)
        count(a->job, in->len);
    return r;
}

static void note_skipped(const struct tar_totals *t, const struct wire_tar_totals *sent,
                         struct copy_totals *ret) {
    ret->members = t->members;
    memcpy(ret->note, sent->note, sizeof ret->note);
    if (t->skipped > 0)
        (void)snprintf(ret->note, sizeof ret->note, "left out %llu of its files, such as '%s'",
                       (unsigned long long)t->skipped, t->first_skipped);
}

/* Asked for, not changed: other threads make files too. All of it where it is not known. */
static mode_t own_umask(void) {
    char text[4096];
    const char *line = NULL;
    if (fd_read_file_at(AT_FDCWD, "/proc/thread-self/status", text, sizeof text) >= 0)
        line = strstr(text, "\nUmask:\t");
    return line != NULL ? (mode_t)strtoul(line + 8, NULL, 8) : 0777;
}

static int receive_tree(const struct job *j, const struct wire_call *call, const char *from,
                        int dest, const char *as, struct cay_error *err) {
    _cleanup_(wire_tar_out_end) struct wire_tar_stream stream = {0};
    struct tar_totals totals;
    int r = wire_tar_out_begin(call, from, &stream, err);
    if (r < 0)
        return r;
    struct arrival a = {
        .input = {.more = more, .as = as, .umask = own_umask()}, .stream = &stream, .job = j};
    r = tar_extract(&a.input, dest, 0, &totals, err);
    while (r == 0 && !stream.ended) /* what is behind the end mark */
        r = MIN(more(&a.input, err), 0);
    if (r == 0)
        note_skipped(&totals, &stream.totals, j->totals);
    return r;
}

static enum kind look_outside(const char *path) {
    struct stat st;
    return stat(path, &st) < 0 ? KIND_ABSENT : kind_of(st.st_mode);
}

static int open_folder(const struct place *place, struct cay_error *err) {
    if (place->make && mkdir(place->folder, 0755) < 0 && errno != EEXIST)
        return error_errno(err, "making folder '%.256s'", place->folder);
    int fd = open(place->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "opening folder '%.256s'", place->folder) : fd;
}

static int fetch_tree(const struct job *j, const char *from, const struct place *place,
                      struct cay_error *err) {
    _cleanup_(operation_close) struct operation o = OPERATION_INIT;
    int r = operation_open(j, &o, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int dest = open_folder(place, err);
    if (dest < 0)
        return dest;
    const char *as = place->name[0] != '\0' ? place->name : NULL;
    return receive_tree(j, &o.call, from, dest, as, err);
}

static int write_output(void *arg, const char *data, size_t len, struct cay_error *err) {
    int out = STDOUT_FILENO;
    count(arg, len);
    return wire_sink_fd(&out, data, len, err);
}

/* An archive of a folder, else the content of a file. */
static int fetch_output(struct job *j, const char *from, struct cay_error *err) {
    _cleanup_(operation_close) struct operation o = OPERATION_INIT;
    static const struct wire_range all = {.max_bytes = UINT64_MAX};
    struct wire_tar_totals totals = {0};
    enum kind kind = KIND_ABSENT;
    uint64_t size;
    int r = look_inside(j, from, true, &kind, err);
    if (r == 0)
        r = operation_open(j, &o, err);
    if (r < 0)
        return r;
    if (kind != KIND_FOLDER)
        return wire_read(&o.call, from, &all, write_output, j, &size, err);
    r = wire_tar_out(&o.call, from, UINT64_MAX, write_output, j, &totals, err);
    memcpy(j->totals->note, totals.note, sizeof j->totals->note);
    return r;
}

int copy_out(const struct daemon *d, const char *who, const char *from, const char *to,
             const struct copy_watch *watch, struct copy_totals *ret, struct cay_error *err) {
    *ret = (struct copy_totals){0};
    struct job j = {.daemon = d, .who = who, .watch = watch, .totals = ret};
    const char *source_path = from[0] != '\0' ? from : ".";
    if (strcmp(to, "-") == 0)
        return fetch_output(&j, source_path, err);
    struct copy_path source;
    struct place place = {0};
    enum kind kind = KIND_ABSENT;
    int r = copy_path_parse(source_path, &source, err);
    if (r == 0)
        r = look_inside(&j, source_path, source.is_folder, &kind, err);
    if (r < 0)
        return r;
    if (kind == KIND_ABSENT) {
        char shown[256];
        error_set(err, CAY_NOT_FOUND, "no file '%s' in the sandbox",
                  str_escape(shown, sizeof shown, source_path));
        return error_remedy(err, "list them with: cay exec %.60s -- ls", who);
    }
    r = find_place(&source, kind == KIND_FOLDER, to, look_outside(to), &place, err);
    return r < 0 ? r : fetch_tree(&j, source_path, &place, err);
}
