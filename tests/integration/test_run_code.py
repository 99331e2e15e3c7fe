"""`cay run-code`: a piece of code in any language that the image has, with the result of `cay python`."""

import json
import shutil
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from daemons import serving
from support import TIER, USER, cay, folder, given_time, is_sanitized, own, refused, start, told_by  # noqa: F401

GO = "go" if shutil.which("go", path="/usr/bin:/bin") else "gccgo"
# Programs that print their arguments and the first line of their input, and end with 3.
PROGRAMS = {
    "bash": ("bash", 'read line; echo "$* $line"; exit 3'),
    "c": ("gcc", '#include <stdio.h>\nint main(int c, char **v) { char l[9]; scanf("%8s", l);'
                 ' for (int i = 1; i < c; i++) printf("%s ", v[i]); puts(l); return 3; }'),
    "cpp": ("g++", "#include <iostream>\nint main(int c, char **v) { std::string l; std::cin >> l;"
                   ' for (int i = 1; i < c; i++) std::cout << v[i] << " ";'
                   " std::cout << l << std::endl; return 3; }"),
    "go": (GO, 'package main\nimport ("fmt"; "os"; "strings")\nfunc main() { var l string;'
                 ' fmt.Scanln(&l); fmt.Println(strings.Join(os.Args[1:], " "), l); os.Exit(3) }'),
    "java": ("javac", "import java.util.Scanner;\npublic final class Hello {\n"
                      "  public static void main(String[] a) {\n    System.out.println("
                      'String.join(" ", a) + " " + new Scanner(System.in).next());\n'
                      "    System.exit(3);\n  }\n}\n"),
    "javascript": ("node", "const line = require('fs').readFileSync(0, 'utf8').trim();\n"
                           "console.log(...process.argv.slice(2), line); process.exitCode = 3;"),
    "perl": ("perl", 'my $l = <STDIN>; print "@ARGV $l"; exit 3;'),
    "python": ("python3", "import sys\nprint(*sys.argv[1:], input())\nsys.exit(3)"),
    "ruby": ("ruby", "line = STDIN.gets; puts \"#{ARGV.join(' ')} #{line}\"; exit 3"),
}


def execute(*args, **more):
    return cay("run-code", *TIER, *args, **more)


def result(*args, **more):
    """The JSON of a run."""
    return told_by(execute("-o", "json", *args, **more))


def need(tool):
    if shutil.which(tool, path="/usr/bin:/bin") is None:
        pytest.skip(f"{tool} is not installed")


def memory(language):
    return ["--memory", "1g"] if language == "java" else []


@pytest.mark.parametrize("language", PROGRAMS)
def test_arguments_input_and_exit_code(language):
    tool, text = PROGRAMS[language]
    need(tool)
    told = result("-l", language, *memory(language), "-c", text, "a", "b", input=b"in\n")
    assert (told["stdout"], told["exit_code"]) == ("a b in\n", 3), told
    assert (told["language"], told["tool"], told["phase"]) == (language, tool, "run")
    assert told["files"] == [] and told["timed_out"] is False


@pytest.mark.parametrize("language, text, place", [
    ("c", "int main(void) {\n  return x;\n}", "code.c:2:"),
    ("cpp", "int main() {\n  return x;\n}", "code.cpp:2:"),
    ("go", "package main\nfunc main() { x }", "code.go:2:"),
    ("java", "class A {\n  int x = y;\n}", "code.java:2:")])
def test_what_does_not_compile(language, text, place):
    need(PROGRAMS[language][0])
    told = result("-l", language, *memory(language), "-c", text)
    assert told["phase"] == "compile" and told["exit_code"] not in (0, 124, 125, 126, 127)
    assert place in told["stderr"] and told["stdout"] == ""


@pytest.mark.parametrize("language, text, place", [
    ("bash", "echo 1\nif", "code.sh: line"), ("javascript", "let x\nthrow new Error('oh')", "code.js:2"),
    ("perl", "print 1;\ndie 'oh'", "code.pl line 2"), ("ruby", "puts 1\nraise 'oh'", "code.rb:2")])
