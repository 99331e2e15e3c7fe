/* What a program that embeds cay does with cay_manager, from several threads at once; ends with 0
 * if everything was as promised.   usage: embed_check STATE TIER FOLDER
 * The folder is the test's own, for copies. */
#include <cay.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 5 };

static const char *tier, *folder;

/* ends the program with the place and the last error */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "line %d: %s: %s; %s\n", __LINE__, #condition, err.message,      \
                          err.remedy);                                                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void make(cay_manager *m, const char *name) {
    static const char *const labels[] = {"job=7", "odd=a,b\\c", NULL};
    static const char *const env[] = {"COLOUR=red", "COLOUR=blue", NULL};
    struct cay_error err = {0};
    struct cay_create create;
    struct cay_info *info = NULL;
    cay_create_init(&create);
    create.spec.name = name;
    create.spec.tier = tier;
    create.spec.memory_bytes = 64 << 20;
    create.labels = labels;
    create.env = env;
    create.work_dir = "/data";
    CHECK(cay_manager_create(m, &create, &info, &err) == 0);
    CHECK(strcmp(info->name, name) == 0 && strcmp(info->state, "started") == 0);
    CHECK(strlen(info->id) == 16 && info->memory_bytes == 64 << 20 && info->created_ms > 0);
    CHECK(strcmp(info->labels[0], "job=7") == 0 && strcmp(info->labels[1], "odd=a,b\\c") == 0);
    CHECK(info->labels[2] == NULL && strcmp(info->work_dir, "/data") == 0);
    cay_info_free(info);
    CHECK(cay_manager_create(m, &create, NULL, &err) == -CAY_CONFLICT);
}

static struct cay_result run(cay_manager *m, const char *who, const char *script,
                             const char *input) {
    struct cay_error err = {0};
    struct cay_exec exec = CAY_EXEC_INIT;
    struct cay_result result;
    exec.argv = (const char *const[]){"sh", "-c", script, NULL};
    exec.timeout_ms = 60000;
    exec.input = input;
    exec.input_len = input != NULL ? strlen(input) : 0;
    CHECK(cay_manager_run_command(m, who, &exec, &result, &err) == 0);
    return result;
}

static void check_commands(cay_manager *m, const char *who) {
    struct cay_error err = {0};
    struct cay_result r = run(m, who, "echo $COLOUR; pwd; cat; echo no >&2; exit 7", "bytes");
    CHECK(r.exit_code == 7 && strcmp(r.out, "blue\n/data\nbytes") == 0);
    CHECK(strcmp(r.err, "no\n") == 0 && r.err_len == 3 && !r.timed_out);
    cay_result_free(&r);

    struct cay_exec exec = CAY_EXEC_INIT;
    exec.argv = (const char *const[]){"sh", "-c", "echo first; sleep 1000", NULL};
    r = (struct cay_result){0};
    for (exec.timeout_ms = 300; exec.timeout_ms <= 30000 && r.out_len == 0; exec.timeout_ms *= 10) {
        cay_result_free(&r); /* a busy machine may need longer to begin */
        CHECK(cay_manager_run_command(m, who, &exec, &r, &err) == 0);
    }
    CHECK(r.timed_out && r.exit_code == 124 && strcmp(r.out, "first\n") == 0);
    cay_result_free(&r);

    exec.argv = (const char *const[]){"no-such-program", NULL};
    CHECK(cay_manager_run_command(m, who, &exec, &r, &err) < 0 && r.exit_code == 127);
    cay_result_free(&r);
    CHECK(cay_manager_run_command(m, "nobody", &exec, &r, &err) == -CAY_NOT_FOUND);
    cay_result_free(&r);
}

