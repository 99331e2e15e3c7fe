/* Any bytes through the Dockerfile reader: it either fails and names a place, or gives instructions
 * that hold what the header promises, whose words can be expanded. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "imager/build/dockerfile.h"
#include "imager/build/dockerfile_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static const char *lookup(void *user, const char *name) {
    (void)user;
    return name[0] == 'a' ? "value" : NULL;
}

static void check_instruction(const struct dockerfile *file, const struct instruction *in) {
    struct word_scope scope = {.lookup = lookup, .escape = file->escape};
    require(in->op < DOCKERFILE_OP_COUNT && in->line > 0 && in->text != NULL);
    require(in->words.len > 0 || in->exec);
    require(in->words.len <= 2 * DOCKERFILE_WORDS_MAX);
    for (size_t i = 0; i < in->words.len; i++) {
        struct cay_error err = {0};
        char *text = word_expanded(&scope, in->words.v[i], &err);
        require((text == NULL) == (err.code != CAY_OK));
        free(text);
    }
    for (size_t i = 0; i < in->heredoc_count; i++) {
        require(in->heredocs[i].name[0] != '\0' && in->heredocs[i].content != NULL);
        free(word_expanded_heredoc(&scope, in->heredocs[i].content, NULL));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct dockerfile *file = NULL;
    struct cay_error err = {0};
    if (dockerfile_parse((const char *)data, size, &file, &err) < 0) {
        require(file == NULL && err.code == CAY_INVALID_ARGUMENT && err.message[0] != '\0');
        return 0;
    }
    require(file->count > 0 && file->count <= DOCKERFILE_INSTRUCTIONS_MAX);
    for (size_t i = 0; i < file->count; i++)
        check_instruction(file, &file->list[i]);
    dockerfile_free(file);
    return 0;
}
