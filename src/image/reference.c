#include "image/reference.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

#define HUB      "docker.io"
#define OFFICIAL "library/" /* where the Hub keeps what has no owner in its name */

enum { HEX_LEN = HEX_SIZE - 1, PORT_MAX = 65535 };

bool hex_is_valid(const char *text) {
    return strlen(text) == HEX_LEN && strspn(text, "0123456789abcdef") == HEX_LEN;
}

bool digest_parse(const char *text, char ret[static HEX_SIZE]) {
    static const char algorithm[] = "sha256:";
    if (!str_starts(text, algorithm) || !hex_is_valid(text + sizeof algorithm - 1))
        return false;
    memcpy(ret, text + sizeof algorithm - 1, HEX_SIZE);
    return true;
}

bool reference_is_id(const char *text) {
    return str_starts(text, "sha256:") || hex_is_valid(text);
}

/* The text comes from outside and may go to a terminal. */
static int refuse(const char *text, const char *why, const char *remedy, struct cay_error *err) {
    char shown[160];
    int r = error_set(err, CAY_INVALID_ARGUMENT, "image name '%s' %s",
                      str_escape(shown, sizeof shown, text), why);
    (void)error_remedy(err, "%s", remedy);
    return r;
}

#define EXAMPLE "use a name such as python:3.12-slim or localhost:5000/team/app:1.0"

/* ---- parts ---- */

/* Whether what stands before the first slash is a registry and no owner on the Hub. */
static bool is_registry(const char *part, size_t len) {
    if (len == 9 && memcmp(part, "localhost", 9) == 0)
        return true;
    for (size_t i = 0; i < len; i++)
        if (part[i] == '.' || part[i] == ':' || isupper((unsigned char)part[i]))
            return true;
    return false;
}

static bool port_is_valid(const char *port) {
    uint64_t number;
    return strlen(port) <= 5 && str_to_u64(port, PORT_MAX, &number) == 0 && number > 0;
}

/* Labels of letters, digits and inner dashes, with dots between. */
static bool host_is_valid(const char *host, size_t len) {
    for (size_t i = 0; i < len; i++) {
        bool edge = i == 0 || i + 1 == len || host[i - 1] == '.' || host[i + 1] == '.';
        bool ok = isalnum((unsigned char)host[i]) || (!edge && host[i] == '-') ||
                  (host[i] == '.' && i > 0 && i + 1 < len && host[i - 1] != '.');
        if (!ok)
            return false;
    }
    return len > 0;
}

static bool registry_is_valid(const char *text) {
    size_t len;
    if (text[0] == '[') { /* an IPv6 address */
        size_t digits = strspn(text + 1, "0123456789abcdefABCDEF:");
        len = digits + 2;
        if (digits == 0 || text[len - 1] != ']')
            return false;
    } else {
        len = strcspn(text, ":");
        if (!host_is_valid(text, len))
            return false;
    }
    return text[len] == '\0' || (text[len] == ':' && port_is_valid(text + len + 1));
}

static bool is_word(char c) {
    return islower((unsigned char)c) || isdigit((unsigned char)c);
}

/* The length of the separator at text: ".", "_", "__" or any number of dashes; 0 if there is none.
 */
static size_t separator(const char *text) {
    if (text[0] == '.')
        return 1;
    if (text[0] == '_')
        return text[1] == '_' ? 2 : 1;
    return strspn(text, "-");
}

/* Components of words with separators between, joined by slashes. */
static bool repository_is_valid(const char *text) {
    for (;;) {
        if (!is_word(*text))
            return false;
        while (is_word(*text))
            text++;
        if (*text == '\0')
            return true;
        size_t len = *text == '/' ? 1 : separator(text);
        if (len == 0)
            return false;
        text += len;
    }
}

static bool tag_is_valid(const char *text) {
    size_t len = strlen(text);
    if (len == 0 || len >= REFERENCE_TAG_SIZE || text[0] == '.' || text[0] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("._-", text[i]) == NULL)
            return false;
    return true;
}

/* ---- parsing ---- */

static int refuse_repository(const char *text, const char *repository, struct cay_error *err) {
    char lower[REFERENCE_PART_SIZE] = "";
    size_t len = strlen(repository);
    for (size_t i = 0; i <= len; i++)
        lower[i] = (char)tolower((unsigned char)repository[i]);
    if (strcmp(lower, repository) == 0 || !repository_is_valid(lower))
        return refuse(text, "has characters where an image name may not have them", EXAMPLE, err);
    int r = refuse(text, "has upper-case letters", "", err);
    (void)error_remedy(err, "write it in lower case: '%s'", lower);
    return r;
}

