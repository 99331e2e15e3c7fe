"""Section B of the checklist: what rights the processes of a sandbox have, seen from inside and,
since a sandbox may lie, from the host."""

import contextlib
import os
import shutil
import struct
import textwrap
from pathlib import Path

import pytest

import support
from inside import box, code, need_wall, probe, status, walls
from support import as_root_only

CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
INIT_CAPABILITIES = 1 << 5 | 1 << 6 | 1 << 7  # CAP_KILL, CAP_SETGID, CAP_SETUID
NONE = "0" * 16

RAISE = """
    from ctypes import c_uint32
    report["sets"] = {k: v for k, v in status().items() if k.startswith("Cap")}
    header, full = (c_uint32 * 2)(0x20080522, 0), (c_uint32 * 6)(*[0xffffffff] * 6)
    report["capset"] = syscall(126, header, full)
    report["ambient"] = syscall(157, 47, 2, 7, 0, 0)
    report["securebits"] = syscall(157, 28, 0, 0, 0, 0)
    report["keep"] = syscall(157, 8, 1, 0, 0, 0)
    report["new_privs"] = syscall(157, 38, 0, 0, 0, 0)
    report["setuid"] = attempt(os.setresuid, 65533, 65533, 65533)
    report["chown"] = attempt(lambda: (open("/tmp/f", "w").close(), os.chown("/tmp/f", 7, 7)))
    report["after"] = {k: v for k, v in status().items() if k.startswith("Cap")}
    """


@pytest.mark.parametrize("user", ["0", "1000"])
def test_b1_commands_have_no_capability_and_get_none(user):
    """All five sets are empty, the bounding set included, and no call fills them again: not for
    root inside, not for another user."""
    if user != "0":
        need_wall("id range")
    seen = probe(RAISE, "--user", user)
    assert seen["sets"] == seen["after"] == dict.fromkeys(CAPABILITY_SETS, NONE)
    refused = [seen[key] for key in ("capset", "ambient", "securebits", "keep", "chown")]
    assert set(refused) <= {"EPERM", "EINVAL"}, seen
    assert seen["new_privs"] == "EINVAL"
    assert seen["setuid"] == "EPERM" or not walls()["id range"]


def test_b1_the_build_profile_has_only_rights_over_files():
    """What --profile build adds is the list that the documentation names."""
    allowed = sum(1 << cap for cap in (0, 1, 3, 4, 5, 6, 7, 31))
    seen = probe(RAISE, "--profile", "build")
    for name, value in {**seen["sets"], **seen["after"]}.items():
        assert int(value, 16) & ~allowed == 0, name


def test_h3_every_process_seen_from_the_host():
    """Each process of a running sandbox, cay-init included, has the filter, no new privileges and
    an unprivileged id; cay-init has no capability but those to become the command's user and to
    end him, and nobody else has any."""
    script = """
        import subprocess
        shell = subprocess.Popen(["sh", "-c", "sleep 1000 & setsid sleep 1000 & wait"])
        names = "cat /proc/[0-9]*/comm 2>/dev/null"
        while subprocess.run(["sh", "-c", names], stdout=subprocess.PIPE).stdout.count(b"sleep") < 2:
            time.sleep(0.02)
        report["uid_map"] = read("/proc/self/uid_map")
        """
    with box(script) as one:
        base = int(one.report["uid_map"].split()[1])
        names = []
        for pid in one.members():
            entry = status(pid)
            names.append(entry["Name"])
            assert entry["Seccomp"] == "2" and entry["NoNewPrivs"] == "1", entry
            uids = set(map(int, (entry["Uid"] + " " + entry["Gid"]).split()))
            assert 0 not in uids
            assert not walls()["own id range"] or uids <= set(range(base, base + 65536)), entry
            most = INIT_CAPABILITIES if entry["Name"] in ("cay-init", "cay-op") else 0
            for name in CAPABILITY_SETS:
                assert int(entry[name], 16) & ~most == 0, (entry["Name"], name, entry[name])
            assert int(entry["CapBnd"], 16) == 0, entry
        assert {"cay-init", "python3", "sh", "sleep"} <= set(names)


