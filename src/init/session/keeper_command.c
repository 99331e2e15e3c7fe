/* The commands of a session: their streams, which the shell opens by name, their logs, their limits
 * and their ends. Each has pipes of its own, so what it leaves in the background goes on writing to
 * its log and to no other. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/session/keeper.h"
#include "init/user.h"

enum { FILE_NAME_MAX = 32, DRAINED_MAX = 64, TEXT_GROWTH = 5 /* by quotes */ };

static const char *const suffixes[KEEPER_STREAMS] = {"out", "err", "rep"};

struct command *command_running(const struct keeper *k) {
    struct command *last = k->command_count > 0 ? k->commands[k->command_count - 1] : NULL;
    return last != NULL && last->running ? last : NULL;
}

struct command *command_find(const struct keeper *k, uint64_t number) {
    for (size_t i = k->command_count; i-- > 0;)
        if (number == 0 || k->commands[i]->number == number)
            return k->commands[i];
    return NULL;
}

static const char *file_name(const struct command *c, const char *suffix,
                             char out[static FILE_NAME_MAX]) {
    (void)snprintf(out, FILE_NAME_MAX, "%llu.%s", (unsigned long long)c->number, suffix);
    return out;
}

/* A shell has nothing to report but how a command ended. */
static int stream_count(const struct keeper *k) {
    return k->start->driver != NULL ? KEEPER_STREAMS : KEEPER_REPORTS;
}

/* ---- files ---- */