static void check_programs(cay_manager *m, const char *who) {
    static const char python_code[] = "import sys; print(sys.argv[1], input()); sys.exit(4)";
    static const char bash_code[] = "echo $1; exit 3";
    const char *const args[] = {"a b", NULL};
    struct cay_error err = {0};
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.timeout_ms = 60000;
    exec.input = "typed\n";
    exec.input_len = 6;
    const struct cay_python python = {
        .name = "-c", .code = python_code, .code_len = strlen(python_code), .args = args};
    struct cay_python_result one;
    CHECK(cay_manager_run_python(m, who, &python, &exec, &one, &err) == 0);
    CHECK(one.run.exit_code == 4 && strcmp(one.run.out, "a b typed\n") == 0);
    CHECK(one.version != NULL && one.type == NULL && one.run.duration_us > 0);
    cay_python_result_free(&one);
    CHECK(cay_manager_run_python(m, "nobody", &python, &exec, &one, &err) == -CAY_NOT_FOUND);
    cay_python_result_free(&one);

    const struct cay_program program = {
        .language = "bash", .code = bash_code, .code_len = strlen(bash_code), .args = args};
    struct cay_program_result two;
    CHECK(cay_manager_run_program(m, who, &program, &exec, &two, &err) == 0);
    CHECK(two.program.run.exit_code == 3 && strcmp(two.program.run.out, "a b\n") == 0);
    CHECK(strcmp(two.tool, "bash") == 0 && !two.compiling);
    cay_program_result_free(&two);
}

/* What is left away is nothing, or what is usual. */
static void check_empty_programs(cay_manager *m, const char *who) {
    static const char code[] = "import sys; print(sys.argv)";
    struct cay_error err = {0};
    struct cay_exec exec = CAY_EXEC_INIT;
    exec.timeout_ms = 60000;
    struct cay_python python = {.code = NULL};
    struct cay_python_result one;
    CHECK(cay_manager_run_python(m, who, &python, &exec, &one, &err) == 0);
    CHECK(one.run.exit_code == 0 && one.run.out_len == 0 && one.version != NULL);
    cay_python_result_free(&one);
    cay_python_result_free(&one);
    python = (struct cay_python){.code = code, .code_len = strlen(code)};
    CHECK(cay_manager_run_python(m, who, &python, &exec, &one, &err) == 0);
    CHECK(strcmp(one.run.out, "['-c']\n") == 0);
    cay_python_result_free(&one);

    struct cay_program program = {.language = NULL};
    struct cay_program_result two;
    CHECK(cay_manager_run_program(m, who, &program, &exec, &two, &err) == -CAY_INVALID_ARGUMENT);
    cay_program_result_free(&two);
    program.language = "bash";
    CHECK(cay_manager_run_program(m, who, &program, &exec, &two, &err) == 0);
    CHECK(two.program.run.exit_code == 0 && two.program.run.out_len == 0);
    cay_program_result_free(&two);
    cay_program_result_free(&two);
}

static void check_files(cay_manager *m, const char *who) {
    struct cay_error err = {0};
    char *text, path[512];
    size_t len;
    struct stat st;
    CHECK(cay_manager_write_file(m, who, "a/b/c.txt", "one\0two", 7, 0640, &err) == 0);
    CHECK(cay_manager_read_file(m, who, "/data/a/b/c.txt", 7, &text, &len, &err) == 0);
    CHECK(len == 7 && memcmp(text, "one\0two", 8) == 0);
    free(text);
    CHECK(cay_manager_read_file(m, who, "a/b/c.txt", 6, &text, &len, &err) < 0);
    CHECK(cay_manager_read_file(m, who, "nothing", 6, &text, &len, &err) == -CAY_NOT_FOUND);
    CHECK(cay_manager_write_file(m, who, "empty", "", 0, -1, &err) == 0);
    CHECK(cay_manager_read_file(m, who, "empty", 0, &text, &len, &err) == 0 && len == 0);
    free(text);

    struct cay_result r =
        run(m, who, "chmod 666 a/b/c.txt; ln -s c.txt a/b/link; mkdir a/void", "");
    cay_result_free(&r);
    (void)snprintf(path, sizeof path, "%s/out-%s", folder, who);
    CHECK(cay_manager_copy_from(m, who, "a", path, &err) == 0);
    CHECK(cay_manager_copy_to(m, who, path, "back", &err) == 0);
    (void)snprintf(path, sizeof path, "%s/out-%s/b/c.txt", folder, who);
    CHECK(stat(path, &st) == 0 && st.st_size == 7 && (st.st_mode & 07777) == 0666);
    r = run(m, who, "stat -c %a back/b/c.txt; readlink back/b/link; ls -d back/void", "");
    CHECK(strcmp(r.out, "666\nc.txt\nback/void\n") == 0);
    cay_result_free(&r);
    CHECK(cay_manager_copy_to(m, who, "/no/such/file", "x", &err) == -CAY_NOT_FOUND);
}

