#include "api/shape/daytona_read.h"

#include <string.h>
#include <strings.h>

#include "api/build/contexts.h"
#include "api/fields_json.h"
#include "api/shape/shape_value.h"
#include "base/clock.h"
#include "base/error.h"

enum { TTL_MAX = 10 * 366 * 24 * 60 };

/* ---- FROM ---- */

static int refuse_dockerfile(struct cay_error *err, const char *why) {
    error_set(err, CAY_INVALID_ARGUMENT, "buildInfo.dockerfileContent: %s", why);
    return error_remedy(err, "begin it with FROM and the name of an image");
}

/* The next line that says something, without the blanks around it. */
static bool next_line(const char **text, const char **ret, size_t *ret_len) {
    while (**text != '\0') {
        const char *line = *text + strspn(*text, " \t\r\n");
        size_t len = strcspn(line, "\n");
        *text = line + len;
        while (len > 0 && strchr(" \t\r", line[len - 1]) != NULL)
            len--;
        if (len == 0 || line[0] == '#')
            continue;
        *ret = line;
        *ret_len = len;
        return true;
    }
    return false;
}

/* "FROM x" or "FROM x AS y": where x is, and how long. */
static size_t find_image(const char *line, size_t len, const char **ret) {
    static const char blanks[] = " \t";
    if (len < 6 || strncasecmp(line, "FROM", 4) != 0 || strchr(blanks, line[4]) == NULL)
        return 0;
    const char *image = line + 4 + strspn(line + 4, blanks), *end = line + len;
    size_t name = MIN(strcspn(image, " \t\r\n"), (size_t)(end - image));
    const char *rest = image + name + strspn(image + name, blanks);
    *ret = image;
    if (rest >= end)
        return name;
    bool is_named =
        end - rest > 3 && strncasecmp(rest, "AS", 2) == 0 && strchr(blanks, rest[2]) != NULL;
    return is_named ? name : 0;
}

int daytona_read_from(const char *dockerfile, char *image, size_t size, struct cay_error *err) {
    const char *line, *name = NULL, *more;
    size_t len, more_len;
    if (!next_line(&dockerfile, &line, &len))
        return refuse_dockerfile(err, "it has no FROM");
    size_t name_len = find_image(line, len, &name);
    if (name_len == 0 || name[0] == '-' || memchr(name, '$', name_len) != NULL ||
        next_line(&dockerfile, &more, &more_len))
        return 1;
    if (name_len >= size)
        return refuse_dockerfile(err, "the image's name is too long");
    memcpy(image, name, name_len);
    image[name_len] = '\0';
    return 0;
}

/* ---- what cannot be done ---- */

static int refuse_key(const struct json *value, const char *remedy, struct cay_error *err) {
    (void)json_refuse(value, err, "this is not available");
    err->code = CAY_UNSUPPORTED;
    return error_remedy(err, "%s", remedy);
}

/* True if it asks for something: not null, false, 0, "", [] or {}. */
static bool asks(const struct json *at, const char *key, struct json *ret) {
    struct cay_error ignored;
    const char *text = "";
    int64_t number = 0;
    bool flag = false;
    if (!json_child(at, key, ret))
        return false;
    switch (json_kind(ret)) {
    case JSON_KIND_STRING:
        return json_as_string(ret, &text, &ignored) == 0 && text[0] != '\0';
    case JSON_KIND_BOOL:
        return json_as_bool(ret, &flag, &ignored) == 0 && flag;
    case JSON_KIND_INTEGER:
        return json_as_integer(ret, INT64_MIN, INT64_MAX, &number, &ignored) == 0 && number != 0;
    case JSON_KIND_ARRAY:
    case JSON_KIND_OBJECT:
        return json_count(ret) > 0;
    default:
        return true;
    }
}

struct lack {
    const char *key, *remedy;
};

static int check_lacks(const struct json *at, const struct lack *lacks, size_t count,
                       struct cay_error *err) {
    struct json value;
    for (size_t i = 0; i < count; i++)
        if (asks(at, lacks[i].key, &value))
            return err == NULL ? -CAY_UNSUPPORTED : refuse_key(&value, lacks[i].remedy, err);
    return 0;
}

