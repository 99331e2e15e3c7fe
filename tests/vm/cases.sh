#!/bin/bash
# Cases of `cay run` on cgroup v2 and an older kernel; runs inside the machine of run-vm, as root
# or as its user, from the repository. CAY names the program. Arguments choose cases by name.
set -u
cay=${CAY:-build/cay}
programs=$(dirname "$(realpath "$cay")")
work=$(mktemp -d)
trap clean_up EXIT
out='' err='' code=0

clean_up() {
    mountpoint -q "$work/volumes" && umount "$work/volumes"
    rm -rf --one-file-system "$work"
}

# Volumes lie on a disk, as users' do: an older kernel maps no ids on a file system in memory.
make_volumes() {
    mkdir -p "$work/volumes" && chmod 755 "$work" || return
    if ((EUID == 0)); then
        truncate -s 128M "$work/disk" && mkfs.ext4 -q "$work/disk" &&
            mount -o loop,dev "$work/disk" "$work/volumes" || return
    fi
    mkdir "$work/volumes/devices" "$work/volumes/files" && chmod 777 "$work/volumes/files"
}

session=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)

# What `systemd-run --user --scope -p Delegate=yes` does: each cay is alone in a delegated cgroup.
use_scopes() {
    local real
    real=$(realpath "$cay") || return
    mkdir "$session/shell" && echo $$ >"$session/shell/cgroup.procs" &&
        echo '+cpu +io +memory +pids' >"$session/cgroup.subtree_control" || return
    cay=$work/cay
    cat >"$cay" <<SCRIPT && chmod +x "$cay"
#!/bin/bash
scope=$session/cay-\$\$.scope
mkdir "\$scope" && echo \$\$ >"\$scope/cgroup.procs" && exec "$real" "\$@"
SCRIPT
}

# systemd's part again: a scope without processes goes, with the two groups that cay keeps there.
collect_scopes() {
    local scope
    for scope in "$session"/cay-*.scope; do
        [[ ! -d $scope ]] || rmdir "$scope/cay" "$scope/cay.self" "$scope"
    done 2>/dev/null
}

# box ARGUMENTS...: runs `cay run`, leaving its result in out, err and code.
box() {
    timeout -k 5 60 "$cay" run "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    out=$(<"$work/out")
    err=$(<"$work/err")
}

# fail REASON...: with what the last box said.
fail() {
    printf '%s\n' "$*" "exit code: $code" "stdout: ${out:0:2000}" "stderr: ${err:0:2000}" |
        sed 's/^/    /'
    return 1
}

expect_code() {
    ((code == $1)) || fail "expected exit code $1"
}

expect_out() {
    [[ $out == "$1" ]] || fail "expected on stdout: $1"
}

expect_json() {
    grep -Eq "\"$1\": *$2" <<<"$out" || fail "expected $1 to be $2"
}

# within LOW VALUE HIGH: for fractions.
within() {
    awk -v low="$1" -v value="$2" -v high="$3" \
        'BEGIN { exit !(value + 0 == value && low <= value && value <= high) }' ||
        fail "expected a number from $1 to $3, got '$2'"
}

# Command lines, since the user of a rootless run may not read more of a sandbox's processes.
processes() {
    local file words lines=()
    # Not in a pipe, whose other processes would be counted too.
    for file in /proc/[0-9]*/cmdline; do
        mapfile -d '' -t words <"$file" && [[ -n ${words[*]} ]] && lines+=("${words[*]}")
    done 2>/dev/null
    printf '%s\n' "${lines[@]}" | sort
}

# Everything of this machine that a run may leave behind.
traces() {
    echo "processes:"
    processes
    echo "mounts:"
    cut -d' ' -f4- /proc/self/mountinfo | sort
    echo "cgroups:"
    collect_scopes
    find /sys/fs/cgroup -type d | sort
    echo "temporary files and state:"
    find /tmp /run /dev/shm /var/lib/cay "${XDG_STATE_HOME:-$HOME/.local/state}" -xdev \
        -path "$work" -prune -o -print 2>/dev/null | sort
}

# left_behind FILE: waits a little for what ends in the background, then shows the difference.
left_behind() {
    local try
    for ((try = 0; try < 40; try++)); do
        traces >"$work/after"
        cmp -s "$1" "$work/after" && return 1
        sleep 0.25
    done
    diff "$1" "$work/after" | sed 's/^/    /'
}

no_process() {
    local try
    for ((try = 0; try < 40; try++)); do
        pgrep -f "$1" >/dev/null || return 0
        sleep 0.25
    done
    fail "still running: $(pgrep -af "$1")"
}

