#include "cmd/image_verbs.h"

static const char *const progress_names[] = {"auto", "plain", "json", NULL};
static const char *const network_names[] = {"none", NULL};
const char *const image_policy_names[] = {"missing", "always", "never", NULL};

/* Rows that several verbs have; `in` is where their values hold the members: "registry." or
 * nothing.
 */
#define PROGRESS_ROW(type, in)                                                                     \
    {                                                                                              \
        .name = "progress", OPT_TO_CHOICE(type, in progress), .arg = "HOW",                        \
        .choices = progress_names,                                                                 \
        .help = "how standard error tells how far it is; auto is bars on a terminal, else plain",  \
    }
#define CA_ROW(type, in)                                                                           \
    {                                                                                              \
        .name = "ca", OPT_TO_STRING(type, in ca_file), .arg = "FILE",                              \
        .help = "trust the certificates in this file (PEM) too", .complete = OPT_COMPLETE_FILE,    \
    }
#define INSECURE_ROW(type, in)                                                                     \
    {                                                                                              \
        .name = "insecure", OPT_TO_FLAG(type, in insecure),                                        \
        .help = "accept plain HTTP and unknown certificates",                                      \
    }
#define PLATFORM_ROW(type, in)                                                                     \
    {                                                                                              \
        .name = "platform", OPT_TO_STRING(type, in platform), .arg = "OS/ARCH[/VARIANT]",          \
        .help = "which one of an image for several; the default is this machine's",                \
    }
#define OWNER_ROW(type, member)                                                                    \
    {                                                                                              \
        .name = "owner", OPT_TO_STRING(type, member), .arg = "KEY",                                \
        .help = "act as the key with this id: on its images, and on public ones to read",          \
    }
/* What a key of an organisation makes is the organisation's. The daemon gives both. */
#define MADE_BY_ROW(type, member)                                                                  \
    {                                                                                              \
        .name = "made-by", OPT_TO_STRING(type, member), .arg = "KEY",                              \
        .help = "the key of the owner, an organisation, that pays", .hidden = true,                \
    }
#define ROOM_ROW(type, member)                                                                     \
    {                                                                                              \
        .name = "room", OPT_TO_SIZE(type, member), .arg = "BYTES",                                 \
        .help = "how much may be fetched for the owner", .hidden = true,                           \
    }
#define POLICY_ROW(type, in)                                                                       \
    {                                                                                              \
        .name = "pull", OPT_TO_CHOICE(type, in policy), .arg = "POLICY",                           \
        .choices = image_policy_names, .help = "when the registry is asked",                       \
    }

/* ---- what is there ---- */

static const struct opt owner_options[] = {
    OWNER_ROW(struct verb_common, owner),
    {0},
};

const struct opt_command verb_image_ls = {
    .name = "ls",
    .aliases = (const char *const[]){"list", NULL},
    .path = "cay image ls",
    .synopsis = "[OPTIONS]",
    .summary = "list images",
    .help = "An image with several names has a line for each. With -q only the names are printed, "
            "and the id of an image without a public one. Images of keys have an owner.",
    .options = owner_options,
    .values_size = sizeof(struct verb_common),
};

const struct opt_command verb_image_inspect = {
    .name = "inspect",
    .path = "cay image inspect",
    .synopsis = "[OPTIONS] IMAGE",
    .summary = "print all that is known of an image, as JSON",
    .examples = "cay image inspect python:3.12-slim\n",
    .options = owner_options,
    .min_operands = 1,
    .max_operands = 1,
    .candidates = "image ls -q",
    .values_size = sizeof(struct verb_common),
};

static const struct opt rm_options[] = {
    {.letter = 'f',
     .name = "force",
     OPT_TO_FLAG(struct image_rm_options, force),
     .help = "with an id: remove its names too"},
    OWNER_ROW(struct image_rm_options, common.owner),
    {0},
};

