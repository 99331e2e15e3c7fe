/* A sandbox of the Daytona in the configuration, for a project: made, used, found again, removed.
 *     cc daytona.c -o daytona $(pkg-config --cflags --libs cay) */
#include <cay.h>
#include <stdio.h>

static int work(cay_manager *m, const char *id, struct cay_error *err) {
    struct cay_result result;
    struct cay_info *info;
    if (cay_manager_session_create(m, id, "work", err) < 0 ||
        cay_manager_session_run(m, id, "work", "answer=$((6 * 7))", 0, &result, err) < 0)
        return -1;
    cay_result_free(&result);
    if (cay_manager_session_run(m, id, "work", "echo $answer; exit 3", 10000, &result, err) < 0)
        return -1;
    printf("exit code %d\n%s", result.exit_code, result.out);
    cay_result_free(&result);
    if (cay_manager_stop(m, id, err) < 0 || cay_daytona_get_or_start_sandbox(m, id, &info, err) < 0)
        return -1;
    printf("%s, label %s\n", info->state, info->labels[0]);
    cay_info_free(info);
    return cay_daytona_delete_sandbox(m, id, err);
}

int main(int argc, char **argv) {
    struct cay_error err;
    cay_manager *m;
    struct cay_info *info = NULL;
    int r = cay_daytona_open(argc > 1 ? argv[1] : NULL, &m, &err);
    if (r == 0) {
        r = cay_daytona_create_sandbox(m, "secret", "project-7", &info, &err);
        if (r == 0)
            r = work(m, info->id, &err);
        cay_info_free(info);
        cay_manager_close(m);
    }
    if (r < 0)
        fprintf(stderr, "%s: %s; %s\n", cay_code_name(err.code), err.message, err.remedy);
    return r < 0;
}
