/* cay-init runs from memory that nobody can write, so that a sandbox cannot replace the program
 * that the host will run next (CVE-2019-5736). */
#include "engine/init_memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/fd.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

extern const char init_blob_begin[], init_blob_end[];

/* Kernels before 6.3 know no MFD_EXEC and make every memfd executable. */
static int create(void) {
    int fd = memfd_create("cay-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("cay-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

int init_memfd_create(struct cay_error *err) {
    _cleanup_(closep) int fd = create();
    if (fd < 0)
        return error_errno(err, "making a memfd for cay-init");
    int r = fd_write_all(fd, init_blob_begin, (size_t)(init_blob_end - init_blob_begin));
    if (r < 0)
        return error_sys(err, -r, "writing cay-init to its memfd");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return error_errno(err, "sealing cay-init");
    /* A file that is open for writing cannot be executed. */
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int ro = open(path, O_RDONLY | O_CLOEXEC);
    return ro < 0 ? error_errno(err, "reopening cay-init") : ro;
}
