#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "imager/layer/digest.h"
#include "imager/layer/manifest.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define HEX_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

#define OCI_INDEX     "application/vnd.oci.image.index.v1+json"
#define OCI_MANIFEST  "application/vnd.oci.image.manifest.v1+json"
#define DOCKER_LIST   "application/vnd.docker.distribution.manifest.list.v2+json"
#define DOCKER_2      "application/vnd.docker.distribution.manifest.v2+json"
#define OCI_CONFIG    "application/vnd.oci.image.config.v1+json"
#define DOCKER_CONFIG "application/vnd.docker.container.image.v1+json"
#define OCI_LAYER     "application/vnd.oci.image.layer.v1.tar"
#define DOCKER_LAYER  "application/vnd.docker.image.rootfs.diff.tar.gzip"
#define FOREIGN_LAYER "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"

/* Pieces of documents; ' stands for ". */
#define DESCRIPTOR(type, hex, size)                                                                \
    "{'mediaType':'" type "','digest':'sha256:" hex "','size':" size "}"
#define CONFIG        "'config':" DESCRIPTOR(OCI_CONFIG, HEX_A, "10")
#define LAYER         DESCRIPTOR(OCI_LAYER "+gzip", HEX_B, "20")
#define IMAGE(layers) "{'schemaVersion':2," CONFIG ",'layers':[" layers "]}"
#define ENTRY(hex, platform)                                                                       \
    "{'mediaType':'" OCI_MANIFEST "','digest':'sha256:" hex "','size':5" platform "}"
#define FOR(os, architecture) ",'platform':{'os':'" os "','architecture':'" architecture "'}"
#define FOR_VARIANT(architecture, variant)                                                         \
    ",'platform':{'os':'linux','architecture':'" architecture "','variant':'" variant "'}"
#define INDEX(entries) "{'schemaVersion':2,'manifests':[" entries "]}"

static size_t to_json(const char *text, char *out, size_t size) {
    size_t len = strlen(text);
    assert_true(len < size);
    for (size_t i = 0; i <= len; i++)
        out[i] = text[i] == '\'' ? '"' : text[i];
    return len;
}

static int parse(const char *text, const char *type, const char *platform, struct manifest *ret,
                 struct cay_error *err) {
    char json[8192];
    struct platform wanted;
    assert_int_equal(platform_parse(platform, &wanted, err), 0);
    size_t len = to_json(text, json, sizeof json);
    return manifest_parse(json, len, type, &wanted, ret, err);
}

/* ---- images ---- */