/* ---- what it reaches ---- */

/* Appends entries of one of Daytona's lists, which has commas too. */
static int put_entries(const struct json *at, const char *key, bool are_ranges, struct buf *list,
                       struct cay_error *err) {
    const char *text = NULL;
    int r = json_get_string(at, key, JSON_OPTIONAL, &text, err);
    if (r < 0 || text == NULL)
        return r;
    while (*text != '\0') {
        text += strspn(text, " ,");
        size_t len = strcspn(text, " ,");
        if (len > 0 && network_is_range(text, len) != are_ranges) {
            error_set(err, CAY_INVALID_ARGUMENT, "%s: '%.*s' is no %s", key, (int)MIN(len, 60U),
                      text, are_ranges ? "range of addresses that can be opened" : "domain");
            return error_remedy(err, are_ranges ? "write ranges as in 203.0.114.0/24"
                                                : "write domains as in a.com,*.b.org");
        }
        if (len > 0 && list->len > 0)
            (void)buf_putc(list, ',');
        (void)buf_append(list, text, len);
        text += len;
    }
    return 0;
}

/* Lists are what counts; without them networkBlockAll says whether everything is closed or
 * everything that is public is open, and without that the default stays. */
static int read_network(const struct json *at, char network[static NETWORK_TEXT_SIZE],
                        struct cay_error *err) {
    struct json value;
    bool blocks = false, is_said = json_child(at, "networkBlockAll", &value);
    struct json list_value;
    bool is_listed =
        asks(at, "networkAllowList", &list_value) || asks(at, "domainAllowList", &list_value);
    if (network[0] != '\0' && (is_said || is_listed)) {
        error_set(err, CAY_INVALID_ARGUMENT, "network and Daytona's lists exclude each other");
        return error_remedy(err, "send network, or networkBlockAll and the lists");
    }
    _cleanup_(buf_free) struct buf list = BUF_INIT(NETWORK_TEXT_SIZE);
    int r = json_get_bool(at, "networkBlockAll", JSON_OPTIONAL, &blocks, err);
    if (r == 0)
        r = put_entries(at, "networkAllowList", true, &list, err);
    if (r == 0)
        r = put_entries(at, "domainAllowList", false, &list, err);
    if (r < 0)
        return r;
    int e = 0;
    if (is_said && blocks)
        e = str_copy(network, NETWORK_TEXT_SIZE, "none");
    else if (list.len > 0 || list.failed)
        e = list.failed ? -1 : str_format(network, NETWORK_TEXT_SIZE, "allow=%s", list.data);
    else if (is_said && json_kind(&value) == JSON_KIND_BOOL)
        e = str_copy(network, NETWORK_TEXT_SIZE, "allow=*");
    return e < 0 ? error_set(err, CAY_INVALID_ARGUMENT, "the lists of the network are too long")
                 : 0;
}

static const char no_upstream[] = "leave it out: sandboxes have a proxy of their own";

static int check_create(const struct json *at, struct cay_error *err) {
    static const struct lack lacks[] = {
        {"gpu", "leave it out, or give 0"},
        {"gpuType", "leave it out"},
        {"outboundProxyUrl", no_upstream},
        {"autoPauseInterval", "use autoStopInterval"},
        {"linkedSandbox", "leave it out"},
        {"secrets", "pass them in env"},
        {"kvm", "leave it out"},
    };
    return check_lacks(at, lacks, ARRAY_LEN(lacks), err);
}

/* ---- values ---- */

void daytona_build_free(struct daytona_build *b) {
    free(b->dockerfile);
    strv_free(&b->contexts);
    *b = (struct daytona_build){0};
}

