/* Images as one archive: an OCI layout, with the manifest.json of `docker save` besides. The same
 * images give the same bytes. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json/jsonw.h"
#include "base/str.h"
#include "image/progress.h"
#include "imager/layer/digest.h"
#include "imager/layer/tar_stream.h"
#include "imager/transfer/save.h"
#include "imager/transfer/transfer.h"

enum { PATH_SIZE = HEX_SIZE + 16, DOCUMENT_MAX = 16 * 1024 * 1024 };

static const char manifest_type[] = "application/vnd.oci.image.manifest.v1+json";

static int no_memory(struct cay_error *err) {
    return error_sys(err, ENOMEM, "saving images");
}

/* ---- documents ---- */

static void put_path(struct jsonw *w, const char *hex) {
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "blobs/sha256/%.64s", hex);
    jsonw_string(w, path);
}

/* The names by which containerd and skopeo find it. */
static void put_annotations(struct jsonw *w, const struct reference *name) {
    char text[REFERENCE_TEXT_SIZE];
    jsonw_key(w, "annotations");
    jsonw_begin_object(w);
    jsonw_put_string(w, "io.containerd.image.name", reference_format(name, text));
    jsonw_put_string(w, "org.opencontainers.image.ref.name", name->tag);
    jsonw_end_object(w);
}

static void put_descriptor(struct jsonw *w, const struct saved_image *image,
                           const struct reference *name) {
    char digest[HEX_SIZE + sizeof "sha256:"];
    (void)snprintf(digest, sizeof digest, "sha256:%.64s", image->manifest.hex);
    jsonw_begin_object(w);
    jsonw_put_string(w, "mediaType", manifest_type);
    jsonw_put_string(w, "digest", digest);
    jsonw_put_unsigned(w, "size", image->manifest.size);
    if (name != NULL)
        put_annotations(w, name);
    if (image->record->architecture[0] != '\0' && image->record->os[0] != '\0') {
        jsonw_key(w, "platform");
        jsonw_begin_object(w);
        jsonw_put_string(w, "architecture", image->record->architecture);
        jsonw_put_string(w, "os", image->record->os);
        if (image->record->variant[0] != '\0')
            jsonw_put_string(w, "variant", image->record->variant);
        jsonw_end_object(w);
    }
    jsonw_end_object(w);
}

static int write_index(const struct saver *s, struct buf *out) {
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_object(&w);
    jsonw_put_integer(&w, "schemaVersion", 2);
    jsonw_put_string(&w, "mediaType", "application/vnd.oci.image.index.v1+json");
    jsonw_key(&w, "manifests");
    jsonw_begin_array(&w);
    for (size_t i = 0; i < s->image_count; i++) {
        const struct saved_image *image = &s->images[i];
        for (size_t n = 0; n < image->name_count; n++)
            put_descriptor(&w, image, image->names[n]);
        if (image->name_count == 0)
            put_descriptor(&w, image, NULL);
    }
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    return jsonw_finish(&w);
}

static void put_docker_image(struct jsonw *w, const struct saved_image *image) {
    char text[REFERENCE_TEXT_SIZE];
    jsonw_begin_object(w);
    jsonw_key(w, "Config");
    put_path(w, image->config.hex);
    jsonw_key(w, "RepoTags");
    if (image->name_count == 0) {
        jsonw_null(w);
    } else {
        jsonw_begin_array(w);
        for (size_t n = 0; n < image->name_count; n++)
            jsonw_string(w, reference_familiar(image->names[n], text));
        jsonw_end_array(w);
    }
    jsonw_key(w, "Layers");
    jsonw_begin_array(w);
    for (size_t i = 0; i < image->record->layer_count; i++)
        put_path(w, image->record->layers[i].blob);
    jsonw_end_array(w);
    jsonw_end_object(w);
}

static int write_docker_manifest(const struct saver *s, struct buf *out) {
    struct jsonw w = JSONW_INIT(out);
    jsonw_begin_array(&w);
    for (size_t i = 0; i < s->image_count; i++)
        put_docker_image(&w, &s->images[i]);
    jsonw_end_array(&w);
    return jsonw_finish(&w);
}

/* ---- the archive ---- */

static int put_member(struct tar_stream *tar, const char *path, const void *data, size_t len,
                      struct cay_error *err) {
    struct tar_entry entry = {.type = TAR_FILE, .path = path, .mode = 0644, .size = len};
    int r = tar_stream_entry(tar, &entry, err);
    return r < 0 ? r : tar_stream_content(tar, data, len, err);
}

static int put_folder(struct tar_stream *tar, const char *path, struct cay_error *err) {
    struct tar_entry entry = {.type = TAR_FOLDER, .path = path, .mode = 0755};
    return tar_stream_entry(tar, &entry, err);
}