static void test_good_images(void **state) {
    (void)state;
    static const struct {
        const char *name, *type, *text;
        size_t layers;
    } cases[] = {
        {"by type", OCI_MANIFEST, IMAGE(LAYER), 1},
        {"type with a parameter", OCI_MANIFEST "; charset=utf-8", IMAGE(LAYER), 1},
        {"type in capitals", "Application/vnd.OCI.image.manifest.v1+json", IMAGE(LAYER), 1},
        {"by shape", "", IMAGE(LAYER), 1},
        {"a type that says nothing", "application/json", IMAGE(LAYER), 1},
        {"by its own field", "text/plain",
         "{'schemaVersion':2,'mediaType':'" OCI_MANIFEST "'," CONFIG ",'layers':[" LAYER "]}", 1},
        {"Docker's", DOCKER_2,
         "{'schemaVersion':2,'mediaType':'" DOCKER_2 "','config':" DESCRIPTOR(
             DOCKER_CONFIG, HEX_A, "7") ",'layers':[" DESCRIPTOR(DOCKER_LAYER, HEX_B, "9") "]}",
         1},
        {"OCI's without schemaVersion", OCI_MANIFEST, "{" CONFIG ",'layers':[" LAYER "]}", 1},
        {"no layers", OCI_MANIFEST, IMAGE(""), 0},
        {"one layer twice", OCI_MANIFEST, IMAGE(LAYER "," LAYER), 2},
        {"plain and zstd", OCI_MANIFEST,
         IMAGE(DESCRIPTOR(OCI_LAYER, HEX_B, "0") "," DESCRIPTOR(OCI_LAYER "+zstd", HEX_C, "1")), 2},
        {"a size of 1 TiB", OCI_MANIFEST, IMAGE(DESCRIPTOR(OCI_LAYER, HEX_B, "1099511627776")), 1},
        {"a size as 20.0", OCI_MANIFEST, IMAGE(DESCRIPTOR(OCI_LAYER, HEX_B, "20.0")), 1},
        {"a foreign layer that the registry holds", DOCKER_2,
         IMAGE(DESCRIPTOR(FOREIGN_LAYER, HEX_B, "9")), 1},
        {"no URLs", DOCKER_2,
         IMAGE("{'mediaType':'" DOCKER_LAYER "','digest':'sha256:" HEX_B "','size':1,'urls':null}"),
         1},
        {"unknown fields and nulls", OCI_MANIFEST,
         "{'schemaVersion':2,'annotations':null,'subject':{},'manifests':null," CONFIG
         ",'layers':[" LAYER "]}",
         1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct manifest m;
        struct cay_error err = {0};
        int r = parse(cases[i].text, cases[i].type, "linux/amd64", &m, &err);
        if (r < 0 || m.kind != MANIFEST_IMAGE || m.layer_count != cases[i].layers)
            fail_msg("%s: %d, %zu layers, %s", cases[i].name, r, m.layer_count, err.message);
        assert_string_equal(m.config.hex, HEX_A);
        if (m.layer_count > 0)
            assert_string_equal(m.layers[0].hex, HEX_B);
        manifest_free(&m);
    }
}

static const struct {
    const char *name, *type, *text, *message;
} bad_images[] = {
    {"empty", OCI_MANIFEST, "", "manifest"},
    {"no JSON", OCI_MANIFEST, "<html>", "manifest"},
    {"an array", OCI_MANIFEST, "[]", "expected an object"},
    {"a text", OCI_MANIFEST, "'x'", "manifest"},
    {"an empty object", "", "{}", "neither an image"},
    {"an empty object of a type", OCI_MANIFEST, "{}", "config"},
    {"schema 1 by version", "", "{'schemaVersion':1,'layers':[]}", "schema 1"},
    {"schema 1 by type", "application/vnd.docker.distribution.manifest.v1+prettyjws", IMAGE(LAYER),
     "schema 1"},
    {"schema 1 by shape", "", "{'fsLayers':[]}", "schema 1"},
    {"schema 3", OCI_MANIFEST, "{'schemaVersion':3}", "schemaVersion must be 2"},
    {"a version that is no number", OCI_MANIFEST, "{'schemaVersion':'2'}", "expected"},
    {"image and index at once", OCI_MANIFEST,
     "{'schemaVersion':2,'manifests':[]," CONFIG ",'layers':[]}", "at once"},
    {"type against field", OCI_INDEX,
     "{'schemaVersion':2,'mediaType':'" OCI_MANIFEST "'," CONFIG ",'layers':[]}", "at once"},
    {"type against shape", OCI_INDEX, IMAGE(LAYER), "manifests"},
    {"no configuration", OCI_MANIFEST, "{'schemaVersion':2,'layers':[]}", "config"},
    {"no layers", OCI_MANIFEST, "{'schemaVersion':2," CONFIG "}", "layers"},
    {"layers is no array", OCI_MANIFEST, "{" CONFIG ",'layers':{}}", "layers"},
    {"a layer is no object", OCI_MANIFEST, IMAGE("1"), "layers[0]"},
    {"a null layer", OCI_MANIFEST, IMAGE("null"), "layers[0]"},
    {"a second layer is wrong", OCI_MANIFEST, IMAGE(LAYER ",{}"), "layers[1]"},
    {"a negative size", OCI_MANIFEST, IMAGE(DESCRIPTOR(OCI_LAYER, HEX_B, "-1")), "layers[0].size"},
    {"an absurd size", OCI_MANIFEST, IMAGE(DESCRIPTOR(OCI_LAYER, HEX_B, "1099511627777")),
     "layers[0].size"},
    {"a size beyond int64", OCI_MANIFEST,
     IMAGE(DESCRIPTOR(OCI_LAYER, HEX_B, "99999999999999999999")), "manifest"},
    {"a size with a fraction", OCI_MANIFEST, IMAGE(DESCRIPTOR(OCI_LAYER, HEX_B, "1.5")),
     "layers[0].size"},
    {"no size", OCI_MANIFEST, IMAGE("{'mediaType':'" OCI_LAYER "','digest':'sha256:" HEX_B "'}"),
     "size"},
    {"no digest", OCI_MANIFEST, IMAGE("{'mediaType':'" OCI_LAYER "','size':1}"), "digest"},
    {"another algorithm", OCI_MANIFEST,
     IMAGE("{'mediaType':'" OCI_LAYER "','digest':'sha512:" HEX_B HEX_B "','size':1}"),
     "not a sha256 digest"},
    {"a digest in capitals", OCI_MANIFEST,
     IMAGE("{'mediaType':'" OCI_LAYER "','digest':'sha256:"
           "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA','size':1}"),
     "not a sha256 digest"},
    {"a path as digest", OCI_MANIFEST,
     IMAGE("{'mediaType':'" OCI_LAYER "','digest':'sha256:../../etc/passwd','size':1}"),
     "not a sha256 digest"},
    {"control characters are not shown", OCI_MANIFEST,
     IMAGE("{'mediaType':'" OCI_LAYER "','digest':'\\u001b[2J','size':1}"), "\\x1b"},
    {"no type of a layer", OCI_MANIFEST, IMAGE("{'digest':'sha256:" HEX_B "','size':1}"),
     "mediaType"},
    {"an encrypted layer", OCI_MANIFEST, IMAGE(DESCRIPTOR(OCI_LAYER "+gzip+encrypted", HEX_B, "1")),
     "unknown type"},
    {"a chart", OCI_MANIFEST,
     "{'config':" DESCRIPTOR("application/vnd.cncf.helm.config.v1+json", HEX_A,
                             "1") ",'layers':[]}",
     "no container image"},
    {"a foreign layer", DOCKER_2,
     IMAGE("{'mediaType':'" FOREIGN_LAYER "','digest':'sha256:" HEX_B
           "','size':1,'urls':['http://example.org/x']}"),
     "foreign"},
    {"a key twice", OCI_MANIFEST, "{'schemaVersion':2,'schemaVersion':2}", "manifest"},
    {"more behind it", OCI_MANIFEST, IMAGE(LAYER) "{}", "manifest"},
};

static void test_bad_images(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad_images); i++) {
        struct manifest m;
        struct cay_error err = {0};
        int r = parse(bad_images[i].text, bad_images[i].type, "linux/amd64", &m, &err);
        if (r >= 0 || strstr(err.message, bad_images[i].message) == NULL)
            fail_msg("%s: %d, %s", bad_images[i].name, r, err.message);
        assert_null(m.layers);
    }
}

