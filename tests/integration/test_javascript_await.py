"""JavaScript contexts: await at the top level of a run."""

import shutil

import pytest
from daemons import serving_alone
from interpreting import Interpreter
from support import needs_ids

pytestmark = [needs_ids, pytest.mark.skipif(shutil.which("node") is None, reason="needs nodejs")]

LATER = "const later = (value) => new Promise((done) => setTimeout(() => done(value), 1))"


@pytest.fixture(scope="module")
def box():
    with serving_alone() as daemon:
        yield Interpreter(daemon, "awaiting")


@pytest.fixture(scope="module")
def shared(box):
    context = box.create(language="javascript")
    assert context.out(LATER) == ""
    yield context
    assert context.delete().status == 200


@pytest.fixture
def node(box):
    context = box.create(language="javascript")
    assert context.out(LATER) == ""
    yield context
    assert context.delete().status == 200


@pytest.mark.parametrize("code, after, value", [
    ("const a1 = await later(5)", "a1 + 1", "6"),
    ("let a2 = 1; a2 += await later(5)", "a2", "6"),
    ("var a3 = await later(5)", "globalThis.a3", "5"),
    ("const {b4, c: [d4 = await later(7)]} = await later({b4: 1, c: []})", "[b4, d4]", "[ 1, 7 ]"),
    ("if (true) { var a5 = await later(5) }", "a5", "5"),
    ("for (var a6 = await later(0); a6 < 3; a6++) await later(1);", "a6", "3"),
    ("function f7() { return v7 }\nclass C7 {}\nconst v7 = await later(5)", "[f7(), new C7()]", "[ 5, C7 {} ]"),
    ("const all8 = []; for await (const v of [later(1), 2]) all8.push(v)", "all8", "[ 1, 2 ]"),
    ("const f9 = async () => await (later(9)); await 0", "f9()", "9"),
    ("undeclared10 = await later(5)", "undeclared10", "5"),
    ("const m11 = await import('path')", "m11.join('a', 'b')", "'a/b'"),
    ("await 0; const f12 = (name) => import(name)", "f12('path').then((p) => typeof p.join)", "'function'"),
    ("#!/usr/bin/env node\nconst m13 = await import('path')", "typeof m13.join", "'function'"),
])
def test_what_is_declared_stays(shared, code, after, value):
    run = shared.run(code)
    assert run.error is None and run.err == "", run.messages
    assert shared.out(after) == value + "\n"


@pytest.mark.parametrize("code, shown", [
    ("await later(5)", "5"),
    ("await later(1); 'last'", "'last'"),
    ("await later(undefined)", None),
    ("const s1 = await later(1)", None),
    ("await later(10n)", "10n"),
    ("await later(-0)", "-0"),
    ("await later(NaN)", "NaN"),
    ("await later(null)", "null"),
    ("await later(Symbol('s'))", "Symbol(s)"),
    ("await later('\\ud800é😀')", "'\\ud800é😀'"),
    ("await 0; later(6)", "6"),
    ("await 0; this === globalThis", "true"),
    ("`${await later(3)} await`", "'3 await'"),
    ("[1, 2].length / await later(2) / 1", "1"),
    ("await later(/await (x)/.source) // await (x)", "'await (x)'"),
    # what would be a call of a function "await", or a calculation with it
    ("await (async () => 5)()", "5"),
    ("await\nlater(4)", "4"),
    ("await [1]", "[ 1 ]"),
    ("await `x${1}`", "'x1'"),
    ("await /x/g", "/x/g"),
    ("await -1", "-1"),
    ("await /* of what */ later(2)", "2"),
    # imports, and what only looks like one
    ("/* import('a') */ const o1 = {import(x) { return x }};"
     "[typeof (await import /* c */ ('path')).join, o1.import(3), 'import(4)', /import(5)/.source, `import(6)`]",
     "[ 'function', 3, 'import(4)', 'import(5)', 'import(6)' ]"),
])
def test_the_last_value_is_shown(shared, code, shown):
    run = shared.run(code, results=True)
    assert run.error is None and (run.out, run.err) == ("", ""), run.messages
    assert [r["data"]["text/plain"] for r in run.results] == ([] if shown is None else [shown])


