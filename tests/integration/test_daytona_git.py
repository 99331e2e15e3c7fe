"""Git through the toolbox, by raw HTTP: a repository's life, and what its failures are called."""

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
import support
from daemons import serving

pytestmark = support.as_root_only


@pytest.fixture(scope="module")
def daemon():
    folder = Path(tempfile.mkdtemp(prefix="box-", dir="/tmp"))
    folder.chmod(0o755)
    with serving(support.own(folder)) as d:
        yield d
    shutil.rmtree(folder, ignore_errors=True)


class Git:
    def __init__(self, daemon, box):
        self.daemon, self.box = daemon, box

    def ask(self, method, what, **body):
        answer = self.daemon.ask(method, f"/toolbox/{self.box}/git/{what}",
                                 body if method != "GET" else None)
        assert "secret" not in answer.text
        return answer

    def do(self, what, status=200, method="POST", **body):
        answer = self.ask(method, what, **body)
        assert answer.status == status, answer.text
        return json.loads(answer.text) if answer.text else None

    def get(self, what):
        return self.do(what, method="GET")

    def fails(self, what, status, code, method="POST", **body):
        error = json.loads((answer := self.ask(method, what, **body)).text)
        assert (answer.status, error["code"]) == (status, code), error
        assert error["source"] == "DAYTONA_DAEMON" and error["statusCode"] == status
        return error["message"]

    def shell(self, script):
        code, out = self.daemon.exec(self.box, "/bin/sh", "-c", script)
        assert code == 0, out
        return out


@pytest.fixture(scope="module")
def git(daemon):
    g = Git(daemon, daemon.create(name="git")["id"])
    if not shutil.which("git"):
        pytest.skip("this machine has no git")
    return g


@pytest.fixture
def repo(git, request):
    """A repository with one commit, of which /workspace/up.N is a bare clone."""
    name = re.sub(r"\W", "", request.node.name)
    path = f"/workspace/{name}"
    git.do("init", 201, path=path, initial_branch="main")
    git.shell(f"echo one > {path}/a")
    git.do("add", path=path, files=["a"])
    made = git.do("commit", path=path, message="one", author="Ann", email="ann@example.org")
    assert re.fullmatch("[0-9a-f]{40}", made["hash"])
    git.hash = made["hash"]
    git.shell(f"git clone -q --bare {path} {path}.up")
    return path


def test_status(git, repo):
    clean = git.get(f"status?path={repo}")
    assert clean == {"fileStatus": [], "currentBranch": "main", "detached": False, "upstream": "",
                     "ahead": 0, "behind": 0, "branchPublished": False}
    git.shell(f"cd {repo}; echo two > a; echo x > 'new file'; git mv -k none none; true")
    words = {f["name"]: (f["staging"], f["worktree"])
             for f in git.get(f"status?path={repo}")["fileStatus"]}
    assert words == {"a": ("Unmodified", "Modified"), "new file": ("Untracked", "Untracked")}
    git.do("add", path=repo, files=["."])
    words = {f["name"]: f["staging"] for f in git.get(f"status?path={repo}")["fileStatus"]}
    assert words == {"a": "Modified", "new file": "Added"}


def test_history_has_who_and_when(git, repo):
    made = git.do("commit", path=repo, message="two\n\nbody", author="Bob", email="b@x",
                  allow_empty=True)
    two, one = git.get(f"history?path={repo}")
    assert (two["hash"], two["author"], two["email"]) == (made["hash"], "Bob", "b@x")
    assert two["message"] == "two\n\nbody" and one["hash"] == git.hash
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", two["timestamp"])


def test_nothing_yet(git):
    git.do("init", 201, path="/workspace/empty")
    assert git.get("history?path=/workspace/empty") == []
    assert git.get("branches?path=/workspace/empty") == {"branches": [], "current": ""}
    assert git.get("remotes?path=/workspace/empty") == {"remotes": []}


def test_branches(git, repo):
    git.do("branches", 201, path=repo, name="dev")
    assert git.get(f"branches?path={repo}") == {"branches": ["dev", "main"], "current": "main"}
    git.fails("branches", 409, "GIT_BRANCH_EXISTS", path=repo, name="dev")
    git.do("checkout", path=repo, branch="dev")
    assert git.get(f"status?path={repo}")["currentBranch"] == "dev"
    git.fails("branches", 409, "CONFLICT", method="DELETE", path=repo, name="dev")
    git.do("checkout", path=repo, branch=git.hash)
    assert git.get(f"status?path={repo}")["detached"]
    git.do("branches", 204, method="DELETE", path=repo, name="dev")
    git.fails("branches", 404, "GIT_BRANCH_NOT_FOUND", method="DELETE", path=repo, name="dev")
    git.fails("checkout", 404, "GIT_BRANCH_NOT_FOUND", path=repo, branch="nowhere")


def test_clone_push_and_pull(git, repo):
    up, one, two = f"{repo}.up", f"{repo}.1", f"{repo}.2"
    git.do("clone", url=up, path=one, branch="main")
    git.do("clone", url=up, path=two, commit_id=git.hash)
    assert git.get(f"status?path={two}")["detached"]
    git.do("checkout", path=two, branch="main")
    assert git.get(f"remotes?path={one}") == {"remotes": [{"name": "origin", "url": up}]}
    git.shell(f"echo more > {one}/b")
    git.do("add", path=one, files=["b"])
    git.do("commit", path=one, message="b", author="A", email="a@x")
    status = git.get(f"status?path={one}")
    assert (status["ahead"], status["upstream"], status["branchPublished"]) == \
        (1, "origin/main", True)
    git.do("push", path=one, username="me", password="secret")
    assert git.get(f"status?path={one}")["ahead"] == 0
    git.do("commit", path=two, message="c", author="A", email="a@x", allow_empty=True)
    git.fails("push", 409, "GIT_PUSH_REJECTED", path=two)
    git.do("reset", path=two, mode="hard", target="HEAD~1")
    git.do("pull", path=two)
    assert git.shell(f"cat {two}/b") == "more\n"


