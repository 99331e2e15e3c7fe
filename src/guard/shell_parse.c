#include "guard/shell_parse.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "guard/shell_words.h"

/* Where in `case SUBJECT in PATTERN) BODY ;; esac` the list is. */
enum case_part { CASE_SUBJECT, CASE_PATTERN, CASE_BODY };

struct list {
    char closer;
    bool done;
    bool command; /* a command may begin here, so keywords count */
    bool body;    /* the body of a function must begin here */
    size_t words; /* of the current command */
    enum case_part cases[SHELL_MAX_DEPTH];
    size_t case_count;
    struct buf word;
};

static void skip_blanks(struct shell *s) {
    for (;;) {
        int c = shell_peek(s, 0);
        if (c == ' ' || c == '\t')
            s->at++;
        else if (c == '\\' && shell_peek(s, 1) == '\n')
            s->at += 2;
        else
            return;
    }
}

static void skip_comment(struct shell *s) {
    while (s->at < s->end && *s->at != '\n')
        s->at++;
}

static int end_command(struct shell *s, struct list *l, const char *op) {
    l->command = true;
    l->body = false;
    l->words = 0;
    return s->fn(s->arg, SHELL_END, op);
}

static int end_list(struct shell *s, struct list *l, char closer) {
    if (l->closer != closer || l->case_count > 0)
        return -EINVAL;
    l->done = true;
    return end_command(s, l, ";");
}

/* Reads one word into l->word. */
static int read_word(struct shell *s, struct list *l, bool *ret_quoted) {
    buf_clear(&l->word);
    return shell_word(s, &l->word, ret_quoted);
}

static int nested(struct shell *s, struct list *l, const char *kind, char closer) {
    int r = s->fn(s->arg, SHELL_ENTER, kind);
    if (r == 0)
        r = shell_list(s, closer);
    l->command = true;
    l->body = false;
    return r != 0 ? r : s->fn(s->arg, SHELL_LEAVE, "");
}

/* After "<<": the delimiter, without its quotes. */
static int open_heredoc(struct shell *s) {
    if (s->heredoc_count == SHELL_MAX_HEREDOCS)
        return -E2BIG;
    struct shell_heredoc *h = &s->heredocs[s->heredoc_count++];
    h->strip_tabs = shell_peek(s, 0) == '-';
    s->at += h->strip_tabs;
    skip_blanks(s);
    const char *start = s->at;
    char quote = '\0';
    size_t len = 0;
    for (; s->at < s->end; s->at++) {
        char c = *s->at;
        if (quote == '\0' && strchr(" \t\n;&|<>()", c) != NULL)
            break;
        if (c == quote)
            quote = '\0';
        else if (quote == '\0' && (c == '\'' || c == '"'))
            quote = c;
        else if (len + 1 == sizeof h->delimiter)
            return -E2BIG;
        else if (c != '\\' || quote != '\0')
            h->delimiter[len++] = c;
    }
    h->delimiter[len] = '\0';
    return s->at == start || quote != '\0' ? -EINVAL : 0;
}

/* Moves behind the body of a here-document, which is data. */
static void skip_body(struct shell *s, const struct shell_heredoc *h) {
    size_t len = strlen(h->delimiter);
    while (s->at < s->end) {
        const char *line = s->at;
        const char *eol = memchr(line, '\n', (size_t)(s->end - line));
        eol = eol != NULL ? eol : s->end;
        s->at = eol < s->end ? eol + 1 : eol;
        while (h->strip_tabs && line < eol && *line == '\t')
            line++;
        if ((size_t)(eol - line) == len && memcmp(line, h->delimiter, len) == 0)
            return;
    }
}

static int newline(struct shell *s, struct list *l) {
    s->at++;
    bool body = l->body; /* a function's body may begin on the next line */
    int r = end_command(s, l, ";");
    l->body = body;
    for (size_t i = 0; i < s->heredoc_count; i++)
        skip_body(s, &s->heredocs[i]);
    s->heredoc_count = 0;
    return r;
}

/* The word after a redirection, reported as `event`; read-only ones are not reported. */
static int redirect_target(struct shell *s, struct list *l, int event) {
    skip_blanks(s);
    bool quoted;
    const char *start = s->at;
    int r = read_word(s, l, &quoted);
    if (r != 0)
        return r;
    if (s->at == start)
        return -EINVAL;
    return event < 0 ? 0 : s->fn(s->arg, (enum shell_event)event, buf_text(&l->word));
}

