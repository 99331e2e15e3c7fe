/* Any words through the option parser: what it accepts is within the table's bounds, what it says
 * about the rest can go to a terminal. The input is words, each ended by a NUL. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/opt_sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS = 32 };

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_error(const struct cay_error *err) {
    require(err->code == CAY_INVALID_ARGUMENT);
    require(err->message[0] != '\0' && str_is_utf8(err->message, strlen(err->message)));
    for (const char *c = err->message; *c != '\0'; c++)
        require((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void check_values(const struct sample_values *v) {
    require(v->pids >= 1 && v->pids <= 4096);
    require(v->timeout >= 0 && v->timeout <= 3600 * 1000);
    require(v->cpus >= 0.1 && v->cpus <= 64);
    require(v->memory == 0 || (v->memory >= 1 << 20 && v->memory <= 1ULL << 40));
    require(v->network >= 0 && v->network <= 2);
    require(v->common.output >= 0 && v->common.output <= 1);
}

static void check(const struct opt_command *cmd, int argc, char *const *words) {
    char *argv[WORDS + 1] = {NULL};
    memcpy(argv, words, (size_t)argc * sizeof *argv);
    struct cay_error err = {0};
    struct opt_rest rest;
    void *values = opt_values_new(cmd);
    require(values != NULL);
    int r = opt_parse(cmd, sample_common_options, argc, argv, values, &rest, &err);
    if (r < 0) {
        check_error(&err);
    } else if (r == 0) {
        require(rest.argc >= cmd->min_operands && rest.argc <= argc);
        require(rest.argv[rest.argc] == NULL);
        if (cmd == &sample_run)
            check_values(values);
    }
    opt_values_free(cmd, sample_common_options, values);
    if (argc > 0 && opt_find_command(sample_commands, ARRAY_LEN(sample_commands), words[0]) == NULL)
        (void)opt_unknown_command("cay", sample_commands, ARRAY_LEN(sample_commands), NULL,
                                  words[0], &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *copy = calloc(1, size + 1);
    require(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    char *words[WORDS];
    int argc = 0;
    for (size_t at = 0; at < size && argc < WORDS; at += strlen(copy + at) + 1)
        words[argc++] = copy + at;
    check(&sample_run, argc, words);
    check(&sample_rm, argc, words);
    free(copy);
    return 0;
}