@pytest.mark.parametrize("code, name, value, where", [
    ("await 0;\n\nmissing.x", "ReferenceError", "missing is not defined", "<code N>:3:1"),
    ("await 0;\nfunction g1() {\n  throw new TypeError('y')\n}\ng1()", "TypeError", "y", "g1 (<code N>:3:9)"),
    ("await Promise.reject(new RangeError('z'))", "RangeError", "z", "<code N>:1:22"),
    ("await Promise.reject(null)", "Error", "null", ""),
    ("await 0;\nJSON.parse('{')", "SyntaxError", "JSON", "<code N>:2:6"),
    ("await 0;\nconst bad = = 3", "SyntaxError", "Unexpected token '='", "<code N>:2\nconst bad = = 3\n            ^"),
    ("await 0;\nreturn 5", "SyntaxError", "Illegal return statement", "<code N>:2\nreturn 5\n^"),
    ("const w = 'await';\nlet bad = ;", "SyntaxError", "Unexpected token ';'", "<code N>:2\nlet bad = ;\n          ^"),
    ("import fs from 'fs'; await 1", "SyntaxError", "Cannot use import statement outside a module", "<code N>:1\n"),
    ("function inner() { await later(1) }", "SyntaxError", "await is only valid in async functions", "<code N>:1\n"),
    ("await 0; /* open", "SyntaxError", "Invalid or unexpected token", "<code N>:1\n"),
    ("require('fs').writeFileSync('/tmp/bad.mjs', '1;\\nlet b = = 3'); await import('/tmp/bad.mjs')",
     "SyntaxError", "Unexpected token '='", "node:internal/modules"),
    ("let twice = 1; let twice = await 2", "SyntaxError", "'twice' has already been declared", "<code N>:1\n"),
    ("later = await 2", "TypeError", "Assignment to constant variable", "<code N>:1:7"),
    ("await import('not-there')", "Error", "Cannot find package 'not-there'", ""),
])
def test_errors_have_their_places(shared, code, name, value, where):
    error = shared.run(code).error
    assert error["name"] == name and value in error["value"]
    assert "inspector" not in error["traceback"] and "[eval]" not in error["traceback"]
    number = error["traceback"].partition("<code ")[2].partition(">")[0]
    assert where.replace("N", number) in error["traceback"]
    assert shared.out("await later(1)") == "1\n"


def test_runs_without_it_are_as_ever(node):
    assert node.out("const f = async () => { return await (later(4)) }; 'await (x)' // await (x)") == "'await (x)'\n"
    assert node.out("f()") == "4\n"
    assert node.out("function await_() { return 'await' } await_()") == "'await'\n"
    assert node.out("const o = {await (x) { return x }}; /await [x]/.test('') || o.await (3)") == "3\n"
    assert node.out("(async (x) => -await (x) + [await [1], await /x/.test('x')].length ** await (2))(5)") == "-1\n"
    assert node.out("var await = 5; await") == "5\n"  # a name like any other in scripts
    run = node.run("let once = 1")
    assert run.error is None
    assert "already been declared" in node.run("let once = 2; async () => await 1").error["value"]
    assert "already been declared" in node.run("let once = await 3").error["value"]
    assert node.out("once") == "1\n"


def test_nothing_of_how_it_is_done_is_seen(node):
    names = "[...Object.keys(globalThis), ...Object.keys(process)].join()"
    before = node.out("_ = 0; " + names)
    assert node.out("const m = await import('fs')") == ""
    assert node.out(names) == before


def test_interrupts(node):
    for code in ("console.log('go'); for (;;); await 1",
                 "setTimeout(() => console.log('go'), 1); const never = await new Promise(() => {})"):
        run = node.begin(code)
        run.until("go")
        assert node.interrupt().status == 200
        assert run.end().control == ["interrupted"]
    assert node.out("await later(6)") == "6\n"
    assert node.out("const never = await later(7); never") == "7\n"


def test_what_goes_wrong_later_is_told(node):
    run = node.run("setTimeout(() => { throw new Error('too late') }, 1); await new Promise((done) => setTimeout(done, 50))")
    assert run.error is None and "too late" in run.notices and "<code " in run.notices
