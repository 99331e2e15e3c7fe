/* Runs a line of Python in a sandbox and prints its output.
 *     cc run.c -o run $(pkg-config --cflags --libs cay) */
#include <cay.h>
#include <stdio.h>

static int fail(const struct cay_error *err) {
    fprintf(stderr, "%s; %s\n", err->message, err->remedy);
    return 1;
}

int main(void) {
    struct cay_error err;
    cay_engine *engine;
    cay_sandbox *box;
    if (cay_engine_open(NULL, &engine, &err) < 0)
        return fail(&err);

    struct cay_spec spec;
    cay_spec_init(&spec);
    spec.memory_bytes = 128 << 20;
    spec.tier = cay_engine_tier(engine); /* whatever this host gives */
    if (cay_sandbox_create(engine, &spec, &box, &err) < 0)
        return fail(&err);

    struct cay_exec exec = CAY_EXEC_INIT;
    struct cay_result result;
    exec.argv = (const char *const[]){"python3", "-c", "print(6 * 7)", NULL};
    exec.timeout_ms = 10000;
    if (cay_sandbox_exec(box, &exec, &result, &err) < 0)
        return fail(&err);
    printf("%.*s", (int)result.out_len, result.out);

    int code = result.exit_code;
    cay_result_free(&result);
    cay_sandbox_destroy(box);
    cay_engine_close(engine);
    return code;
}
