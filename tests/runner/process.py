"""Starting the programs that test, in lanes where this machine can make them."""

import functools
import os
import pathlib
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
        try:
            code, note = child.wait(UNIT_SECONDS), ""
        except subprocess.TimeoutExpired:
            code, note = 124, f"\nno end after {UNIT_SECONDS} seconds\n"
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        _running.discard(child)
        log.seek(0)
        return code, log.read().decode(errors="replace") + note


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
