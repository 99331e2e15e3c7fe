"""`cay python --package`: pip in the sandbox, from wheels and from an index, and what it refuses."""

import json
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pytest
from daemons import serving
from support import TIER, cay, folder, own, refused  # noqa: F401

pytestmark = pytest.mark.skipif(
    subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode != 0,
    reason="pip is not installed: apt-get install python3-pip")

USE = "import demo, sys; print(demo.VERSION, 'pip' in sys.modules)"


def wheel(place, name, version, needs=()):
    """A wheel made by hand, with one module that knows its version."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + \
        "".join(f"Requires-Dist: {other}\n" for other in needs)
    files = {f"{name}/__init__.py": f"VERSION = '{version}'\n", f"{info}/METADATA": metadata,
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
                              "Tag: py3-none-any\n"}
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    path = place / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(file, text)
    return path


@pytest.fixture(scope="module")
def wheels():
    place = Path(tempfile.mkdtemp(prefix="wheels-", dir="/tmp"))
    place.chmod(0o755)
    wheel(place, "demo", "1.0")
    wheel(place, "demo", "2.0", needs=["helper"])
    wheel(place, "helper", "0.1")
    wheel(place, "broken", "1.0", needs=["nowhere"])
    yield place
    shutil.rmtree(place, ignore_errors=True)


def execute(*args, **more):
    return cay("python", *TIER, *args, **more)


def output(*args, **more):
    done = execute(*args, **more)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode(errors="replace")
    return done.stdout.decode()


def test_a_folder_of_wheels(wheels):
    text = output("-p", "demo", "--find-links", wheels, "-c", USE + "; import helper; print(input())",
                  input=b"the program's own")
    assert text == "2.0 False\nthe program's own\n"


def test_a_version_of_a_package(wheels):
    assert output("--package", "demo==1.0", "--find-links", wheels, "-c", USE) == "1.0 False\n"
    assert output("-p", "demo<2", "-p", "helper", "--find-links", wheels, "-c",
                  "import demo, helper; print(demo.VERSION, helper.VERSION)") == "1.0 0.1\n"


def test_programs_that_the_program_starts_find_them_too(wheels):
    assert output("-p", "demo", "--find-links", wheels, "-c", "import subprocess, sys\n"
                  "subprocess.run([sys.executable, '-c', 'import demo; print(demo.VERSION)'])") == "2.0\n"


def test_a_folder_of_the_configuration_and_one_of_pip(wheels):
    assert output("-p", "demo", "-c", USE, env={"CAY_PYTHON_FIND_LINKS": str(wheels)}) == "2.0 False\n"
    assert output("-p", "demo", "-v", f"{wheels}:/data/wheels:ro", "-e", "PIP_FIND_LINKS=/data/wheels",
                  "-c", USE) == "2.0 False\n"


def test_the_result_says_that_it_was_cold(wheels):
    told = json.loads(output("-o", "json", "-p", "demo", "--find-links", wheels, "-c", USE))
    assert told["interpreter"]["why_cold"] == "--package"
    assert told["files"] == [] and told["stdout"] == "2.0 False\n"


def test_a_module_of_the_work_folder_is_none_of_pip(wheels, folder):
    (folder / "pip.py").write_text("raise SystemExit(7)\n")
    (folder / "zipfile.py").write_text("raise SystemExit(7)\n")
    assert output("-p", "demo", "--find-links", wheels, "-v", f"{folder}:/workspace:ro", "-c",
                  "import demo; print(demo.VERSION)") == "2.0\n"


def test_without_a_network_it_says_how_to_allow_one():
    refused(execute("-p", "requests", "-c", "print(1)"), "no network", "--network", "--find-links", "image")
    done = execute("-o", "json", "-p", "requests", "-c", "print(1)")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"], told["stdout"]) == (125, 125, "")
    assert told["error"]["code"] == "unavailable" and "network" in told["error"]["message"]


def test_what_is_not_in_the_folder(wheels):
    done = execute("-p", "demo==9", "--find-links", wheels, "-c", "print(1)")
    assert done.returncode == 125 and done.stdout == b""
    assert b"cay: packages cannot be installed: No matching distribution found for demo==9" in done.stderr
    done = execute("-p", "broken", "--find-links", wheels, "-c", "print(1)")
    assert done.returncode == 125 and b"nowhere" in done.stderr


@pytest.mark.parametrize("name", ["-r", "--index-url=http://x", "./demo", "demo @ http://x", "demo;x", "",
                                  "demo==1.0 --pre", "git+https://x/y", "demo\n-r"])
def test_what_is_no_package(name, wheels):
    refused(execute(f"--package={name}", "--find-links", wheels, "-c", "print(1)"), "no name of a package")


def test_bad_options(wheels):
    refused(execute("-p", "demo", "--find-links", "/nonexistent", "-c", "1"), "/nonexistent", "--find-links")
    refused(execute("-p", "demo", "--find-links", wheels, "--in", "x", "-c", "1"), "--find-links", "--in")
    refused(execute("-p", "demo", "-c", "1", env={"CAY_PYTHON_INDEX_URL": "ftp://x"}), "http")
    refused(cay("run-code", *TIER, "-l", "bash", "-p", "x", "-c", "1"), "--package", "Python")
    refused(execute(*[word for _ in range(101) for word in ("-p", "demo")], "-c", "1"), "100 packages")


def test_an_image_without_pip(wheels, folder):
    """A Python that finds no pip: its folder of packages is covered by an empty one."""
    done = execute("-p", "demo", "--find-links", wheels, "-v", f"{folder}:/usr/lib/python3/dist-packages:ro",
                   "-c", "print(1)")
    refused(done, "no pip", "--image")


INDEX = """
import http.server, os, subprocess, sys
if len(sys.argv) > 1:
    os.chdir("/workspace/index")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
