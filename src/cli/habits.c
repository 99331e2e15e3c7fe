#include "cli/habits.h"

#include "engine/engines.h"
#include <string.h>

const struct opt_habit habits_verbs[] = {
    {"attach", "use 'cay terminal attach SANDBOX NAME', or 'cay shell SANDBOX'"},
    {"build", "use 'cay image build'"},
    {"commit", "use 'cay snapshot create SANDBOX NAME'"},
    {"compose", "cay runs sandboxes one by one: 'cay create', 'cay exec'"},
    {"container", "sandboxes need no group: 'cay ls', 'cay run', 'cay rm'"},
    {"df", "use 'cay stats', 'cay image ls'"},
    {"diff", "use 'cay snapshot create SANDBOX NAME' to keep what changed"},
    {"down", "use 'cay stop SANDBOX', or 'cay rm SANDBOX'"},
    {"events", "use 'cay logs -f SANDBOX' for one sandbox, 'cay audit -f' for all"},
    {"export", "use 'cay cp SANDBOX:/ FOLDER', or 'cay image export'"},
    {"fork", "use 'cay snapshot create SANDBOX NAME', then 'cay create --image NAME'"},
    {"get", "use 'cay info SANDBOX', or 'cay ls'"},
    {"history", "use 'cay image inspect IMAGE', or 'cay logs SANDBOX'"},
    {"images", "use 'cay image ls'"},
    {"import", "use 'cay image import'"},
    {"inspect", "use 'cay info -o json SANDBOX', or 'cay image inspect IMAGE'"},
    {"install", "use 'cay python --package NAME', or an image that has it"},
    {"kill", "use 'cay stop --grace 0 SANDBOX'"},
    {"load", "use 'cay image load'"},
    {"login", "use 'cay image login'"},
    {"logout", "use 'cay image logout'"},
    {"network", "networks are an option: 'cay run --network allow=LIST'"},
    {"new", "use 'cay create'"},
    {"port", "ports are reached by the API's preview URLs; see docs/api.md"},
    {"ports", "ports are reached by the API's preview URLs; see docs/api.md"},
    {"preview", "ports are reached by the API's preview URLs; see docs/api.md"},
    {"pull", "use 'cay image pull'"},
    {"push", "use 'cay image save', and push the archive with a registry client"},
    {"restart", "use 'cay stop SANDBOX', then 'cay start SANDBOX'"},
    {"rmi", "use 'cay image rm'"},
    {"sandbox", "sandboxes need no group: 'cay ls', 'cay create', 'cay rm'"},
    {"sandboxes", "use 'cay ls'"},
    {"save", "use 'cay image save', or 'cay archive SANDBOX'"},
    {"search", "cay cannot search registries; 'cay image pull NAME' fetches one image"},
    {"server", "use 'cay serve'"},
    {"snapshots", "use 'cay image ls': snapshots are images"},
    {"ssh", "use 'cay shell SANDBOX'"},
    {"status", "use 'cay daemon status', 'cay ls', or 'cay info SANDBOX'"},
    {"system", "use 'cay doctor', 'cay prune', 'cay image prune'"},
    {"tag", "use 'cay image tag'"},
    {"template", "templates are images: 'cay image ls', 'cay snapshot create'"},
    {"top", "use 'cay stats', or 'cay exec SANDBOX -- ps aux'"},
    {"unpause", "use 'cay resume SANDBOX'"},
    {"up", "use 'cay create', or 'cay start SANDBOX'"},
    {"upload", "use 'cay cp FILE SANDBOX:PATH'"},
    {"download", "use 'cay cp SANDBOX:PATH FILE'"},
    {"volumes", "use 'cay volume ls'"},
    {"wait", "use 'cay rm --wait SANDBOX', or wait for the command itself: 'cay exec'"},
    {0},
};

#define NO_MORE_RIGHTS                                                                             \
    "a sandbox never gets more rights over the host; --profile build gives package managers "      \
    "what they need"
#define NO_PORTS                                                                                   \
    "ports are reached by the API's preview URLs, without being opened; see docs/api.md"
#define IN_BACKGROUND                                                                              \
    "use 'cay create', then 'cay session create SANDBOX NAME' and "                                \
    "'cay session exec --async SANDBOX NAME -- COMMAND'"

const struct opt_habit habits_options[] = {
    {"--add-host", "names are resolved by the proxy of --network allow=LIST"},
    {"--cap-add", NO_MORE_RIGHTS},
    {"--cap-drop", "sandboxes have no capability already; omit it"},
    {"--cpu-shares", "use --cpus N"},
    {"--detach", IN_BACKGROUND},
    {"-d", IN_BACKGROUND},
    {"--device", NO_MORE_RIGHTS},
    {"--dns", "names are resolved by the proxy of --network allow=LIST"},
    {"--gpus", "sandboxes have no GPU; omit it"},
    {"--init", "every sandbox has an init already; omit it"},
    {"--ipc", NO_MORE_RIGHTS},
    {"--memory-swap", "sandboxes do not swap; use --memory SIZE"},
    {"--mount", "use -v HOST:BOX[:ro]"},
    {"--net", "use --network none, or --network allow=LIST"},
    {"--pid", NO_MORE_RIGHTS},
    {"--pids-limit", "use --pids N"},
    {"--platform", "images are of this machine's architecture; omit it"},
    {"-p", NO_PORTS},
    {"-P", NO_PORTS},
    {"--publish", NO_PORTS},
    {"--privileged", NO_MORE_RIGHTS},
    {"--restart", "use 'cay create --on-failure recreate'"},
    {"--runtime", "use --engine " ENGINE_CHOICES},
    {"--security-opt", NO_MORE_RIGHTS},
    {"--shm-size", "/dev/shm counts as memory; use --memory SIZE"},
    {"--stop-timeout", "use 'cay stop --grace TIME'"},
    {"--tmpfs", "/tmp is writable already; omit it"},
    {"--ulimit", "use --pids N, --memory SIZE, --disk SIZE"},
    {"--userns", "every sandbox has a user namespace already; omit it"},
    {0},
};

/* Names that people use without a tag. */
static const char *const well_known[] = {
    "alpine", "amazonlinux", "archlinux", "busybox", "centos",  "debian",     "fedora",
    "golang", "mysql",       "nginx",     "node",    "openjdk", "postgres",   "python",
    "redis",  "rockylinux",  "ruby",      "rust",    "ubuntu",  "hello-world"};

bool habits_is_image(const char *word) {
    for (size_t i = 0; i < ARRAY_LEN(well_known); i++)
        if (strcmp(word, well_known[i]) == 0)
            return true;
    if (word[0] == '/' || word[0] == '.' || strpbrk(word, " \t\n;|&$=") != NULL)
        return false; /* a path, or a line for a shell */
    const char *tag = strrchr(word, ':');
    return (tag != NULL && tag != word && tag[1] != '\0') || strchr(word, '/') != NULL;
}