def test_what_fails_while_it_runs(language, text, place):
    need(PROGRAMS[language][0])
    told = result("-l", language, "-c", text)
    assert told["phase"] == "run" and told["exit_code"] not in (0, 124, 125, 126, 127)
    assert place in told["stderr"]


@pytest.mark.parametrize("language, text, exit_code, words", [
    ("c", "#include <stdlib.h>\nint main(void) { abort(); }", 134, ""),
    ("cpp", "#include <stdexcept>\nint main() { throw std::runtime_error(\"oh\"); }", 134, "what():  oh"),
    ("java", "class A {\n  public static void main(String[] a) {\n    throw new RuntimeException(\"oh\");\n  }\n}", 1,
     "code.java:3"),
    ("go", "package main\nfunc main() {\n\tpanic(\"oh\")\n}", 2, "code.go:3")])
def test_what_is_compiled_and_fails(language, text, exit_code, words):
    need(PROGRAMS[language][0])
    told = result("-l", language, *memory(language), "-c", text)
    assert (told["phase"], told["exit_code"]) == ("run", exit_code) and words in told["stderr"], told


@pytest.mark.skipif(is_sanitized(), reason="it waits for interpreters, which are none of ours")
def test_loops_without_end():
    programs = {"javascript": "console.log('begun'); for (;;);", "perl": "$| = 1; print \"begun\n\"; 1 while 1",
                "ruby": "STDOUT.sync = true; puts 'begun'; loop {}"}
    present = [name for name in programs if shutil.which(PROGRAMS[name][0], path="/usr/bin:/bin")]
    with ThreadPoolExecutor(3) as pool:  # each needs its time to begin
        told = list(pool.map(lambda name: given_time(
            lambda s: result("-l", name, "--timeout", s, "-c", programs[name]), lambda t: t["stdout"] != "", (8, 30)), present))
    assert [(t["exit_code"], t["timed_out"], t["stdout"], t["phase"]) for t in told] == \
        [(124, True, "begun\n", "run")] * len(present), told


def test_a_file_says_its_language_and_keeps_its_name(folder):
    need("gcc")
    (folder / "hello.c").write_text("#error why\n")
    done = execute(folder / "hello.c")
    assert done.returncode == 1 and done.stdout == b""
    assert done.stderr.startswith(b"hello.c:1:2: error: #error why")
    assert done.stderr.endswith(b"cay: it did not compile; nothing was run\n")


def test_standard_input_as_the_program():
    done = execute("-l", "bash", "-", "x", input=b"echo $1; cat")
    assert (done.stdout, done.stderr, done.returncode) == (b"x\n", b"", 0)


def test_environment_folder_and_files():
    told = result("-l", "bash", "-e", "A=b c", "-w", "/data/x", "-c",
                  'echo "$A $PWD"; echo 123 >new; echo e >&2')
    assert (told["stdout"], told["stderr"]) == ("b c /data/x\n", "e\n")
    assert [(f["path"], f["size"], f["created"]) for f in told["files"]] == [("new", 4, True)]


def test_node_finds_what_lies_in_the_work_folder(folder):
    need("node")
    (folder / "part.js").write_text("exports.x = 6")
    (folder / "node_modules" / "lib").mkdir(parents=True)
    (folder / "node_modules" / "lib" / "index.js").write_text("exports.y = 7")
    volume = ["-v", f"{folder}:/workspace:ro"]
    told = result("-l", "node", *volume, "-c", "const {x} = require('./part'), {y} = require('lib');\n"
                  "console.log(x * y, require.main === module, __dirname, typeof path)")
    assert told["stdout"] == "42 true /workspace undefined\n", told
    told = result("-l", "node", *volume, "-c", "import lib from 'lib';\nconsole.log(lib.y)")
    assert told["stdout"] == "7\n", told


def test_c_finds_headers_of_the_work_folder(folder):
    need("gcc")
    (folder / "six.h").write_text("#define SIX 6\n")
    told = result("-l", "c", "-v", f"{folder}:/workspace:ro", "-c",
                  '#include "six.h"\nint main(void) { return SIX; }')
    assert told["exit_code"] == 6, told


