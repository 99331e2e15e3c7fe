/* Any bytes as the output of a program: the scroll-back never begins inside a thing, keeps what it
 * promises, and what resets the modes does. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "init/terminal/scrollback.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

static void check_modes(const struct vt *v) {
    struct vt fresh = {0}, after = *v;
    struct buf b = BUF_INIT(4096);
    vt_put_modes(v, &b);
    vt_feed(&fresh, buf_text(&b), b.len);
    require(fresh.modes == v->modes);
    buf_clear(&b);
    vt_put_reset(v, &b);
    vt_feed(&after, buf_text(&b), b.len);
    require(after.modes == 0 && vt_is_between(&after));
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { KEPT = 1024, ROUNDS = 64 };
    struct scrollback s;
    struct vt whole = {0};
    if (size == 0 || size > 4096)
        return 0;
    require(scrollback_init(&s, KEPT) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        size_t cut = data[0] * (size_t)i % (size + 1);
        scrollback_append(&s, (const char *)data, cut);
        scrollback_append(&s, (const char *)data + cut, size - cut);
        vt_feed(&whole, (const char *)data, size);
        require(s.end - s.begin <= s.size && vt_is_between(&s.at_begin));
        require(s.end == size * (size_t)(i + 1));
        require(s.begin == 0 || s.end - s.begin >= KEPT);
    }
    require(memcmp(&whole, &s.at_end, sizeof whole) == 0);
    check_modes(&s.at_begin);
    check_modes(&s.at_end);
    scrollback_free(&s);
    return 0;
}