static void test_many_layers(void **state) {
    (void)state;
    struct cay_error err = {0};
    struct platform here = platform_here();
    for (size_t count = MANIFEST_LAYERS_MAX; count <= MANIFEST_LAYERS_MAX + 1; count++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
        (void)buf_puts(&b, "{" CONFIG ",'layers':[");
        for (size_t i = 0; i < count; i++)
            (void)buf_puts(&b, i > 0 ? "," LAYER : LAYER);
        (void)buf_puts(&b, "]}");
        for (size_t i = 0; i < b.len; i++)
            if (b.data[i] == '\'')
                b.data[i] = '"';
        struct manifest m;
        int r = manifest_parse(b.data, b.len, OCI_MANIFEST, &here, &m, &err);
        assert_int_equal(r == 0, count == MANIFEST_LAYERS_MAX);
        manifest_free(&m);
    }
}

static void test_too_large(void **state) {
    (void)state;
    struct cay_error err = {0};
    struct platform here = platform_here();
    struct manifest m;
    _cleanup_(freep) char *text = malloc(MANIFEST_SIZE_MAX + 1);
    assert_non_null(text);
    memset(text, ' ', MANIFEST_SIZE_MAX + 1);
    assert_true(manifest_parse(text, MANIFEST_SIZE_MAX + 1, OCI_MANIFEST, &here, &m, &err) < 0);
    assert_non_null(strstr(err.message, "more than"));
}

/* ---- indexes ---- */

