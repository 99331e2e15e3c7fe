"""Starting the programs that test, in lanes where this machine can make them."""

import functools
import os
import pathlib
import select
import signal
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
LANE = ROOT / "scripts/lane"
UNIT_SECONDS = 2400  # after which a command counts as hanging

_running = set()
_lock = threading.Lock()
_stopping = False
_spent = threading.local()  # CPU seconds of the commands that this thread ran


def cpu_spent():
    """CPU seconds of all commands that this thread ran so far, with their descendants."""
    return getattr(_spent, "seconds", 0.0)


def wait(child, seconds):
    """Waits for a child and adds its CPU time; False if it still runs after so many seconds."""
    pidfd = os.pidfd_open(child.pid)
    try:
        if not select.select([pidfd], [], [], seconds)[0]:
            return False
    finally:
        os.close(pidfd)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    _spent.seconds = cpu_spent() + usage.ru_utime + usage.ru_stime
    return True


def run(command, env=None):
    """(exit code, output); a command that hangs or is missing is a failure with a reason.

    The output goes to a file: a process that a test leaves behind must not keep us waiting.
    """
    with tempfile.TemporaryFile() as log:
        try:
            with _lock:
                if _stopping:
                    return 130, "interrupted\n"
                child = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **(env or {})},
                                         stdin=subprocess.DEVNULL, stdout=log,
                                         stderr=subprocess.STDOUT, start_new_session=True)
                _running.add(child)
        except OSError as e:
            return 127, f"{command[0]}: {e}\n"
        note = ""
        if not wait(child, UNIT_SECONDS):
            note = f"\nno end after {UNIT_SECONDS} seconds\n"
            os.killpg(child.pid, signal.SIGKILL)
            wait(child, None)
        _running.discard(child)
        log.seek(0)
        return 124 if note else child.returncode, log.read().decode(errors="replace") + note


def stop_all():
    """Ends what runs, and lets nothing more begin."""
    global _stopping
    with _lock:
        _stopping = True
        for child in list(_running):
            os.killpg(child.pid, signal.SIGINT)


@functools.cache
def has_lanes():
    """True if units can run at the same time without seeing each other."""
    return run([LANE, "true"])[0] == 0


def run_in_lane(command, env=None):
    """As run(), on a machine that nobody else uses, as far as the command can see."""
    return run([LANE, *command] if has_lanes() else command, env)
