#include "lib/python/language.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/str.h"

const char *const language_names[] = {"auto", "bash", "c",          "c++",        "cpp",  "go",
                                      "java", "js",   "javascript", "node",       "perl", "python",
                                      "ruby", "sh",   "ts",         "typescript", NULL};

const char language_missing[] = "cay: this image has nothing that runs it";

/* What every script begins with. $1 is the file's name, $2 its length, $3 the seconds that a
 * compiler has; then come the program's arguments. It answers on descriptor 3, which no program
 * gets. It stays, to remove the folder; signals are the program's. */
static const char prelude[] =
    "name=$1 size=$2 limit=$3; shift 3\n"
    "say() { echo \"$*\" >&3; }\n"
    "finish() { rm -rf \"$dir\"; exit \"$1\"; }\n"
    "missing() { say missing; [ -z \"$merged\" ] || echo \"$merged\"; finish 127; }\n"
    "has() { command -v \"$1\" >/dev/null 2>&1; }\n"
    "use() { for tool; do has \"$tool\" && say tool \"$tool\" && return; done; missing; }\n"
    "run() { say begin; \"$@\" 3>&-; finish $?; }\n"
    "compile() {\n"
    "  has timeout && set -- timeout \"$limit\" \"$@\"\n"
    "  read -r from _ </proc/uptime\n"
    "  (cd \"$dir\" && exec \"$@\") </dev/null >&2 3>&-\n"
    "  code=$?\n"
    "  read -r to _ </proc/uptime\n"
    "  say compiled \"$from\" \"$to\"\n"
    "  case $1.$code in\n"
    "    *.0) return ;;\n"
    "    timeout.124 | timeout.143) say late; finish 124 ;;\n"
    "    *) finish \"$code\" ;;\n"
    "  esac\n"
    "}\n"
    "trap : HUP INT QUIT TERM USR1 USR2\n"
    "dir=${TMPDIR:-/tmp}/cay-$$\n"
    "mkdir -m 700 \"$dir\" 2>/dev/null || dir=$(mktemp -d) || exit 125\n"
    "file=$dir/$name\n"
    "if [ \"$size\" = 0 ]; then : >\"$file\"; else\n"
    "  dd bs=\"$size\" count=1 iflag=fullblock of=\"$file\" 2>/dev/null ||\n"
    "    head -c \"$size\" >\"$file\" || finish 125\n"
    "fi\n";

/* Code that is no module runs as if it lay in the work folder, so that it finds what is there. */
#define NODE                                                                                       \
    "node_run() {\n"                                                                               \
    "  [ ! -d node_modules ] || ln -s \"$PWD/node_modules\" \"$dir/node_modules\"\n"               \
    "  case $1 in *.mjs) run node \"$@\" ;; esac\n"                                                \
    "  if grep -Eq '^[[:space:]]*(import[[:space:]{*\"'\\'']|export[[:space:]{*])' \"$1\" &&\n"    \
    "    ! grep -q 'require(' \"$1\"; then\n"                                                      \
    "    code=${1%.*}.mjs; mv \"$1\" \"$code\"; shift; run node \"$code\" \"$@\"\n"                \
    "  fi\n"                                                                                       \
    "  cat >\"$dir/run.cjs\" <<'END'\n"                                                            \
    "const M = require('module'), path = require('path'), from = process.argv[2];\n"               \
    "const file = path.join(process.cwd(), path.basename(from)), m = new M(file, null);\n"         \
    "process.argv.splice(1, 2, file);\n"                                                           \
    "m.filename = file;\n"                                                                         \
    "m.paths = M._nodeModulePaths(process.cwd());\n"                                               \
    "process.mainModule = M._cache[file] = m;\n"                                                   \
    "m._compile(require('fs').readFileSync(from, 'utf8'), file);\n"                                \
    "END\n"                                                                                        \
    "  run node \"$dir/run.cjs\" \"$@\"\n"                                                         \
    "}\n"

/* A class that is public decides what its file is called; the first one has main() else. */
#define JAVA                                                                                       \
    "use javac\n"                                                                                  \
    "has java || missing\n"                                                                        \
    "class() { sed -nE \"s/^$1(class|record|enum|interface) +//p\" \"$file\" |\n"                  \
    "  sed 's/[^A-Za-z0-9_].*//;q'; }\n"                                                           \
    "words='(final|abstract|sealed|strictfp) +'\n"                                                 \
    "main=$(class \"public +($words)*\")\n"                                                        \
    "if [ -n \"$main\" ] && [ \"$main.java\" != \"$name\" ]; then\n"                               \
    "  mv \"$file\" \"$dir/$main.java\"; name=$main.java; file=$dir/$name\n"                       \
    "fi\n"                                                                                         \
    "[ -n \"$main\" ] || main=$(class \"($words)*\")\n"                                            \
    "package=$(sed -nE 's/^package +([A-Za-z0-9_.]+) *;.*/\\1./p' \"$file\" | head -n 1)\n"        \
    "compile javac -cp \"$PWD\" -d classes \"$name\"\n"                                            \
    "run java -cp \"$dir/classes:$PWD\" \"$package${main:-Main}\" \"$@\"\n"

#define COMPILED                                                                                   \
    "compile \"$tool\" -g -O1 -pthread -iquote \"$PWD\" -o program \"$name\" -lm\n"                \
    "run \"$dir/program\" \"$@\"\n"