const struct opt_command verb_image_rm = {
    .name = "rm",
    .is_destructive = true,
    .aliases = (const char *const[]){"remove", NULL},
    .path = "cay image rm",
    .synopsis = "[OPTIONS] IMAGE...",
    .summary = "remove names of images, and images with their last name",
    .help = "The files of a removed image are freed by 'cay image prune'. An image that a sandbox "
            "uses loses its name and stays until then.",
    .examples = "cay image rm python:3.12-slim\n"
                "cay image rm -f 3fa1c0de\n",
    .options = rm_options,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .candidates = "image ls -q",
    .values_size = sizeof(struct image_rm_options),
};

const struct opt_command verb_image_tag = {
    .name = "tag",
    .path = "cay image tag",
    .synopsis = "[OPTIONS] IMAGE NAME",
    .summary = "give an image one more name",
    .help = "If another image has the name, it loses it.",
    .examples = "cay image tag python:3.12-slim team/python:stable\n",
    .min_operands = 2,
    .max_operands = 2,
    .candidates = "image ls -q",
    .values_size = sizeof(struct verb_common),
};

static const struct opt public_options[] = {
    {.name = "private",
     OPT_TO_FLAG(struct image_public_options, is_private),
     .help = "make it private: keys without the scope admin do not find it any more"},
    OWNER_ROW(struct image_public_options, common.owner),
    {0},
};

const struct opt_command verb_image_public = {
    .name = "public",
    .path = "cay image public",
    .synopsis = "[OPTIONS] NAME",
    .summary = "make an image public or private",
    .help = "Every key of the daemon finds a public image. What is loaded, pulled or built here or "
            "with a key of the scope admin is public, what other keys make is theirs alone. With "
            "--owner the image that this key has under the name gets the same public name.",
    .examples = "cay image public --private team/base:1\n"
                "cay image public --owner 0f1e2d3c4b5a6978 tools:2\n",
    .options = public_options,
    .min_operands = 1,
    .max_operands = 1,
    .candidates = "image ls -q",
    .values_size = sizeof(struct image_public_options),
};

static const struct opt prune_options[] = {
    {.letter = 'a',
     .name = "all",
     OPT_TO_FLAG(struct image_prune_options, all),
     .help = "images without a name too"},
    {.letter = 'n',
     .name = "dry-run",
     OPT_TO_FLAG(struct image_prune_options, dry_run),
     .help = "only say what would be removed"},
    {0},
};

const struct opt_command verb_image_prune = {
    .name = "prune",
    .is_destructive = true,
    .path = "cay image prune",
    .synopsis = "[OPTIONS]",
    .summary = "free what no image needs",
    .help = "Removes layers and downloads that belong to no image, and what killed programs left. "
            "What a sandbox uses stays.",
    .options = prune_options,
    .values_size = sizeof(struct image_prune_options),
};

/* ---- registries ---- */

static const struct opt pull_options[] = {
    POLICY_ROW(struct image_registry_options, ),   PLATFORM_ROW(struct image_registry_options, ),
    CA_ROW(struct image_registry_options, ),       INSECURE_ROW(struct image_registry_options, ),
    PROGRESS_ROW(struct image_registry_options, ), {0},
};

/* Of verbs that the daemon starts for its clients. */
static const struct opt ensure_options[] = {
    OWNER_ROW(struct image_registry_options, common.owner),
    MADE_BY_ROW(struct image_registry_options, common.made_by),
    ROOM_ROW(struct image_registry_options, common.room),
    POLICY_ROW(struct image_registry_options, ),
    PLATFORM_ROW(struct image_registry_options, ),
    CA_ROW(struct image_registry_options, ),
    INSECURE_ROW(struct image_registry_options, ),
    PROGRESS_ROW(struct image_registry_options, ),
    {0},
};

static const struct image_registry_options registry_defaults = {.policy = -1};

const struct opt_command verb_image_pull = {
    .name = "pull",
    .path = "cay image pull",
    .synopsis = "[OPTIONS] NAME",
    .summary = "fetch an image from its registry",
    .help = "The registry is asked whether the name means another image by now (--pull always), "
            "unless the name is an alias of the configuration. What was fetched before, by this "
            "or by a killed pull, is not fetched again. Prints the image's id.",
    .examples = "cay image pull python:3.12-slim\n"
                "cay image pull --ca ca.pem registry.example:5000/team/tool@sha256:…\n",
    .options = pull_options,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct image_registry_options),
    .defaults = &registry_defaults,
};

