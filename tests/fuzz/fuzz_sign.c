/* Any target as a signed URL: what is believed has all its parts, and nothing but the signature
 * that the key makes is valid. */
#include <stdlib.h>
#include <string.h>

#include "api/preview/sign.h"
#include "base/id.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_claim(struct sign_claim *claim) {
    static const char key[] = "the key of this sandbox";
    char right[SIGN_SIZE];
    require(id_is_valid(claim->id) && claim->path != NULL && claim->expires_s >= 0);
    sign_make(claim, key, right);
    require(strlen(right) == SIGN_SIZE - 1);
    require(sign_is_valid(claim, key, 0) == str_equal(claim->signature, right));
    claim->signature = right;
    require(sign_is_valid(claim, key, claim->expires_s - 1));
    require(sign_is_valid(claim, key, claim->expires_s) == (claim->expires_s == 0));
    require(!sign_is_valid(claim, "another key", 0));
    right[SIGN_SIZE - 2] ^= 1;
    require(!sign_is_valid(claim, key, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const methods[] = {"GET", "HEAD", "POST", "DELETE"};
    static struct target target;
    struct sign_claim claim;
    char *text = strndup((const char *)data, size);
    require(text != NULL);
    if (target_parse(text, &target, NULL) == 0)
        for (size_t i = 0; i < 4; i++)
            if (sign_read(methods[i], &target, &claim))
                check_claim(&claim);
    free(text);
    return 0;
}