static const struct language languages[] = {
    {"bash",
     {"sh"},
     {".sh", ".bash"},
     true,
     "bash",
     "use bash sh; run \"$tool\" \"$file\" \"$@\"\n"},
    {"c", {NULL}, {".c"}, false, "gcc", "use gcc clang cc\n" COMPILED},
    {"cpp", {"c++"}, {".cpp", ".cc", ".cxx"}, false, "gcc", "use g++ clang++ c++\n" COMPILED},
    {"go",
     {NULL},
     {".go"},
     false,
     "golang",
     "use go gccgo\n"
     "[ \"$tool\" = go ] || compile gccgo -g -O1 -o program \"$name\"\n"
     "[ \"$tool\" != go ] || compile go build -o program \"$name\"\n"
     "run \"$dir/program\" \"$@\"\n"},
    {"java", {NULL}, {".java"}, false, "eclipse-temurin", JAVA},
    {"javascript",
     {"node", "js"},
     {".js", ".mjs", ".cjs"},
     false,
     "node",
     NODE "use node bun\n"
          "[ \"$tool\" != bun ] || run bun run \"$file\" \"$@\"\n"
          "node_run \"$file\" \"$@\"\n"},
    {"perl", {NULL}, {".pl"}, true, "perl", "use perl; run perl -I \"$PWD\" \"$file\" \"$@\"\n"},
    {"python",
     {NULL},
     {".py"},
     true,
     "python",
     "use python3 python; run \"$tool\" -u \"$file\" \"$@\"\n"},
    {"ruby", {NULL}, {".rb"}, true, "ruby", "use ruby; run ruby -I \"$PWD\" \"$file\" \"$@\"\n"},
    {"typescript",
     {"ts"},
     {".ts", ".mts", ".cts"},
     false,
     "oven/bun",
     NODE "[ ! -d node_modules ] || PATH=$PWD/node_modules/.bin:$PATH\n"
          "for tool in tsx ts-node bun; do\n"
          "  has $tool && say tool $tool && run $tool \"$file\" \"$@\"\n"
          "done\n"
          "has deno && say tool deno && run deno run -A \"$file\" \"$@\"\n"
          "has node || missing\n"
          "if has tsc; then\n"
          "  say tool tsc\n"
          "  [ ! -d node_modules ] || ln -s \"$PWD/node_modules\" \"$dir/node_modules\"\n"
          "  compile tsc --outDir out --target es2022 --module commonjs --skipLibCheck \"$name\"\n"
          "  for file in \"$dir\"/out/*; do node_run \"$file\" \"$@\"; done\n"
          "fi\n"
          "strip='node --no-warnings --experimental-strip-types'\n"
          "$strip -e 0 >/dev/null 2>&1 </dev/null || missing\n"
          "say tool node\n"
          "run $strip \"$file\" \"$@\"\n"},
};

/* ---- finding ---- */

static bool has_name(const struct language *l, const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(l->aliases) && l->aliases[i] != NULL; i++)
        if (str_equal(l->aliases[i], name))
            return true;
    return str_equal(l->name, name);
}

static bool has_suffix(const struct language *l, const char *path) {
    for (size_t i = 0; i < ARRAY_LEN(l->suffixes) && l->suffixes[i] != NULL; i++)
        if (str_ends(path, l->suffixes[i]))
            return true;
    return false;
}

const struct language *language_find(const char *name) {
    for (size_t i = 0; name != NULL && i < ARRAY_LEN(languages); i++)
        if (has_name(&languages[i], name))
            return &languages[i];
    return NULL;
}

const struct language *language_of_file(const char *path) {
    for (size_t i = 0; i < ARRAY_LEN(languages); i++)
        if (has_suffix(&languages[i], path))
            return &languages[i];
    return NULL;
}

int language_refuse(const char *name, struct cay_error *err) {
    char shown[64];
    error_set(err, CAY_INVALID_ARGUMENT, "language: '%s' is not known",
              str_escape(shown, sizeof shown, name != NULL ? name : ""));
    return error_remedy(err, "use bash, c, cpp, go, java, javascript, perl, python, ruby or "
                             "typescript");
}

/* ---- running ---- */

static bool is_plain(const char *name) {
    size_t len = strlen(name);
    for (const char *p = name; *p != '\0'; p++)
        if (isalnum((unsigned char)*p) == 0 && strchr("._+-", *p) == NULL)
            return false;
    return len > 0 && len <= LANGUAGE_NAME_MAX && name[0] != '-' && name[0] != '.';
}

/* What the file is called inside: as outside, if compilers and the shell make nothing else of it.
 */
static int file_name(const struct language *l, const char *path, char *ret, size_t size) {
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : path;
    if (name != NULL && is_plain(name) && (l->any_name || has_suffix(l, name)))
        return str_copy(ret, size, name);
    return str_format(ret, size, "code%s", l->suffixes[0]);
}

int language_argv(const struct language *l, const struct language_request *q, struct strv *ret,
                  struct cay_error *err) {
    char name[LANGUAGE_NAME_MAX + 1];
    int64_t ms = q->compile_ms > 0 ? q->compile_ms : LANGUAGE_COMPILE_MS;
    int r = file_name(l, q->name, name, sizeof name);
    if (r == 0)
        r = strv_push(ret, "/bin/sh");
    if (r == 0)
        r = strv_push(ret, "-c");
    if (r == 0 && q->merges)
        r = strv_pushf(ret, "exec 2>&1 3>/dev/null\nmerged='%s'\n%s%s", language_missing, prelude,
                       l->script);
    else if (r == 0)
        r = strv_pushf(ret, "merged=\n%s%s", prelude, l->script);
    if (r == 0)
        r = strv_push(ret, "sh");
    if (r == 0)
        r = strv_push(ret, name);
    if (r == 0)
        r = strv_pushf(ret, "%zu", q->code_len);
    if (r == 0)
        r = strv_pushf(ret, "%lld", (long long)((ms + 999) / 1000));
    for (const char *const *arg = q->args; r == 0 && arg != NULL && *arg != NULL; arg++)
        r = strv_push(ret, *arg);
    return r < 0 ? error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory") : 0;
}