child = subprocess.Popen([sys.executable, "-c", open("server.py").read(), "x"], start_new_session=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
print(child.stdout.readline().decode(), end="")
"""


def test_an_index_and_what_stays_in_a_sandbox_that_stays(wheels):
    path = Path(tempfile.mkdtemp(prefix="kept-", dir="/tmp"))
    path.chmod(0o755)
    own(path)
    with serving(path) as daemon:
        daemon.create(name="lab")
        place = ["--state-dir", daemon.state]
        tree = path / "index" / "simple" / "demo"
        tree.mkdir(parents=True)
        wheel(tree, "demo", "3.0")
        (tree / "index.html").write_text("<a href='demo-3.0-py3-none-any.whl'>demo-3.0-py3-none-any.whl</a>")
        (path / "server.py").write_text(INDEX)
        for name in ("index", "server.py"):
            done = cay("cp", *place, path / name, f"lab:/workspace/{name}")
            assert done.returncode == 0, done.stderr

        def inside(*args, **env):
            done = cay("python", *place, "--in", "lab", *args, env=env)
            return done.returncode, done.stdout.decode(), done.stderr.decode()

        code, port, text = inside("-c", INDEX)
        assert code == 0, text
        url = {"CAY_PYTHON_INDEX_URL": f"http://127.0.0.1:{port.strip()}/simple"}
        use = "import demo; print(demo.VERSION, demo.__file__)"
        code, first, text = inside("-p", "demo==3.0", "-c", use, **url)
        assert (code, text) == (0, "") and first.startswith("3.0 /root/.cache/cay/packages-")
        # What is pinned is there for the next program, in the same folder and without the index.
        code, _, text = inside("-c", "import shutil; shutil.rmtree('/workspace/index/simple')")
        assert code == 0, text
        assert inside("-p", "demo==3.0", "-c", use, **url) == (0, first, "")
        code, _, text = inside("-p", "demo", "-c", use, **url)
        assert code == 125 and "cannot be installed" in text
    shutil.rmtree(path, ignore_errors=True)