/* The names of what SDKs have uploaded for COPY. */
static int read_contexts(const struct json *build, struct strv *ret, struct cay_error *err) {
    struct json list = {0}, item;
    const char *hash;
    int r = json_get_array(build, "contextHashes", JSON_OPTIONAL, &list, err);
    size_t count = r == 0 && list.value != NULL ? json_count(&list) : 0;
    if (count > CONTEXTS_PER_BUILD)
        return json_refuse(&list, err, "more than %d build contexts", CONTEXTS_PER_BUILD);
    for (size_t i = 0; r == 0 && i < count; i++) {
        (void)json_item(&list, i, &item);
        r = json_as_string(&item, &hash, err);
        if (r == 0 && !context_is_hash(hash))
            r = json_refuse(&item, err, "this is no hash of a build context");
        if (r == 0 && strv_push(ret, hash) < 0)
            r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return r;
}

/* The image of FROM alone, or the whole Dockerfile. */
static int read_build(const struct json *build, char image[static REFERENCE_TEXT_SIZE],
                      struct daytona_build *ret, struct cay_error *err) {
    const char *text = NULL;
    int r = json_get_string(build, "dockerfileContent", JSON_REQUIRED, &text, err);
    if (r == 0)
        r = read_contexts(build, &ret->contexts, err);
    if (r == 0)
        r = daytona_read_from(text, image, REFERENCE_TEXT_SIZE, err);
    if (r <= 0)
        return r;
    ret->dockerfile = strdup(text);
    return ret->dockerfile == NULL ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}

/* The image named by key, or that of buildInfo, but not both. */
static int read_image(const struct json *at, const char *key,
                      char image[static REFERENCE_TEXT_SIZE], struct daytona_build *ret_build,
                      struct cay_error *err) {
    struct json build = {0};
    int r = value_text(at, key, image, REFERENCE_TEXT_SIZE, err);
    if (r == 0)
        r = json_get_object(at, "buildInfo", JSON_OPTIONAL, &build, err);
    if (r < 0 || build.value == NULL)
        return r;
    if (image[0] != '\0') {
        error_set(err, CAY_INVALID_ARGUMENT, "%s and buildInfo exclude each other", key);
        return error_remedy(err, "send one of them");
    }
    return read_build(&build, image, ret_build, err);
}

static int read_ttl(const struct json *at, int64_t *ret, struct cay_error *err) {
    int64_t minutes = 0;
    int r = json_get_integer(at, "ttlMinutes", JSON_OPTIONAL, 0, TTL_MAX, &minutes, err);
    if (r == 0 && minutes > 0)
        *ret = clock_wall_ms() + minutes * 60 * 1000;
    return r;
}

/* A snapshot is what is here: one of another name is not looked for elsewhere.
 */
static int read_origin(const struct json *at, struct sandbox_record *ret,
                       struct daytona_build *ret_build, struct cay_error *err) {
    struct json ignored;
    ret->is_local = asks(at, "snapshot", &ignored);
    int r = read_image(at, "snapshot", ret->image_name, ret_build, err);
    if (r < 0 || !asks(at, "image", &ignored))
        return r;
    if (ret->image_name[0] == '\0' && ret_build->dockerfile == NULL)
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "image, snapshot and buildInfo exclude each other");
    return error_remedy(err, "send one of them");
}

static int read_create(const struct json *at, struct sandbox_record *ret, struct cay_error *err) {
    int r = fields_json_read(at, FIELD_CREATE, ret, NULL, err);
    if (r == 0 && ret->name[0] != '\0')
        r = id_check_name("name", ret->name, err);
    if (r == 0)
        r = value_volumes(at, &ret->volumes, err);
    if (r == 0)
        r = read_network(at, ret->network, err);
    return r < 0 ? r : read_ttl(at, &ret->destroy_ms, err);
}

/* ---- bodies ---- */

int daytona_read_create(const struct buf *body, struct sandbox_record *ret,
                        struct daytona_build *ret_build, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = check_create(&root, err);
    if (r == 0)
        r = read_origin(&root, ret, ret_build, err);
    return r < 0 ? r : read_create(&root, ret, err);
}

/* A label that is null is removed. */
static int read_label_changes(const struct json *at, struct manager_update *ret,
                              struct cay_error *err) {
    struct json pairs, pair;
    void *iterator = NULL;
    int r = json_get_object(at, "labels", JSON_OPTIONAL, &pairs, err);
    if (r < 0 || pairs.value == NULL)
        return r;
    while (json_next(&pairs, &iterator, &pair)) {
        const char *text;
        if (json_kind(&pair) == JSON_KIND_NULL) {
            r = strv_push(&ret->unlabel, pair.key);
        } else {
            r = json_as_string(&pair, &text, err);
            if (r < 0)
                return r;
            r = strv_pushf(&ret->to.labels, "%s=%s", pair.key, text);
        }
        if (r < 0)
            return error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory");
    }
    return 0;
}

