/* Reading and writing the files of a group. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/native/cgroup/backend.h"

enum { FILE_NAME_MAX = 64 };

int cgroup_open_file(const struct cgroup_hierarchy *hierarchy, const char *id, const char *file,
                     int flags) {
    char path[ID_SIZE + FILE_NAME_MAX];
    int r = str_format(path, sizeof path, "%s/%s", id, file);
    if (r < 0)
        return r;
    int fd = openat(hierarchy->parent, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

ssize_t cgroup_read(const struct cgroup_host *host, enum cgroup_controller controller,
                    const char *id, const char *file, char *text, size_t size) {
    if (host->where[controller] < 0)
        return -ENODEV;
    char path[ID_SIZE + FILE_NAME_MAX];
    int r = str_format(path, sizeof path, "%s/%s", id, file);
    if (r < 0)
        return r;
    return fd_read_file_at(host->hierarchies[host->where[controller]].parent, path, text, size);
}

int cgroup_write(const struct cgroup_host *host, enum cgroup_controller controller, const char *id,
                 const char *file, const char *text) {
    if (host->where[controller] < 0)
        return -ENODEV;
    char path[ID_SIZE + FILE_NAME_MAX];
    int r = str_format(path, sizeof path, "%s/%s", id, file);
    if (r < 0)
        return r;
    return fd_write_file_at(host->hierarchies[host->where[controller]].parent, path, text);
}

int cgroup_read_number(const struct cgroup_host *host, enum cgroup_controller controller,
                       const char *id, const char *file, uint64_t *ret) {
    char text[32];
    ssize_t n = cgroup_read(host, controller, id, file, text, sizeof text);
    return n < 0 ? (int)n : str_to_u64(text, UINT64_MAX, ret);
}

int cgroup_field(const char *text, const char *key, uint64_t *ret) {
    size_t len = strlen(key);
    for (; *text != '\0'; text = *text == '\n' ? text + 1 : text) {
        const char *end = strchrnul(text, '\n');
        char number[24];
        if (strncmp(text, key, len) == 0 && text[len] == ' ') {
            size_t digits = (size_t)(end - text) - len - 1;
            if (digits >= sizeof number)
                return -ERANGE;
            memcpy(number, text + len + 1, digits);
            number[digits] = '\0';
            return str_to_u64(number, UINT64_MAX, ret);
        }
        text = end;
    }
    return -ENOENT;
}

bool cgroup_has_word(const char *list, const char *word) {
    size_t len = strlen(word);
    while (*list != '\0') {
        size_t n = strcspn(list, " ");
        if (n == len && memcmp(list, word, n) == 0)
            return true;
        list += n + (list[n] == ' ');
    }
    return false;
}
