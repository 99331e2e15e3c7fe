/* The command guard over tables of command lines. Nothing here is ever executed: the guard is a
 * pure function of its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "guard/guard.h"

struct line {
    const char *text;
    enum guard_rule rule;
};

static void check_line(const struct line *l, const char *work_dir) {
    struct guard_hit hit;
    int r = guard_check_shell(l->text, work_dir, &hit);
    if (hit.rule != l->rule || r != (l->rule != GUARD_NONE))
        fail_msg("'%s': result %d, rule %s ('%s'), expected rule %d", l->text, r, hit.name,
                 hit.words, l->rule);
    assert_non_null(hit.name);
    if (r == 1 && (hit.reason[0] == '\0' || hit.instead[0] == '\0' || hit.words[0] == '\0'))
        fail_msg("'%s': a hit without words, reason or advice", l->text);
}

#define CHECK_LINES(lines)                                                                         \
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)                                                  \
    check_line(&(lines)[i], NULL)

static const struct line removals_lines[] = {
    {"rm -rf /", GUARD_REMOVE_SYSTEM},
    {"rm -fr /", GUARD_REMOVE_SYSTEM},
    {"rm -r /", GUARD_REMOVE_SYSTEM},
    {"rm -R /", GUARD_REMOVE_SYSTEM},
    {"rm  -r   -f  /", GUARD_REMOVE_SYSTEM},
    {"rm\t-rf\t/", GUARD_REMOVE_SYSTEM},
    {"rm / -rf", GUARD_REMOVE_SYSTEM},
    {"rm -rf -- /", GUARD_REMOVE_SYSTEM},
    {"rm -rvf /", GUARD_REMOVE_SYSTEM},
    {"rm --recursive --force /", GUARD_REMOVE_SYSTEM},
    {"rm --rec --fo /", GUARD_REMOVE_SYSTEM},
    {"rm -rf /*", GUARD_REMOVE_SYSTEM},
    {"rm -rf /.", GUARD_REMOVE_SYSTEM},
    {"rm -rf //", GUARD_REMOVE_SYSTEM},
    {"rm -rf /../", GUARD_REMOVE_SYSTEM},
    {"rm -rf /tmp/..", GUARD_REMOVE_SYSTEM},
    {"rm -rf /workspace/../../etc", GUARD_REMOVE_SYSTEM},
    {"rm -rf /./.", GUARD_REMOVE_SYSTEM},
    {"rm -rf /etc", GUARD_REMOVE_SYSTEM},
    {"rm -rf /usr/", GUARD_REMOVE_SYSTEM},
    {"rm -rf /bin /lib", GUARD_REMOVE_SYSTEM},
    {"rm -rf /tmp/x /boot", GUARD_REMOVE_SYSTEM},
    {"rm -rf /var/*", GUARD_REMOVE_SYSTEM},
    {"rm -rf /home", GUARD_REMOVE_SYSTEM},
    {"rm -rf /root/*", GUARD_REMOVE_SYSTEM},
    {"rm -rf /usr/lib", GUARD_REMOVE_SYSTEM},
    {"rm -rf /e*", GUARD_REMOVE_SYSTEM},
    {"rm -rf /et?", GUARD_REMOVE_SYSTEM},
    {"rm -rf /[e]tc", GUARD_REMOVE_SYSTEM},
    {"rm -rf /*/*", GUARD_REMOVE_SYSTEM},
    {"rm -rf ~", GUARD_REMOVE_SYSTEM},
    {"rm -rf ~/", GUARD_REMOVE_SYSTEM},
    {"rm -rf ~/*", GUARD_REMOVE_SYSTEM},
    {"rm -rf ~root", GUARD_REMOVE_SYSTEM},
    {"rm -rf $HOME", GUARD_REMOVE_SYSTEM},
    {"rm -rf \"$HOME\"", GUARD_REMOVE_SYSTEM},
    {"rm -rf ${HOME}/", GUARD_REMOVE_SYSTEM},
    {"rm -rf \"${HOME:?}\"/*", GUARD_REMOVE_SYSTEM},
    {"rm -rf /$UNSET", GUARD_REMOVE_SYSTEM},
    {"rm --no-preserve-root -r x", GUARD_NO_PRESERVE_ROOT},
    {"rm -rf --no-preserve-root /", GUARD_NO_PRESERVE_ROOT},
    {"rm /etc/passwd", GUARD_CRITICAL_FILE},
    {"find / -delete", GUARD_REMOVE_SYSTEM},
    {"find /etc -type f -delete", GUARD_REMOVE_SYSTEM},
    {"find / -name '*' -delete", GUARD_REMOVE_SYSTEM},
    {"find / -not -name keep -delete", GUARD_REMOVE_SYSTEM},
    {"find / -exec rm {} +", GUARD_REMOVE_SYSTEM},
    {"find . -name x -exec rm -rf / \\;", GUARD_REMOVE_SYSTEM},
    {"find / -type f | xargs rm -f", GUARD_REMOVE_SYSTEM},
};