static int read_new_network(const struct json *at, struct manager_update *ret,
                            struct cay_error *err) {
    static const struct lack lacks[] = {{"outboundProxyUrl", no_upstream}};
    int r = check_lacks(at, lacks, ARRAY_LEN(lacks), err);
    if (r == 0)
        r = read_network(at, ret->to.network, err);
    FIELD_IN(&ret->set, network) = ret->to.network[0] != '\0';
    return r;
}

static int read_new_ttl(const struct json *at, struct manager_update *ret, struct cay_error *err) {
    struct json value;
    if (!json_child(at, "ttlMinutes", &value))
        return 0;
    FIELD_IN(&ret->set, destroy_ms) = true;
    return read_ttl(at, &ret->to.destroy_ms, err);
}

int daytona_read_update(const struct buf *body, struct manager_update *ret, struct cay_error *err) {
    const char *known[FIELDS_MAX] = {"ttlMinutes", "networkBlockAll", "networkAllowList",
                                     "domainAllowList", "outboundProxyUrl"};
    enum { OTHER_WAYS = 5 };
    size_t count = OTHER_WAYS + fields_json_names(FIELD_UPDATE, known + OTHER_WAYS,
                                                  ARRAY_LEN(known) - OTHER_WAYS);
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = value_check_keys(&root, known, count, err);
    if (r == 0)
        r = fields_json_read(&root, FIELD_UPDATE, &ret->to, &ret->set, err);
    if (r == 0)
        r = read_label_changes(&root, ret, err);
    if (r == 0)
        r = read_new_network(&root, ret, err);
    return r < 0 ? r : read_new_ttl(&root, ret, err);
}

int daytona_read_resize(const struct buf *body, struct manager_update *ret, struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    return r < 0 ? r : fields_json_read(&root, FIELD_LIMIT, &ret->to, &ret->set, err);
}

int daytona_read_network(const struct buf *body, struct manager_update *ret,
                         struct cay_error *err) {
    _cleanup_(json_freep) struct json_document *doc = NULL;
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    return r < 0 ? r : read_new_network(&root, ret, err);
}

static int check_given(const char *name, const char *key, struct cay_error *err) {
    if (name[0] != '\0')
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "%s: it is missing", key);
    return error_remedy(err, "send it");
}

int daytona_read_snapshot(const struct buf *body, struct daytona_snapshot *ret,
                          struct cay_error *err) {
    static const char remedy[] =
        "leave it out: sandboxes have what the daemon's configuration says";
    static const struct lack lacks[] = {
        {"entrypoint", remedy}, {"cpu", remedy},  {"gpu", remedy},
        {"memory", remedy},     {"disk", remedy},
    };
    _cleanup_(json_freep) struct json_document *doc = NULL;
    *ret = (struct daytona_snapshot){0};
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = value_text(&root, "name", ret->name, sizeof ret->name, err);
    if (r == 0)
        r = check_given(ret->name, "name", err);
    if (r == 0)
        r = check_lacks(&root, lacks, ARRAY_LEN(lacks), err);
    if (r == 0)
        r = read_image(&root, "imageName", ret->image, &ret->build, err);
    return r < 0 || ret->build.dockerfile != NULL
               ? r
               : check_given(ret->image, "imageName or buildInfo", err);
}

int daytona_read_keep(const struct buf *body, char name[static REFERENCE_TEXT_SIZE],
                      struct cay_error *err) {
    static const struct lack lacks[] = {
        {"includeMemory", "leave it out: what runs is not part of a snapshot"}};
    _cleanup_(json_freep) struct json_document *doc = NULL;
    name[0] = '\0';
    struct json root;
    int r = value_parse(body, &doc, &root, err);
    if (r == 0)
        r = value_text(&root, "name", name, REFERENCE_TEXT_SIZE, err);
    if (r == 0)
        r = check_lacks(&root, lacks, ARRAY_LEN(lacks), err);
    return r < 0 ? r : check_given(name, "name", err);
}
