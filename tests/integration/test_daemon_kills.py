"""kill -9 of the daemon's processes, one by one and together, at random moments and under load: no
acknowledged sandbox, file or finished command is lost, and nothing is left of what was not."""

import contextlib
import os
import signal
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import support
from daemons import Daemon
from launching import until
from stressing import Client, amount, family, random_numbers, what_stays

DAEMONS = 4  # at a time: each waits a while before it replaces what dies again and again
KILLS = amount(100, 3000)
# The last one of a round ends the supervisor, and with it the memory of how often others have died.
ROUND = ("front", "launcher", "both", "any", "all")


class Victim:
    """A daemon that is killed over and over, with its clients."""

    def __init__(self, folder, numbers, kills):
        self.daemon = Daemon(folder)
        self.numbers = numbers
        self.kills = kills
        self.clients = [Client(self.daemon, numbers) for _ in range(3)]

    def pids(self, how):
        found = {"front": [self.daemon.front()], "launcher": [self.daemon.launcher()],
                 "both": [self.daemon.launcher(), self.daemon.front()]}
        found["any"] = found[self.numbers.choice(list(found))]
        found["all"] = [self.daemon.process.pid, *found["both"]]
        return found[how]

    def kill(self, how):
        """All that there are of them, as soon as there is one."""
        end = time.monotonic() + 60
        while not any(pids := self.pids(how)):
            assert time.monotonic() < end, f"no {how}: {self.daemon.log.read_text()[-3000:]}"
            time.sleep(0.005)
        if how == "all" and self.numbers.random() < 0.2:
            pids = pids[:1]  # the supervisor alone: the others have to notice
        for pid in filter(None, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if how == "all":
            self.daemon.process.wait(60)
            self.daemon.start()

    def torment(self):
        for turn in range(self.kills):
            time.sleep(self.numbers.uniform(0, 0.25))
            self.kill(ROUND[turn % len(ROUND)])

    def run(self):
        stop = threading.Event()
        with ThreadPoolExecutor(len(self.clients)) as pool:
            running = [pool.submit(client.run, stop) for client in self.clients]
            try:
                self.torment()
                until(lambda: self.done() > self.kills or self.wrong(), 120)
            finally:
                stop.set()
            for future in running:
                future.result(120)

    def done(self):
        """How much of the clients' work was: without any, their promises say nothing."""
        return sum(client.done for client in self.clients)

    def wrong(self):
        return [text for client in self.clients for text in client.wrong]

    # ---- afterwards ----

    def known(self):
        return {s["id"] for s in self.daemon.list()}

    def only_the_known_are_there(self):
        """What nobody was promised was either kept, and is known, or has no folder and socket."""
        state = self.daemon.state
        folders = {p.name for p in (state / "sandboxes").iterdir() if p.name[0] != "."}
        sockets = {p.stem for p in (state / "daemon/run").iterdir()}
        return folders == self.known() and sockets <= folders

    def check(self):
        daemon = self.daemon
        daemon.kill()
        daemon.start()
        assert not self.wrong(), (self.wrong(), daemon.log.read_text()[-3000:])
        assert until(lambda: daemon.serves() and self.only_the_known_are_there()), \
            (self.known(), sorted((daemon.state / "sandboxes").iterdir()))
        for client in self.clients:
            client.check()
        assert self.done() > self.kills

    def nothing_is_left(self):
        ids = self.known().union(*(client.seen for client in self.clients))
        for box in self.known():
            self.daemon.call("DELETE", f"/api/cay/sandbox/{box}?force=true")
        left = what_stays(self.daemon.state, ids, lambda: family(self.daemon.process.pid))
        assert not left, left
        self.daemon.clean_up()
        assert not what_stays(self.daemon.state, ids)


@pytest.fixture
def folders():
    with contextlib.ExitStack() as undo:
        made = [Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="kill-", dir="/tmp")))
                for _ in range(DAEMONS)]
        for path in made:
            path.chmod(0o755)
            support.own(path)
        yield made


def test_killed_at_random_moments(folders):
    numbers = random_numbers()
    with ThreadPoolExecutor(DAEMONS) as pool:
        victims = list(pool.map(lambda folder: Victim(folder, numbers, KILLS // DAEMONS), folders))
        try:
            list(pool.map(Victim.run, victims))
            for victim in victims:
                victim.check()
                victim.nothing_is_left()
        finally:
            for victim in victims:
                if victim.daemon.process.poll() is None:
                    victim.daemon.clean_up()