static void removals(void **state) {
    (void)state;
    CHECK_LINES(removals_lines);
}

static const struct line quoting_lines[] = {
    {"rm -rf \"/\"", GUARD_REMOVE_SYSTEM},
    {"rm -rf '/'", GUARD_REMOVE_SYSTEM},
    {"rm -r\\f /", GUARD_REMOVE_SYSTEM},
    {"r\"m\" -rf /", GUARD_REMOVE_SYSTEM},
    {"\\rm -rf /", GUARD_REMOVE_SYSTEM},
    {"r''m -r'f' /", GUARD_REMOVE_SYSTEM},
    {"rm \\\n -rf \\\n /", GUARD_REMOVE_SYSTEM},
    {"/bin/rm -rf /", GUARD_REMOVE_SYSTEM},
    {"../../bin/rm -rf /", GUARD_REMOVE_SYSTEM},
    {"FOO=1 BAR='x y' rm -rf /", GUARD_REMOVE_SYSTEM},
    {">out rm -rf /", GUARD_REMOVE_SYSTEM},
    {"2>/dev/null rm -rf /", GUARD_REMOVE_SYSTEM},
    {"rm -rf / 2>&1 >/dev/null", GUARD_REMOVE_SYSTEM},
    {"rm -rf / &>log", GUARD_REMOVE_SYSTEM},
    {"$(which rm) -rf /", GUARD_REMOVE_SYSTEM},
    {"$SUDO rm -rf /", GUARD_REMOVE_SYSTEM},
    {"cat <<EOF\nhello\nEOF\nrm -rf /", GUARD_REMOVE_SYSTEM},
};

static void quoting(void **state) {
    (void)state;
    CHECK_LINES(quoting_lines);
}

