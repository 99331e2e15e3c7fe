#include "cli/session/session_list.h"

#include "base/error.h"
#include "cli/sandbox.h"

enum { TEXT_MAX = 8 * 1024 * 1024 };

int session_list_begin(struct session_list *l, struct session_verb *v, const char *const *heads,
                       size_t columns) {
    *l = (struct session_list){
        .json = v->common->output == OUTPUT_JSON, .columns = columns, .text = BUF_INIT(TEXT_MAX)};
    l->w = (struct jsonw)JSONW_INIT(&l->text);
    if (l->json)
        jsonw_begin_array(&l->w);
    for (size_t i = 0; i < columns; i++)
        if (strv_push(&l->cells, heads[i]) < 0)
            return error_set(&v->err, CAY_RESOURCE_EXHAUSTED, "no memory");
    return 0;
}

static int print(struct session_list *l) {
    if (l->json) {
        jsonw_end_array(&l->w);
        (void)buf_putc(&l->text, '\n');
    } else {
        sandbox_put_columns(&l->text, (const char *const *)l->cells.v, l->cells.len / l->columns,
                            l->columns);
    }
    return verb_print(&l->text);
}

int session_list_end(struct session_list *l, const struct session_verb *v, int r) {
    int code = r < 0 ? session_fail(v, 0) : print(l);
    strv_free(&l->cells);
    buf_free(&l->text);
    return code;
}