static int redirect_in(struct shell *s, struct list *l) {
    int event = -1;
    s->at++;
    int c = shell_peek(s, 0);
    if (c == '<' && shell_peek(s, 1) == '<') {
        s->at += 2;
    } else if (c == '<') {
        s->at++;
        return open_heredoc(s);
    } else if (c == '>') {
        s->at++;
        event = SHELL_WRITE;
    } else if (c == '&') {
        s->at++;
    }
    return redirect_target(s, l, event);
}

static int redirect_out(struct shell *s, struct list *l) {
    int event = SHELL_WRITE;
    s->at++;
    int c = shell_peek(s, 0);
    if (c == '>' || c == '|' || c == '&')
        s->at++;
    if (c == '>')
        event = SHELL_APPEND;
    int next = shell_peek(s, 0);
    if (c == '&' && (next == '-' || isdigit(next)))
        event = -1; /* 2>&1 names a descriptor */
    return redirect_target(s, l, event);
}

/* ;; ;& ;;& end a branch of a case. */
static int end_branch(struct shell *s, struct list *l) {
    if (l->case_count == 0)
        return -EINVAL;
    bool three = shell_peek(s, 1) == ';' && shell_peek(s, 2) == '&';
    s->at += three ? 3 : 2;
    l->cases[l->case_count - 1] = CASE_PATTERN;
    return end_command(s, l, ";");
}

static int operator_token(struct shell *s, struct list *l, int c) {
    int next = shell_peek(s, 1);
    if (c == ';' && (next == ';' || next == '&'))
        return end_branch(s, l);
    if (c == '&' && next == '>') {
        s->at++;
        return redirect_out(s, l);
    }
    const char *op = c == ';' ? ";" : c == '&' ? "&" : "|";
    s->at++;
    if (c != ';' && next == c) {
        s->at++;
        op = c == '&' ? "&&" : "||";
    } else if (c == '|' && next == '&') {
        s->at++;
    }
    return end_command(s, l, op);
}

/* True, and behind it, if an empty pair of parentheses is next. */
static bool empty_parentheses(struct shell *s) {
    const char *start = s->at;
    skip_blanks(s);
    if (shell_peek(s, 0) == '(') {
        s->at++;
        skip_blanks(s);
        if (shell_peek(s, 0) == ')') {
            s->at++;
            return true;
        }
    }
    s->at = start;
    return false;
}

static int begin_function(struct shell *s, struct list *l) {
    l->body = true;
    l->command = true;
    l->words = 0;
    return s->fn(s->arg, SHELL_FUNCTION, "");
}

static int open_parenthesis(struct shell *s, struct list *l) {
    if (l->words == 1 && empty_parentheses(s))
        return begin_function(s, l);
    s->at++;
    return nested(s, l, "(", ')');
}

static int add_word(struct shell *s, struct list *l) {
    l->words++;
    l->command = false;
    return s->fn(s->arg, SHELL_WORD, buf_text(&l->word));
}

static int function_keyword(struct shell *s, struct list *l) {
    bool quoted;
    skip_blanks(s);
    int r = read_word(s, l, &quoted);
    if (r == 0)
        r = add_word(s, l);
    if (r != 0)
        return r;
    (void)empty_parentheses(s);
    return begin_function(s, l);
}

static int begin_case(struct list *l) {
    if (l->case_count == ARRAY_LEN(l->cases))
        return -E2BIG;
    l->cases[l->case_count++] = CASE_SUBJECT;
    l->command = false;
    return 0;
}