static const struct line places_lines[] = {
    {"ls && rm -rf /", GUARD_REMOVE_SYSTEM},
    {"ls || rm -rf /", GUARD_REMOVE_SYSTEM},
    {"ls; rm -rf /", GUARD_REMOVE_SYSTEM},
    {"ls & rm -rf / &", GUARD_REMOVE_SYSTEM},
    {"ls | rm -rf /", GUARD_REMOVE_SYSTEM},
    {"ls |& rm -rf /", GUARD_REMOVE_SYSTEM},
    {"ls\nrm -rf /", GUARD_REMOVE_SYSTEM},
    {"ls # fine\nrm -rf /", GUARD_REMOVE_SYSTEM},
    {"(rm -rf /)", GUARD_REMOVE_SYSTEM},
    {"((rm -rf /))", GUARD_REMOVE_SYSTEM},
    {"{ rm -rf /; }", GUARD_REMOVE_SYSTEM},
    {"! rm -rf /", GUARD_REMOVE_SYSTEM},
    {"echo $(rm -rf /)", GUARD_REMOVE_SYSTEM},
    {"echo \"a $(ls; rm -rf /) b\"", GUARD_REMOVE_SYSTEM},
    {"echo `rm -rf /`", GUARD_REMOVE_SYSTEM},
    {"echo `echo \\`rm -rf /\\``", GUARD_REMOVE_SYSTEM},
    {"echo \"${x:-$(rm -rf /)}\"", GUARD_REMOVE_SYSTEM},
    {"echo $((rm -rf /) | cat)", GUARD_REMOVE_SYSTEM},
    {"cat <(rm -rf /)", GUARD_REMOVE_SYSTEM},
    {"a=($(rm -rf /))", GUARD_REMOVE_SYSTEM},
    {"if true; then rm -rf /; fi", GUARD_REMOVE_SYSTEM},
    {"if rm -rf /; then :; fi", GUARD_REMOVE_SYSTEM},
    {"while :; do rm -rf /; done", GUARD_REMOVE_SYSTEM},
    {"case x in a|b) ls;; *) rm -rf /;; esac", GUARD_REMOVE_SYSTEM},
    {"echo \"$(case x in a) rm -rf / ;; esac)\"", GUARD_REMOVE_SYSTEM},
    {"case x in a) ls;; esac; rm -rf /", GUARD_REMOVE_SYSTEM},
    {"f() { rm -rf /; }; f", GUARD_REMOVE_SYSTEM},
    {"function f { rm -rf /; }", GUARD_REMOVE_SYSTEM},
    {"cd / && rm -rf *", GUARD_REMOVE_SYSTEM},
    {"cd /; rm -rf .", GUARD_REMOVE_SYSTEM},
    {"cd / && rm -rf ./*", GUARD_REMOVE_SYSTEM},
    {"cd /etc && rm -rf ../usr", GUARD_REMOVE_SYSTEM},
    {"cd /usr && cd .. && rm -rf etc", GUARD_REMOVE_SYSTEM},
    {"cd && rm -rf *", GUARD_REMOVE_SYSTEM},
    {"cd /; rm -rf \"$PWD\"", GUARD_REMOVE_SYSTEM},
    {"(cd / && rm -rf *)", GUARD_REMOVE_SYSTEM},
    {"pushd / ; rm -rf *", GUARD_REMOVE_SYSTEM},
    {"cd / && find . -delete", GUARD_REMOVE_SYSTEM},
    {"cd / && find -delete", GUARD_REMOVE_SYSTEM},
};

static void places(void **state) {
    (void)state;
    CHECK_LINES(places_lines);
}

static const struct line wrappers_lines[] = {
    {"sudo rm -rf /", GUARD_REMOVE_SYSTEM},
    {"sudo -u root -E rm -rf /", GUARD_REMOVE_SYSTEM},
    {"sudo --user root -- rm -rf /", GUARD_REMOVE_SYSTEM},
    {"sudo A=1 rm -rf /", GUARD_REMOVE_SYSTEM},
    {"doas rm -rf /", GUARD_REMOVE_SYSTEM},
    {"env A=1 B=2 rm -rf /", GUARD_REMOVE_SYSTEM},
    {"env -i -u X rm -rf /", GUARD_REMOVE_SYSTEM},
    {"env -S 'rm -rf /'", GUARD_REMOVE_SYSTEM},
    {"nice -n 5 rm -rf /", GUARD_REMOVE_SYSTEM},
    {"nohup rm -rf / &", GUARD_REMOVE_SYSTEM},
    {"timeout 5 rm -rf /", GUARD_REMOVE_SYSTEM},
    {"timeout -s KILL 5s rm -rf /", GUARD_REMOVE_SYSTEM},
    {"ls | xargs -n 1 rm -rf /", GUARD_REMOVE_SYSTEM},
    {"exec rm -rf /", GUARD_REMOVE_SYSTEM},
    {"command rm -rf /", GUARD_REMOVE_SYSTEM},
    {"builtin command rm -rf /", GUARD_REMOVE_SYSTEM},
    {"time rm -rf /", GUARD_REMOVE_SYSTEM},
    {"time -p rm -rf /", GUARD_REMOVE_SYSTEM},
    {"setsid -f rm -rf /", GUARD_REMOVE_SYSTEM},
    {"stdbuf -oL rm -rf /", GUARD_REMOVE_SYSTEM},
    {"stdbuf -o L rm -rf /", GUARD_REMOVE_SYSTEM},
    {"busybox rm -rf /", GUARD_REMOVE_SYSTEM},
    {"sh -c 'rm -rf /'", GUARD_REMOVE_SYSTEM},
    {"bash -lc \"rm -rf /\"", GUARD_REMOVE_SYSTEM},
    {"bash -o pipefail -c 'ls; rm -rf /'", GUARD_REMOVE_SYSTEM},
    {"dash -c \"sh -c 'rm -rf /'\"", GUARD_REMOVE_SYSTEM},
    {"zsh -c \"rm -rf $HOME\"", GUARD_REMOVE_SYSTEM},
    {"sudo sh -c 'cd / && rm -rf *'", GUARD_REMOVE_SYSTEM},
    {"eval rm -rf /", GUARD_REMOVE_SYSTEM},
    {"eval \"rm -rf\" /", GUARD_REMOVE_SYSTEM},
    {"eval 'cd /'; rm -rf *", GUARD_REMOVE_SYSTEM},
    {"trap 'rm -rf /' EXIT", GUARD_REMOVE_SYSTEM},
    {"su - root -c 'rm -rf /'", GUARD_REMOVE_SYSTEM},
    {"watch -n 1 rm -rf /", GUARD_REMOVE_SYSTEM},
    {"flock /tmp/l -c 'rm -rf /'", GUARD_REMOVE_SYSTEM},
    {"flock -w 1 /tmp/l rm -rf /", GUARD_REMOVE_SYSTEM},
    {"runuser -u x -- rm -rf /", GUARD_REMOVE_SYSTEM},
    {"ls | xargs -I{} sh -c 'cd / && rm -rf {} *'", GUARD_REMOVE_SYSTEM},
    {"sudo nice env X=1 nohup sh -c 'timeout 3 rm -rf /'", GUARD_REMOVE_SYSTEM},
    {"find . -exec sh -c 'rm -rf /' \\;", GUARD_REMOVE_SYSTEM},
};

