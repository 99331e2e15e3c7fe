/* Keeps a sandbox for some work: a file in, a command, a file out.
 *     cc embed.c -o embed $(pkg-config --cflags --libs cay) */
#include <cay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int work(cay_manager *m, struct cay_error *err) {
    static const char script[] = "open('answer', 'w').write(str(6 * 7))\n";
    struct cay_exec exec = CAY_EXEC_INIT;
    struct cay_result result;
    char *answer;
    size_t len;
    exec.argv = (const char *const[]){"python3", "work.py", NULL};
    exec.timeout_ms = 10000;
    if (cay_manager_write_file(m, "example", "work.py", script, strlen(script), -1, err) < 0 ||
        cay_manager_run_command(m, "example", &exec, &result, err) < 0)
        return -1;
    printf("exit code %d%s\n%s", result.exit_code, result.timed_out ? ", timeout" : "", result.err);
    cay_result_free(&result);
    if (cay_manager_read_file(m, "example", "answer", 1 << 20, &answer, &len, err) < 0)
        return -1;
    printf("%s\n", answer);
    free(answer);
    return cay_manager_delete(m, "example", false, err);
}

int main(int argc, char **argv) {
    struct cay_error err;
    cay_manager *m;
    struct cay_create create;
    const struct cay_manager_options options = {.state_dir = argc > 1 ? argv[1] : NULL};
    cay_create_init(&create);
    create.spec.name = "example";
    create.spec.memory_bytes = 128 << 20;
    if (cay_manager_open(&options, &m, &err) < 0 ||
        cay_manager_create(m, &create, NULL, &err) < 0 || work(m, &err) < 0) {
        fprintf(stderr, "%s: %s; %s\n", cay_code_name(err.code), err.message, err.remedy);
        return 1;
    }
    cay_manager_close(m);
    return 0;
}