/* What `cay run --image` starts: the id of an image that is there for sure, on standard output. */
const struct opt_command verb_image_ensure = {
    .name = "ensure",
    .path = "cay image ensure",
    .synopsis = "[OPTIONS] IMAGE",
    .summary = "make sure that an image is there, and print its id",
    .options = ensure_options,
    .hidden = true,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct image_registry_options),
    .defaults = &registry_defaults,
};

/* What cay-docker starts: who we are to a registry, as Docker wants to hear it. */
const struct opt_command verb_image_credential = {
    .name = "credential",
    .path = "cay image credential",
    .synopsis = "[OPTIONS] REGISTRY",
    .summary = "print the credential for a registry",
    .options = pull_options,
    .hidden = true,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct image_registry_options),
    .defaults = &registry_defaults,
};

const struct opt_command verb_image_snapshot = {
    .name = "snapshot",
    .path = "cay image snapshot",
    .synopsis = "[OPTIONS] SANDBOX-ID NAME",
    .summary = "make an image of a sandbox that stands still",
    .hidden = true,
    .min_operands = 2,
    .max_operands = 2,
    .values_size = sizeof(struct verb_common),
};

#define BACKUP_ROW                                                                                 \
    {                                                                                              \
        .name = "backup", OPT_TO_FLAG(struct image_restore_options, backup),                       \
        .help = "the backup of a sandbox, which may stand still"                                   \
    }

static const struct opt archive_options[] = {
    {.name = "max",
     OPT_TO_SIZE(struct image_restore_options, max_bytes),
     .arg = "SIZE",
     .help = "larger than this it is not kept"},
    BACKUP_ROW,
    {0},
};

/* What the daemon starts to archive and restore a sandbox. */
const struct opt_command verb_image_archive = {
    .name = "archive",
    .path = "cay image archive",
    .synopsis = "[OPTIONS] SANDBOX-ID",
    .summary = "write the archive of a sandbox that does not run",
    .hidden = true,
    .options = archive_options,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct image_restore_options),
};

static const struct opt restore_options[] = {
    {.name = "disk",
     OPT_TO_SIZE(struct image_restore_options, disk_bytes),
     .arg = "SIZE",
     .help = "limit of the sandbox's disk"},
    BACKUP_ROW,
    {0},
};

const struct opt_command verb_image_restore = {
    .name = "restore",
    .path = "cay image restore",
    .synopsis = "[OPTIONS] SANDBOX-ID",
    .summary = "make the files of a sandbox again from its archive",
    .hidden = true,
    .options = restore_options,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct image_restore_options),
};

/* What the daemon starts for its clients: it answers in lines, failures too. */
static const struct opt store_options[] = {
    OWNER_ROW(struct verb_common, owner),
    MADE_BY_ROW(struct verb_common, made_by),
    ROOM_ROW(struct verb_common, room),
    {0},
};

const struct opt_command verb_image_store = {
    .name = "store",
    .path = "cay image store",
    .synopsis = "[OPTIONS] list | usage | name IMAGE NAME | adopt ID NAME | unname NAME | keep "
                "SANDBOX-ID NAME",
    .summary = "look at the store, or change a name in it",
    .options = store_options,
    .hidden = true,
    .min_operands = 1,
    .max_operands = 3,
    .values_size = sizeof(struct verb_common),
};

static const struct opt login_options[] = {
    {.letter = 'u',
     .name = "user",
     OPT_TO_STRING(struct image_login_options, user),
     .arg = "NAME",
     .help = "who you are there"},
    {.name = "password-stdin",
     OPT_TO_FLAG(struct image_login_options, password_stdin),
     .help = "read the password from standard input"},
    CA_ROW(struct image_login_options, registry.),
    INSECURE_ROW(struct image_login_options, registry.),
    {0},
};

const struct opt_command verb_image_login = {
    .name = "login",
    .path = "cay image login",
    .synopsis = "[OPTIONS] REGISTRY",
    .summary = "keep a user and password for a registry",
    .help = "They are tried first, and kept in a file that only you can read. What is missing is "
            "asked for on a terminal.",
    .examples = "cay image login -u ann registry.example:5000\n"
                "pass registry | cay image login -u ann --password-stdin docker.io\n",
    .options = login_options,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct image_login_options),
};

