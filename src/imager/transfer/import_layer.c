#include "imager/transfer/import_layer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/progress.h"
#include "imager/layer/digest.h"
#include "imager/layer/gzip.h"
#include "imager/layer/layer.h"
#include "imager/transfer/temp_file.h"
#include "imager/unpack/unpack.h"

enum { BLOCK = 256 * 1024, PIPE_SIZE = 1024 * 1024, LABEL_LEN = 12 };

/* ---- what is there already ---- */

/* Without its blob a layer could not be saved as it was. */
static bool is_whole(const struct image_store *store, const struct record_layer *layer) {
    if (layer->blob[0] == '\0' || !image_store_has_layer(store, layer->chain))
        return false;
    _cleanup_(closep) int fd = image_store_open_blob(store, layer->blob);
    return fd >= 0;
}

static const struct record_layer *find_known(const struct ingest *in, const char *chain) {
    for (size_t i = 0; i < in->known_count; i++)
        if (strcmp(in->known[i].chain, chain) == 0)
            return &in->known[i];
    return NULL;
}

const struct record_layer *ingest_find(const struct ingest *in, const char *diff_id) {
    for (size_t i = 0; i < in->known_count; i++)
        if (strcmp(in->known[i].diff_id, diff_id) == 0)
            return &in->known[i];
    return NULL;
}

static int add_known(struct ingest *in, const struct record_layer *layer) {
    struct record_layer *grown = reallocarray(in->known, in->known_count + 1, sizeof *grown);
    if (grown == NULL)
        return -ENOMEM;
    in->known = grown;
    in->known[in->known_count++] = *layer;
    return 0;
}

/* A record that cannot be read is passed over: its layers are brought in again. */
static int add_image(struct ingest *in, const char *id) {
    _cleanup_(record_freep) struct image_record *record = NULL;
    if (image_store_read_record(in->store, id, &record, NULL) < 0)
        return 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < record->layer_count; i++) {
        const struct record_layer *layer = &record->layers[i];
        if (find_known(in, layer->chain) == NULL && is_whole(in->store, layer))
            r = add_known(in, layer);
    }
    return r;
}

int ingest_begin(const struct image_store *store, struct progress *progress, struct ingest *ret,
                 struct cay_error *err) {
    *ret = (struct ingest){.store = store, .progress = progress};
    _cleanup_(freep) char(*ids)[HEX_SIZE] = NULL;
    size_t count = 0;
    int r = image_store_ids(store, &ids, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (add_image(ret, ids[i]) < 0)
            r = error_sys(err, ENOMEM, "looking at the image store");
    return r;
}

void ingest_end(struct ingest *in) {
    free(in->known);
    *in = (struct ingest){0};
}

/* ---- the bytes: to the unpacking process and into a blob ----
 *
 * By a process and not by a thread: the unpacking processes are forked meanwhile, and a fork copies
 * whatever lock another thread holds. */

/* What the feeding process says at its end. */
struct feed_report {
    int result;
    bool unheard; /* the other side has ended */
    uint64_t size;
    char hex[HEX_SIZE];
    struct cay_error err;
};

struct feed {
    const struct extent *from;
    struct spool_blob blob;
    struct gzip *gzip; /* NULL: the blob is as the bytes are */
    struct progress *progress;
    unsigned item;
    struct feed_report report;
};

static int keep(struct feed *f, const void *data, size_t len, struct cay_error *err) {
    return f->gzip != NULL ? gzip_write(f->gzip, data, len, err)
                           : spool_blob_write(&f->blob, data, len, err);
}

static int feed_block(struct feed *f, int out, char *data, uint64_t *at, struct cay_error *err) {
    size_t want = (size_t)MIN(f->from->size - *at, (uint64_t)BLOCK);
    ssize_t n;
    do
        n = pread(f->from->fd, data, want, (off_t)(f->from->offset + *at));
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return error_sys(err, n == 0 ? ENODATA : errno, "reading the archive");
    int r = fd_write_all(out, data, (size_t)n);
    if (r < 0) {
        f->report.unheard = r == -EPIPE;
        return error_sys(err, -r, "feeding the unpacking process");
    }
    *at += (uint64_t)n;
    return keep(f, data, (size_t)n, err);
}

static int feed_all(struct feed *f, int out, struct cay_error *err) {
    _cleanup_(freep) char *data = malloc(BLOCK);
    if (data == NULL)
        return error_sys(err, ENOMEM, "reading the archive");
    int r = 0;
    for (uint64_t at = 0; r == 0 && at < f->from->size;)
        r = feed_block(f, out, data, &at, err);
    if (r == 0 && f->gzip != NULL)
        r = gzip_finish(f->gzip, err);
    return r < 0 ? r : spool_blob_finish(&f->blob, f->report.hex, err);
}

_noreturn_ static void run_feeder(struct feed *f, int out, int report) {
    struct feed_report *r = &f->report;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* without, it ends with its reader */
    (void)signal(SIGPIPE, SIG_IGN);
    r->result = feed_all(f, out, &r->err);
    r->size = f->blob.size;
    _exit(fd_write_all(report, r, sizeof *r) == 0 ? 0 : 1);
}

static void tell(void *user, uint64_t bytes_in) {
    const struct feed *f = user;
    progress_update(f->progress, f->item, "unpacking", bytes_in);
}

static pid_t start_feeder(struct feed *f, const int data[static 2], const int report[static 2]) {
    (void)fcntl(data[1], F_SETPIPE_SZ, PIPE_SIZE); /* slower without */
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)close(data[0]);
    run_feeder(f, data[1], report[1]);
}