static void test_choice(void **state) {
    (void)state;
    static const char many[] =
        INDEX(ENTRY(HEX_C, FOR("unknown", "unknown")) "," ENTRY(HEX_C, FOR("windows", "amd64")) //
              "," ENTRY(HEX_A, FOR("linux", "amd64")) "," ENTRY(HEX_B, FOR("linux", "arm64")));
    static const struct {
        const char *name, *platform, *text, *chosen; /* NULL: refused */
    } cases[] = {
        {"the one for here", "linux/amd64", many, HEX_A},
        {"a variant that is implied", "linux/arm64/v8", many, HEX_B},
        {"its other name", "linux/aarch64", many, HEX_B},
        {"none", "linux/s390x", many, NULL},
        {"none for the system", "freebsd/amd64", many, NULL},
        {"the first of equals", "linux/amd64",
         INDEX(ENTRY(HEX_A, FOR("linux", "amd64")) "," ENTRY(HEX_B, FOR("linux", "amd64"))), HEX_A},
        {"arm v7 before v6", "linux/arm/v7",
         INDEX(ENTRY(HEX_A, FOR_VARIANT("arm", "v6")) "," ENTRY(HEX_B, FOR_VARIANT("arm", "v7"))),
         HEX_B},
        {"arm v7 falls back to v6", "linux/arm/v7",
         INDEX(ENTRY(HEX_A, FOR_VARIANT("arm", "v5")) "," ENTRY(HEX_B, FOR_VARIANT("arm", "v6"))),
         HEX_B},
        {"arm v6 does not run v7", "linux/arm/v6", INDEX(ENTRY(HEX_A, FOR_VARIANT("arm", "v7"))),
         NULL},
        {"64-bit ARM runs no 32-bit image", "linux/arm64",
         INDEX(ENTRY(HEX_A, FOR_VARIANT("arm", "v7"))), NULL},
        {"amd64 of a later level", "linux/amd64",
         INDEX(ENTRY(HEX_A, FOR_VARIANT("amd64", "v3")) "," ENTRY(HEX_B, FOR("linux", "amd64"))),
         HEX_B},
        {"amd64 v1 is amd64", "linux/amd64", INDEX(ENTRY(HEX_A, FOR_VARIANT("amd64", "v1"))),
         HEX_A},
        {"a single one without platform", "linux/amd64", INDEX(ENTRY(HEX_A, "")), HEX_A},
        {"a single one with a null platform", "linux/amd64",
         INDEX(ENTRY(HEX_A, ",'platform':null")), HEX_A},
        {"several without platform", "linux/amd64", INDEX(ENTRY(HEX_A, "") "," ENTRY(HEX_B, "")),
         NULL},
        {"nothing but attestations", "linux/amd64", INDEX(ENTRY(HEX_A, FOR("unknown", "unknown"))),
         NULL},
        {"no entries", "linux/amd64", INDEX(""), NULL},
        {"an entry that is none", "linux/amd64", INDEX("{}"), NULL},
        {"a nested index", "linux/amd64",
         INDEX("{'mediaType':'" OCI_INDEX "','digest':'sha256:" HEX_B "','size':3}"), HEX_B},
        {"an architecture that is too long", "linux/amd64",
         INDEX(ENTRY(HEX_A, FOR("linux", "0123456789012345678901234567890123456789"))), NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct manifest m;
        struct cay_error err = {0};
        int r = parse(cases[i].text, "", cases[i].platform, &m, &err);
        if ((r == 0) != (cases[i].chosen != NULL))
            fail_msg("%s: %d, %s", cases[i].name, r, err.message);
        if (r == 0 && (m.kind != MANIFEST_INDEX || strcmp(m.chosen.hex, cases[i].chosen) != 0))
            fail_msg("%s: chose %s", cases[i].name, m.chosen.hex);
    }
}

static void test_refusal_lists_platforms(void **state) {
    (void)state;
    struct manifest m;
    struct cay_error err = {0};
    int r = parse(INDEX(ENTRY(HEX_A, FOR("linux", "s390x"))), DOCKER_LIST, "linux/amd64", &m, &err);
    assert_int_equal(r, -CAY_UNSUPPORTED);
    assert_non_null(strstr(err.message, "linux/amd64"));
    assert_non_null(strstr(err.message, "linux/s390x"));
    assert_true(err.remedy[0] != '\0');
}

static void test_entries(void **state) {
    (void)state;
    char json[4096];
    size_t len = to_json(
        INDEX(ENTRY(HEX_A, ",'annotations':{'org.opencontainers.image.ref.name':'1.0'}") //
              "," ENTRY(HEX_B, ",'annotations':{'org.opencontainers.image.ref.name':'1.0',"
                               "'io.containerd.image.name':'docker.io/library/a:1.0'}") //
              "," ENTRY(HEX_C, FOR("unknown", "unknown")) "," ENTRY(HEX_C, FOR("linux", "arm64"))),
        json, sizeof json);
    struct index_entry *entries = NULL;
    size_t count = 0;
    struct cay_error err = {0};
    assert_int_equal(manifest_parse_index(json, len, &entries, &count, &err), 0);
    assert_int_equal(count, 3);
    assert_string_equal(entries[0].name, "1.0");
    assert_string_equal(entries[0].platform.os, "");
    assert_string_equal(entries[1].name, "docker.io/library/a:1.0");
    assert_string_equal(entries[2].name, "");
    assert_string_equal(entries[2].platform.architecture, "arm64");
    assert_string_equal(entries[2].manifest.hex, HEX_C);
    free(entries);
}

/* ---- platforms ---- */

static void test_platforms(void **state) {
    (void)state;
    static const struct {
        const char *text, *shown; /* NULL: refused */
    } cases[] = {
        {"linux/amd64", "linux/amd64"},
        {"linux/x86_64", "linux/amd64"},
        {"linux/arm64", "linux/arm64/v8"},
        {"linux/arm/v6", "linux/arm/v6"},
        {"linux/riscv64", "linux/riscv64"},
        {"linux/arm", "linux/arm/v7"},
        {"", NULL},
        {"linux", NULL},
        {"linux/", NULL},
        {"/amd64", NULL},
        {"linux/amd64/", NULL},
        {"linux/arm/v7/x", NULL},
        {"linux/amd 64", NULL},
        {"linux/AMD64", NULL},
        {"linux/\x1b[2J", NULL},
        {"linux/0123456789012345678901234567890123456789", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct platform p;
        struct cay_error err = {0};
        char text[PLATFORM_TEXT_SIZE];
        int r = platform_parse(cases[i].text, &p, &err);
        if ((r == 0) != (cases[i].shown != NULL))
            fail_msg("%s: %d", cases[i].text, r);
        if (r == 0)
            assert_string_equal(platform_format(&p, text), cases[i].shown);
    }
    struct platform here = platform_here(), untold = {0};
    assert_true(platform_match(&here, &here) > 0);
    assert_true(platform_match(&untold, &here) > 0);
}

/* ---- configurations ---- */

static struct image_record *read_config(const char *text, struct cay_error *err) {
    char json[8192];
    size_t len = to_json(text, json, sizeof json);
    struct image_record *record = record_new();
    assert_non_null(record);
    if (config_parse(json, len, record, err) == 0)
        return record;
    record_free(record);
    return NULL;
}

static void assert_list(const struct strv *list, const char *expected) {
    _cleanup_(buf_free) struct buf b = BUF_INIT(4096);
    for (size_t i = 0; i < list->len; i++)
        (void)buf_printf(&b, "%s%s", i > 0 ? "|" : "", list->v[i]);
    assert_string_equal(buf_text(&b), expected);
}

static const char full[] =
    "{'architecture':'arm64','variant':'v8','os':'linux','created':'2026-01-02T03:04:05Z',"
    "'config':{'Env':['PATH=/bin','EMPTY=','=bad','BAD',null],'Entrypoint':['/init','-x'],"
    "'Cmd':['sh','-c','echo \\u20ac'],'User':'daemon:10','WorkingDir':'/srv',"
    "'Labels':{'z':'1','a':'x=y','a-b':null,'k=':'v'},'ExposedPorts':{'80/tcp':{},'22/tcp':null},"
    "'Volumes':{'/var':{},'/data':{}},'StopSignal':'SIGINT','Healthcheck':{'Test':['NONE']}},"
    "'rootfs':{'type':'layers','diff_ids':['sha256:" HEX_A "','sha256:" HEX_B "']},"
    "'history':[{}]}";

static void test_config(void **state) {
    (void)state;
    struct cay_error err = {0};
    _cleanup_(record_freep) struct image_record *r = read_config(full, &err);
    assert_non_null(r);
    assert_list(&r->env, "PATH=/bin|EMPTY=");
    assert_list(&r->entrypoint, "/init|-x");
    assert_list(&r->cmd, "sh|-c|echo \xe2\x82\xac");
    assert_list(&r->labels, "a=x=y|a-b=|z=1");
    assert_list(&r->ports, "22/tcp|80/tcp");
    assert_list(&r->volumes, "/data|/var");
    assert_string_equal(r->user, "daemon:10");
    assert_string_equal(r->working_dir, "/srv");
    assert_string_equal(r->stop_signal, "SIGINT");
    assert_string_equal(r->created, "2026-01-02T03:04:05Z");
    assert_string_equal(r->os, "linux");
    assert_string_equal(r->architecture, "arm64");
    assert_string_equal(r->variant, "v8");
    assert_int_equal(r->layer_count, 2);
    assert_string_equal(r->layers[1].diff_id, HEX_B);
    char json[4096], id[HEX_SIZE];
    digest_of(json, to_json(full, json, sizeof json), id);
    assert_string_equal(r->id, id);
}

static void test_lenient_configs(void **state) {
    (void)state;
    static const char *const cases[] = {
        "{}",
        "{'config':null,'rootfs':null,'created':null,'os':null,'architecture':null}",
        ("{'config':{'Env':null,'Entrypoint':null,'Cmd':null,'User':null,'WorkingDir':null,"
         "'Labels':null,'ExposedPorts':null,'Volumes':null,'StopSignal':null}}"),
        "{'config':{'Env':[],'Labels':{}},'rootfs':{'diff_ids':null}}",
        "{'rootfs':{'type':'layers','diff_ids':[]}}",
        "{'container_config':{'Cmd':7},'docker_version':1}",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        _cleanup_(record_freep) struct image_record *r = read_config(cases[i], &err);
        if (r == NULL)
            fail_msg("%s: %s", cases[i], err.message);
        assert_int_equal(r->layer_count + r->env.len + r->cmd.len, 0);
    }
    struct cay_error err = {0};
    _cleanup_(record_freep) struct image_record *r = read_config("{'config':{'Cmd':'sh'}}", &err);
    assert_non_null(r);
    assert_list(&r->cmd, "sh");
}

static void test_bad_configs(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "configuration"},
        {"[]", "expected an object"},
        {"{'config':[]}", "config"},
        {"{'config':{'Env':{}}}", "config.Env"},
        {"{'config':{'Env':[1]}}", "config.Env[0]"},
        {"{'config':{'Env':['a\\u0000b=c']}}", "configuration"},
        {"{'config':{'Cmd':7}}", "config.Cmd"},
        {"{'config':{'Labels':{'a':1}}}", "config.Labels.a"},
        {"{'config':{'Labels':[]}}", "config.Labels"},
        {"{'config':{'Volumes':['/a']}}", "config.Volumes"},
        {"{'config':{'User':0}}", "config.User"},
        {"{'config':{'StopSignal':'0123456789012345678901234567890123456789'}}", "StopSignal"},
        {"{'os':'0123456789012345678901234567890123456789'}", "os: is longer"},
        {"{'created':5}", "created"},
        {"{'rootfs':{'type':'squashfs'}}", "layers"},
        {"{'rootfs':{'diff_ids':{}}}", "diff_ids"},
        {"{'rootfs':{'diff_ids':[null]}}", "diff_ids[0]"},
        {"{'rootfs':{'diff_ids':['sha1:abc']}}", "not a sha256 digest"},
        {"{'os':'a','os':'b'}", "configuration"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cay_error err = {0};
        struct image_record *r = read_config(cases[i].text, &err);
        if (r != NULL || strstr(err.message, cases[i].message) == NULL)
            fail_msg("%s: %s", cases[i].text, err.message);
        assert_true(err.remedy[0] != '\0');
    }
}

/* ---- writers ---- */

static void test_config_round_trip(void **state) {
    (void)state;
    struct cay_error err = {0};
    _cleanup_(record_freep) struct image_record *first = read_config(full, &err);
    _cleanup_(record_freep) struct image_record *second = record_new();
    _cleanup_(buf_free) struct buf a = BUF_INIT(1 << 16), b = BUF_INIT(1 << 16);
    static const char *const history[] = {"FROM", "RUN"};
    assert_int_equal(config_write(first, history, &a), 0);
    assert_int_equal(config_parse(a.data, a.len, second, &err), 0);
    assert_int_equal(config_write(second, history, &b), 0);
    assert_string_equal(buf_text(&a), buf_text(&b));
    assert_list(&second->labels, "a=x=y|a-b=|z=1");
    assert_list(&second->cmd, "sh|-c|echo \xe2\x82\xac");
    assert_string_equal(second->working_dir, "/srv");
    assert_string_equal(second->layers[0].diff_id, HEX_A);
}

/* The same content in another order, and what was set twice, is the same text. */
static void test_config_is_canonical(void **state) {
    (void)state;
    _cleanup_(record_freep) struct image_record *r = record_new();
    assert_int_equal(strv_push(&r->labels, "b=old"), 0);
    assert_int_equal(strv_push(&r->labels, "a=1"), 0);
    assert_int_equal(strv_push(&r->labels, "b=new"), 0);
    assert_int_equal(strv_push(&r->volumes, "/x=2"), 0);
    assert_int_equal(strv_push(&r->volumes, "/x=1"), 0);
    assert_int_equal(strv_push(&r->volumes, "/x=2"), 0);
    (void)snprintf(r->os, sizeof r->os, "linux");
    (void)snprintf(r->architecture, sizeof r->architecture, "amd64");
    _cleanup_(buf_free) struct buf out = BUF_INIT(1 << 16);
    assert_int_equal(config_write(r, NULL, &out), 0);
    char expected[512];
    (void)to_json("{'architecture':'amd64','config':{'Labels':{'a':'1','b':'new'},"
                  "'Volumes':{'/x=1':{},'/x=2':{}}},'os':'linux',"
                  "'rootfs':{'diff_ids':[],'type':'layers'}}",
                  expected, sizeof expected);
    assert_string_equal(buf_text(&out), expected);
    assert_int_equal(r->labels.len, 3); /* the record itself is as it was */
}

static void test_manifest_round_trip(void **state) {
    (void)state;
    _cleanup_(record_freep) struct image_record *r = record_new();
    struct record_layer *layer = record_add_layer(r);
    layer->blob_size = 77;
    (void)snprintf(layer->blob, sizeof layer->blob, HEX_B);
    (void)snprintf(layer->media_type, sizeof layer->media_type, DOCKER_LAYER);
    struct descriptor config = {.hex = HEX_A, .media_type = DOCKER_CONFIG, .size = 5};
    _cleanup_(buf_free) struct buf out = BUF_INIT(1 << 16);
    assert_int_equal(manifest_write(r, &config, &out), 0);
    struct manifest m;
    struct cay_error err = {0};
    struct platform here = platform_here();
    assert_int_equal(manifest_parse(out.data, out.len, OCI_MANIFEST, &here, &m, &err), 0);
    assert_string_equal(m.config.hex, HEX_A);
    assert_string_equal(m.config.media_type, OCI_CONFIG);
    assert_int_equal(m.config.size, 5);
    assert_int_equal(m.layer_count, 1);
    assert_string_equal(m.layers[0].media_type, OCI_LAYER "+gzip");
    assert_int_equal(m.layers[0].size, 77);
    manifest_free(&m);
}

static void test_incomplete_layers_are_not_written(void **state) {
    (void)state;
    _cleanup_(record_freep) struct image_record *r = record_new();
    (void)record_add_layer(r);
    _cleanup_(buf_free) struct buf out = BUF_INIT(1 << 16);
    struct descriptor config = {.hex = HEX_A, .size = 5};
    assert_int_equal(config_write(r, NULL, &out), -EINVAL);
    assert_int_equal(manifest_write(r, &config, &out), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_images),
        cmocka_unit_test(test_bad_images),
        cmocka_unit_test(test_many_layers),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_refusal_lists_platforms),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_platforms),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_lenient_configs),
        cmocka_unit_test(test_bad_configs),
        cmocka_unit_test(test_config_round_trip),
        cmocka_unit_test(test_config_is_canonical),
        cmocka_unit_test(test_manifest_round_trip),
        cmocka_unit_test(test_incomplete_layers_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