def test_java_with_a_package_and_another_name(folder):
    need("javac")
    (folder / "Main.java").write_text("package a.b;\nclass First {\n  public static void main("
                                      "String[] a) { System.out.println(Second.X); }\n}\n"
                                      "class Second { static final int X = 42; }\n")
    told = result("--memory", "1g", folder / "Main.java")
    assert told["stdout"] == "42\n", told


def test_typescript_by_its_compiler():
    need("tsc")
    if is_sanitized():
        pytest.skip("the compiler takes seconds, and is none of ours")
    options = ["--memory", "1g", "--compile-timeout", "250s"]
    told = result("-l", "typescript", *options, "-c", "const n: number = 6 * 7;\nconsole.log([n].map((x: number) => x))")
    assert (told["stdout"], told["tool"], told["phase"]) == ("[ 42 ]\n", "tsc", "run"), told
    told = result("-l", "typescript", *options, "-c", "\nconst n: number = 'x'")
    assert (told["exit_code"], told["phase"]) == (2, "compile") and "code.ts(2,7): error TS2322" in told["stderr"], told


def test_typescript_by_a_compiler_of_the_work_folder(folder):
    """A tsc that is played: it copies, or refuses what has no type."""
    need("node")
    if any(shutil.which(tool, path="/usr/bin:/bin") for tool in ("tsx", "ts-node", "bun", "deno")):
        pytest.skip("this machine has something that runs TypeScript by itself")
    commands = folder / "node_modules" / ".bin"
    commands.mkdir(parents=True)
    (commands / "tsc").write_text("#!/bin/sh\nfor name; do :; done\ngrep -q number $name || "
                                  "{ echo \"$name(1,1): error\"; exit 2; }\nmkdir out\n"
                                  "sed 's/: number//' $name >out/${name%.ts}.js\n")
    (commands / "tsc").chmod(0o755)
    volume = ["-v", f"{folder}:/workspace:ro"]
    told = result("-l", "ts", *volume, "-c", "const n: number = 6; console.log(n * 7)")
    assert (told["stdout"], told["tool"], told["phase"]) == ("42\n", "tsc", "run"), told
    told = result("-l", "typescript", *volume, "-c", "x")
    assert (told["exit_code"], told["phase"], told["stderr"]) == (2, "compile", "code.ts(1,1): error\n")


# ---- limits and bad input ----

def test_a_language_that_the_image_does_not_have(folder):
    for tool in ("mkdir", "dd", "rm"):
        (folder / tool).symlink_to(f"/usr/bin/{tool}")
    done = execute("-l", "bash", "-v", f"{folder}:/mnt/bin:ro", "-e", "PATH=/mnt/bin", "-c", "echo 1")
    refused(done, "nothing in this sandbox that runs bash", "--image bash", code=127)


def test_a_shell_that_cannot_prepare():
    told = json.loads(execute("-o", "json", "-l", "bash", "-e", "PATH=/nowhere", "-c", "echo 1").stdout)
    assert told["exit_code"] == 125 and "prepared" in told["error"]["message"]
    assert "PATH" in told["error"]["remedy"]


def test_bad_choices():
    refused(execute("-l", "cobol", "-c", "x"), "cobol", "javascript")
    refused(execute("-c", "x"), "--language")
    refused(execute("-l", "bash", "--cold", "-c", "x"), "--cold", "Python")
    refused(execute("-l", "bash", "--figures", "/tmp", "-c", "x"), "--figures", "Python")
    refused(execute("-l", "bash"), "no program given")
    refused(execute("/nonexistent.c"), "/nonexistent.c", "No such file")
    refused(execute("--in", "x", "--memory", "1g", "-l", "bash", "-c", "1"), "--memory", "--in")


def test_an_endless_loop_keeps_what_was_printed():
    told = given_time(lambda s: result("-l", "bash", "--timeout", s, "-c", "echo half; while :; do :; done"),
                      lambda told: told["stdout"] != "")
    assert (told["exit_code"], told["timed_out"], told["stdout"]) == (124, True, "half\n")
    assert told["phase"] == "run"