def test_what_is_in_the_way(git, repo):
    git.shell(f"cd {repo}; git checkout -q -b dev; echo dev > a; "
              "git -c user.name=x -c user.email=x commit -qam dev; git checkout -q main; echo z > a")
    git.fails("checkout", 409, "GIT_DIRTY_WORKTREE", path=repo, branch="dev")
    git.do("restore", path=repo, files=["a"])
    assert git.shell(f"cat {repo}/a") == "one\n"
    git.fails("commit", 409, "CONFLICT", path=repo, message="m", author="a", email="e")
    git.fails("add", 404, "FILE_NOT_FOUND", path=repo, files=["missing"])
    git.fails("clone", 409, "CONFLICT", url=f"{repo}.up", path=repo)


def test_remotes(git, repo):
    git.do("remotes", 201, path=repo, name="origin", url=f"{repo}.up", fetch=True)
    git.fails("remotes", 409, "CONFLICT", path=repo, name="origin", url="/elsewhere")
    git.do("remotes", 201, path=repo, name="origin", url="/elsewhere", overwrite=True)
    assert git.get(f"remotes?path={repo}")["remotes"] == [{"name": "origin", "url": "/elsewhere"}]


def test_settings(git, repo):
    git.do("config", key="user.name", value="Ann B", scope="global")
    assert git.get("config?key=user.name") == {"value": "Ann B"}
    assert git.get(f"config?key=user.name&scope=local&path={repo}") == {"value": None}
    git.do("config/user", name="Local", email="l@x", scope="local", path=repo)
    assert git.get(f"config?key=user.email&scope=local&path={repo}") == {"value": "l@x"}
    git.fails("config", 400, "BAD_REQUEST", key="a.b", value="c", scope="local")
    git.fails("config", 400, "BAD_REQUEST", key="a.b", value="c", scope="mine")
    git.do("credentials", username="me", password="secret", host="git.example")
    assert "https://me:secret@git.example" in git.shell("cat ~/.git-credentials")


def test_who_asks_for_a_password_gets_it_and_nobody_else(git):
    """A server that wants one sees it; no argument of any process in the sandbox has it."""
    git.shell("mkdir -p /workspace/bin; cat > /workspace/server.py <<'EOF'\n"
              "import base64, http.server, glob, sys\n"
              "class H(http.server.BaseHTTPRequestHandler):\n"
              "    def do_GET(self):\n"
              "        seen = self.headers.get('Authorization', '')\n"
              "        words = b''.join(open(f, 'rb').read() for f in glob.glob('/proc/[0-9]*/cmdline'))\n"
              "        with open('/workspace/seen', 'a') as f:\n"
              "            f.write(seen + ' ' + str(b's3cret' in words) + '\\n')\n"
              "        self.send_response(401 if not seen else 403)\n"
              "        self.send_header('WWW-Authenticate', 'Basic realm=x')\n"
              "        self.send_header('Content-Length', '0')\n"
              "        self.end_headers()\n"
              "http.server.HTTPServer(('127.0.0.1', 8418), H).serve_forever()\n"
              "EOF\n(python3 /workspace/server.py >/dev/null 2>&1 &)\n"
              "for i in $(seq 100); do python3 -c 'import socket; "
              "socket.create_connection((\"127.0.0.1\", 8418))' 2>/dev/null && break; sleep 0.05; done")
    url = "http://127.0.0.1:8418/x.git"
    git.fails("clone", 401, "GIT_AUTH_FAILED", url=url, path="/workspace/n1")
    said = git.fails("clone", 403, "GIT_AUTH_FAILED", url=url, path="/workspace/n2",
                     username="me", password="s3cret")
    assert "s3cret" not in said
    seen = git.shell("cat /workspace/seen").split("\n")
    assert "Basic bWU6czNjcmV0 False" in seen and not any(line.endswith("True") for line in seen)


@pytest.mark.parametrize("what, body", [
    ("clone", {"url": "--upload-pack=touch /tmp/x", "path": "p"}),
    ("clone", {"url": "/a", "path": "-p"}),
    ("clone", {"url": "/a"}),
    ("clone", {"url": "/a", "path": "p", "depth": -1}),
    ("clone", {"url": "/a", "path": "p", "password": "a\nb"}),
    ("checkout", {"path": ".", "branch": "--orphan"}),
    ("checkout", {"path": "", "branch": "x"}),
    ("add", {"path": ".", "files": []}),
    ("add", {"path": ".", "files": "a"}),
    ("reset", {"path": ".", "mode": "sideways"}),
    ("commit", {"path": ".", "message": "", "author": "a", "email": "e"}),
])
def test_bad_requests(git, what, body):
    git.fails(what, 400, "BAD_REQUEST", **body)


def test_not_there(git):
    git.shell("mkdir -p /tmp/plain")
    git.fails("status?path=/tmp/plain", 404, "GIT_REPO_NOT_FOUND", method="GET")
    git.fails("status?path=/none", 404, "GIT_REPO_NOT_FOUND", method="GET")
    assert "none" not in git.shell("ls /")
    git.fails("clone", 404, "GIT_REPO_NOT_FOUND", url="/none", path="/tmp/n")
    git.fails("clone", 502, "GIT_TRANSPORT_FAILED", url="http://127.0.0.1:1/x", path="/tmp/n")
    assert os.path.exists("/none") is False
