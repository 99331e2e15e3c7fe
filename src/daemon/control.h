/* What supervisor and front tell each other, over a sequenced-packet socket pair. The supervisor
 * trusts nothing that comes from the front. */
#pragma once

#include <cay/errors.h>
#include <stdint.h>

#include "image/reference.h"
#include "image/store.h"

enum control_op {
    /* front to supervisor */
    CONTROL_READY = 1,  /* it serves */
    CONTROL_FAILED = 2, /* it could not start: err; it ends next */
    CONTROL_PULL = 3,   /* make sure that image `name` is there; with two descriptors: one for the
                         * answer, one for its progress. `number` is enum pull_how */
    CONTROL_RECORD = 4, /* the record of the image whose id is `name`; with a socket, which gets it
                         * as a descriptor, or is closed if there is none */
    /* Of these, where `other` is "backup", it is not about the archive but the backup. */
    CONTROL_ARCHIVE = 5,   /* archive the sandbox whose id is `name`; with two descriptors: one for
                            * the answer, one for its progress */
    CONTROL_RESTORE = 6,   /* the same backwards, onto a disk of `number` bytes */
    CONTROL_UNARCHIVE = 7, /* remove the archive of sandbox `name`; with one for the answer.
                            * `number` is not 0: only one that is being made */
    CONTROL_RELOADED = 8,  /* configuration `number` is taken over */
    CONTROL_REFUSED = 9,   /* it is not: err */
    CONTROL_STORE = 10,    /* what `number` (enum store_verb) says, by cay-image store with `name`
                            * and `other`; with one for the answer */
    CONTROL_BUILD = 11,    /* build an image and give it `name`, which must be free ("": none); with
                            * three: for the answer, for the log, and the Dockerfile to be read; and
                            * perhaps a socket with tars of what it may copy */
    CONTROL_EGRESS = 12, /* start cay-egress, in place of one that there may be; with its socket */
    CONTROL_ENGINE = 13, /* start the program of engine `number` (enum engine_kind), in place of one
                          * that there may be; with its socket */
    CONTROL_FIGURES = 14, /* measure the daemon's processes; with a socket for figures.h's answer */
    CONTROL_RELEASED = 15, /* it has let go of database, launcher and sockets; what is left are
                            * connections that it serves to their ends */
    CONTROL_KEY_GONE = 19, /* a key was removed: whoever serves connections of it has to end them */
    CONTROL_ALIVE = 20,    /* the front's watcher goes round, and the launcher answers */
    /* supervisor to front */
    CONTROL_LAUNCHER = 16, /* a new launcher; with its socket */
    CONTROL_DRAIN = 17,    /* finish; `number` is enum drain_how */
    CONTROL_RELOAD = 18, /* configuration `number`, packed, and perhaps a certificate; or only err:
                          * it is broken, and everything stays as it is */
};

/* Of CONTROL_DRAIN. */
enum drain_how {
    DRAIN_STOP,      /* clients who connect are told to try again */
    DRAIN_LEAVE,     /* they wait: the sockets are somebody else's, who will start another daemon */
    DRAIN_HAND_OVER, /* they wait for the next front; this one says CONTROL_RELEASED as soon as that
                      * can start */
};

/* Of CONTROL_PULL. */
enum pull_how {
    PULL_BY_CAY,    /* cay-image fetches it, if the policy says so */
    PULL_NOT,       /* it is not fetched */
    PULL_BY_ENGINE, /* with the engine's kind added: its program does, or takes what it has */
};

/* Of CONTROL_STORE. */
enum store_verb {
    STORE_LIST,   /* every image that the owner sees */
    STORE_NAME,   /* give image `name` the name `other` */
    STORE_UNNAME, /* remove `name` */
    STORE_KEEP,   /* make image `other` of the sandbox whose id is `name` */
    STORE_USAGE,  /* how much everybody has */
    STORE_ADOPT,  /* give the owner image `name`, an id, whoever has it, as `other` */
};

enum { CONTROL_FDS_MAX = 4 };

struct control_message {
    uint32_t op;
    char name[REFERENCE_TEXT_SIZE], other[REFERENCE_TEXT_SIZE];
    char owner[IMAGE_OWNER_SIZE]; /* of CONTROL_PULL, CONTROL_STORE and CONTROL_BUILD: for whom, as
                                   * struct image_store has it, */
    char made_by[IMAGE_OWNER_SIZE]; /* as is this, and: */
    uint64_t room;
    uint64_t number;
    struct cay_error err;
};

/* Sends one; fds stay open here. 0 or -errno. */
int control_send(int sock, const struct control_message *m, const int *fds, unsigned count);

/* Waits for the next one. fds beyond those that came are -1. 1, 0 if the other side is gone, or
 * -errno; -EPROTO for what is no message. Texts are terminated. */
int control_receive(int sock, struct control_message *ret, int fds[static CONTROL_FDS_MAX]);