@pytest.mark.skipif(bool(USER), reason="an ordinary user may have no memory limit")
def test_a_compiler_that_takes_all_memory():
    need("gcc")
    done = execute("-m", "128m", "-l", "c", "-c", '#include "/dev/zero"')
    assert done.returncode != 0
    assert done.stderr.endswith(b"cay: the compiler was killed: out of memory (--memory)\n"), done.stderr


def test_a_compiler_that_takes_too_long(folder):
    need("gcc")
    (folder / "gcc").write_text("#!/bin/sh\necho begun >&2\nexec sleep 1000\n")
    (folder / "gcc").chmod(0o755)
    told = given_time(lambda s: result("-l", "c", "-v", f"{folder}:/mnt/bin:ro", "-e", "PATH=/mnt/bin:/usr/bin:/bin",
                                       "--compile-timeout", s, "-c", "int main(void) { return 0; }"),
                      lambda told: told["stderr"] != "", (2, 6, 25))
    assert (told["exit_code"], told["timed_out"], told["phase"]) == (124, True, "compile"), told
    assert told["stderr"] == "begun\n" and told["compile_ms"] >= 1900


def test_a_crash_is_told():
    need("gcc")
    told = result("-l", "c", "-c", "int main(void) { *(volatile int *)0 = 1; }")
    assert told["exit_code"] == 139 and told["phase"] == "run"


def test_ten_megabytes_of_code(folder):
    (folder / "big.sh").write_text(("#" * 79 + "\n") * 131072 + "echo 7; cat\n")
    told = result(folder / "big.sh", input=b"input")
    assert told["stdout"] == "7\ninput", told


def test_nul_bytes_bad_encoding_and_nothing(folder):
    need("gcc")
    (folder / "nul.c").write_bytes(b"int main(void) { return \0 0; }\n")
    assert result(folder / "nul.c")["phase"] in ("compile", "run")
    (folder / "bytes.sh").write_bytes(b"printf 'a\xff'\n")
    assert result(folder / "bytes.sh")["stdout"] == "a\N{REPLACEMENT CHARACTER}"
    assert result("-l", "bash", "-c", "")["exit_code"] == 0
    assert result("-l", "c", "-c", "")["phase"] == "compile"


def test_too_much_output_ends_it():
    told = result("-l", "bash", "--output-max", "1m", "-c", "yes")
    assert told["exit_code"] == 124 and told["output_truncated"]


def test_what_the_program_says_of_itself_is_no_report():
    told = result("-l", "bash", "-c", "(echo missing; echo late) >&3; echo tool x >/dev/fd/3; exit 127")
    assert (told["exit_code"], told["tool"], told["phase"]) == (127, "bash", "run")
    assert "error" not in told


def test_an_interrupt_reaches_the_program():
    box = start("run-code", *TIER, "-l", "bash", "-c",
                "trap 'echo caught; exit 5' INT; echo up; while :; do read -t 1; done")
    assert box.stdout.readline() == b"up\n"
    box.send_signal(signal.SIGINT)
    out, err = box.communicate(timeout=60)
    assert (out, err, box.returncode) == (b"caught\n", b"", 5)


# ---- in a sandbox that stays ----

def test_in_a_sandbox_that_stays():
    path = Path(tempfile.mkdtemp(prefix="kept-", dir="/tmp"))
    path.chmod(0o755)
    own(path)
    with serving(path) as daemon:
        daemon.create(name="lab")

        def inside(language, text, *options):
            done = cay("run-code", "--state-dir", daemon.state, "--in", "lab", "-o", "json",
                       *options, "-l", language, "-c", text)
            assert done.stderr == b"", done.stderr
            return json.loads(done.stdout)

        told = inside("bash", "echo 1 >kept; exit 4")
        assert told["exit_code"] == 4 and [f["path"] for f in told["files"]] == ["kept"]
        assert inside("perl", "print `cat kept`; print glob '/tmp/cay-*'")["stdout"].startswith("1\n")
        assert inside("python", "print(open('kept').read())")["stdout"] == "1\n\n"
        assert inside("bash", "while :; do :; done", "--timeout", "1")["exit_code"] == 124
        # Each has removed its folder: only that of the one that asks is there.
        assert len(inside("bash", "echo /tmp/cay-*")["stdout"].split()) == 1
    shutil.rmtree(path, ignore_errors=True)