static void wrappers(void **state) {
    (void)state;
    CHECK_LINES(wrappers_lines);
}

static const struct line other_rules_lines[] = {
    {"mkfs /dev/sda1", GUARD_FORMAT_DISK},
    {"mkfs.ext4 -F /dev/sdb", GUARD_FORMAT_DISK},
    {"sudo /sbin/mkfs.xfs /dev/vda", GUARD_FORMAT_DISK},
    {"wipefs -a /dev/sda", GUARD_FORMAT_DISK},
    {"dd if=/dev/zero of=/dev/sda", GUARD_WRITE_DISK},
    {"dd if=image.iso of=/dev/nvme0n1 bs=4M", GUARD_WRITE_DISK},
    {"dd of=/dev/vda if=/dev/urandom count=1", GUARD_WRITE_DISK},
    {"dd if=/dev/zero", GUARD_ENDLESS_COPY},
    {"dd if=/dev/zero of=/tmp/x", GUARD_ENDLESS_COPY},
    {"dd if=/dev/urandom of=big bs=1M", GUARD_ENDLESS_COPY},
    {":(){ :|:& };:", GUARD_FORK_BOMB},
    {":(){:|:&};:", GUARD_FORK_BOMB},
    {":()  {  :  |  :  &  }  ;  :", GUARD_FORK_BOMB},
    {":()\n{\n  : | : &\n}\n:", GUARD_FORK_BOMB},
    {":()(:|:&);:", GUARD_FORK_BOMB},
    {"bomb() { bomb | bomb & }; bomb", GUARD_FORK_BOMB},
    {"function b { b | b & }; b", GUARD_FORK_BOMB},
    {"f(){ f & f & }; f", GUARD_FORK_BOMB},
    {"bash -c ':(){ :|:& };:'", GUARD_FORK_BOMB},
    {"$0 | $0 &", GUARD_FORK_BOMB},
    {"chmod -R 777 /", GUARD_CHANGE_SYSTEM},
    {"chmod 777 -R /", GUARD_CHANGE_SYSTEM},
    {"chmod --recursive a+rwx /etc", GUARD_CHANGE_SYSTEM},
    {"chmod -Rv 755 /usr/*", GUARD_CHANGE_SYSTEM},
    {"chown -R user:user /", GUARD_CHANGE_SYSTEM},
    {"sudo chown -hR 1000 /var /tmp/x", GUARD_CHANGE_SYSTEM},
    {"cd / && chmod -R 777 .", GUARD_CHANGE_SYSTEM},
    {"find / -type f -exec chmod 777 {} +", GUARD_CHANGE_SYSTEM},
    {"echo x > /dev/sda", GUARD_WRITE_DISK},
    {"cat x >/dev/nvme0n1p1", GUARD_WRITE_DISK},
    {"cat x >> /dev/vda", GUARD_WRITE_DISK},
    {"cat x >| \"/dev/sda\"", GUARD_WRITE_DISK},
    {"{ ls; } &> /dev/mapper/root", GUARD_WRITE_DISK},
    {"cat x | sudo tee /dev/mmcblk0", GUARD_WRITE_DISK},
    {"cp disk.img /dev/xvda", GUARD_WRITE_DISK},
    {"shred -n 1 /dev/sda", GUARD_WRITE_DISK},
    {"mv / /dev/null", GUARD_MOVE_SYSTEM},
    {"mv /etc /dev/null", GUARD_MOVE_SYSTEM},
    {"mv ~ /dev/null", GUARD_MOVE_SYSTEM},
    {"mv /* /dev/null", GUARD_MOVE_SYSTEM},
    {"mv /usr /usr.old", GUARD_MOVE_SYSTEM},
    {"shutdown -h now", GUARD_POWER},
    {"sudo reboot", GUARD_POWER},
    {"halt", GUARD_POWER},
    {"/sbin/poweroff -f", GUARD_POWER},
    {"init 0", GUARD_POWER},
    {"telinit 6", GUARD_POWER},
    {"systemctl reboot", GUARD_POWER},
    {"kill -9 -1", GUARD_KILL_ALL},
    {"kill -s KILL -1", GUARD_KILL_ALL},
    {"kill -KILL -- -1", GUARD_KILL_ALL},
    {"kill -- -1", GUARD_KILL_ALL},
    {"> /etc/passwd", GUARD_CRITICAL_FILE},
    {"echo root::0:0::/:/bin/sh > /etc/passwd", GUARD_CRITICAL_FILE},
    {"cd /etc && : > shadow", GUARD_CRITICAL_FILE},
    {"echo x | tee /etc/sudoers", GUARD_CRITICAL_FILE},
    {"truncate -s 0 /etc/shadow", GUARD_CRITICAL_FILE},
    {"cp /dev/null /etc/passwd", GUARD_CRITICAL_FILE},
    {"echo b > /proc/sysrq-trigger", GUARD_CRITICAL_FILE},
};

