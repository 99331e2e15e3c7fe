/* Any text as the head of a signed upload (its first line is the Authorization, the second the
 * target, the rest the value of each signed header), and as a list of parts: nothing is believed
 * without the secret, and parts grow. */
#include <stdlib.h>
#include <string.h>

#include "api/build/s3_sign.h"
#include "api/http/target.h"
#include "base/auto.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static const char *header_of(const void *user, const char *name) {
    return str_equal(name, "x-amz-date") ? "20130524T000000Z" : user;
}

static void check_request(const char *authorization, const char *uri, const char *rest) {
    static const int64_t then_ms = INT64_C(1369353600000);
    static struct target target;
    struct s3_claim claim;
    struct s3_request q = {"PUT", uri, &target, header_of, rest};
    if (!s3_claim_read(authorization, &claim) || target_parse(uri, &target, NULL) < 0)
        return;
    require(claim.access[0] != '\0' && strlen(claim.date) <= 8 && claim.signature[0] != '\0');
    require(s3_check(&claim, &q, "a secret that nobody knows", then_ms, NULL) < 0);
}

static void check_parts(const char *text) {
    unsigned numbers[16];
    int count = s3_read_parts(text, numbers, ARRAY_LEN(numbers));
    require(count < 0 || count <= (int)ARRAY_LEN(numbers));
    for (int i = 1; i < count; i++)
        require(numbers[i] > numbers[i - 1]);
}

static char *cut(char *text) {
    char *end = strchr(text, '\n');
    if (end == NULL)
        return text + strlen(text);
    *end = '\0';
    return end + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    require(text != NULL);
    check_parts(text);
    char *uri = cut(text), *rest = cut(uri);
    check_request(text, uri, rest);
    free(text);
    return 0;
}