/* Waits for the feeder; r is how unpacking ended. What went wrong first counts. */
static int reap_feeder(struct feed *f, pid_t pid, int report, int r, struct cay_error *err) {
    if (fd_read_all(report, &f->report, sizeof f->report) != 1)
        f->report.result = error_set(&f->report.err, CAY_INTERNAL,
                                     "the process that reads the archive was killed");
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (f->report.result == 0 || f->report.unheard)
        return r;
    if (err != NULL)
        *err = f->report.err;
    return f->report.result;
}

static int unpack_fed(struct feed *f, int root, struct unpack_result *ret, struct cay_error *err) {
    int data[2] = {-1, -1}, report[2] = {-1, -1};
    pid_t pid = -1;
    int r = 0;
    if (pipe2(data, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0 ||
        (pid = start_feeder(f, data, report)) < 0)
        r = error_errno(err, "starting a process to read the archive");
    fd_close(&data[1]);
    fd_close(&report[1]);
    if (r == 0)
        r = unpack_layer(data[0], root, NULL, tell, f, ret, err);
    fd_close(&data[0]); /* ends the feeder, if it still has something */
    if (pid > 0)
        r = reap_feeder(f, pid, report[0], r, err);
    fd_close(&report[0]);
    return r;
}

/* ---- the layer ---- */

enum form { FORM_PLAIN, FORM_GZIP, FORM_ZSTD };

static enum form form_of(const struct extent *from) {
    static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    unsigned char data[4] = {0};
    ssize_t n = pread(from->fd, data, (size_t)MIN(from->size, sizeof data), (off_t)from->offset);
    if (n >= 2 && memcmp(data, gzip, sizeof gzip) == 0)
        return FORM_GZIP;
    return n == 4 && memcmp(data, zstd, sizeof zstd) == 0 ? FORM_ZSTD : FORM_PLAIN;
}

static const char *media_type_of(enum form form) {
    return form == FORM_ZSTD ? "application/vnd.oci.image.layer.v1.tar+zstd"
                             : "application/vnd.oci.image.layer.v1.tar+gzip";
}

static int refuse(const char *what, const char *is, const char *wanted, struct cay_error *err) {
    error_set(err, CAY_INVALID_ARGUMENT, "%s has digest sha256:%s where sha256:%s was promised",
              what, is, wanted);
    return error_remedy(err, "the archive is damaged or false; get it again");
}

/* Compares with what was promised, and fills in the layer. */
static int check(const struct unpack_result *result, struct record_layer *layer,
                 struct cay_error *err) {
    if (layer->blob[0] != '\0' && strcmp(layer->blob, result->blob) != 0)
        return refuse("a blob", result->blob, layer->blob, err);
    if (layer->diff_id[0] != '\0' && strcmp(layer->diff_id, result->diff_id) != 0)
        return refuse("a layer", result->diff_id, layer->diff_id, err);
    memcpy(layer->diff_id, result->diff_id, HEX_SIZE);
    layer->size = result->bytes;
    layer->entries = result->entries;
    return 0;
}

/* The blob, as it is kept. */
static int keep_blob(struct ingest *in, struct feed *f, enum form form, struct record_layer *layer,
                     struct cay_error *err) {
    bool as_it_was = form != FORM_PLAIN && layer->media_type[0] != '\0';
    memcpy(layer->blob, f->report.hex, HEX_SIZE);
    f->blob.size = f->report.size;
    if (!as_it_was &&
        str_copy(layer->media_type, sizeof layer->media_type, media_type_of(form)) < 0)
        return error_sys(err, ENAMETOOLONG, "media type");
    layer->blob_size = f->blob.size;
    return spool_blob_keep(in->store, &f->blob, layer->blob, err);
}

static int bring_in(struct ingest *in, struct feed *f, struct image_record *record, size_t index,
                    struct cay_error *err) {
    struct record_layer *layer = &record->layers[index];
    enum form form = form_of(f->from);
    struct layer work = LAYER_NONE;
    struct unpack_result result = {0};
    int r = spool_blob_begin(in->store, &f->blob, err);
    if (r < 0)
        return r;
    if (form == FORM_PLAIN) {
        f->gzip = gzip_new(spool_blob_write, &f->blob);
        if (f->gzip == NULL)
            return error_sys(err, ENOMEM, "compressing a layer");
    }
    r = layer_begin(in->store, record->layers, index, &work, err);
    if (r == 0)
        r = unpack_fed(f, work.root, &result, err);
    if (r == 0)
        r = check(&result, layer, err);
    if (r == 0)
        r = keep_blob(in, f, form, layer, err);
    if (r == 0) {
        digest_chain(index == 0 ? "" : layer[-1].chain, layer->diff_id, layer->chain);
        r = layer_commit(in->store, &work, layer->chain, err);
    }
    if (r < 0)
        layer_abandon(in->store, &work);
    return r;
}

int ingest_layer(struct ingest *in, const struct extent *from, struct image_record *record,
                 size_t index, struct cay_error *err) {
    struct record_layer *layer = &record->layers[index];
    struct feed f = {.from = from, .blob = SPOOL_BLOB_NONE, .progress = in->progress};
    char label[LABEL_LEN + 1] = "layer";
    if (layer->diff_id[0] != '\0') {
        (void)snprintf(label, sizeof label, "%.*s", LABEL_LEN, layer->diff_id);
        digest_chain(index == 0 ? "" : layer[-1].chain, layer->diff_id, layer->chain);
        const struct record_layer *known = find_known(in, layer->chain);
        if (known != NULL) {
            *layer = *known;
            progress_update(in->progress, progress_item(in->progress, label, 0), "exists", 0);
            return 0;
        }
    }
    f.item = progress_item(in->progress, label, from->size);
    int r = bring_in(in, &f, record, index, err);
    gzip_free(f.gzip);
    spool_blob_free(&f.blob);
    if (r < 0)
        return error_prefix(err, "layer %zu", index + 1);
    progress_update(in->progress, f.item, "done", from->size);
    return add_known(in, layer) < 0 ? error_sys(err, ENOMEM, "loading an image") : 0;
}
