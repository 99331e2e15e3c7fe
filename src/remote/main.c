/* cay-remote: leads cay to daemons that are elsewhere. cay starts it; it is no program for people.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "remote/serve.h"

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1 || isatty(STDIN_FILENO)) {
        (void)fputs("cay-remote is started by cay; see 'cay help', --host\n", stderr);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    int code = fd_open_standard() < 0 ? 1 : serve(STDIN_FILENO);
    _exit(code); /* threads that have not ended hold what they use */
}
