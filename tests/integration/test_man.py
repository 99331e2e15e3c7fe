"""The man pages are well-formed, and say what the program knows: no option and no key more or less."""

import re
import shutil
import subprocess

import pytest
import support

MAN = support.ROOT / "man"
PAGES = sorted(p.name.removesuffix(".scd") for p in MAN.glob("*.scd"))


def roff(page):
    if shutil.which("scdoc") is None:
        pytest.skip("scdoc is not installed: apt-get install scdoc")
    return subprocess.run(["scdoc"], input=(MAN / f"{page}.scd").read_bytes(),
                          capture_output=True, check=True).stdout


def help_options(*verb):
    """Pairs of letter (or "") and long name that --help lists."""
    text = support.cay(*verb, "--help").stdout.decode()
    return set(re.findall(r"^  (?:-(\w), |    )--([\w-]+)", text, re.M))


def page_options(page):
    """The same from the page: lines that consist of an option and its argument."""
    text = (MAN / f"{page}.scd").read_text()
    return set(re.findall(r"^(?:\*-(\w)\*, )?\*--([\w-]+)\*(?: \S.*)?$", text, re.M))


def test_there_is_a_page_for_each_verb_that_has_options_of_its_own():
    assert {"cay.1", "cay-run.1", "cay-image.1", "cay-doctor.1", "cay.toml.5"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_page_is_well_formed(page, tmp_path):
    file = tmp_path / page
    file.write_bytes(roff(page))
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed: apt-get install mandoc")
    lint = subprocess.run(["mandoc", "-Tlint", "-W", "error", file], capture_output=True,
                          text=True)
    assert lint.returncode == 0, lint.stdout + lint.stderr


def test_every_verb_is_in_the_synopsis_of_a_page():
    text = support.cay("--help").stdout.decode()
    verbs = set(re.findall(r"^  ([a-z][\w-]*)  ", text, re.M)) - {"completion", "config", "version"}
    assert len(verbs) > 20
    shown = "".join((MAN / f"{page}.scd").read_text().partition("# DESCRIPTION")[0] for page in PAGES)
    assert not [verb for verb in verbs if not re.search(rf"^\*cay {verb}\b", shown, re.M)]


def test_every_option_of_run_is_in_its_page_and_the_reverse():
    known = help_options("run")
    assert ("m", "memory") in known and ("", "tier") in known
    assert page_options("cay-run.1") == known


def test_every_option_of_python_is_in_its_page_and_the_reverse():
    known = help_options("python") - help_options("doctor")
    known.discard(("", "verbose"))  # which has lost its letter to --volume
    assert page_options("cay-python.1") == known


def test_every_option_of_run_code_is_in_its_page_and_the_reverse():
    known = help_options("run-code") - help_options("doctor")
    known.discard(("", "verbose"))
    assert page_options("cay-run-code.1") == known


def image_verbs():
    text = support.cay("image", "--help").stdout.decode()
    return re.findall(r"^  (\w+) ", text.split("Commands:")[1].split("Options:")[0], re.M)


def test_every_verb_of_image_is_in_its_page_and_the_reverse():
    page = (MAN / "cay-image.1.scd").read_text()
    assert sorted(re.findall(r"^\*cay image (\w+)\*", page, re.M)) == sorted(image_verbs())
    commands = page.split("# COMMANDS")[1].split("# OPTIONS")[0]
    assert sorted(re.findall(r"^\*(\w+)\*", commands, re.M)) == sorted(image_verbs())


def test_every_option_of_image_is_in_its_page_and_the_reverse():
    known = set.union(*(help_options("image", verb) for verb in image_verbs()))
    assert page_options("cay-image.1") == known - help_options("doctor")


def sandbox_verbs():
    text = support.cay("--help").stdout.decode()
    verbs = re.findall(r"^  (\w+) ", text.split("stay:")[1].split("Options:")[0], re.M)
    return [verb for verb in verbs if not is_group(verb)]


def is_group(verb):
    """Groups are told with their commands, elsewhere."""
    return b"COMMAND [ARG...]" in support.cay(verb, "--help").stdout.split(b"\n")[0] and verb != "exec"


def test_every_verb_on_sandboxes_is_in_their_page_and_the_reverse():
    page = (MAN / "cay-sandbox.1.scd").read_text()
    assert sorted(re.findall(r"^\*cay (\w+)\*", page, re.M)) == sorted(sandbox_verbs())
    commands = page.split("# COMMANDS")[1].split("# OPTIONS")[0]
    assert sorted(re.findall(r"^\*(\w+)\*", commands, re.M)) == sorted(sandbox_verbs())


def test_every_option_of_sandboxes_is_in_their_page_and_the_reverse():
    known = set.union(*(help_options(verb) for verb in sandbox_verbs())) - help_options("doctor")
    known.discard(("", "verbose"))  # which has lost its letter to --volume
    assert page_options("cay-sandbox.1") == known


def group_verbs(group):
    text = support.cay(group, "--help").stdout.decode()
    return re.findall(r"^  (\w+) ", text.split("Commands:")[1].split("Options:")[0], re.M)


@pytest.mark.parametrize("group", ["session", "context", "terminal", "volume", "org"])
def test_every_verb_of_a_group_is_in_its_page_and_the_reverse(group):
    page = (MAN / f"cay-{group}.1.scd").read_text()
    verbs = sorted(group_verbs(group))
    assert sorted(re.findall(rf"^\*cay {group} (\w+)\*", page, re.M)) == verbs
    commands = page.split("# COMMANDS")[1].split("# OPTIONS")[0]
    assert sorted(re.findall(r"^\*(\w+)\*", commands, re.M)) == verbs


@pytest.mark.parametrize("group", ["session", "context", "terminal", "volume", "org"])
def test_every_option_of_a_group_is_in_its_page_and_the_reverse(group):
    known = set.union(*(help_options(group, verb) for verb in group_verbs(group)))
    assert page_options(f"cay-{group}.1") == known - help_options("doctor")


@pytest.mark.parametrize("verb", ["create", "ls", "rm"])
def test_key_is_in_its_page(verb):
    page = (MAN / "cay-key.1.scd").read_text()
    assert f"*cay key {verb}*" in page and f"\n*{verb}*\n" in page
    known = set.union(*(help_options("key", v) for v in ("create", "ls", "rm")))
    assert page_options("cay-key.1") == known - help_options("doctor")


def test_every_option_of_audit_is_in_its_page_and_the_reverse():
    assert page_options("cay-audit.1") == help_options("audit") - help_options("doctor")


def test_every_common_option_is_in_the_overview():
    assert page_options("cay.1") == help_options("doctor")


def test_options_of_doctor_exist():
    assert page_options("cay-doctor.1") <= help_options("doctor")


def test_every_verb_is_in_the_overview():
    text = support.cay("--help").stdout.decode()
    verbs = re.findall(r"^  (\w+) ", text.split("Commands:")[1].split("Options:")[0], re.M)
    page = (MAN / "cay.1.scd").read_text()
    commands = page.split("# COMMANDS")[1].split("# OPTIONS")[0]
    assert sorted(re.findall(r"^\*(\w+)\*", commands, re.M)) == sorted(verbs)


def test_every_exit_code_of_an_error_is_in_the_overview():
    table = (support.ROOT / "include/cay/errors.h").read_text()
    codes = set(re.findall(r'X\(CAY_\w+, \d+, "\w+", \d+, (\d+)\)', table))
    status = (MAN / "cay.1.scd").read_text().split("# EXIT STATUS")[1].split("# FILES")[0]
    assert len(codes) > 5 and set(re.findall(r"^\|. ?\*(\d+)\*", status, re.M)) == codes


def keys_of_code():
    """(section, name): default, from the table that the program reads by."""
    source = (support.ROOT / "src/config/config_keys.c").read_text()
    rows = re.findall(r'\{"(\w+)", "(\w+)", CONFIG_(\w+),\s*CONFIG_\w+,\s*"([^"]*)"', source)
    engines = (support.ROOT / "src/config/engines.h").read_text()
    rows += [(section, name, "STRING", "") for section, name in
             re.findall(r'^    X\(\w+, \w+, "(\w+)", "(\w+)",', engines, re.M)]
    return {(section, name): (kind, default) for section, name, kind, default in rows}


def keys_of_page():
    text = (MAN / "cay.toml.5.scd").read_text()
    found = {}
    for part in re.split(r"^# ", text, flags=re.M):
        section = part.split("\n")[0].lower()
        for name, value in re.findall(r"^\*(\w+)\* = (.*)$", part, re.M):
            found[section, name] = value
    return found


def test_every_configuration_key_is_in_its_page_with_its_default():
    code, page = keys_of_code(), keys_of_page()
    assert len(code) > 20 and set(page) == set(code)
    for key, (kind, default) in code.items():
        empty = {"LIST": "[]", "MAP": "{}"}
        assert page[key].strip('"') == empty.get(kind, default), key
