"""The images of images/: made from Debian's packages, and what they are for works in a sandbox."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from support import CAY, ROOT, USER, cay, is_sanitized, need_cay, ok

DATA = """
import io, json, numpy as np, pandas as pd, scipy.stats, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
frame = pd.DataFrame({"x": np.arange(10), "y": np.arange(10) * 2.0 + 1})
fit = scipy.stats.linregress(frame.x, frame.y)
plt.plot(frame.x, frame.y)
picture = io.BytesIO()
plt.savefig(picture, format="png")
print(json.dumps([round(fit.slope, 6), round(fit.intercept, 6), int(frame.y.sum()),
                  picture.getvalue()[:4].hex()]))
"""


def has_mirror():
    """Whether packages can be fetched at all."""
    return subprocess.run(["apt-get", "-qq", "--print-uris", "download", "base-files"],
                          capture_output=True).returncode == 0 and shutil.which("mmdebstrap")


@pytest.fixture(scope="module")
def state():
    """A state folder with every recipe's image; they are made side by side."""
    need_cay()
    if USER or is_sanitized():
        pytest.skip("made once, as root, by the release")
    if not has_mirror():
        pytest.skip("no mmdebstrap (scripts/setup --images) or no Debian mirror")
    with tempfile.TemporaryDirectory(prefix="recipes-", dir="/var/tmp",
                                     ignore_cleanup_errors=True) as top:
        folder = Path(top, "state")
        folder.mkdir(mode=0o700)
        env = {**os.environ, "CAY": str(CAY.resolve()), "TMPDIR": top}
        made = [subprocess.Popen([ROOT / "images/make", name, "--state-dir", folder], env=env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
                for name in ("python", "data")]
        for process in made:
            output = process.communicate(timeout=1500)[0].decode(errors="replace")
            if process.returncode != 0 and "Temporary failure resolving" in output:
                pytest.skip("the Debian mirror cannot be reached")
            assert process.returncode == 0, output
        yield folder


def in_image(state, image, *command, options=()):
    return ok(cay("run", "--state-dir", state, "--image", image, *options, "--", *command))


def version(state, image):
    return in_image(state, image, "python3", "-c",
                    "import platform; print(platform.python_version())").strip()


@pytest.mark.parametrize("image", ["cay/python", "cay/data"])
def test_python_under_both_names_with_its_true_version(state, image):
    true = version(state, image)
    assert in_image(state, image, "python", "--version") == f"Python {true}\n"
    assert in_image(state, image, "sh", "-c", "echo $PYTHON_VERSION") == f"{true}\n"
    assert true in ok(cay("image", "inspect", "--state-dir", state, image))


def test_command_and_folder_of_the_image(state):
    done = cay("run", "--state-dir", state, "--image", "cay/python",
               input=b"import os; print(os.getcwd())\n")
    assert ok(done) == "/workspace\n"


def test_standard_library(state):
    text = in_image(state, "cay/python", "python", "-c",
                    "import ssl, sqlite3, lzma, bz2, ctypes, zoneinfo, multiprocessing as m\n"
                    "print(sqlite3.connect(':memory:').execute('select 6*7').fetchone()[0], "
                    "len(ssl.create_default_context().get_ca_certs()) > 50, "
                    "zoneinfo.ZoneInfo('Europe/Paris').key)")
    assert text == "42 True Europe/Paris\n"


def test_pip_installs_beside_debians_packages(state):
    """From a wheel on disk: there is no network."""
    script = ("mkdir -p /tmp/p && cd /tmp/p && echo 'x = 42' >tiny.py && "
              "printf 'from setuptools import setup\\nsetup(name=\"tiny\", version=\"1\", "
              "py_modules=[\"tiny\"])\\n' >setup.py && "
              "python -c 'import zipfile as z; w = z.ZipFile(\"tiny-1-py3-none-any.whl\", \"w\"); "
              "w.write(\"tiny.py\"); d = \"tiny-1.dist-info/\"; "
              "w.writestr(d + \"METADATA\", \"Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n\"); "
              "w.writestr(d + \"WHEEL\", \"Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n"
              "Tag: py3-none-any\\n\"); w.writestr(d + \"RECORD\", \"\"); w.close()' && "
              "pip install -q --no-index ./tiny-1-py3-none-any.whl && cd / && "
              "python -c 'import tiny; print(tiny.x)'")
    assert in_image(state, "cay/python", "sh", "-c", script,
                    options=("--memory", "1g")).endswith("42\n")


def test_data_packages(state):
    text = in_image(state, "cay/data", "python", "-c", DATA, options=("--memory", "1g"))
    assert text == '[2.0, 1.0, 100, "89504e47"]\n'


def test_parquet(state):
    files = Path(__file__).parent / "parquet"
    text = in_image(state, "cay/data", "python", "-c",
                    "import pandas as pd; print(len(pd.read_parquet('/files/sales.parquet')))",
                    options=("--memory", "1g", "-v", f"{files}:/files:ro"))
    assert text == "270\n"


def test_alias_gives_it_under_the_name_of_the_hub(state):
    config = Path(state.parent, "config.toml")
    config.write_text('[images]\naliases = { "python:3.12-slim" = "cay/python" }\n')
    done = cay("run", "--state-dir", state, "--config", config, "--image", "python:3.12-slim",
               "--", "python", "--version")
    assert ok(done) == f"Python {version(state, 'cay/python')}\n"
    assert b"alias of cay/python" in done.stderr
