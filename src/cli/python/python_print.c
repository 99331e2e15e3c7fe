#include "cli/python/python_print.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/command.h"

int python_report_json(const struct python_reported *t) {
    _cleanup_(buf_free) struct buf b = BUF_INIT((size_t)256 << 20);
    struct jsonw w = JSONW_INIT(&b);
    python_put_json(&w, t);
    return command_print(&b, t->result->program.run.exit_code);
}

static int save(int folder, size_t number, const char *format, const void *data, size_t len) {
    char name[64];
    int r = str_format(name, sizeof name, "figure-%zu.%s", number, format);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd_write_all(fd, data, len);
}

static int save_figure(int folder, size_t number, const struct cay_python_figure *f) {
    int r = save(folder, number, f->format, f->data, f->len);
    return r < 0 || f->svg == NULL ? r : save(folder, number, "svg", f->svg, strlen(f->svg));
}

int python_save_figures(const struct cay_python_result *result, const char *folder,
                        struct cay_error *err) {
    (void)mkdir(folder, 0755); /* that it is there shows when it is opened */
    _cleanup_(closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : 0;
    for (size_t i = 0; r == 0 && i < result->figure_count; i++)
        r = save_figure(fd, i + 1, &result->figures[i]);
    if (r == 0)
        return 0;
    error_sys(err, -r, "saving figures in '%s'", folder);
    return error_remedy(err, "name a folder that you may write to in --figures");
}
