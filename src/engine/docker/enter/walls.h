/* The walls of a container that has a network: put up in its own network namespace by its first
 * process, which gives up the right to change them before anything of the sandbox runs. */
#pragma once

struct docker_walls;

/* Lets nothing out but to public addresses of IPv4, by rules of nf_tables; and to port 53 of the
 * name servers. All of it or -errno. Where no network is wanted: -ENOTUNIQ if there is one. */
int walls_put_up(const struct docker_walls *w);