/* The name without tag and digest. */
static int parse_name(const char *text, const char *name, struct reference *ret,
                      struct cay_error *err) {
    const char *slash = strchr(name, '/');
    bool has_registry = slash != NULL && is_registry(name, (size_t)(slash - name));
    const char *repository = has_registry ? slash + 1 : name;
    size_t len = has_registry ? (size_t)(slash - name) : sizeof HUB - 1;
    if (len >= sizeof ret->registry)
        return refuse(text, "has a registry of more than 255 characters", EXAMPLE, err);
    memcpy(ret->registry, has_registry ? name : HUB, len);
    ret->registry[len] = '\0';
    if (!registry_is_valid(ret->registry))
        return refuse(text, "has a registry that is no host name with an optional port",
                      "use a name such as localhost:5000/team/app:1.0", err);
    if (strcmp(ret->registry, "index." HUB) == 0) {
        memset(ret->registry, 0, sizeof ret->registry);
        memcpy(ret->registry, HUB, sizeof HUB);
    }
    bool official = strcmp(ret->registry, HUB) == 0 && strchr(repository, '/') == NULL;
    if (str_format(ret->repository, sizeof ret->repository, "%s%s", official ? OFFICIAL : "",
                   repository) < 0)
        return refuse(text, "is longer than 255 characters", EXAMPLE, err);
    if (*repository == '\0' || !repository_is_valid(ret->repository))
        return refuse_repository(text, repository, err);
    return 0;
}

static int parse_tag(const char *text, char *name, struct reference *ret, struct cay_error *err) {
    char *slash = strrchr(name, '/');
    char *colon = strchr(slash != NULL ? slash : name, ':');
    if (colon == NULL)
        return str_copy(ret->tag, sizeof ret->tag, ret->digest[0] != '\0' ? "" : "latest");
    if (!tag_is_valid(colon + 1))
        return refuse(text, "has a tag that is not valid",
                      "use up to 128 letters, digits, '_', '.' or '-' after the colon, such as "
                      "python:3.12-slim",
                      err);
    *colon = '\0';
    return str_copy(ret->tag, sizeof ret->tag, colon + 1);
}

static int parse_digest(const char *text, char *name, struct reference *ret,
                        struct cay_error *err) {
    char *at = strchr(name, '@');
    if (at == NULL)
        return 0;
    *at = '\0';
    if (digest_parse(at + 1, ret->digest))
        return 0;
    return refuse(text, "has a digest that is not valid",
                  "write @sha256: and 64 lower-case hex digits after the name", err);
}

int reference_parse(const char *text, struct reference *ret, struct cay_error *err) {
    struct reference ref = {0};
    char name[REFERENCE_TEXT_SIZE];
    if (text[0] == '\0')
        return refuse(text, "is empty", EXAMPLE, err);
    if (reference_is_id(text))
        return refuse(text, "is an image's id, not a name", EXAMPLE, err);
    if (strstr(text, "://") != NULL)
        return refuse(text, "is an address", "leave out what ends with '://'", err);
    if (str_copy(name, sizeof name, text) < 0)
        return refuse(text, "is too long", EXAMPLE, err);
    int r = parse_digest(text, name, &ref, err);
    if (r == 0)
        r = parse_tag(text, name, &ref, err);
    if (r == 0)
        r = parse_name(text, name, &ref, err);
    if (r == 0)
        *ret = ref;
    return r;
}

/* ---- writing ---- */

static void write_text(const char *registry, const char *repository, const struct reference *ref,
                       char *out) {
    bool tag = ref->tag[0] != '\0', digest = ref->digest[0] != '\0';
    (void)snprintf(out, REFERENCE_TEXT_SIZE, "%s%s%s%s%s%s%s", registry,
                   registry[0] != '\0' ? "/" : "", repository, tag ? ":" : "", ref->tag,
                   digest ? "@sha256:" : "", ref->digest);
}

const char *reference_format(const struct reference *ref, char *out) {
    write_text(ref->registry, ref->repository, ref, out);
    return out;
}

const char *reference_familiar(const struct reference *ref, char *out) {
    if (strcmp(ref->registry, HUB) != 0)
        return reference_format(ref, out);
    const char *name = ref->repository, *rest = name + sizeof OFFICIAL - 1;
    if (str_starts(name, OFFICIAL) && strchr(rest, '/') == NULL)
        name = rest;
    else if (is_registry(name, strcspn(name, "/")))
        return reference_format(ref, out); /* "a.b/c" would read as another registry */
    write_text("", name, ref, out);
    return reference_is_id(out) ? reference_format(ref, out) : out;
}
