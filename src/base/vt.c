#include "base/vt.h"

#include "base/buf.h"

enum { GROUND, CHARACTER, ESCAPE, ESCAPE_MORE, CONTROL, STRING, STRING_ESCAPE };
enum { CAN = 0x18, SUB = 0x1a, ESC = 0x1b, BEL = 0x07 };

/* Private modes, the other screen first: going there changes the rest. */
static const struct {
    uint16_t number;
    bool on; /* at the beginning */
} modes[] = {
    {1049, false}, {1047, false}, {47, false},   {1, false},    {7, true},
    {9, false},    {25, true},    {1000, false}, {1002, false}, {1003, false},
    {1004, false}, {1005, false}, {1006, false}, {1015, false}, {2004, false},
};

enum {
    SCREENS = 7, /* bits of the first three */
    SOFT = 1 << 3 | 1 << 4 | 1 << 6,
    KEYPAD = 1 << 15,
};

/* ---- what sequences do ---- */

static void set_mode(struct vt *v, uint16_t number, bool on) {
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (modes[i].number != number)
            continue;
        uint32_t bit = UINT32_C(1) << i;
        v->modes = on != modes[i].on ? v->modes | bit : v->modes & ~bit;
    }
}

static void end_control(struct vt *v, char final) {
    if (v->mark == '?' && v->between == 0 && (final == 'h' || final == 'l'))
        for (unsigned i = 0; i < v->parameter_count; i++)
            set_mode(v, v->parameters[i], final == 'h');
    if (v->mark == 0 && v->between == '!' && final == 'p')
        v->modes &= ~(uint32_t)(SOFT | KEYPAD);
}

static void end_escape(struct vt *v, char final) {
    if (final == 'c')
        v->modes = 0;
    else if (final == '=')
        v->modes |= KEYPAD;
    else if (final == '>')
        v->modes &= ~(uint32_t)KEYPAD;
}

/* ---- where they begin and end ---- */

static void begin(struct vt *v, uint8_t state) {
    v->state = state;
    v->mark = v->between = 0;
    v->parameter_count = 0;
    v->parameters[0] = 0;
}

static void take_ground(struct vt *v, unsigned char c) {
    v->state = GROUND;
    v->length = 0;
    v->missing = (uint8_t)(c >= 0xf0 && c < 0xf8 ? 3 : c >= 0xe0 ? 2 : 1);
    if (c >= 0xc2 && c < 0xf8)
        v->state = CHARACTER;
    else if (c == ESC)
        begin(v, ESCAPE);
}

static void take_escape(struct vt *v, unsigned char c) {
    if (c == '[')
        begin(v, CONTROL);
    else if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_')
        v->state = STRING;
    else if (c >= 0x20 && c < 0x30)
        v->state = ESCAPE_MORE;
    else if (c >= 0x30) {
        v->state = GROUND;
        end_escape(v, (char)c);
    }
}

static void take_parameter(struct vt *v, unsigned char c) {
    if (v->parameter_count == 0)
        v->parameter_count = 1;
    if (c == ';' || c == ':') {
        if (v->parameter_count < VT_PARAMETERS)
            v->parameters[v->parameter_count++] = 0;
        return;
    }
    uint16_t *last = &v->parameters[v->parameter_count - 1];
    if (*last < 6000)
        *last = (uint16_t)(*last * 10 + (c - '0'));
}

static void take_control(struct vt *v, unsigned char c) {
    if (c >= 0x40 && c < 0x7f) {
        v->state = GROUND;
        end_control(v, (char)c);
    } else if (c >= '0' && c <= ';') {
        take_parameter(v, c);
    } else if (c >= '<' && c <= '?') {
        v->mark = (char)c;
    } else if (c >= 0x20 && c < 0x30) {
        v->between = (char)c;
    }
}

/* Strings may hold anything but what ends them. */
static void take_string(struct vt *v, unsigned char c) {
    if (v->state == STRING_ESCAPE && c != '\\') {
        begin(v, ESCAPE); /* the string was broken off */
        take_escape(v, c);
    } else if (v->state == STRING_ESCAPE || c == BEL) {
        v->state = GROUND;
    } else if (c == ESC) {
        v->state = STRING_ESCAPE;
    }
}

static void take_inside(struct vt *v, unsigned char c) {
    if (c == CAN || c == SUB || ++v->length >= VT_SEQUENCE_MAX)
        v->state = GROUND;
    else if (v->state == STRING || v->state == STRING_ESCAPE)
        take_string(v, c);
    else if (c == ESC)
        begin(v, ESCAPE);
    else if (v->state == CONTROL)
        take_control(v, c);
    else if (v->state == ESCAPE)
        take_escape(v, c);
    else if (c >= 0x30) /* the end of ESCAPE_MORE */
        v->state = GROUND;
}

static void take(struct vt *v, unsigned char c) {
    if (v->state == CHARACTER && (c & 0xc0) == 0x80)
        v->state = --v->missing == 0 ? GROUND : CHARACTER;
    else if (v->state == GROUND || v->state == CHARACTER)
        take_ground(v, c);
    else
        take_inside(v, c);
}

void vt_feed(struct vt *v, const char *data, size_t len) {
    for (size_t i = 0; i < len; i++)
        take(v, (unsigned char)data[i]);
}

bool vt_is_between(const struct vt *v) {
    return v->state == GROUND;
}

bool vt_has_other_screen(const struct vt *v) {
    return (v->modes & SCREENS) != 0;
}

/* ---- modes ---- */

/* Writes the modes of which = 1, as they are in v, or as they were at the beginning. */
static void put(const struct vt *v, uint32_t which, bool back, struct buf *out) {
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        uint32_t bit = UINT32_C(1) << i;
        bool on = ((v->modes & bit) != 0 && !back) != modes[i].on;
        if ((which & bit) != 0)
            (void)buf_printf(out, "\x1b[?%u%c", modes[i].number, on ? 'h' : 'l');
    }
    if ((which & KEYPAD) != 0)
        (void)buf_puts(out, (v->modes & KEYPAD) != 0 && !back ? "\x1b=" : "\x1b>");
}

void vt_put_modes(const struct vt *v, struct buf *out) {
    put(v, v->modes, false, out);
}

void vt_put_all_modes(const struct vt *v, struct buf *out) {
    (void)buf_printf(out, "%c\x1b[m", CAN); /* out of whatever was begun */
    put(v, UINT32_MAX, false, out);
}

void vt_put_reset(const struct vt *v, struct buf *out) {
    (void)buf_printf(out, "%c\x1b[m", CAN);
    put(v, v->modes, true, out);
}
