#include "wire/client_command.h"

#include <string.h>

#include "base/error.h"
#include "wire/call.h"

enum { ANSWER_MAX = 16 * 1024 };

static int take_message(const struct wire_frame *f, struct wire_command_event *ret,
                        struct cay_error *err) {
    struct wire_message m;
    int r = wire_call_parse(f, ANSWER_MAX, &m, err);
    if (r < 0)
        return r;
    switch (f->type) {
    case WIRE_STARTED:
        ret->kind = WIRE_COMMAND_STARTED;
        ret->outcome.started = true;
        ret->outcome.number = m.number[WIRE_TAG_NUMBER];
        ret->outcome.restarted = m.number[WIRE_TAG_RESTARTED] != 0;
        return 1;
    case WIRE_CREDIT:
        ret->kind = WIRE_COMMAND_CREDITS;
        ret->credits = MIN(m.number[WIRE_TAG_COUNT], (uint64_t)WIRE_INPUT_CREDIT);
        return 1;
    case WIRE_ENTRY:
        if (m.string[WIRE_TAG_PATH] == NULL)
            return wire_call_broken(err, "a file without a name");
        ret->kind = WIRE_COMMAND_CHANGE;
        ret->data = m.string[WIRE_TAG_PATH];
        ret->len = strlen(ret->data);
        ret->size = m.number[WIRE_TAG_SIZE];
        ret->created = m.number[WIRE_TAG_CREATED] != 0;
        return 1;
    case WIRE_DONE:
        ret->kind = WIRE_COMMAND_ENDED;
        exec_read_end(&m, &ret->outcome);
        return 1;
    case WIRE_ERROR:
        return wire_call_error(&m, err);
    default:
        return wire_call_broken(err, "an unexpected frame");
    }
}

int wire_command_next(struct wire_reader *r, struct wire_command_event *ret,
                      struct cay_error *err) {
    struct wire_frame f;
    int n = wire_reader_next(r, &f);
    if (n <= 0)
        return n < 0 ? wire_call_broken(err, "a malformed frame") : 0;
    *ret = (struct wire_command_event){
        .kind = f.type == WIRE_REPORT ? WIRE_COMMAND_REPORT : WIRE_COMMAND_OUTPUT,
        .is_stderr = f.type == WIRE_STDERR,
        .data = f.data,
        .len = f.len,
    };
    bool is_data = f.type == WIRE_STDOUT || f.type == WIRE_STDERR || f.type == WIRE_REPORT;
    return is_data ? 1 : take_message(&f, ret, err);
}