case_doctor() {
    out=$("$cay" doctor 2>"$work/err")
    code=$? err=$(<"$work/err")
    expect_code 0 || return
    grep -Eiq 'cgroup.*v?2' <<<"$out" || fail "doctor does not name cgroup v2" || return
    out=$("$cay" doctor -o json 2>"$work/err")
    code=$? err=$(<"$work/err")
    expect_code 0 && python3 -m json.tool <<<"$out" >/dev/null || fail "no JSON object"
}

case_hello() {
    box -- sh -c 'echo hello; echo oops >&2'
    expect_code 0 && expect_out hello || return
    [[ $err == oops ]] || fail "expected only 'oops' on stderr"
}

case_exit_codes() {
    box -- sh -c 'exit 42'
    expect_code 42 || return
    box -- sh -c 'kill -KILL $$'
    expect_code 137 || return
    box -- no-such-command
    expect_code 127 || return
    box -- /etc/passwd
    expect_code 126
}

case_stdin_is_binary_safe() {
    head -c 300000 /dev/urandom >"$work/random"
    timeout -k 5 60 "$cay" run -i -- cat <"$work/random" >"$work/copy" 2>"$work/err"
    code=$? out='' err=$(<"$work/err")
    expect_code 0 || return
    cmp "$work/random" "$work/copy" || fail "stdin did not arrive unchanged"
}

case_isolation() {
    box -- sh -c 'cat /proc/self/cgroup; hostname; tail -n +3 /proc/net/dev | tr -d " " |
        cut -d: -f1; id -u; awk "{print (\$1 == 0 && \$2 != 0)}" /proc/self/uid_map | head -n 1'
    expect_code 0 || return
    mapfile -t lines <<<"$out"
    [[ ${lines[0]} == 0::/ ]] || fail "the cgroup namespace shows ${lines[0]}" || return
    [[ ${lines[1]} != cay-vm ]] || fail "the machine's host name is visible" || return
    [[ ${lines[*]:2} == "lo 0 1" ]] || fail "expected only lo, uid 0, and host root not mapped"
}

case_memory() {
    box --memory 96m -- python3 -c 'print(len(b"x" * (16 << 20)))'
    expect_code 0 && expect_out 16777216 || return
    box --memory 96m -o json -- python3 -c '
print("begin", flush=True)
print(len(b"x" * (400 << 20)))'
    expect_code 137 && expect_json oom_killed true && expect_json timed_out false || return
    expect_json stdout '"begin\\n"' || return
    box --memory 96m -o json -- sh -c 'kill -KILL $$'
    expect_code 137 && expect_json oom_killed false
}

# A child that dies of the limit is reported too, though the command itself goes on.
case_memory_of_a_child() {
    box --memory 96m -o json -- sh -c 'python3 -c "b\"x\" * (400 << 20)"; echo "child: $?"'
    expect_json oom_killed true
}

case_pids() {
    box --pids 20 -- python3 -c '
import os, time
made = 0
try:
    for made in range(200):
        if os.fork() == 0:
            time.sleep(60)
except BlockingIOError:
    pass
print(made)
os.kill(-1, 9)'
    within 5 "$out" 20
}

case_fork_bomb() {
    local started=$SECONDS
    box --pids 50 --timeout 3 -- python3 -c '
import os
while True:
    try:
        os.fork()
    except OSError:
        pass'
    expect_code 124 || return
    ((SECONDS - started < 50)) || fail "took $((SECONDS - started)) s"
}

case_cpu() {
    box --cpus 0.25 -- python3 -c '
import os, time
wall, spent = time.monotonic(), sum(os.times()[:4])
forked = os.fork()
while time.monotonic() - wall < 4:
    pass
if forked == 0:
    os._exit(0)
os.wait()
print((sum(os.times()[:4]) - spent) / (time.monotonic() - wall))'
    expect_code 0 && within 0.08 "$out" 0.33
}

