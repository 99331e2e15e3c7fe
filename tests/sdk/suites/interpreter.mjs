// Contexts of the code interpreter, by the SDK as it is.

export const tests = {
    async 'what one run defines, the next one finds'(t) {
        const ci = (await t.sandbox()).codeInterpreter
        let result = await ci.runCode('x = 20\nprint("set")')
        t.check.deepEqual([result.stdout, result.stderr, result.error], ['set\n', '', undefined])
        result = await ci.runCode('import sys\nprint(x + 1)\nsys.stderr.write("gr\u00fcn")\nx + 2')
        t.check.deepEqual([result.stdout, result.stderr], ['21\n22\n', 'gr\u00fcn'])
    },

    async 'contexts are made, listed and deleted, and do not see each other'(t) {
        const ci = (await t.sandbox()).codeInterpreter
        const one = await ci.createContext('/tmp')
        const other = await ci.createContext()
        t.check.deepEqual([one.cwd, one.language, one.active], ['/tmp', 'python', true])
        t.check.ok(!Number.isNaN(Date.parse(one.createdAt)))
        await ci.runCode('y = 1', { context: one })
        t.check.equal((await ci.runCode('import os\nprint(y, os.getcwd())', { context: one })).stdout, '1 /tmp\n')
        t.check.equal((await ci.runCode('y', { context: other })).error.name, 'NameError')
        const ids = (await ci.listContexts()).map((c) => c.id)
        t.check.ok(ids.includes(one.id) && ids.includes(other.id) && !ids.includes('default'))
        await ci.deleteContext(one)
        await ci.deleteContext(other)
        t.check.ok(!(await ci.listContexts()).some((c) => c.id === one.id))
        await t.check.rejects(ci.runCode('1', { context: one }), /no context/)
        await t.check.rejects(ci.deleteContext(one))
    },

    async 'output, errors and variables as callbacks and results'(t) {
        const ci = (await t.sandbox()).codeInterpreter
        const seen = { out: '', err: '', errors: [] }
        const result = await ci.runCode('import os, sys\nprint(os.environ["WORD"])\nprint("e", file=sys.stderr)\n1/0', {
            envs: { WORD: 'it\'s' },
            onStdout: (m) => { seen.out += m.output },
            onStderr: (m) => { seen.err += m.output },
            onError: (e) => { seen.errors.push(e) },
        })
        t.check.deepEqual([seen.out, seen.err, seen.errors.length], ['it\'s\n', 'e\n', 1])
        t.check.deepEqual([result.error.name, result.error.value], ['ZeroDivisionError', 'division by zero'])
        t.check.ok(result.error.traceback.startsWith('Traceback (most recent call last):'))
    },

    async 'a time limit'(t) {
        const ci = (await t.sandbox()).codeInterpreter
        await ci.runCode('z = 9')
        await t.check.rejects(ci.runCode('import time\ntime.sleep(600)', { timeout: 1 }), /timed out/)
        t.check.equal((await ci.runCode('z')).stdout, '9\n')
    },

    async 'an interpreter that ended is replaced'(t) {
        const ci = (await t.sandbox()).codeInterpreter
        const context = await ci.createContext()
        const result = await ci.runCode('import os\nprint("last words", flush=True)\nos._exit(3)', { context })
        t.check.equal(result.stdout, 'last words\n')
        t.check.match(result.error.value, /exit code 3/)
        const next = await ci.runCode('print("again")', { context })
        t.check.equal(next.stdout, 'again\n')
        t.check.match(next.stderr, /a new one/)
    },
}