static void other_rules(void **state) {
    (void)state;
    CHECK_LINES(other_rules_lines);
}

static const char *const allowed_lines[] = {
    "",
    " \t\n",
    "# rm -rf /",
    "ls # rm -rf /",
    "true",
    "echo hello world",
    "rm -rf /workspace/x",
    "rm -rf ./build",
    "rm -rf build/ dist/",
    "rm -rf *",
    "rm -rf .",
    "rm -rf /tmp/*",
    "rm -rf /tmp/x",
    "rm -rf ~/.cache/pip",
    "rm -rf $HOME/.npm/_cacache",
    "rm -rf /var/lib/apt/lists/*",
    "rm -rf /usr/local/go",
    "rm -rf /opt/app/node_modules",
    "rm -rf /home/user/project",
    "rm -rf {build,dist}",
    "rm -rf \"$BUILD_DIR\"/*",
    "rm -rf ${TMP}/x",
    "rm -f /tmp/a.txt",
    "rm /",
    "rm -rf '/*'",
    "rm -rf '~'",
    "rm -rf \"/workspace/a b\"",
    "rm -- -rf",
    "rm -rf",
    "rm -rf node_modules/.cache",
    "rm -rf /etc/nginx/sites-enabled/default",
    "rm -rf ''",
    "rm -f x -- -r /",
    "echo \"rm -rf /\"",
    "echo rm -rf /",
    "echo 'rm -rf /' > notes.txt",
    "printf '%s' 'rm -rf /'",
    "echo 'rm -rf /' | cat",
    "echo 'rm -rf /' | grep rm",
    "grep -r \"mkfs\" .",
    "grep -rn 'rm -rf /' /etc",
    "ls mkfs_notes",
    "man mkfs",
    "which mkfs.ext4",
    "command -v shutdown",
    "git rm -rf x",
    "git commit -m 'rm -rf / is bad'",
    "cat <<EOF > notes.md\nrm -rf /\nEOF",
    "cat <<'EOF'\n$(rm -rf /)\nEOF\nls",
    "python3 -c 'print(\"rm -rf /\")'",
    "python3 <<EOF\nx = '''it's'''\nEOF",
    "chmod -R 755 /workspace",
    "chmod +x run.sh",
    "chmod 755 /",
    "chmod -R u+w ./x",
    "chown -R user /workspace/app",
    "chown -R user:user /home/user",
    "chown root /etc/app.conf",
    "dd if=/dev/zero of=/tmp/x bs=1k count=1",
    "dd if=/dev/zero of=file bs=1M count=10",
    "dd if=a.img of=b.img",
    "dd if=/dev/sda of=backup.img count=1",
    "ls > /dev/null 2>&1",
    "make &> /dev/null",
    "echo x > /dev/stderr",
    "echo x >> /etc/hosts",
    "cat /dev/zero | head -c 1",
    "cat /etc/passwd > copy",
    "cat < /etc/passwd",
    "cp /etc/passwd /workspace/",
    "echo 'u:x:1:1::/:/bin/sh' >> /etc/passwd",
    "tee -a /etc/group < x",
    "echo x > /dev/shm/y",
    "find / -name '*.pyc' -delete",
    "find . -type f -delete",
    "find /tmp -mtime +3 -delete",
    "find / -name core -exec rm -f {} +",
    "find /etc -type f -exec cat {} \\;",
    "find . -name '*.o' | xargs rm -f",
    "find / -perm -4000 2>/dev/null",
    "find",
    "mv a b",
    "mv /etc/app.conf /etc/app.conf.bak",
    "mv x /opt",
    "mv x /etc",
    "kill -9 1234",
    "kill -1 1234",
    "kill %1",
    "kill -s TERM -- -1234",
    "kill -l",
    "systemctl status nginx",
    "init_db 0",
    "echo reboot",
    "./shutdown.py.txt --help; ls",
    "f() { f2 | f2 & }; f",
    "f() { echo hi; }; f | f &",
    "fib() { echo $(fib 1) $(fib 2); }",
    "x=1; y=$((x << 2)); echo $y",
    "for ((i=0;i<10;i++)); do echo $i; done",
    "for f in *.c; do cc -c \"$f\"; done",
    "a=(rm -rf /); echo ${#a[@]}",
    "case $1 in start) run;; stop|end) halt_it;; *) echo no;; esac",
    "if [[ $a == b* && $c =~ ^(x|y)$ ]]; then echo ok; fi",
    "while read -r l; do echo $l; done < f",
    "cd /workspace && rm -rf *",
    "cd / && ls",
    "(cd / && ls); rm -rf *",
    "cd / && cd workspace && rm -rf *",
    "cd /tmp/x || exit 1; rm -rf ./*",
    "cd \"$X\" && rm -rf *",
    "cd / && cd - && rm -rf *",
    "D=/workspace/x; rm -rf \"$D\"",
    "sh script.sh",
    "bash",
    "sh -c 'echo rm -rf /'",
    "sudo -l",
    "env",
    "xargs",
    "flock /tmp/l python3 -c 'x = \"'",
    "runuser -u x -- ls",
    "sudo",
    "timeout",
    "eval",
    "sh -c",
    "curl -d '{\"a\":[1,2]}' http://localhost/x",
    "awk '{print $1}' f | sort | uniq -c",
    "echo it\\'s",
    "echo a'b'\"c\"\\ d",
    "echo ${x:-y} ${x%/*} ${#x} ${x//a/b} $? $$ $! $1",
    "tar -C / -xf x.tar",
    "ls -R /",
    "du -sh /*",
    "ssh host 'uptime'",
    "test -d / && echo yes",
    "echo {a,b}{c,d} {1..3} {",
    "ls /etc /usr",
    "docker run --rm -f x /",
    "echo $'a\\'b'",
    "rm -rf $'a\\'; rm -rf /'",
    "sh <<'E'\nit's data\nE",
    "rm -rf ./{a,b}",
    "x=(/ /etc); rm -rf build",
};