@as_root_only
def test_b2_set_user_id_and_file_capabilities_do_nothing(folder):
    """A program of the host's root with set-user-id, or with file capabilities, runs as the user
    who starts it."""
    show = ("import os; text = open('/proc/self/status').read(); "
            "print(os.getresuid(), text.split('CapPrm:')[1][1:17])")
    plain = Path("/usr/bin/python3").resolve()
    for name in ("setuid", "capable"):
        shutil.copy(plain, folder / name)
    os.chown(folder / "setuid", 0, 0)
    (folder / "setuid").chmod(0o6755)
    every = 0xffffffff
    os.setxattr(folder / "capable", "security.capability",
                struct.pack("<5I", 0x02000001, every, every, 0x1ff, 0x1ff))
    for name in ("setuid", "capable"):
        for flags in ((), (":ro",)):
            volume = f"{folder}:/v{''.join(flags)}"
            out = support.ok(support.run("-v", volume, "--user", "1000", "--", f"/v/{name}", "-c",
                                         show))
            assert out.strip() == f"(1000, 1000, 1000) {NONE}"


def test_b2_set_user_id_programs_of_the_image_do_nothing():
    """su and its like keep the id of who starts them, and cannot do their work."""
    need_wall("id range")
    seen = probe("""
        import subprocess
        report["flags"] = bool(os.statvfs("/usr/bin").f_flag & os.ST_NOSUID)
        done = subprocess.run(["su", "-c", "id -u"], capture_output=True, stdin=subprocess.DEVNULL)
        report["su"] = [done.returncode != 0, done.stdout.decode()]
        """, "--user", "1000")
    assert seen["flags"] and seen["su"] == [True, ""]


def test_b4_no_priority_over_the_host():
    """Nothing inside gets ahead of the host's processes, in the scheduler or before the
    out-of-memory killer."""
    seen = probe("""
        report["limits"] = [resource.getrlimit(resource.RLIMIT_RTPRIO),
                            resource.getrlimit(resource.RLIMIT_NICE)]
        report["nice"] = attempt(os.setpriority, os.PRIO_PROCESS, 0, -1)
        report["rt"] = [attempt(os.sched_setscheduler, 0, policy, os.sched_param(1))
                        for policy in (os.SCHED_FIFO, os.SCHED_RR)]
        attr = struct.pack("<IIQiIQQQ", 48, 6, 0, 0, 0, 10000000, 20000000, 20000000)
        report["deadline"] = syscall(314, 0, attr, 0)
        report["io"] = syscall(251, 1, 0, 1 << 13)
        def adjust(value):
            with open("/proc/self/oom_score_adj", "w") as f:
                f.write(value)
        report["oom"] = [attempt(adjust, "-1"), attempt(adjust, "-1000"), attempt(adjust, "500"),
                         attempt(adjust, "-1")]
        report["limit"] = syscall(160, resource.RLIMIT_RTPRIO, struct.pack("<QQ", 5, 5))
        """)
    assert seen["limits"] == [[0, 0], [0, 0]]
    assert {seen["nice"], seen["deadline"], seen["io"], *seen["rt"]} <= {"EPERM", "EACCES"}, seen
    assert seen["oom"] == ["EACCES", "EACCES", "ok", "EACCES"] and seen["limit"] == "EPERM"


@as_root_only
def test_b4_priority_of_the_caller_does_not_come_along():
    """A caller who is urgent and protected starts sandboxes that are neither."""
    def urgent():
        os.setpriority(os.PRIO_PROCESS, 0, -10)
        with contextlib.suppress(PermissionError):  # not even root of some containers may
            Path("/proc/self/oom_score_adj").write_text("-900")
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

    script = """
        report["nice"] = os.getpriority(os.PRIO_PROCESS, 0)
        report["oom"] = int(read("/proc/self/oom_score_adj"))
        report["policy"] = os.sched_getscheduler(0)
        """
    with box(script, preexec_fn=urgent) as one:
        assert one.report == {"nice": 0, "oom": 250, "policy": os.SCHED_OTHER}
        for pid in one.members():
            name = status(pid)["Name"]
            score = "0\n" if name == "cay-init" else "250\n"
            assert Path(f"/proc/{pid}/oom_score_adj").read_text() == score, name
            assert os.sched_getscheduler(pid) == os.SCHED_OTHER


