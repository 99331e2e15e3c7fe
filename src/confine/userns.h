/* User namespaces: the id range of a sandbox, the maps of its volumes, and becoming root of a
 * namespace of one's own when the caller is an ordinary user. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cay_error;

/* One line of a map: `count` ids from `inside` are those from `outside` of the parent. */
struct id_map {
    uint32_t inside;
    uint32_t outside;
    uint32_t count;
};

/* A user namespace with these maps, nested ones forbidden; nobody is in it. Needs CAP_SETUID in the
 * parent namespace (host root). Returns its descriptor or negative. */
int userns_create(const struct id_map *uids, const struct id_map *gids, struct cay_error *err);

/* How many processes a sandbox may have whatever its control group says: seven eighths of what the
 * host has, so that some are always left for the host. Any number if that cannot be found out; who
 * leaves the host's /proc behind asks before. */
uint32_t userns_process_ceiling(void);

/* The same in two halves, between which the kernel works while the caller does other things: the
 * second returns the descriptor. One that was begun must be finished or given up. */
struct userns_making {
    pid_t pid; /* 0: none */
    int word;
    bool is_map; /* nobody will ever be in it, so that nested ones need not be forbidden */
    struct id_map uids, gids;
};
#define USERNS_MAKING_NONE ((struct userns_making){.word = -1})
int userns_begin(const struct id_map *uids, const struct id_map *gids, struct userns_making *ret,
                 struct cay_error *err);
int userns_finish(struct userns_making *m, struct cay_error *err);
void userns_give_up(struct userns_making *m);

/* What an ordinary user's namespace offers. */
struct userns_self {
    bool ranges; /* 65,536 ids by newuidmap; otherwise the caller's own id only */
};

/* Enters a new user namespace in which the caller is root, together with a mount namespace of its
 * own. The caller must have one thread. Cannot be undone. */
int userns_become_root(struct userns_self *ret, struct cay_error *err);
/* The same in a user namespace that the caller made earlier. */
int userns_join_root(int ns, struct userns_self *ret, struct cay_error *err);