static void check_life(cay_manager *m, const char *who) {
    struct cay_error err = {0};
    struct cay_info *info;
    struct cay_usage usage;
    struct cay_exec exec = CAY_EXEC_INIT;
    struct cay_result r;
    exec.argv = (const char *const[]){"true", NULL};
    CHECK(cay_manager_usage(m, who, &usage, &err) == 0);
    if (tier == NULL) { /* with control groups */
        CHECK(usage.pids >= 1);
        CHECK(cay_manager_pause(m, who, &err) == 0 && cay_manager_resume(m, who, &err) == 0);
    }
    CHECK(cay_manager_stop(m, who, &err) == 0);
    CHECK(cay_manager_get(m, who, &info, &err) == 0 && strcmp(info->state, "stopped") == 0);
    cay_info_free(info);
    CHECK(cay_manager_run_command(m, who, &exec, &r, &err) == -CAY_CONFLICT);
    CHECK(cay_manager_start(m, who, &err) == 0);
    r = run(m, who, "cat a/b/c.txt | wc -c", "");
    CHECK(strcmp(r.out, "7\n") == 0);
    cay_result_free(&r);
}

static void *work(void *arg) {
    struct cay_error err = {0};
    cay_manager *m = *(cay_manager **)arg;
    char name[64];
    (void)snprintf(name, sizeof name, "thread-%lx", (unsigned long)pthread_self() & 0xffffffff);
    make(m, name);
    for (int i = 0; i < ROUNDS; i++)
        check_commands(m, name);
    check_programs(m, name);
    check_empty_programs(m, name);
    check_files(m, name);
    check_life(m, name);
    CHECK(cay_manager_delete(m, name, true, &err) == 0);
    CHECK(cay_manager_delete(m, name, true, &err) == -CAY_NOT_FOUND);
    return NULL;
}

static void check_cleanup(cay_manager *m) {
    struct cay_error err = {0};
    struct cay_info *all;
    struct cay_manager_stats stats;
    size_t count;
    make(m, "first");
    make(m, "second");
    CHECK(cay_manager_get_stats(m, &stats, &err) == 0);
    CHECK(stats.sandboxes == 2 && stats.started == 2 && stats.limit > 0 && !stats.shutting_down);
    CHECK(stats.version[0] != '\0');
    CHECK(cay_manager_list(m, "job=7", &all, &count, &err) == 0 && count == 2);
    cay_info_free(all);
    CHECK(cay_manager_list(m, "job=8", &all, &count, &err) == 0 && count == 0);
    cay_info_free(all);
    struct cay_cleanup which = {.label = "job=7", .idle_ms = 3600 * 1000};
    CHECK(cay_manager_cleanup(m, &which, &count, &err) == 0 && count == 0);
    which.idle_ms = 0;
    CHECK(cay_manager_cleanup(m, &which, &count, &err) == 0 && count == 2);
}

static void check_refusals(void) {
    struct cay_error err = {0};
    cay_manager *m;
    struct cay_manager_options options = {.host = "unix:///no/such/socket"};
    CHECK(cay_manager_open(&options, &m, &err) == 0);
    CHECK(cay_manager_stop(m, "x", &err) == -CAY_UNAVAILABLE);
    cay_manager_close(m);
    options = (struct cay_manager_options){.state_dir = folder, .no_start = true};
    CHECK(cay_manager_open(&options, &m, &err) == -CAY_UNAVAILABLE);
}

int main(int argc, char **argv) {
    struct cay_error err = {0};
    cay_manager *m;
    pthread_t threads[THREADS];
    if (argc != 4)
        return 2;
    tier = argv[2][0] != '\0' ? argv[2] : NULL;
    folder = argv[3];
    (void)umask(027);
    const struct cay_manager_options options = {.state_dir = argv[1]};
    CHECK(cay_manager_open(&options, &m, &err) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &m) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    check_cleanup(m);
    check_refusals();
    cay_manager_close(m);
    return 0;
}