const struct opt_command verb_image_logout = {
    .name = "logout",
    .path = "cay image logout",
    .synopsis = "[OPTIONS] REGISTRY",
    .summary = "forget the user and password for a registry",
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct verb_common),
};

/* ---- files ---- */

static const struct opt load_options[] = {
    {.letter = 'i',
     .name = "input",
     OPT_TO_STRING(struct image_file_options, file),
     .arg = "FILE|DIR",
     .help = "the archive or OCI folder; the default is standard input",
     .complete = OPT_COMPLETE_FILE},
    PROGRESS_ROW(struct image_file_options, ),
    {0},
};

const struct opt_command verb_image_load = {
    .name = "load",
    .path = "cay image load",
    .synopsis = "[OPTIONS]",
    .summary = "take images from an archive",
    .help = "Takes what 'docker save' and 'cay image save' write, and OCI layouts as a tar or a "
            "folder, compressed or not. Prints the id and the names of each image.",
    .examples = "cay image load -i images.tar\n"
                "docker save python:3.12-slim | cay image load\n",
    .options = load_options,
    .values_size = sizeof(struct image_file_options),
};

static const struct opt file_options[] = {
    {.letter = 'f',
     .name = "file",
     OPT_TO_STRING(struct image_file_options, file),
     .arg = "FILE",
     .help = "write here; the default is standard output, if that is no terminal",
     .complete = OPT_COMPLETE_FILE},
    PROGRESS_ROW(struct image_file_options, ),
    {0},
};

const struct opt_command verb_image_save = {
    .name = "save",
    .path = "cay image save",
    .synopsis = "[OPTIONS] IMAGE...",
    .summary = "write images to an archive",
    .help = "The archive is an OCI layout that 'docker load' takes too. FILE is complete or not "
            "there.",
    .examples = "cay image save -f images.tar python:3.12-slim\n"
                "cay image save team/tool | ssh other cay image load\n",
    .options = file_options,
    .min_operands = 1,
    .max_operands = OPT_OPERANDS_ANY,
    .candidates = "image ls -q",
    .values_size = sizeof(struct image_file_options),
};

static const struct opt import_options[] = {
    {.letter = 'c',
     .name = "change",
     OPT_TO_STRINGS(struct image_file_options, changes),
     .arg = "INSTRUCTION",
     .help = "apply a Dockerfile instruction such as 'CMD [\"sh\"]'"},
    PROGRESS_ROW(struct image_file_options, ),
    {0},
};

const struct opt_command verb_image_import = {
    .name = "import",
    .path = "cay image import",
    .synopsis = "[OPTIONS] FILE|- [NAME]",
    .summary = "make an image of a root file system's tar",
    .help = "Instructions: CMD, ENTRYPOINT, ENV, EXPOSE, LABEL, USER, VOLUME, WORKDIR. Prints the "
            "image's id.",
    .examples = "cay image import rootfs.tar.zst team/base:1\n"
                "tar -C root -c . | cay image import -c 'CMD [\"sh\"]' - team/base\n",
    .options = import_options,
    .min_operands = 1,
    .max_operands = 2,
    .values_size = sizeof(struct image_file_options),
};

const struct opt_command verb_image_export = {
    .name = "export",
    .path = "cay image export",
    .synopsis = "[OPTIONS] IMAGE",
    .summary = "write the whole file tree of an image as one tar",
    .help = "FILE is complete or not there.",
    .examples = "cay image export python:3.12-slim | tar t\n",
    .options = file_options,
    .min_operands = 1,
    .max_operands = 1,
    .candidates = "image ls -q",
    .values_size = sizeof(struct image_file_options),
};

/* ---- build ---- */