static int put_blob(const struct saver *s, struct tar_stream *tar, const struct saved_blob *blob,
                    struct cay_error *err) {
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "blobs/sha256/%.64s", blob->hex);
    if (blob->text.data != NULL)
        return put_member(tar, path, blob->text.data, blob->text.len, err);
    struct stat st;
    _cleanup_(closep) int own =
        blob->spool.fd >= 0 ? -1 : image_store_open_blob(s->store, blob->hex);
    int fd = blob->spool.fd >= 0 ? blob->spool.fd : own;
    if (fd < 0 || fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return error_sys(err, fd < 0 ? -fd : errno, "opening blob %.12s", blob->hex);
    struct tar_entry entry = {
        .type = TAR_FILE, .path = path, .mode = 0644, .size = (uint64_t)st.st_size};
    int r = tar_stream_entry(tar, &entry, err);
    if (r == 0)
        r = tar_stream_copy(tar, fd, entry.size, err);
    return r;
}

static int put_documents(const struct saver *s, struct tar_stream *tar, struct cay_error *err) {
    static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
    _cleanup_(buf_free) struct buf index = BUF_INIT(DOCUMENT_MAX), docker = BUF_INIT(DOCUMENT_MAX);
    if (write_index(s, &index) < 0 || write_docker_manifest(s, &docker) < 0)
        return error_set(err, CAY_LIMIT_REACHED, "too many images for one archive");
    int r = put_member(tar, "oci-layout", layout, sizeof layout - 1, err);
    if (r == 0)
        r = put_member(tar, "index.json", index.data, index.len, err);
    if (r == 0)
        r = put_member(tar, "manifest.json", docker.data, docker.len, err);
    if (r == 0)
        r = put_folder(tar, "blobs/", err);
    return r < 0 ? r : put_folder(tar, "blobs/sha256/", err);
}

static int write_archive(const struct saver *s, int output, struct cay_error *err) {
    struct tar_stream tar;
    int r = tar_stream_begin(&tar, tar_sink_fd, &output, false, err);
    if (r < 0)
        return r;
    r = put_documents(s, &tar, err);
    for (size_t i = 0; r == 0 && i < s->blob_count; i++) {
        const struct saved_blob *blob = &s->blobs[i];
        char label[16];
        (void)snprintf(label, sizeof label, "%.12s", blob->hex);
        unsigned item = progress_item(s->progress, label, 0);
        progress_update(s->progress, item, "saving", 0);
        r = put_blob(s, &tar, blob, err);
        if (r == 0)
            progress_update(s->progress, item, "done", 0);
    }
    if (r == 0)
        r = tar_stream_end(&tar, NULL, err);
    tar_stream_free(&tar);
    return r;
}

/* ---- what to save ---- */

static struct saved_image *find_image(struct saver *s, const char *id) {
    for (size_t i = 0; i < s->image_count; i++)
        if (strcmp(s->images[i].record->id, id) == 0)
            return &s->images[i];
    return NULL;
}

/* Named by a digest only, it has no name in an archive. */
static int add_name(struct saved_image *image, const struct reference *name) {
    if (name == NULL || name->tag[0] == '\0')
        return 0;
    for (size_t i = 0; i < image->name_count; i++)
        if (memcmp(image->names[i], name, sizeof *name) == 0)
            return 0;
    const struct reference **grown =
        reallocarray(image->names, image->name_count + 1, sizeof(void *));
    if (grown == NULL)
        return -ENOMEM;
    image->names = grown;
    grown[image->name_count++] = name;
    return 0;
}

static int add_image(struct saver *s, const char *id, const struct reference *name,
                     struct cay_error *err) {
    struct saved_image *image = find_image(s, id);
    if (image == NULL) {
        image = &s->images[s->image_count];
        int r = image_store_read_record(s->store, id, &image->record, err);
        if (r < 0)
            return r;
        s->image_count++;
    }
    return add_name(image, name) < 0 ? no_memory(err) : 0;
}

static void saver_free(struct saver *s) {
    for (size_t i = 0; i < s->image_count; i++) {
        record_free(s->images[i].record);
        free(s->images[i].names);
    }
    for (size_t i = 0; i < s->blob_count; i++) {
        buf_free(&s->blobs[i].text);
        spool_blob_free(&s->blobs[i].spool);
    }
    free(s->images);
    free(s->blobs);
    ingest_end(&s->ingest);
}

int image_save(const struct image_store *store, const struct reference *const *names,
               const char *const *ids, size_t count, int output, struct progress *progress,
               struct cay_error *err) {
    _cleanup_(saver_free) struct saver s = {.store = store, .progress = progress};
    s.images = calloc(count + 1, sizeof *s.images);
    if (s.images == NULL)
        return no_memory(err);
    int r = ingest_begin(store, NULL, &s.ingest, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = add_image(&s, ids[i], names[i], err);
    for (size_t i = 0; r == 0 && i < s.image_count; i++)
        r = save_prepare(&s, &s.images[i], err);
    return r < 0 ? r : write_archive(&s, output, err);
}
