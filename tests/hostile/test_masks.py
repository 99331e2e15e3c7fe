"""Section 5 of the checklist: what /proc, /sys and /dev tell, and what can be written there."""

import re
from pathlib import Path

from inside import probe

# Unreadable or empty, where the kernel has them at all.
MASKED = """acpi asound bootconfig bus/input/devices cmdline config.gz diskstats dynamic_debug
    interrupts iomem ioports kallsyms kcore keys key-users kmsg kpagecgroup kpagecount kpageflags
    latency_stats mdstat modules pagetypeinfo pressure sched_debug scsi slabinfo swaps timer_list
    timer_stats vmallocinfo sysrq-trigger sys/kernel/core_pattern sys/kernel/cad_pid""".split()
READABLE = {"sys/kernel/core_pattern", "bus/input/devices"}  # tells nothing; must not be written


def test_masked_files_tell_nothing():
    """Each file of the list is closed or empty, although the host has something in most."""
    seen = probe("""
        for name in sys.argv[1:]:
            path = "/proc/" + name
            def look():
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                content = os.listdir(fd) if stat.S_ISDIR(os.fstat(fd).st_mode) else os.read(fd, 64)
                report[name] = "content" if content else "empty"
            refused = attempt(look)
            report.setdefault(name, refused)
        """, args=[name for name in MASKED if name not in READABLE])
    allowed = {"ENOENT", "EACCES", "EPERM", "empty"}
    wrong = {name: result for name, result in seen.items() if result not in allowed}
    assert not wrong
    hidden = [name for name, result in seen.items() if result != "ENOENT"]
    assert len(hidden) > 10, "the kernel has hardly any of them: nothing was tested"


def test_the_boot_id_cannot_be_written():
    """Neither where it is read nor where the kernel keeps it."""
    seen = probe("""
        for line in read("/proc/self/mountinfo").splitlines():
            root, target = line.split()[3:5]
            if target == "/proc/sys/kernel/random/boot_id":
                report["root"] = root
        for name in ("random/boot_id", "domainname"):
            path = f"/proc/sys/kernel/{name}"
            report[name] = [len(read(path)), opens(path, os.O_WRONLY), attempt(put, path, "x")]
        report["same"] = read("/proc/sys/kernel/random/boot_id") == read("/proc/sys/kernel/domainname")
        report["again"] = len({read("/proc/sys/kernel/random/boot_id") for _ in range(3)})
        """)
    assert seen["root"] == "/sys/kernel/domainname" and seen["same"] and seen["again"] == 1
    for name in ("random/boot_id", "domainname"):
        size, opened, written = seen[name]
        assert size == 37 and {opened, written} <= {"EACCES", "EROFS", "EPERM"}, seen


def test_masks_lie_over_the_real_files():
    """The masks are our own empty inodes, not the device or the image's files: none can be
    written."""
    seen = probe("""
        for line in read("/proc/self/mountinfo").splitlines():
            target = line.split()[4]
            if not target.startswith("/proc/") or os.path.isdir(target):
                continue
            st = os.stat(target)
            if stat.S_ISREG(st.st_mode) and st.st_dev != os.stat("/proc").st_dev:
                report[target] = [st.st_size, st.st_uid == 0, opens(target, os.O_WRONLY)]
        """)
    assert "/proc/cmdline" in seen
    for target, (size, _, write) in seen.items():
        assert size == 0 and write in ("EACCES", "EROFS", "EPERM"), (target, write)


def test_nothing_in_proc_can_be_written():
    """Every file of /proc that belongs to no process, all of /proc/sys among them, refuses to be
    opened for writing: sysctls, sysrq, interrupts, memory types."""
    seen = probe("""
        tried = 0
        for top, folders, files in os.walk("/proc"):
            if top == "/proc":
                folders[:] = [f for f in folders if not f.isdigit() and f not in
                              ("self", "thread-self")]
            for name in files:
                path = os.path.join(top, name)
                if os.path.islink(path):
                    continue
                tried += 1
                result = opens(path, os.O_WRONLY)
                if result not in ("EACCES", "EPERM", "EROFS", "ENOENT", "EIO", "EINVAL"):
                    report[path] = result
        report["tried"] = tried
        report["last"] = attempt(put, "/proc/sys/kernel/ns_last_pid", "99")
        """)
    assert seen.pop("tried") > 500
    # Open to everybody, but the kernel wants a capability when it is written.
    seen.pop("/proc/sys/kernel/ns_last_pid", None)
    assert seen.pop("last") != "ok"
    assert not seen


