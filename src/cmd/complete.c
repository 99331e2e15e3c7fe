/* Shell completion scripts from option tables. The scripts ask the program itself only for the
 * candidates of operands; what it answers is taken as data, never evaluated. */
#include <string.h>

#include "base/error.h"
#include "cmd/complete.h"
#include "cmd/opt.h"

static void walk(const struct opt_program *p, const char *parent,
                 const struct opt_command *const *table, size_t count, opt_visit visit,
                 struct buf *b) {
    for (size_t i = 0; i < count; i++) {
        if (table[i]->hidden)
            continue;
        char words[OPT_WORDS_SIZE];
        if (str_format(words, sizeof words, "%s%s%s", parent, *parent != '\0' ? " " : "",
                       table[i]->name) < 0) {
            b->failed = true;
            return;
        }
        visit(p, parent, words, table[i], b);
        walk(p, words, table[i]->subcommands, opt_count_commands(table[i]->subcommands), visit, b);
    }
}

void opt_walk(const struct opt_program *p, opt_visit visit, struct buf *b) {
    walk(p, "", p->table, p->count, visit, b);
}

int opt_completion(const char *shell, const char *program, const struct opt_command *const *table,
                   size_t count, const struct opt *common, struct buf *b, struct cay_error *err) {
    static const struct {
        const char *name;
        void (*write)(const struct opt_program *p, struct buf *b);
    } shells[] = {
        {"bash", opt_complete_bash}, {"zsh", opt_complete_zsh}, {"fish", opt_complete_fish}};
    const struct opt_program p = {
        .name = program, .table = table, .count = count, .common = common};
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        if (strcmp(shell, shells[i].name) != 0)
            continue;
        shells[i].write(&p, b);
        return b->failed ? error_set(err, CAY_INTERNAL, "completion script too large") : 0;
    }
    char shown[80];
    error_set(err, CAY_INVALID_ARGUMENT, "no completion for shell '%s'",
              str_escape(shown, sizeof shown, shell));
    return error_remedy(err, "use bash, zsh or fish");
}
