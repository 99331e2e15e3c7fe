/* Tests of base/opt_complete*.c: the scripts are read, and where possible driven, by the shells. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/path.h"
#include "opt_sample.h"

enum { WORDS = 10 };

static char folder[] = "/tmp/cay-test-opt-XXXXXX";

static bool installed(const char *shell) {
    char path[64];
    assert_int_equal(str_format(path, sizeof path, "/usr/bin/%s", shell), 0);
    return access(path, X_OK) == 0;
}

static void script_path(const char *shell, char path[static 64]) {
    assert_int_equal(str_format(path, 64, "%s/cay.%s", folder, shell), 0);
}

static int write_scripts(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
        if (opt_completion(shells[i], "cay", sample_commands, ARRAY_LEN(sample_commands),
                           sample_common_options, &b, NULL) < 0)
            return -1;
        char path[64];
        script_path(shells[i], path);
        _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || fd_write_all(fd, b.data, b.len) < 0)
            return -1;
    }
    return 0;
}

/* The shells leave files of their own in what they take for the home folder. */
static int remove_scripts(void **state) {
    (void)state;
    return path_remove_tree(AT_FDCWD, folder);
}

/* Runs a program in the folder of the scripts; its output, or what it said if it failed. */
static char *run(char *const *argv) {
    int pipefd[2];
    assert_int_equal(pipe2(pipefd, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(pipefd[1], 1);
        (void)dup2(pipefd[1], 2);
        if (chdir(folder) == 0 && setenv("HOME", folder, 1) == 0)
            (void)execvp(argv[0], argv);
        _exit(127);
    }
    (void)close(pipefd[1]);
    struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(fd_read_to_end(pipefd[0], &b), 0);
    (void)close(pipefd[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    char *text = buf_take(&b);
    if (status != 0)
        fail_msg("%s failed: %s", argv[0], text);
    return text;
}

static void syntax(void **state) {
    (void)state;
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        if (!installed(shells[i])) {
            print_message("skipped: %s is not installed\n", shells[i]);
            continue;
        }
        char path[64], shell[8], flag[] = "-n";
        script_path(shells[i], path);
        assert_int_equal(str_copy(shell, sizeof shell, shells[i]), 0);
        _cleanup_(freep) char *text = run((char *[]){shell, flag, path, NULL});
        assert_string_equal(text, "");
    }
}

/* Sources the script, calls its function for the words (the last is being typed) and prints what
 * it offers. The program itself answers with names, one of which would run a command. */
static const char bash_driver[] =
    "cay() { printf '%s\\n' lab 'x;touch evil' '$(touch evil)' web-1 py:3.1 h:5/a:2; }\n"
    "source ./cay.bash; COMP_WORDS=(cay \"$@\"); COMP_CWORD=$#; _cay; echo \"${COMPREPLY[*]}\"\n";

static const struct {
    const char *words[WORDS];
    const char *expect;
} bash_cases[] = {
    {{""}, "run rm exec ls image\n"},
    {{"r"}, "run rm\n"},
    {{"--h"}, "--help --host\n"},
    {{"-v", "ru"}, "run\n"},
    {{"--host", "x", "ru"}, "run\n"},
    {{"--host", "=", "x", "ru"}, "run\n"},
    {{"--host", "unix", ":", "//x", "ru"}, "run\n"},
    {{"--host", ""}, "\n"},
    {{"-o", "j"}, "json\n"},
    {{"run", "--net"}, "--network\n"},
    {{"run", "--ver"}, "--verbose\n"},
    {{"run", "--sec"}, "\n"},
    {{"run", "--network", ""}, "none bridge allow\n"},
    {{"run", "--network", "="}, "none bridge allow\n"},
    {{"run", "--network", "=", "b"}, "bridge\n"},
    {{"run", "-i", "--output", "t"}, "table\n"},
    {{"run", "--network", "none", "--i"}, "--interactive --image\n"},
    {{"run", "-e", "A", "=", "b", "--cp"}, "--cpus\n"},
    {{"run", "-v", "/a", ":", "/b", "--cp"}, "--cpus\n"},
    {{"run", "--image", "cay.b"}, "cay.bash\n"},
    {{"run", "cay.z"}, "cay.zsh\n"},
    {{"run", "make", "--cp"}, "\n"}, /* the inner command's options are not ours */
    {{"run", "--", "cay.f"}, "cay.fish\n"},
    {{"run", "-v", "cay."}, "\n"}, /* folders only */
    {{"ls", ""}, "\n"},
    {{"rm", ""}, "lab web-1 py:3.1 h:5/a:2\n"},
    {{"delete", "w"}, "web-1\n"},
    {{"rm", "p"}, "py:3.1\n"}, /* the shell replaces what follows the last colon */
    {{"rm", "py", ":"}, "3.1\n"},
    {{"rm", "py", ":", "3"}, "3.1\n"},
    {{"rm", "py", ":", "4"}, "\n"},
    {{"rm", "h", ":", "5/a", ":"}, "2\n"},
    {{"rm", "py", ":", "3.1", "l"}, "lab\n"},
    {{"rm", "lab", "--verb"}, "--verbose\n"},
    {{"exec", "l"}, "lab\n"},
    {{"exec", "lab", "cay.z"}, "cay.zsh\n"},
    {{"image", ""}, "pull ls\n"},
    {{"image", "pull", "-"}, "--help --all -a --host --verbose -v --output -o\n"},
    {{"image", "ls", "--a"}, "\n"},
    {{"image", "-o", "json", "p"}, "pull\n"},
    {{"deb"}, "\n"},
    {{"$(touch evil)", ""}, NULL},
    {{"`touch evil`"}, "\n"},
};

static void bash_offers(void **state) {
    (void)state;
    if (!installed("bash"))
        skip();
    for (size_t i = 0; i < ARRAY_LEN(bash_cases); i++) {
        char shell[] = "bash", norc[] = "--norc", flag[] = "-c", name[] = "driver";
        char driver[sizeof bash_driver];
        memcpy(driver, bash_driver, sizeof driver);
        char *argv[WORDS + 6] = {shell, norc, flag, driver, name};
        for (size_t j = 0; j < WORDS && bash_cases[i].words[j] != NULL; j++)
            argv[5 + j] = (char *)(uintptr_t)bash_cases[i].words[j];
        _cleanup_(freep) char *text = run(argv);
        if (bash_cases[i].expect != NULL && strcmp(text, bash_cases[i].expect) != 0)
            fail_msg("case %zu: '%s' instead of '%s'", i, text, bash_cases[i].expect);
        assert_int_equal(access("evil", F_OK), -1);
        char evil[64];
        assert_int_equal(str_format(evil, sizeof evil, "%s/evil", folder), 0);
        assert_int_equal(access(evil, F_OK), -1);
    }
}

static void fish_offers(void **state) {
    (void)state;
    static const struct {
        const char *line;
        const char *expect[3]; /* each must occur */
        const char *absent;
    } cases[] = {
        {"cay ", {"run\tRun a command", "image\tImages: it's [all] here"}, "debug"},
        {"cay run --net", {"--network\tWhat it reaches"}, NULL},
        {"cay run --network ", {"none", "bridge", "allow"}, "cay.fish"},
        {"cay run --network=b", {"--network=bridge"}, NULL},
        {"cay --host x ru", {"run"}, NULL},
        {"cay -o json image ", {"pull\tFetch", "ls\tList images"}, "exec"},
        {"cay image ls --a", {NULL}, "--all"},
        {"cay image pull --a", {"--all"}, NULL},
        {"cay run --image cay.f", {"cay.fish"}, NULL},
        {"cay run -e A --cp", {"--cpus"}, NULL},
        {"cay run make --cp", {NULL}, "--cpus"},
        {"cay delete ", {"lab", "web-1"}, "cay.fish"},
        {"cay exec ", {"lab", "web-1"}, "cay.fish"},
        {"cay exec lab cay.z", {"cay.zsh"}, "web-1"},
        {"cay ls ", {NULL}, "cay.fish"},
    };
    if (!installed("fish")) {
        print_message("skipped: fish is not installed\n");
        skip();
    }
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char shell[] = "fish", norc[] = "--no-config", flag[] = "-c", driver[256];
        assert_int_equal(str_format(driver, sizeof driver,
                                    "function cay; echo lab; echo web-1; end; source cay.fish; "
                                    "complete -C '%s'; true",
                                    cases[i].line),
                         0);
        _cleanup_(freep) char *text = run((char *[]){shell, norc, flag, driver, NULL});
        for (size_t j = 0; j < 3 && cases[i].expect[j] != NULL; j++)
            if (strstr(text, cases[i].expect[j]) == NULL)
                fail_msg("'%s': no '%s' in '%s'", cases[i].line, cases[i].expect[j], text);
        if (cases[i].absent != NULL && strstr(text, cases[i].absent) != NULL)
            fail_msg("'%s': '%s' in '%s'", cases[i].line, cases[i].absent, text);
    }
}

static void unknown_shell(void **state) {
    (void)state;
    struct cay_error err = {0};
    _cleanup_(buf_free) struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(opt_completion("csh\x1b", "cay", sample_commands, ARRAY_LEN(sample_commands),
                                    sample_common_options, &b, &err),
                     -CAY_INVALID_ARGUMENT);
    assert_string_equal(err.message, "no completion for shell 'csh\\x1b'");
    assert_string_equal(err.remedy, "use bash, zsh or fish");
    b = BUF_INIT(1000);
    assert_int_equal(opt_completion("zsh", "cay", sample_commands, ARRAY_LEN(sample_commands),
                                    sample_common_options, &b, &err),
                     -CAY_INTERNAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(syntax),
        cmocka_unit_test(bash_offers),
        cmocka_unit_test(fish_offers),
        cmocka_unit_test(unknown_shell),
    };
    return cmocka_run_group_tests_name("opt_complete", tests, write_scripts, remove_scripts);
}