/* The words after which a command begins just as before them. */
static bool transparent_keyword(const char *word) {
    static const char *const words[] = {"if",    "then", "elif", "else", "fi",   "while",
                                        "until", "do",   "done", "!",    "time", "coproc"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* Acts on l->word if it is a keyword; *ret_known says whether it was one. */
static int keyword(struct shell *s, struct list *l, bool *ret_known) {
    const char *word = buf_text(&l->word);
    *ret_known = true;
    if (strcmp(word, "{") == 0)
        return nested(s, l, "{", '}');
    if (strcmp(word, "}") == 0)
        return end_list(s, l, '}');
    if (strcmp(word, "case") == 0)
        return begin_case(l);
    if (strcmp(word, "function") == 0)
        return function_keyword(s, l);
    if (strcmp(word, "esac") == 0 && l->case_count > 0) {
        l->case_count--;
        return end_command(s, l, ";");
    }
    *ret_known = transparent_keyword(word);
    return 0;
}

/* The digits of 2>file, or {name}>file. */
static bool descriptor_of_redirect(const struct shell *s, const char *word) {
    int next = shell_peek(s, 0);
    if (next != '<' && next != '>')
        return false;
    size_t len = strlen(word);
    return word[strspn(word, "0123456789")] == '\0' || (word[0] == '{' && word[len - 1] == '}');
}

static int word_token(struct shell *s, struct list *l) {
    bool quoted, known = false;
    int r = read_word(s, l, &quoted);
    if (r == 0 && l->command && !quoted)
        r = keyword(s, l, &known);
    if (r != 0 || known)
        return r;
    const char *word = buf_text(&l->word);
    if (l->case_count > 0 && l->cases[l->case_count - 1] == CASE_SUBJECT) {
        if (strcmp(word, "in") == 0)
            l->cases[l->case_count - 1] = CASE_PATTERN;
        return 0;
    }
    if (!quoted && descriptor_of_redirect(s, word))
        return 0;
    r = add_word(s, l);
    if (r == 0 && shell_peek(s, 0) == '(' && str_ends(word, "=")) {
        s->at++;
        r = nested(s, l, "=", ')');
    }
    return r;
}

/* A token of PATTERN) in a case. */
static int pattern_token(struct shell *s, struct list *l, int c) {
    enum case_part *part = &l->cases[l->case_count - 1];
    if (c == '#') {
        skip_comment(s);
        return 0;
    }
    if (c == '\n' || c == '(' || c == '|' || c == ')') {
        s->at++;
        if (c == ')') {
            *part = CASE_BODY;
            l->command = true;
        }
        return 0;
    }
    if (strchr(";&<>", c) != NULL)
        return -EINVAL;
    bool quoted;
    int r = read_word(s, l, &quoted);
    if (r == 0 && !quoted && strcmp(buf_text(&l->word), "esac") == 0) {
        l->case_count--;
        return end_command(s, l, ";");
    }
    return r;
}

static int token(struct shell *s, struct list *l) {
    skip_blanks(s);
    int c = shell_peek(s, 0);
    if (c < 0)
        return end_list(s, l, '\0');
    if (l->case_count > 0 && l->cases[l->case_count - 1] == CASE_PATTERN)
        return pattern_token(s, l, c);
    bool process = (c == '<' || c == '>') && shell_peek(s, 1) == '(';
    switch (process ? 0 : c) {
    case '\n':
        return newline(s, l);
    case '#':
        skip_comment(s);
        return 0;
    case ';':
    case '&':
    case '|':
        return operator_token(s, l, c);
    case '<':
        return redirect_in(s, l);
    case '>':
        return redirect_out(s, l);
    case '(':
        return open_parenthesis(s, l);
    case ')':
        s->at++;
        return end_list(s, l, ')');
    case '{':
        if (!l->body)
            break;
        s->at++; /* after f() the brace needs no blank in some shells */
        return nested(s, l, "{", '}');
    default:
        break;
    }
    return word_token(s, l);
}

int shell_list(struct shell *s, char closer) {
    if (++s->depth > SHELL_MAX_DEPTH)
        return -E2BIG;
    struct list l = {.closer = closer, .command = true, .word = BUF_INIT(SHELL_MAX_TEXT)};
    int r = 0;
    while (r == 0 && !l.done)
        r = token(s, &l);
    buf_free(&l.word);
    s->depth--;
    return r;
}

int shell_parse(const char *text, int depth, shell_event_fn fn, void *arg) {
    size_t len = strnlen(text, SHELL_MAX_TEXT + 1);
    if (len > SHELL_MAX_TEXT)
        return -E2BIG;
    struct shell s = {.at = text, .end = text + len, .depth = depth, .fn = fn, .arg = arg};
    return shell_list(&s, '\0');
}
