/* Runs a Python program in a fresh sandbox, and tells all that is known of it.
 *     cc python.c -o python $(pkg-config --cflags --libs cay)
 *     ./python program.py [STATE [SANDBOX]]
 * With the name of a sandbox that stays it runs there. */
#include <cay.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void tell_exception(const struct cay_python_result *r) {
    if (r->type == NULL)
        return;
    printf("exception: %s: %s\n", r->type, r->message);
    for (size_t i = 0; i < r->frame_count; i++)
        printf("  line %" PRIu64 " of %s: %s\n", r->frames[i].line, r->frames[i].function,
               r->frames[i].source);
}

static void tell(const struct cay_python_result *r) {
    const struct cay_result *run = &r->run;
    printf("exit code: %d%s%s%s\n", run->exit_code, run->timed_out ? ", out of time" : "",
           run->idle_output ? ", silent" : "", run->oom_killed ? ", out of memory" : "");
    printf("output: %sfailures: %s", run->out, run->err);
    printf("took: %s\n", run->duration_us > 0 ? "some time" : "nothing");
    printf("interpreter: %s %s\n", r->version != NULL ? "Python" : "none",
           r->warm ? "started before" : "started anew");
    tell_exception(r);
    for (size_t i = 0; i < r->file_count; i++)
        printf("%s: %s, %" PRIu64 " bytes\n", r->files[i].created ? "made" : "changed",
               r->files[i].path, r->files[i].size);
    for (size_t i = 0; i < r->figure_count; i++)
        printf("figure: %s, chart %s\n", r->figures[i].format,
               r->figures[i].chart != NULL ? "known" : "unknown");
    for (size_t i = 0; i < r->report.problem_count; i++)
        printf("problem: %s\n", r->report.problems[i]);
}

static int run_fresh(const char *state, struct cay_python *python, const struct cay_exec *exec,
                     struct cay_python_result *result, struct cay_error *err) {
    struct cay_error why;
    struct cay_spec spec;
    cay_engine *engine;
    cay_sandbox *box;
    cay_spec_init(&spec);
    if (cay_engine_open(state, &engine, err) < 0)
        return -1;
    spec.memory_bytes = 256 << 20;
    spec.tier = cay_engine_tier(engine); /* whatever this host gives */
    if (cay_python_warm(engine, &spec, NULL, &python->warm, &why) < 0)
        fprintf(stderr, "it starts anew: %s\n", why.message);
    if (cay_sandbox_create(engine, &spec, &box, err) < 0)
        return -1;
    int r = cay_sandbox_python(box, python, exec, result, err);
    cay_sandbox_destroy(box);
    cay_engine_close(engine);
    if (python->warm > 0)
        close(python->warm);
    return r;
}

static int run_in(const char *state, const char *who, const struct cay_python *python,
                  const struct cay_exec *exec, struct cay_python_result *result,
                  struct cay_error *err) {
    const struct cay_manager_options options = {.state_dir = state};
    cay_manager *m;
    if (cay_manager_open(&options, &m, err) < 0)
        return -1;
    int r = cay_manager_run_python(m, who, python, exec, result, err);
    cay_manager_close(m);
    return r;
}

int main(int argc, char **argv) {
    static char code[1 << 20];
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (file == NULL) {
        fprintf(stderr, "usage: python program.py [STATE [SANDBOX]]\n");
        return 2;
    }
    struct cay_python python = {.name = argv[1], .type = CAY_PYTHON_PROCESS, .code = code};
    python.code_len = fread(code, 1, sizeof code, file);
    fclose(file);
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.timeout_ms = 60000;
    exec.idle_output_timeout_ms = 10000;
    exec.input = "typed\n";
    exec.input_len = strlen("typed\n");
    if (argc < 4)
        exec.work_dir = "/workspace";
    const char *state = argc > 2 ? argv[2] : NULL;
    struct cay_python_result result;
    struct cay_error err;
    int r = argc > 3 ? run_in(state, argv[3], &python, &exec, &result, &err)
                     : run_fresh(state, &python, &exec, &result, &err);
    if (r < 0) {
        fprintf(stderr, "%s: %s; %s\n", cay_code_name(err.code), err.message, err.remedy);
        return 1;
    }
    tell(&result);
    cay_python_result_free(&result);
    return 0;
}