INIT = """
    pids = filter(str.isdigit, os.listdir("/proc"))
    keepers = [p for p in pids if read(f"/proc/{p}/comm")[:4] == "cay-"]
    def peek(path):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        return os.listdir(fd) if stat.S_ISDIR(os.fstat(fd).st_mode) else os.read(fd, 1)
    files = ("mem", "environ", "maps", "smaps", "pagemap", "auxv", "stack", "syscall",
             "personality", "io", "map_files", "cwd/", "root/", "exe", "ns/user", "task/1/mem")
    def rewrite(path):
        os.write(os.open(path, os.O_WRONLY), b"0 0 1")
    links = [f"/proc/{p}/fd/{n}" for p in keepers for n in range(16)]
    links += [f"/proc/{p}/{n}" for p in keepers for n in ("exe", "cwd", "root", "ns/net")]
    report["read"] = {f"{p}/{n}": attempt(peek, f"/proc/{p}/{n}") for p in keepers for n in files}
    report["read"].update({link: opens(link) for link in links})
    report["link"] = {link: attempt(os.readlink, link) for link in links}
    report["write"] = {f"{p}/{n}": attempt(rewrite, f"/proc/{p}/{n}") for p in keepers
                       for n in ("mem", "exe", "uid_map", "gid_map", "setgroups")}
    report["trace"] = [syscall(101, r, int(p), 0, 0) for r in (16, 0x4206) for p in keepers]
    report["vm"] = [syscall(n, 1, b"", 0, b"", 0, 0) for n in (310, 311)]
    init = os.pidfd_open(1)
    report["getfd"] = syscall(438, init, 4, 0)
    """
SIGNALS = """
    report["limits"] = syscall(302, 1, 7, struct.pack("<QQ", 1024, 1024), None)
    report["kill"] = [attempt(os.kill, 1, s) for s in (9, 19, 15, 11, 2)]
    report["kill"].append(attempt(signal.pidfd_send_signal, init, 9))
    report["init"] = read("/proc/1/comm").strip()
    """


def check_closed(seen):
    for key in ("read", "link", "write"):
        wrong = {k: v for k, v in seen[key].items() if v not in ("EACCES", "EPERM", "ENOENT")}
        assert not wrong, (key, wrong)
    assert set(seen["trace"]) == {"EPERM"}
    assert {seen["getfd"], *seen["vm"]} == {"ENOSYS"}


def test_b5_the_init_is_out_of_reach():
    """A command cannot read, write, trace, limit or end cay-init, nor the process that serves it,
    nor take a descriptor from them."""
    seen = probe(INIT + SIGNALS)
    check_closed(seen)
    assert "EACCES" in seen["read"].values() and seen["init"] == "cay-init"
    if walls()["id range"]:
        assert seen["limits"] == "EPERM" and set(seen["kill"]) == {"EPERM"}


@pytest.mark.parametrize("user", ["65533", "65533:0", "cay"])
def test_b5_nobody_becomes_the_user_of_the_init(user):
    """That id is refused for commands, by number and by name."""
    support.refused(support.run("--user", user, "--", "true"), "cay-init", "another user")


def test_b5_who_takes_the_id_of_the_init_harms_only_himself():
    """Root of the build profile can take that id. It may then send signals to cay-init and lower
    its limits; the sandbox may end, but does not hang. Memory and descriptors stay closed all the
    same."""
    need_wall("id range")
    take = "os.setresuid(65533, 65533, 65533)"
    check_closed(probe(take + textwrap.dedent(INIT), "--profile", "build"))
    done = support.run("--profile", "build", "--timeout", "5", "--",
                       *code(take + textwrap.dedent(INIT + SIGNALS)))
    assert done.returncode in (0, 125), done


def test_b6_no_core_dump():
    """The limit is zero, hard, and a crash leaves nothing."""
    seen = probe("""
        report["limit"] = resource.getrlimit(resource.RLIMIT_CORE)
        report["raise"] = syscall(160, resource.RLIMIT_CORE, struct.pack("<QQ", 1, 1))
        os.chdir("/tmp")
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        _, code = os.waitpid(child, 0)
        report["dumped"], report["files"] = os.WCOREDUMP(code), os.listdir("/tmp")
        """)
    assert seen == {"limit": [0, 0], "raise": "EPERM", "dumped": False, "files": []}


def test_b7_landlock_is_on():
    """A process may stack sixteen Landlock domains: the one that a sandbox starts in leaves
    fifteen."""
    need_wall("Landlock")
    seen = probe("""
        ruleset = libc.syscall(444, struct.pack("<Q", 1 << 1), ctypes.c_long(8), 0)
        report["ruleset"] = ruleset >= 0
        report["layers"] = 0
        while syscall(446, ruleset, 0) == "ok":
            report["layers"] += 1
        """)
    assert seen == {"ruleset": True, "layers": 15}
