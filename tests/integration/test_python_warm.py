"""The warm interpreter: what is the same in all copies and must not be, and when there is none."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import TIER, as_user, cay, folder, own, state_dir  # noqa: F401


def code(text, *options, env=None, **more):
    done = cay("python", *TIER, *options, "-o", "json", "-c", text, env=env, **more)
    assert done.stdout, done.stderr.decode(errors="replace")
    return json.loads(done.stdout)


def printed(text, *options, **more):
    told = code(text, *options, **more)
    assert told["exit_code"] == 0, told
    assert told["interpreter"]["warm"], told
    return told["stdout"]


def test_it_says_which_was_used():
    assert code("pass")["interpreter"]["warm"] is True
    told = code("pass", "--cold")["interpreter"]
    assert (told["warm"], told["why_cold"]) == (False, "--cold")


@pytest.mark.parametrize("options, env, why", [
    ([], {"CAY_PYTHON_WARM": "false"}, "python.warm"),
    (["-e", "PYTHONPATH=/x"], {}, "--env"),
    (["-e", "LD_PRELOAD=/x"], {}, "--env"),
    (["-u", "0"], {}, "--user"),
    (["-v", "/etc/hostname:/usr/x"], {}, "--volume"),
    ([], {"CAY_PYTHON_PRELOAD": "json,no_such_module_here"}, "no_such_module_here"),
])
def test_it_falls_back_and_says_why(options, env, why):
    for _ in range(2):  # what was found out once is said again
        told = code("print(1)", *options, env=env)
        assert told["interpreter"]["warm"] is False, told
        assert why in told["interpreter"]["why_cold"], told
        if "/etc/hostname:/usr/x" not in options:  # which nobody can mount
            assert told["stdout"] == "1\n"


def test_an_ordinary_variable_is_no_obstacle():
    assert printed("import os; print(os.environ['A'])", "-e", "A=b") == "b\n"


def test_modules_are_there_before_they_are_imported():
    env = {"CAY_PYTHON_PRELOAD": "json,decimal"}
    assert printed("import sys; print('decimal' in sys.modules, 'json' in sys.modules)", env=env) \
        == "True True\n"
    assert printed("import sys; print('decimal' in sys.modules)") == "False\n"


def test_modules_that_contexts_need_are_not_there_for_programs():
    """They are in the copy, put aside; whoever imports them has new ones, of one make."""
    text = "import sys; print(sorted(sys.modules))"
    assert printed(text) == code(text, "--cold")["stdout"]
    text = ("import ast, enum, linecache, pickle, re, signal, sys, tokenize, traceback\n"
            "print(all(sys.modules[m.__name__] is m for m in (ast, enum, linecache, re, signal, tokenize, traceback)))\n"
            "print(re.enum is enum, traceback.linecache is linecache, isinstance(signal.SIGINT, enum.IntEnum))\n"
            "print(pickle.loads(pickle.dumps(re.compile('a+'))).match('aa'), pickle.loads(pickle.dumps(signal.SIGINT)) is signal.SIGINT)\n"
            "print(ast.dump(ast.parse('1')), isinstance(ast.parse('1').body[0].value, ast.Constant))\n"
            "print(re.sub('a(.)', r'\\1', 'abac'), re.compile('x', re.I).flags, type(re.compile('x')) is re.Pattern)")
    assert printed(text) == code(text, "--cold")["stdout"]


def test_what_should_be_random_is():
    env = {"CAY_PYTHON_PRELOAD": "random,ssl,uuid,tempfile"}
    text = ("import random, ssl, uuid, os, tempfile\nprint(random.random(), random.getrandbits(64))\n"
            "print(ssl.RAND_bytes(16))\nprint(uuid.uuid4())\nprint(os.urandom(8))\n"
            "print(tempfile.mktemp())")
    runs = [printed(text, env=env).splitlines() for _ in range(3)]
    for line in zip(*runs):
        assert len(set(line)) == 3, line


def test_a_copy_has_no_descriptor_but_its_own():
    names = printed("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
    assert names == "[0, 1, 2, 3, 200]\n"  # 3 is the folder that is listed, 200 is for the report


def test_nothing_of_the_host_is_seen_in_its_memory_map():
    maps = printed("print(open('/proc/self/maps').read())")
    files = {line.split(None, 5)[5] for line in maps.splitlines() if len(line.split(None, 5)) > 5}
    assert str(state_dir()) not in maps
    assert all(name.startswith(("/usr/", "/memfd:python", "[", "/lib", "/etc")) for name in files)


SEARCH = """
import os, sys, json
needle = bytes(reversed(b"-dneirf-nollem"))
places = "/tmp", "/dev/shm", "/workspace", "/run", "/var/tmp"

def count():
    hits = 0
    with open("/proc/self/mem", "rb", 0) as memory:
        for line in open("/proc/self/maps"):
            span, mode = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if mode[0] == "r" and "[v" not in line:
                try:
                    memory.seek(start)
                    hits += memory.read(end - start).count(needle)
                except (OSError, OverflowError):
                    pass
    return hits
"""
FIND = SEARCH + """
found = [place for place in places if os.path.exists(place + "/planted")]
found += [name for name in os.environ if name == "SECRET"]
found += [module for module in (json, sys) if hasattr(module, "secret")]
print(found, count() >= 100)
"""
PLANT = SEARCH + """
json.secret = sys.secret = [needle * 1000]
os.environ["SECRET"] = needle.decode()
for place in places:
    open(place + "/planted", "wb").write(needle)
print(count() >= 1000)
"""


def test_nothing_of_one_program_is_found_by_another():
    env = {"CAY_PYTHON_PRELOAD": "json"}
    for _ in range(2):
        assert printed(PLANT, env=env) == "True\n"  # what is there is found
        assert printed(FIND, env=env) == "[] False\n"


def test_a_program_cannot_change_what_copies_are_made_of():
    """Its own executable is the frozen interpreter."""
    attack = ("import os\nfor how in (os.O_RDWR, os.O_WRONLY | os.O_TRUNC):\n"
              "    try: os.write(os.open('/proc/self/exe', how), b'x'); print('written')\n"
              "    except OSError: pass\n"
              "try: os.truncate('/proc/self/exe', 0); print('cut')\nexcept OSError: pass\n"
              "print('done')")
    assert printed(attack) == "done\n"
    assert printed("print(1)") == "1\n"


def test_many_at_once_from_nothing(folder):
    own(folder)
    who, env = as_user()

    def one(number):
        return code(f"print({number})", "--state-dir", folder)

    with ThreadPoolExecutor(4) as pool:
        for number, told in enumerate(pool.map(one, range(8))):
            assert told["stdout"] == f"{number}\n" and told["interpreter"]["warm"], told


def test_a_damaged_one_is_told_and_harms_nothing(folder):
    own(folder)
    code("pass", "--state-dir", folder)
    [frozen] = (folder / "python").iterdir()
    whole = frozen.read_bytes()
    for damaged in whole[:20000], whole[:16384] + bytes(len(whole) - 16384), b"junk" * 10000:
        frozen.write_bytes(damaged)
        told = code("print(1)", "--state-dir", folder)
        assert told["exit_code"] != 0 and told["stdout"] == "" and told["error"]["remedy"], told
    assert code("print(1)", "--state-dir", folder, "--cold")["stdout"] == "1\n"


def test_many_in_a_row_are_alike():
    seen = {printed("import sys, threading; print(len(sys.modules), threading.active_count())")
            for _ in range(40)}
    assert len(seen) == 1, seen