static int make_pipe(struct keeper *k, const char *name, int flags) {
    struct stat st;
    if (mkfifoat(k->start->io, name, 0600) < 0)
        return -errno;
    _cleanup_(closep) int fd =
        openat(k->start->io, name, flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISFIFO(st.st_mode) ? TAKE_FD(fd) : -EINVAL; /* the user may play with names */
}

static int write_file(struct keeper *k, const struct command *c, const char *suffix,
                      const struct buf *b) {
    char name[FILE_NAME_MAX];
    if (b->failed)
        return -ENOMEM;
    _cleanup_(closep) int fd = openat(k->start->io, file_name(c, suffix, name),
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd_write_all(fd, b->data, b->len);
}

static void put_quoted(struct buf *b, const char *text) {
    (void)buf_putc(b, '\'');
    for (const char *p = text; *p != '\0'; p++)
        (void)(*p == '\'' ? buf_puts(b, "'\\''") : buf_putc(b, *p));
    (void)buf_putc(b, '\'');
}

static bool is_variable(const char *entry) {
    size_t len = strspn(entry, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return len > 0 && entry[len] == '=' && (entry[0] < '0' || entry[0] > '9');
}

/* Variables are for this command only: what bash sets before a built-in it forgets after it. */
static void put_for_shell(struct buf *b, const struct wire_message *m) {
    for (const char *e = NULL; (e = wire_next_string(m, WIRE_TAG_ENV, e)) != NULL;) {
        if (!is_variable(e))
            continue;
        size_t len = strcspn(e, "=") + 1;
        (void)buf_append(b, e, len);
        put_quoted(b, e + len);
        (void)buf_putc(b, ' ');
    }
    (void)buf_puts(b, "\\eval ");
    put_quoted(b, m->string[WIRE_TAG_TEXT]);
}

static int write_text(struct keeper *k, const struct command *c, const struct wire_message *m) {
    _cleanup_(buf_free) struct buf text = BUF_INIT((size_t)TEXT_GROWTH * WIRE_TEXT_MAX);
    _cleanup_(buf_free) struct buf env = BUF_INIT(WIRE_MESSAGE_MAX);
    bool is_driver = k->start->driver != NULL;
    if (!is_driver && m->count[WIRE_TAG_ENV] > 0)
        put_for_shell(&text, m);
    else
        (void)buf_puts(&text, m->string[WIRE_TAG_TEXT]);
    (void)buf_putc(&text, '\n');
    for (const char *e = NULL; (e = wire_next_string(m, WIRE_TAG_ENV, e)) != NULL;)
        (void)buf_append(&env, e, strlen(e) + 1);
    int r = write_file(k, c, "sh", &text);
    return r < 0 || !is_driver ? r : write_file(k, c, "env", &env);
}

/* What sets $? without a process, and without a function that a user could see. */
static int write_status(struct keeper *k, const struct command *c) {
    _cleanup_(buf_free) struct buf text = BUF_INIT(32);
    if (k->last_code == 0 || k->start->driver != NULL)
        return 0;
    (void)buf_printf(&text, "return %d\n", k->last_code);
    return write_file(k, c, "rc", &text);
}

/* What the shell opens; made with the user's rights, in his folder. */
static int make_streams(struct keeper *k, struct command *c, const struct wire_message *m) {
    char name[FILE_NAME_MAX];
    place_act_as(k->start->user);
    int r = write_text(k, c, m);
    if (r == 0)
        r = write_status(k, c);
    for (int i = 0; i < stream_count(k) && r >= 0; i++)
        r = c->out[i] = make_pipe(k, file_name(c, suffixes[i], name), O_RDONLY);
    if (r >= 0 && c->reads)
        r = c->in = make_pipe(k, file_name(c, "in", name), O_RDWR); /* waits for nobody */
    place_act_as(NULL);
    return r < 0 ? r : 0;
}

static void remove_streams(struct keeper *k, const struct command *c) {
    static const char *const all[] = {"sh", "rc", "env", "in", "out", "err", "rep"};
    char name[FILE_NAME_MAX];
    place_act_as(k->start->user);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        (void)unlinkat(k->start->io, file_name(c, all[i], name), 0); /* some are not there */
    place_act_as(NULL);
}

static int make_logs(struct keeper *k, struct command *c) {
    char name[FILE_NAME_MAX];
    for (int i = 0; i < stream_count(k); i++) {
        c->log[i] = openat(k->start->at.folder, file_name(c, suffixes[i], name),
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (c->log[i] < 0)
            return -errno;
    }
    return 0;
}

static void close_stream(struct command *c, int stream) {
    fd_close(&c->out[stream]);
    fd_close(&c->log[stream]);
}

void command_free(struct keeper *k, struct command *c) {
    char name[FILE_NAME_MAX];
    remove_streams(k, c);
    for (int i = 0; i < KEEPER_STREAMS; i++) {
        close_stream(c, i);
        (void)unlinkat(k->start->at.folder, file_name(c, suffixes[i], name), 0);
    }
    for (int i = 0; i < KEEPER_REPORTS; i++)
        spill_close(&c->spill[i]);
    fd_close(&c->in);
    buf_free(&c->input);
    tree_free(&c->before);
    free(c);
}

/* ---- logs ---- */

static void put_notice(struct command *c, int stream, const char *text) {
    if (fd_write_all(c->log[stream], text, strlen(text)) == 0)
        c->size[stream] += strlen(text);
}

static void put_end_of_file(struct command *c, int stream) {
    put_notice(c, stream, "[cay: that file has the beginning only; more is not kept]\n");
}

/* What does not fit into the log goes on in a file, behind a copy of the log, until the command
 * ends. There may be no room even for the copy. */
static void begin_spill(const struct keeper *k, struct command *c, int stream) {
    char name[FILE_NAME_MAX], notice[160];
    struct spill *s = &c->spill[stream];
    _cleanup_(closep) int log = openat(k->start->at.folder, file_name(c, suffixes[stream], name),
                                       O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    spill_open(s, k->start->user);
    spill_copy(s, log);
    (void)snprintf(notice, sizeof notice, "\n[cay: output beyond 8 MiB is not told%s%s]\n",
                   s->path[0] != '\0' ? "; all of it is in " : ", and there is no room for a file",
                   s->path);
    put_notice(c, stream, notice);
    if (s->path[0] != '\0' && s->fd < 0)
        put_end_of_file(c, stream);
}

static void spill(struct command *c, int stream, const char *data, size_t len) {
    if (stream != KEEPER_REPORTS && c->spill[stream].fd >= 0 &&
        !spill_write(&c->spill[stream], data, len))
        put_end_of_file(c, stream);
}

static void append_log(const struct keeper *k, struct command *c, int stream, const char *data,
                       size_t len) {
    if (!c->capped[stream]) {
        size_t part = MIN(len, (size_t)(KEEPER_LOG_MAX - c->size[stream]));
        bool full = fd_write_all(c->log[stream], data, part) < 0; /* the disk, then */
        if (!full)
            c->size[stream] += part;
        c->capped[stream] = full || part < len;
        if (!full && part < len && stream != KEEPER_REPORTS && c->running)
            begin_spill(k, c, stream);
        data += part;
        len -= part;
    }
    if (len > 0)
        spill(c, stream, data, len);
}

/* One read: true if there was something. */
static bool read_stream(struct keeper *k, struct command *c, int stream) {
    ssize_t n = read(c->out[stream], k->data, WIRE_DATA_MAX);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        close_stream(c, stream);
        return false;
    }
    append_log(k, c, stream, k->data, (size_t)n);
    c->quiet_deadline = clock_deadline(c->quiet_ms);
    return true;
}

void command_read(struct keeper *k, struct command *c, int stream) {
    (void)read_stream(k, c, stream);
}

size_t command_read_log(const struct keeper *k, const struct command *c, int stream,
                        uint64_t offset) {
    char name[FILE_NAME_MAX];
    if (offset >= c->size[stream])
        return 0;
    _cleanup_(closep) int fd = openat(k->start->at.folder, file_name(c, suffixes[stream], name),
                                      O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    size_t want = (size_t)MIN(c->size[stream] - offset, (uint64_t)WIRE_DATA_MAX);
    ssize_t n = fd < 0 ? -1 : pread(fd, k->data, want, (off_t)offset);
    return n > 0 ? (size_t)n : 0;
}

/* ---- the beginning ---- */

static uint64_t kept_bytes(const struct keeper *k) {
    uint64_t sum = 0;
    for (size_t i = 0; i < k->command_count; i++)
        for (int stream = 0; stream < KEEPER_STREAMS; stream++)
            sum += k->commands[i]->size[stream];
    return sum;
}

static void forget_oldest(struct keeper *k) {
    command_free(k, k->commands[0]);
    k->command_count--;
    memmove(k->commands, k->commands + 1, k->command_count * sizeof(struct command *));
}

/* Nothing runs now. What old commands left in the background writes to nobody from some time on. */
static void make_room(struct keeper *k) {
    while (k->command_count == KEEPER_COMMANDS ||
           (k->command_count > 0 && kept_bytes(k) > KEEPER_KEPT_MAX))
        forget_oldest(k);
    for (size_t i = 0; i + DRAINED_MAX < k->command_count; i++)
        for (int stream = 0; stream < KEEPER_STREAMS; stream++)
            close_stream(k->commands[i], stream);
}

static struct command *new_command(struct keeper *k, const struct wire_message *m) {
    struct command *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    *c = (struct command){
        .number = ++k->last_number,
        .running = true,
        .reads = m->number[WIRE_TAG_STDIN] != 0,
        .echoes = m->number[WIRE_TAG_ECHO] != 0,
        .in = -1,
        .out = {-1, -1, -1},
        .log = {-1, -1, -1},
        .spill = {SPILL_INIT, SPILL_INIT},
        .input = BUF_INIT(WIRE_INPUT_CREDIT + WIRE_DATA_MAX),
        .started_us = clock_us(),
        .wall_ms = clock_wall_ms(),
        .start_deadline = clock_ms() + KEEPER_START_MS,
        .wall_deadline = clock_deadline((int64_t)m->number[WIRE_TAG_TIMEOUT_MS]),
        .quiet_ms = (int64_t)m->number[WIRE_TAG_QUIET_MS],
    };
    c->quiet_deadline = clock_deadline(c->quiet_ms);
    (void)snprintf(c->text, sizeof c->text, "%s", m->string[WIRE_TAG_TEXT]);
    return c;
}

/* A new shell if there is none that takes it. */
static int give(struct keeper *k, struct command *c, struct cay_error *err) {
    tree_free(&c->before);
    c->before = tree_take();
    if (k->shell.pid > 0 && shell_give(k, c))
        return 0;
    if (k->shell.pid > 0)
        (void)kill(k->shell.pid, SIGKILL);
    c->restarted = k->had_shell;
    shell_close(k);
    int r = shell_start(k, err);
    if (r < 0)
        return r;
    tree_free(&c->before);
    c->before = tree_take();
    return shell_give(k, c)
               ? 0
               : error_set(err, CAY_UNAVAILABLE, "the session's shell takes no command");
}

int command_check_idle(const struct keeper *k, struct cay_error *err) {
    const struct command *busy = command_running(k);
    if (busy == NULL)
        return 0;
    error_set(err, CAY_CONFLICT, "the session is busy with command %llu",
              (unsigned long long)busy->number);
    return error_remedy(err, "wait for it ('cay session logs -f'), or use another session");
}

int command_start(struct keeper *k, const struct wire_message *m, struct command **ret,
                  struct cay_error *err) {
    if (m->string[WIRE_TAG_TEXT] == NULL)
        return error_set(err, CAY_INVALID_ARGUMENT, "no command given");
    int r = command_check_idle(k, err);
    if (r < 0)
        return r;
    make_room(k);
    struct command *c = new_command(k, m);
    if (c == NULL)
        return error_sys(err, ENOMEM, "keeping a command");
    r = make_logs(k, c);
    if (r == 0)
        r = make_streams(k, c, m);
    if (r < 0) {
        error_sys(err, -r, "making the files of the command");
        r = error_remedy(err, "make room in the sandbox, or delete the session and make it anew");
    } else {
        r = give(k, c, err);
    }
    if (r < 0) {
        command_free(k, c);
        return r;
    }
    k->commands[k->command_count++] = *ret = c;
    return 0;
}

bool command_again(struct keeper *k, struct command *c) {
    struct cay_error err = {0};
    if (c->opened || c->retried || c->reason != WIRE_REASON_EXIT)
        return false;
    c->retried = true;
    c->start_deadline = clock_ms() + KEEPER_START_MS;
    return give(k, c, &err) == 0;
}

void command_opened(struct keeper *k, struct command *c) {
    c->opened = true;
    c->start_deadline = 0;
    if (c->pending != 0)
        command_signal(k, c, c->pending);
}

/* The echo comes before anything that the command answers. */
int command_take_input(const struct keeper *k, struct command *c, const char *data, size_t len) {
    if (!c->running || c->in < 0) /* it reads no more: drop it, as a closed pipe does */
        return 0;
    int r = buf_append(&c->input, data, len);
    if (r == 0 && c->echoes && c->log[0] >= 0)
        append_log(k, c, 0, data, len);
    return r;
}

size_t command_feed(struct command *c) {
    size_t taken = 0;
    if (c->input.len > 0) {
        ssize_t n = write(c->in, c->input.data, c->input.len);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        taken = n < 0 ? c->input.len : (size_t)n;
        buf_consume(&c->input, taken);
    }
    if (c->input.len == 0 && c->input_ended)
        fd_close(&c->in);
    return taken;
}

/* ---- the end ---- */

void command_end(struct keeper *k, struct command *c, int status, int signal) {
    bool limit = c->reason != WIRE_REASON_EXIT;
    if (limit) /* what the shell waited for is gone, its own children may not be */
        tree_kill_since(k->group, &c->before, KEEPER_KILL_MS);
    for (int i = 0; i < KEEPER_STREAMS; i++)
        while (c->out[i] >= 0 && read_stream(k, c, i))
            ;
    for (int i = 0; i < KEEPER_STREAMS && !c->opened; i++)
        close_stream(c, i);
    for (int i = 0; i < KEEPER_REPORTS; i++)
        spill_close(&c->spill[i]);
    remove_streams(k, c);
    fd_close(&c->in);
    buf_free(&c->input);
    tree_free(&c->before);
    c->running = false;
    k->ended_ms = clock_ms();
    c->exit_code = limit ? 124 : status;
    c->signal = signal;
    k->last_code = c->exit_code;
    if (!limit && signal != 0)
        c->reason = WIRE_REASON_SIGNAL;
    c->elapsed_us = clock_us() - c->started_us;
    c->start_deadline = c->wall_deadline = c->quiet_deadline = c->kill_deadline = 0;
    c->quiet_ms = 0;
}

/* An interrupt must reach the shell and the child it waits for at one moment: bash ignores its own
 * if the child then ends in another way. */
void command_signal(struct keeper *k, struct command *c, int number) {
    shell_read(k); /* an interrupt after its end would be the next one's */
    if (!c->running)
        return;
    if (k->start->driver != NULL && !c->opened) { /* it may not be ready to hear it */
        c->pending = number;
        return;
    }
    if (number == SIGINT && k->shell.pid > 0 && k->start->driver == NULL) {
        tree_interrupt(k->shell.pid, &c->before);
        shell_ask_report(k, c);
        return;
    }
    if (number == SIGINT && k->shell.pid > 0) {
        (void)kill(k->shell.pid, SIGINT);
        shell_say_interrupt(k, c);
    }
    tree_signal(number, &c->before);
}

/* As a terminal does, more than once: a shell that is just starting a program may miss it. */
static void ask_to_end(struct keeper *k, struct command *c) {
    c->asked++;
    command_signal(k, c, SIGINT);
    if (c->running) /* from now on: finding the moment took its time */
        c->kill_deadline =
            clock_ms() + (k->start->driver != NULL ? KEEPER_DRIVER_ASK_MS : KEEPER_ASK_MS);
}

/* Its death ends the command. */
static void end_shell(struct keeper *k, struct command *c) {
    c->kill_deadline = c->start_deadline = 0;
    if (k->shell.pid > 0)
        (void)kill(k->shell.pid, SIGKILL);
    tree_signal(SIGKILL, &c->before);
}

/* A shell that does not come back in time is ended, and so is one that does not take commands up.
 */
void command_check_limits(struct keeper *k, struct command *c) {
    if (clock_expired(c->start_deadline) ||
        (clock_expired(c->kill_deadline) && c->asked == KEEPER_ASK_MAX)) {
        end_shell(k, c);
        return;
    }
    if (clock_expired(c->kill_deadline))
        ask_to_end(k, c);
    if (c->reason != WIRE_REASON_EXIT)
        return;
    if (clock_expired(c->wall_deadline))
        c->reason = WIRE_REASON_TIMEOUT;
    else if (clock_expired(c->quiet_deadline))
        c->reason = WIRE_REASON_QUIET;
    else
        return;
    c->wall_deadline = c->quiet_deadline = c->quiet_ms = 0;
    ask_to_end(k, c);
}

int64_t command_deadline(const struct command *c) {
    return clock_earlier(clock_earlier(c->start_deadline, c->kill_deadline),
                         clock_earlier(c->wall_deadline, c->quiet_deadline));
}