static void allowed(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(allowed_lines); i++)
        check_line(&(struct line){allowed_lines[i], GUARD_NONE}, NULL);
}

static void not_understood(void **state) {
    (void)state;
    static const struct line lines[] = {
        {"echo 'abc", GUARD_UNPARSABLE},
        {"echo \"abc", GUARD_UNPARSABLE},
        {"echo $(ls", GUARD_UNPARSABLE},
        {"echo `ls", GUARD_UNPARSABLE},
        {"echo ${x", GUARD_UNPARSABLE},
        {"(ls", GUARD_UNPARSABLE},
        {"ls)", GUARD_UNPARSABLE},
        {"{ ls", GUARD_UNPARSABLE},
        {"}", GUARD_UNPARSABLE},
        {"ls >", GUARD_UNPARSABLE},
        {"ls > ; ls", GUARD_UNPARSABLE},
        {"case x in a) ls", GUARD_UNPARSABLE},
        {"echo $'abc", GUARD_UNPARSABLE},
        {"ls ;; ls", GUARD_UNPARSABLE},
        {"sh -c 'echo \"'", GUARD_UNPARSABLE},
        {"cat <<'E\n", GUARD_UNPARSABLE},
        /* what is dangerous before the error is named as such */
        {"rm -rf /; echo 'abc", GUARD_REMOVE_SYSTEM},
    };
    CHECK_LINES(lines);
}