case_devices() {
    box -- python3 -c '
import os, stat
for name in ("mem", "kmsg", "port", "vda", "loop-control", "fuse", "kvm", "mapper/control"):
    try:
        os.open("/dev/" + name, os.O_RDONLY)
        print("opened", name)
    except OSError:
        pass
try:
    os.mknod("/tmp/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.open("/tmp/null", os.O_RDWR)
    print("made a device")
except OSError:
    pass
for name in ("null", "zero", "random", "urandom", "full", "tty"):
    os.stat("/dev/" + name)
os.close(os.open("/dev/null", os.O_RDWR))
print(len(os.read(os.open("/dev/urandom", os.O_RDONLY), 4)))'
    expect_code 0 && expect_out 4
}

# A device node in a volume is outside of the sandbox's own /dev.
case_device_in_a_volume() {
    ((EUID == 0)) || return 77
    mknod -m 666 "$work/volumes/devices/kmsg" c 1 11
    box -v "$work/volumes/devices:/mnt" -- sh -c 'test -c /mnt/kmsg && ! head -c 1 </mnt/kmsg'
    expect_code 0
}

case_disk() {
    box --disk 16m -- sh -c 'head -c 40000000 /dev/zero >/workspace/big; echo "code $?"
        stat -c %s /workspace/big'
    grep -q 'No space left on device' <<<"$err" || fail "expected ENOSPC" || return
    mapfile -t lines <<<"$out"
    [[ ${lines[0]} != "code 0" ]] || fail "the write did not fail" || return
    within 1000000 "${lines[1]}" 16777216
}

case_inodes() {
    box --disk 16m -- python3 -c '
import os
s = os.statvfs("/workspace")
print(s.f_files)'
    within 1 "$out" 2000000
}

case_volumes() {
    local volume=$work/volumes/files
    echo kept >"$volume/file"
    box -v "$volume:/mnt:ro" -- sh -c 'cat /mnt/file; echo changed >/mnt/file'
    expect_out kept || return
    grep -q 'Read-only file system' <<<"$err" || fail "expected EROFS" || return
    box -v "$volume:/mnt" -- sh -c 'echo written >/mnt/new'
    expect_code 0 || return
    [[ $(<"$volume/new") == written ]] || fail "the file did not arrive"
}

case_timeout_kills_the_tree() {
    local started=$SECONDS
    box --timeout 10 -- bash -c 'trap "" TERM; echo begin; (setsid sleep 98701 &)
        (trap "" TERM HUP; exec sleep 98702) & sleep 98703; sleep 98704'
    expect_code 124 && expect_out begin || return
    ((SECONDS - started < 50)) || fail "took $((SECONDS - started)) s" || return
    no_process 'sleep 9870[1-4]'
}

case_interrupt() {
    local pid try
    # A shell starts what is in the background with SIGINT ignored.
    env --default-signal=INT timeout --foreground -k 5 60 "$cay" run -- sh -c '
        trap "echo interrupted; exit 5" INT; echo ready; while :; do sleep 0.2; done' \
        >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
    for ((try = 0; try < 500; try++)); do
        grep -q ready "$work/out" && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -INT "$pid" 2>/dev/null
    wait "$pid"
    code=$? out=$(<"$work/out") err=$(<"$work/err")
    expect_code 5 && expect_out $'ready\ninterrupted'
}

# The kill cannot be caught: the sandbox must end by itself, the rest goes with the next run.
case_killed_run() {
    traces >"$work/before"
    "$cay" run -- sleep 98711 >/dev/null 2>&1 </dev/null &
    local pid=$! try
    for ((try = 0; try < 100; try++)); do
        pgrep -f '^sleep 98711' >/dev/null && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || fail "the run ended early" || return
    wait "$pid" 2>/dev/null
    no_process '^sleep 98711' || return
    # Another scope's run cannot know of it; systemd removes all below a scope that has ended.
    ((EUID == 0)) || find "$session" -depth -path '*/cay-*.scope*' -type d -exec rmdir {} \;
    box -- true
    expect_code 0 || return
    ! left_behind "$work/before"
}

case_many_runs() {
    traces >"$work/before"
    seq 20 | xargs -P 4 -I{} timeout -k 5 60 "$cay" run -- sh -c 'exit 0' \
        >"$work/out" 2>"$work/err"
    code=$? out=$(<"$work/out") err=$(<"$work/err")
    expect_code 0 && ! left_behind "$work/before"
}

# ---- images ----

# image ARGUMENTS...: runs `cay image`, as box does `cay run`.
image() {
    timeout -k 5 100 "$cay" image "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$? out=$(<"$work/out") err=$(<"$work/err")
}

# make_images FOLDER: a state folder with an image of several layers, made the way users do.
make_images() {
    local context=$work/context
    [[ -x $programs/cay-image ]] || return 77
    mkdir -p "$1" "$context/root/bin" "$context/root/home" && cp /bin/busybox "$context/root/bin/" &&
        ln -sf busybox "$context/root/bin/sh" && echo one >"$context/root/home/one" &&
        echo two >"$context/two" && chmod 644 "$context/two" || return
    tar -C "$context/root" --owner=0 --group=0 -cf "$work/root.tar" . || return
    image import --state-dir "$1" "$work/root.tar" base
    expect_code 0 || return
    cat >"$context/Dockerfile" <<'DOCKERFILE'
FROM base
COPY --chown=7:8 two /home/two
RUN busybox rm /home/one && busybox mkdir -p /new/folder && echo three >/new/three
ENV WHO=image
CMD ["/bin/busybox", "env"]
DOCKERFILE
    image build --state-dir "$1" -t layers "$context"
    expect_code 0
}

check_images() {
    box --state-dir "$1" --image layers
    expect_code 0 && [[ $out == *WHO=image* ]] || fail "the image's command did not run" || return
    box --state-dir "$1" --image layers -- busybox ls /home /new
    expect_code 0 && expect_out $'/home:\ntwo\n\n/new:\nfolder\nthree' || return
    box --state-dir "$1" --image layers -- busybox stat -c '%u %g %a' /home/two /new
    expect_code 0 && expect_out "$2"
}

case_images() {
    local state=$work/volumes/state owners=$'7 8 644\n0 0 755'
    make_images "$state" || return
    check_images "$state" "$owners"
}

# A file system in memory knows no id-mapped mounts in this kernel.
case_images_without_id_maps() {
    ((EUID == 0)) || return 77
    local state=$work/volumes/state
    [[ -d $state ]] || make_images "$state" || return
    mkdir -p "$work/memory" && mount -t tmpfs memory "$work/memory" || return
    cp -a "$state" "$work/memory/state" && check_images "$work/memory/state" $'7 8 644\n0 0 755'
    local result=$?
    umount -l "$work/memory"
    return $result
}

# ---- sandboxes that stay ----

# kept VERB ARGUMENTS...: a verb of the daemon's, as box does `cay run`.
kept() {
    # The machine's disk is small: the reserve would hold writers back before their own limit does.
    CAY_MANAGER_DISK_RESERVE=0 timeout -k 5 60 "$cay" "$1" --state-dir "$work/volumes/kept" "${@:2}" \
        >"$work/out" 2>"$work/err" </dev/null
    code=$? out=$(<"$work/out") err=$(<"$work/err")
}

end_daemon() {
    pkill -o -f "^cayd .*$work/volumes/kept"
    no_process "$work/volumes/kept"
}

# Written before the stop, read after the start; the disk limit, and that it grows meanwhile.
check_kept() {
    kept create --name lab --disk 32m && expect_code 0 || return
    kept exec lab -- sh -c 'echo one >/opt/file; echo two >/usr/local/file; id -u'
    expect_code 0 && expect_out 0 || return
    kept exec lab -- sh -c 'dd if=/dev/zero of=/opt/big bs=1M; stat -c %s /opt/big'
    expect_code 0 && within 31000000 "$out" 34000000 || return
    [[ $err == *"No space left"* ]] || fail "the disk limit does not hold" || return
    # This root has CAP_SYS_RESOURCE, without which a disk grows only while nothing runs on it.
    kept resize --disk 96m lab && expect_code 0 || return
    kept exec lab -- sh -c 'dd if=/dev/zero of=/opt/big bs=1M; stat -c %s /opt/big; cat /opt/file'
    expect_code 0 && [[ $out == *$'\none' ]] && within 92000000 "${out%%$'\n'*}" 106000000 || return
    kept stop lab && expect_code 0 || return
    kept start lab && expect_code 0 || return
    kept exec lab -- cat /opt/file /usr/local/file
    expect_code 0 && expect_out $'one\ntwo' || return
    kept rm -f lab && expect_code 0
}

case_kept() {
    # An ordinary user has no disk here, and the machine's own root cannot hold a writable layer.
    ((EUID == 0)) && [[ -x $programs/cayd ]] || return 77
    local before after
    before=$(losetup -a | wc -l)
    mkdir -p "$work/volumes/kept" && check_kept
    local result=$?
    end_daemon || return
    after=$(losetup -a | wc -l)
    ((result == 0 && before == after)) || fail "loop devices: $before before, $after after"
}

all=(doctor hello exit_codes stdin_is_binary_safe isolation memory memory_of_a_child pids fork_bomb
    cpu devices device_in_a_volume disk inodes volumes timeout_kills_the_tree interrupt killed_run
    many_runs images images_without_id_maps kept)

[[ -x $cay ]] || {
    echo "cases.sh: skipped: $cay is not built"
    exit 77
}
((EUID == 0)) || use_scopes || {
    echo "cases.sh: the cgroup $session is not delegated to this user"
    exit 1
}
make_volumes || {
    echo "cases.sh: cannot make a file system for volumes"
    exit 1
}
(($# > 0)) || set -- "${all[@]}"
passed=0 failed=0 skipped=0
# What the first run makes once, such as the host image, is no trace.
box -- true
expect_code 0 || {
    echo "FAILED  no sandbox at all"
    exit 1
}
traces >"$work/first"
for name in "$@"; do
    started=${EPOCHREALTIME/./}
    "case_$name"
    case $? in
    0) verdict=ok && passed=$((passed + 1)) ;;
    77) verdict=skipped && skipped=$((skipped + 1)) ;;
    *) verdict=FAILED && failed=$((failed + 1)) ;;
    esac
    printf '%-8s%s (%d ms)\n' "$verdict" "$name" $(((${EPOCHREALTIME/./} - started) / 1000))
done
if left_behind "$work/first"; then
    echo "FAILED  nothing is left behind"
    failed=$((failed + 1))
else
    echo "ok      nothing is left behind"
    passed=$((passed + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
