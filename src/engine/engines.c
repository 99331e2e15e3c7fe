#include "engine/engines.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define DECLARE(id, name) extern const struct engine_type engine_type_##name;
ENGINE_LIST(DECLARE)

#define TYPE(id, name) [ENGINE_##id] = &engine_type_##name,
static const struct engine_type *const types[ENGINE_KINDS] = {ENGINE_LIST(TYPE)};

#define KEY(id, engine, section, key, help) [ENGINE_KEY_##id] = {"CAY_" #id, ENGINE_##engine},
static const struct {
    const char *variable;
    enum engine_kind kind;
} keys_of[ENGINE_KEYS] = {ENGINE_KEY_LIST(KEY)};

const struct engine_type *engine_type(enum engine_kind kind) {
    return types[kind];
}

bool engine_can(enum engine_kind kind, enum engine_ability ability) {
    return types[kind] != NULL && (types[kind]->abilities & ability) != 0;
}

const char *engine_key_variable(enum engine_key key) {
    return keys_of[key].variable;
}

bool engine_key_is_of(enum engine_key key, enum engine_kind kind) {
    return keys_of[key].kind == kind;
}

void engine_keys_read(const char *keys[static ENGINE_KEYS]) {
    for (size_t i = 0; i < ENGINE_KEYS; i++) {
        const char *value = getenv(keys_of[i].variable);
        keys[i] = value == NULL ? "" : value;
    }
}

/* Without memory for a variable nothing starts anyway. */
void engine_keys_export(const char *const keys[static ENGINE_KEYS]) {
    for (size_t i = 0; i < ENGINE_KEYS; i++)
        if (keys[i][0] == '\0')
            (void)unsetenv(keys_of[i].variable);
        else
            (void)setenv(keys_of[i].variable, keys[i], 1);
}

void engine_ensure_words(enum engine_kind kind, const char *state_dir, const char *config,
                         const char *policy, bool is_quiet, const char *owner, const char *image,
                         const char *argv[static ENGINE_ENSURE_WORDS]) {
    const char *const words[ENGINE_ENSURE_WORDS] = {types[kind]->program,
                                                    "ensure",
                                                    state_dir,
                                                    policy,
                                                    is_quiet ? "quiet" : "tell",
                                                    owner[0] != '\0' ? owner : ENGINE_OWNER_NONE,
                                                    image,
                                                    config};
    memcpy(argv, words, sizeof words);
}