def test_own_process_entries_change_only_ourselves():
    """What a process may write below /proc/self gives it nothing: no ids, no groups, no namespace,
    no less likely death, no attribute of a security module."""
    seen = probe("""
        for name, text in (("uid_map", "0 0 1"), ("gid_map", "0 0 1"), ("setgroups", "allow"),
                           ("oom_score_adj", "-1000"), ("oom_adj", "-17"),
                           ("timens_offsets", "monotonic 1 0"), ("attr/exec", "unconfined"),
                           ("attr/fscreate", "x"), ("make-it-fail", "1"), ("fail-nth", "1")):
            report[name] = attempt(put, "/proc/self/" + name, text)
        """)
    assert "ok" not in seen.values(), seen


def test_no_sys_no_cgroup_no_debug():
    """/sys is not there: no hardware, no firmware, no cgroup to leave, no tracing."""
    seen = probe("""
        for path in ("/sys/kernel", "/sys/firmware", "/sys/fs/cgroup", "/sys/class/net",
                     "/sys/block",
                     "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/devices/virtual/powercap",
                     "/sys/devices/virtual/dmi/id", "/sys/fs/bpf", "/sys/fs/selinux", "/boot",
                     "/lib/modules/" + os.uname().release + "/vmlinux", "/dev/kmsg", "/dev/mem",
                     "/run/docker.sock", "/var/run/docker.sock", "/run/systemd", "/run/dbus"):
            report[path] = attempt(os.listdir, path) if not opens(path) == "ok" else "ok"
        """)
    assert set(seen.values()) == {"ENOENT"}, seen


def test_time_and_log_of_the_host_are_out_of_reach():
    """The kernel's log is not read, its clock and name not set, its swap and accounting not
    touched, and it is not restarted."""
    seen = probe("""
        report["syslog"] = [syscall(103, action, bytes(64), 64) for action in (2, 3, 5, 8)]
        report["clock"] = [syscall(164, bytes(16), None), syscall(227, 0, bytes(16))]
        report["adjust"] = [syscall(159, bytes(256)), syscall(305, 0, bytes(256))]
        report["swap"] = [syscall(n, b"/tmp/x", 0) for n in (163, 167, 168)]
        report["modules"] = [syscall(n, 0, 0, 0) for n in (175, 176, 313, 246, 320)]
        """)
    assert set(seen["syslog"] + seen["clock"] + seen["swap"]) == {"EPERM"}, seen
    assert set(seen["adjust"] + seen["modules"]) == {"ENOSYS"}, seen


def test_secrets_of_the_host_are_not_in_the_image():
    """The host image shows programs, not this machine: no password, key, token, account or
    service of it."""
    seen = probe("""
        report["shadow"] = [line.split(":")[1] for line in read("/etc/shadow").splitlines()]
        report["users"] = [line.split(":")[0] for line in read("/etc/passwd").splitlines()]
        report["homes"] = {f"{top}/{name}": os.listdir(f"{top}/{name}") for top in ("/home",)
                           for name in os.listdir(top)}
        report["root"] = os.listdir("/root")
        report["others"] = {p: opens(p) for p in ("/etc/ssh/ssh_host_ed25519_key", "/etc/sudoers",
                            "/root/.ssh/id_rsa", "/root/.npmrc", "/etc/npmrc", "/usr/etc/npmrc",
                            "/etc/gshadow", "/var/lib/cay", "/var/log/syslog", "/etc/fstab")}
        """)
    assert set(seen["shadow"]) == {"*"}
    assert seen["root"] == [] and not any(seen["homes"].values())
    assert set(seen["others"].values()) <= {"ENOENT", "EACCES"}, seen["others"]
    host = Path("/etc/passwd").read_text()
    people = re.findall(r"^([^:]+):[^:]*:[1-5]\d{3}:", host, re.M)
    assert not set(people) & set(seen["users"])
