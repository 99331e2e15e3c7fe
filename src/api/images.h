/* What clients may do with the images of this machine; done by whoever has them. Each may take
 * long, in the caller's thread. */
#pragma once

#include <stdint.h>

struct buf;
struct cay_error;

/* What is to be built. The descriptors stay the caller's. */
struct image_build_order {
    const char *owner;   /* whose image it will be, as in struct image_ops */
    const char *made_by; /* the same */
    const char *name;    /* what the image will be called, which must be free; "": nothing */
    uint64_t room;       /* bytes that may be fetched for it; 0: any number */
    int dockerfile;      /* to be read */
    int contexts;        /* a socket with tars of what it may copy; -1: none */
    int log;             /* where its lines go */
    int cancel;          /* it is given up when this is readable: -CAY_CONFLICT */
};

/* `owner` is whose images they are: the id of a key or an organisation, or "" for whoever sees all
 * (images_owner); `made_by` the key of an organisation that pays for them, else "" (images_maker).
 */
struct image_ops {
    /* Appends a line "ok", and one for each name that the owner sees: NAME, id, bytes, time of
     * making and owner ("": public), separated by tabs. */
    int (*list)(void *user, const char *owner, struct buf *text, struct cay_error *err);
    /* Makes sure that an image is there, and gives it a further name, which the owner must not have
     * yet. */
    int (*name)(void *user, const char *owner, const char *made_by, const char *image,
                const char *name, struct cay_error *err);
    /* Takes a name of the owner away, and the image with its last one. */
    int (*unname)(void *user, const char *owner, const char *name, struct cay_error *err);
    /* Makes an image of a sandbox that stands still; the owner must not have the name yet. */
    int (*keep)(void *user, const char *owner, const char *made_by, const char *sandbox,
                const char *name, struct cay_error *err);
    /* Builds an image. -CAY_TIMEOUT if it takes longer than configured. */
    int (*build)(void *user, const struct image_build_order *order, char id[static 65],
                 struct cay_error *err);
    /* A build of this key waits or runs from now on, until give_build. NULL: it is not charged.
     */
    int (*take_build)(void *user, const char *key, struct cay_error *err);
    void (*give_build)(void *user, const char *key);
    void *user;
};
