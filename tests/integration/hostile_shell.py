"""Attacks from inside a sandbox whose image has busybox and nothing else, for engines that cannot run the hostile
suite's Python. Nothing is done with what an attack reaches: files are opened and not written."""

import socket
import subprocess

# Each is a command of the shell that succeeds if the attack does. $canary is a process of the host, $port a
# listener on its loopback.
ATTACKS = {
    "a process of the host": 'kill -0 "$canary"',
    "a file of a process of the host": 'cat "/proc/$canary/status"',
    "a port of the host": 'nc -w 2 127.0.0.1 "$port" </dev/null',
    "a mount": "mount -t tmpfs x /mnt",
    "a bind mount": "mount -o bind / /mnt",
    "a new device": "mknod /tmp/node c 1 3",
    "another root": "chroot / true",
    "another host name": "hostname other",
    "another owner for a file": "touch /tmp/owned && chown 7:7 /tmp/owned",
    "a user namespace": "unshare -r true",
    "a mount namespace": "unshare -m true",
    "a network interface": "ip link add dummy9 type dummy",
    "a higher priority": 'test "$(nice -n -5 nice)" -lt 0',
    "core dumps": 'test "$(ulimit -Hc)" != 0',
    "kernel settings, for writing": "true >>/proc/sys/kernel/core_pattern",
    "the system request key, for writing": "true >>/proc/sysrq-trigger",
    "addresses of the kernel": "grep -v '^0000000000000000' /proc/kallsyms",
    "memory of the kernel": "head -c 1 /proc/kcore | grep -q .",
    "keys of others": "grep . /proc/keys",
    "timers of others": "grep . /proc/timer_list",
    "disks of the host": "grep -q '[sv]d[a-z]' /proc/partitions",
    "memory of the machine": "head -c 1 /dev/mem",
    "the log of the kernel": "head -c 1 /dev/kmsg",
    "the virtual machine device": "test -e /dev/kvm",
    "the engine's socket": "ls /var/run/docker.sock /run/docker.sock /run/containerd",
    "memory of cay-init": "head -c 1 /proc/1/mem",
    "the environment of cay-init": "grep -q . /proc/1/environ",
    "a control group, for writing": "for f in $(find /sys/fs/cgroup -name cgroup.procs -o -name release_agent); do "
                                    "(true >>$f) && exit 0; done; false",
}


def succeeded(box):
    """The attacks that succeed in a sandbox, as its root."""
    with subprocess.Popen(["sleep", "300"]) as canary, socket.create_server(("127.0.0.1", 0)) as server:
        lines = [f"canary={canary.pid} port={server.getsockname()[1]}"]
        lines += [f"if ( {attack} ) >/dev/null 2>&1 </dev/null; then echo {title!r}; fi"
                  for title, attack in ((t.replace("'", ""), a) for t, a in ATTACKS.items())]
        try:
            found = set(box.says("\n".join([*lines, "echo the end"])).splitlines())
            assert "the end" in found  # all of them were tried
            return found - {"the end"}
        finally:
            canary.kill()
