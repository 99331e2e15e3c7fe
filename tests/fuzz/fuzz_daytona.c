/* Bodies of Daytona's requests: whatever they are, what is taken over is within its bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/shape/daytona_read.h"
#include "base/auto.h"
#include "base/error.h"
#include "manager/record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    struct cay_error err;
    struct sandbox_record r = {0};
    struct manager_update update = MANAGER_UPDATE_INIT;
    struct daytona_snapshot snapshot;
    char name[REFERENCE_TEXT_SIZE], image[32];
    _cleanup_(buf_free) struct buf body = BUF_INIT(1024 * 1024);
    if (buf_append(&body, input, size) < 0)
        return 0;
    struct daytona_build build = {0};
    if (daytona_read_create(&body, &r, &build, &err) == 0 &&
        (strlen(r.name) > NAME_MAX_LEN || (build.dockerfile != NULL && r.image_name[0] != '\0')))
        abort();
    daytona_build_free(&build);
    sandbox_record_free(&r);
    (void)daytona_read_update(&body, &update, &err);
    (void)daytona_read_resize(&body, &update, &err);
    (void)daytona_read_network(&body, &update, &err);
    sandbox_record_free(&update.to);
    strv_free(&update.unlabel);
    if (daytona_read_snapshot(&body, &snapshot, &err) == 0 &&
        (snapshot.build.dockerfile == NULL) == (snapshot.image[0] == '\0'))
        abort();
    daytona_build_free(&snapshot.build);
    (void)daytona_read_keep(&body, name, &err);
    if (daytona_read_from(buf_text(&body), image, sizeof image, &err) == 0 &&
        (image[0] == '\0' || strpbrk(image, " \t\n") != NULL))
        abort();
    return 0;
}
