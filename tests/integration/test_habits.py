"""What users of Docker and of other sandboxes type: it works, or the answer says what to type."""

import re

import pytest
from daemons import Daemon
from support import CAY, cay, ok, run, sh, as_root_only  # noqa: F401

USAGE = 2


def answer(*words):
    done = cay(*words)
    assert done.returncode in (USAGE, 125) and done.stdout == b"", done
    return done.stderr.decode()


def verbs():
    """The words in the table of verbs, so that a new row is tried as well."""
    text = (CAY.parents[1] / "src/cli/habits.c").read_text()
    return re.findall(r'^    \{"([a-z]+)", "', text, re.M)


@pytest.mark.parametrize("word", verbs())
def test_a_foreign_verb_has_an_answer(word):
    assert f"'{word}' is not a command of cay; " in answer(word)


@pytest.mark.parametrize("typed, says", [
    ("inspect", "cay info"), ("kill", "cay stop --grace 0"), ("attach", "cay terminal attach"),
    ("top", "cay stats"), ("rmi", "cay image rm"), ("push", "cay image save"), ("pull", "cay image pull"),
    ("login", "cay image login"), ("images", "cay image ls"), ("restart", "cay start"),
    ("commit", "cay snapshot create"), ("events", "cay audit -f"), ("ssh", "cay shell"),
    ("rnu", "cay run"), ("hlep", "cay --help"), ("craete", "cay create"),
])
def test_a_foreign_or_mistyped_verb(typed, says):
    assert says in answer(typed)


@pytest.mark.parametrize("typed", ["bogus", "rmm", "prnue", "sotp", "mr"])
def test_no_hint_names_what_destroys(typed):
    """Who mistypes must not be led to a removal or a stop."""
    assert "did you mean" not in answer(typed)


@pytest.mark.parametrize("verb", ["run", "create", "exec"])
@pytest.mark.parametrize("option, says", [
    ("--privileged", "--profile build"), ("--gpus", "no GPU"), ("-d", "cay session exec --async"),
    ("-p", "preview"), ("--cap-add", "never gets more rights"), ("--mount", "-v HOST:BOX"),
])
def test_a_foreign_option_has_an_answer(verb, option, says):
    assert says in answer(verb, option, "x")


@pytest.mark.parametrize("what", ["ls", "list", "rm", "delete"])
def test_snapshots_are_images(what):
    assert "cay image" in answer("snapshot", what)


@pytest.mark.parametrize("words, image", [
    (["ubuntu", "echo", "hi"], "ubuntu"), (["python:3.12-slim", "bash"], "python:3.12-slim"),
    (["--rm", "team/tool", "x"], "team/tool"),
])
def test_run_with_an_image_as_its_first_word(words, image):
    done = run(*words)
    assert done.returncode == 127
    assert f"cay run --image {image} -- ..." in done.stderr.decode()


def test_an_unknown_command_is_not_taken_for_an_image():
    for word in ("no-such-command", "./a/b", "/bin/nothing"):
        assert b"--image" not in run("--", word).stderr


def test_rm_is_accepted():
    assert ok(run("--rm", "--", "echo", "hi")) == "hi\n"


# ---- environment ----

def test_env_file(folder):
    (folder / "env").write_text("# comment\n\nA=1\n  B=two words\r\nC\nEMPTY=\nA=last\nUNSET_ANYWHERE\n")
    (folder / "env").chmod(0o644)
    shown = ok(sh('echo "$A/$B/$C/$EMPTY/${UNSET_ANYWHERE-none}/$D"', "--env-file", folder / "env", "-e", "D",
                  env={"C": "mine", "D": "given"}))
    assert shown == "last/two words/mine//none/given\n"


def test_an_option_wins_over_the_file(folder):
    (folder / "env").write_text("A=file\n")
    (folder / "env").chmod(0o644)
    assert ok(sh("echo $A", "-e", "A=option", "--env-file", folder / "env")) == "option\n"


@pytest.mark.parametrize("content, says", [
    (b"=x\n", "line 1"), (b"A=\0\n", "NUL"), (b"A" * (1 << 20), "too large"), (None, "No such file"),
])
def test_a_bad_env_file(folder, content, says):
    if content is not None:
        (folder / "env").write_bytes(content)
        (folder / "env").chmod(0o644)
    done = sh("true", "--env-file", folder / "env")
    assert done.returncode == 125 and says in done.stderr.decode()


def test_a_volume_of_the_current_folder(folder):
    (folder / "file").write_text("here\n")
    (folder / "file").chmod(0o644)
    for source in (".", "./", f"../{folder.name}"):
        assert ok(run("-v", f"{source}:/v:ro", "--", "cat", "/v/file", cwd=folder)) == "here\n"
    assert "No such file" in run("-v", "./gone:/v", "--", "true", cwd=folder).stderr.decode()
    assert "cay create" in run("-v", "name:/v", "--", "true").stderr.decode()


# ---- verbs on persistent sandboxes ----

@as_root_only
def test_create_by_name_exec_and_rm_all(folder):
    daemon = Daemon(folder)

    def verb(*words, **more):
        return cay("--state-dir", daemon.state, *words, **more)

    try:
        assert ok(verb("create", "lab", "-e", "FROM_ME", env={"FROM_ME": "yes"})) == "lab\n"
        assert ok(verb("exec", "-e", "X=1", "lab", "--", "sh", "-c", "echo $FROM_ME $X")) == "yes 1\n"
        assert b"sh -c 'echo hi'" in verb("exec", "lab", "echo hi").stderr
        assert b"two names" in verb("create", "--name", "a", "b").stderr
        assert b"--image ubuntu" in verb("create", "ubuntu").stderr
        ok(verb("create", "other"))
        ok(verb("stop", "other"))
        assert b"no sandbox given" in verb("rm").stderr
        assert b"takes no names" in verb("rm", "--all", "lab").stderr
        ok(verb("rm", "--all"))
        assert ok(verb("ls", "-aq")) == ""
    finally:
        daemon.stop()