static void work_dir_counts(void **state) {
    (void)state;
    check_line(&(struct line){"rm -rf *", GUARD_REMOVE_SYSTEM}, "/");
    check_line(&(struct line){"rm -rf $PWD/*", GUARD_REMOVE_SYSTEM}, "/");
    check_line(&(struct line){"rm -rf $PWD/*", GUARD_NONE}, "/workspace");
    check_line(&(struct line){"rm -rf ../*", GUARD_REMOVE_SYSTEM}, "/workspace");
    check_line(&(struct line){"rm -rf ../x", GUARD_NONE}, "/workspace");
    check_line(&(struct line){"rm -rf *", GUARD_NONE}, "/workspace");
    check_line(&(struct line){": > passwd", GUARD_CRITICAL_FILE}, "/etc");
}

static void argument_vectors(void **state) {
    (void)state;
    static const struct {
        const char *argv[6];
        enum guard_rule rule;
    } cases[] = {
        {{"rm", "-rf", "/"}, GUARD_REMOVE_SYSTEM},
        {{"/usr/bin/rm", "-r", "/etc"}, GUARD_REMOVE_SYSTEM},
        {{"sudo", "-n", "rm", "-rf", "/"}, GUARD_REMOVE_SYSTEM},
        {{"sh", "-c", "rm -rf /*"}, GUARD_REMOVE_SYSTEM},
        {{"bash", "-c", "echo 'abc"}, GUARD_UNPARSABLE},
        {{"reboot"}, GUARD_POWER},
        /* without a shell nothing is expanded */
        {{"rm", "-rf", "/*"}, GUARD_NONE},
        {{"rm", "-rf", "~"}, GUARD_NONE},
        {{"rm", "-rf", "$HOME"}, GUARD_NONE},
        {{"rm", "-rf", "/\x01"}, GUARD_NONE},
        {{"rm", "-rf", "\x07"}, GUARD_NONE},
        {{"echo", ";", "rm", "-rf", "/"}, GUARD_NONE},
        {{"echo", "it's"}, GUARD_NONE},
        {{""}, GUARD_NONE},
        {{NULL}, GUARD_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct guard_hit hit;
        int r = guard_check_argv(cases[i].argv, "/workspace", &hit);
        if (hit.rule != cases[i].rule || r != (cases[i].rule != GUARD_NONE))
            fail_msg("case %zu: result %d, rule %s", i, r, hit.name);
    }
}

static void hits_name_the_words(void **state) {
    (void)state;
    struct guard_hit hit;
    assert_int_equal(guard_check_shell("ls && sudo r\"m\"  -rf '/' && ls", NULL, &hit), 1);
    assert_string_equal(hit.name, "remove-system");
    assert_string_equal(hit.words, "rm -rf /");
    assert_int_equal(guard_check_shell("rm -rf '\033[2J' ~/*", NULL, &hit), 1);
    assert_string_equal(hit.words, "rm -rf \\x7f[2J $HOME/*");
    assert_int_equal(guard_check_shell("echo '\033]0;", NULL, &hit), 1);
    assert_string_equal(hit.words, "echo '\\x1b]0;");
}

/* A text of `count` times `part` between `before` and `after`. */
static char *repeated(const char *before, const char *part, size_t count, const char *after) {
    struct buf b = BUF_INIT(8 * 1024 * 1024);
    (void)buf_puts(&b, before);
    for (size_t i = 0; i < count; i++)
        (void)buf_puts(&b, part);
    (void)buf_puts(&b, after);
    return buf_take(&b);
}

/* Hostile sizes: the verdict is right, or the text is refused, and neither takes long. */
static void bounded(void **state) {
    (void)state;
    static const struct {
        const char *before, *part, *after;
        size_t bytes;
        int rule; /* -1: any */
    } cases[] = {
        {"echo ", "a", "", 1000000, GUARD_NONE},
        {"rm -rf ", "a ", "/", 1000000, GUARD_REMOVE_SYSTEM},
        {"rm -rf ", "a/../", "", 1000000, GUARD_NONE},
        {"echo ", "a", "", 1100000, GUARD_UNPARSABLE},
        {"", "$(", "", 900000, GUARD_UNPARSABLE},
        {"", "$((", "", 900000, GUARD_UNPARSABLE},
        {"", "`", "", 900000, GUARD_NONE},
        {"", "(", "", 900000, GUARD_UNPARSABLE},
        {"echo ", "${a:-", "", 900000, GUARD_UNPARSABLE},
        {"echo ", "\"$(\"", "", 900000, GUARD_UNPARSABLE},
        {"cat ", "<<E ", "\nE\n", 900000, GUARD_UNPARSABLE},
        {"", "cat <<E\nE\n", "", 900000, GUARD_NONE},
        {"", "sh -c '", "", 900000, -1},
        {"", "eval ", "ls", 900000, GUARD_UNPARSABLE},
        {"", "sudo ", "rm -rf /", 900000, GUARD_REMOVE_SYSTEM},
        {"", "env A=1 ", "rm -rf /", 900000, GUARD_REMOVE_SYSTEM},
        {"rm -rf /", "*", "", 900000, -1},
        {"rm -rf /", "*?", "", 3000, -1},
        {"rm -rf /", "[", "", 3000, -1},
        {"", "case x in ", "", 900000, GUARD_UNPARSABLE},
        {"", "f() { ", "", 900000, GUARD_UNPARSABLE},
        {"", "cd /a;", "rm -rf ../etc", 900000, GUARD_REMOVE_SYSTEM},
        {"", "find -exec ", "", 900000, -1},
        {"", "xargs ", "rm -rf /", 900000, -1},
        {"", "echo a | xargs ", "", 900000, -1},
        {"", "watch ", "ls", 900000, -1},
        {"cat <<", "E", "\n", 900000, GUARD_UNPARSABLE},
        {"", "; ", "", 900000, GUARD_NONE},
        {"", "\\\n", "rm -rf /", 900000, GUARD_REMOVE_SYSTEM},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(freep) char *text = repeated(
            cases[i].before, cases[i].part, cases[i].bytes / strlen(cases[i].part), cases[i].after);
        assert_non_null(text);
        struct guard_hit hit;
        (void)alarm(50); /* a search that explodes ends the test, on the slowest machine too */
        int r = guard_check_shell(text, NULL, &hit);
        (void)alarm(0);
        if (r < 0 || (cases[i].rule >= 0 && hit.rule != (enum guard_rule)cases[i].rule))
            fail_msg("'%s'...: result %d, rule %s", cases[i].part, r, hit.name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(removals),         cmocka_unit_test(quoting),
        cmocka_unit_test(places),           cmocka_unit_test(wrappers),
        cmocka_unit_test(other_rules),      cmocka_unit_test(allowed),
        cmocka_unit_test(not_understood),   cmocka_unit_test(work_dir_counts),
        cmocka_unit_test(argument_vectors), cmocka_unit_test(hits_name_the_words),
        cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