static const struct opt build_options[] = {
    {.letter = 'f',
     .name = "file",
     OPT_TO_STRING(struct image_build_options, file),
     .arg = "FILE",
     .help = "the Dockerfile; - is standard input; the default is Dockerfile in CONTEXT",
     .complete = OPT_COMPLETE_FILE},
    {.letter = 't',
     .name = "tag",
     OPT_TO_STRINGS(struct image_build_options, tags),
     .arg = "NAME",
     .help = "a name of the image"},
    {.name = "build-arg",
     OPT_TO_STRINGS(struct image_build_options, args),
     .arg = "KEY=VALUE",
     .help = "the value of an ARG"},
    {.letter = 'l',
     .name = "label",
     OPT_TO_STRINGS(struct image_build_options, labels),
     .arg = "KEY=VALUE",
     .help = "a label of the image"},
    {.name = "target",
     OPT_TO_STRING(struct image_build_options, target),
     .arg = "STAGE",
     .help = "stop after this stage"},
    {.name = "no-cache",
     OPT_TO_FLAG(struct image_build_options, no_cache),
     .help = "make every layer anew"},
    {.name = "network",
     OPT_TO_CHOICE(struct image_build_options, network),
     .arg = "MODE",
     .choices = network_names,
     .help = "what RUN reaches"},
    {.letter = 'm',
     .name = "memory",
     OPT_TO_SIZE(struct image_build_options, memory),
     .arg = "SIZE",
     .help = "memory of each RUN; the default is that of sandboxes"},
    {.name = "cpus",
     OPT_TO_NUMBER(struct image_build_options, cpus),
     .arg = "N",
     .min = 0.01,
     .max = 4096,
     .help = "processors of each RUN; the default is that of sandboxes"},
    {.name = "pull",
     OPT_TO_FLAG(struct image_build_options, pull),
     .help = "ask the registries for newer base images"},
    PLATFORM_ROW(struct image_build_options, registry.),
    CA_ROW(struct image_build_options, registry.),
    INSECURE_ROW(struct image_build_options, registry.),
    PROGRESS_ROW(struct image_build_options, registry.),
    {.name = "owner",
     OPT_TO_STRING(struct image_build_options, registry.common.owner),
     .arg = "KEY",
     .help = "whose image it becomes",
     .hidden = true}, /* for `make` */
    MADE_BY_ROW(struct image_build_options, registry.common.made_by),
    ROOM_ROW(struct image_build_options, registry.common.room),
    {0},
};

static const struct image_build_options build_defaults = {.registry.policy = -1};

const struct opt_command verb_image_build = {
    .name = "build",
    .path = "cay image build",
    .synopsis = "[OPTIONS] CONTEXT",
    .summary = "build an image from a Dockerfile",
    .help = "CONTEXT is the folder that COPY and ADD read; - is none, with the Dockerfile on "
            "standard input. Each RUN happens in a sandbox without network. The log goes to "
            "standard error, the image's id to standard output.",
    .examples = "cay image build -t team/tool:1 .\n"
                "cay image build -f tool.dockerfile --build-arg VERSION=3 -t team/tool src\n",
    .options = build_options,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct image_build_options),
    .defaults = &build_defaults,
};

/* What the daemon starts for its clients: the same, but what it says is an answer in lines, and a
 * name that is taken is refused. */
const struct opt_command verb_image_make = {
    .name = "make",
    .path = "cay image make",
    .synopsis = "[OPTIONS] CONTEXT",
    .summary = "build an image, and print its id",
    .options = build_options,
    .hidden = true,
    .min_operands = 1,
    .max_operands = 1,
    .values_size = sizeof(struct image_build_options),
    .defaults = &build_defaults,
};

const struct opt_command *const verb_image_all[] = {&verb_image_ls,         &verb_image_inspect,
                                                    &verb_image_pull,       &verb_image_build,
                                                    &verb_image_tag,        &verb_image_rm,
                                                    &verb_image_public,     &verb_image_prune,
                                                    &verb_image_load,       &verb_image_save,
                                                    &verb_image_import,     &verb_image_export,
                                                    &verb_image_login,      &verb_image_logout,
                                                    &verb_image_ensure,     &verb_image_make,
                                                    &verb_image_snapshot,   &verb_image_archive,
                                                    &verb_image_restore,    &verb_image_store,
                                                    &verb_image_credential, NULL};
