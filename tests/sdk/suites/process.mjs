// Commands and code.

export const tests = {
    async 'output and exit code'(t) {
        const p = (await t.sandbox()).process
        const r = await p.executeCommand('echo out; echo err >&2; exit 3')
        t.check.equal(r.exitCode, 3)
        t.check.equal(r.result, 'out\nerr\n')
        t.check.equal(r.artifacts.stdout, r.result)
        t.check.equal((await p.executeCommand('true')).exitCode, 0)
        t.check.equal((await p.executeCommand('true')).result, '')
        t.check.equal((await p.executeCommand('no-such-command-1')).exitCode, 127)
        t.check.equal((await p.executeCommand('kill -9 $$')).exitCode, 137)
    },

    async 'folder, environment, quoting'(t) {
        const p = (await t.sandbox()).process
        t.check.equal((await p.executeCommand('pwd', '/tmp')).result, '/tmp\n')
        const odd = `a 'b' "c" $d \\ \u00e9\u{1f600}\ttab`
        t.check.equal((await p.executeCommand('printf %s "$ODD"', undefined, { ODD: odd })).result, odd)
        t.check.equal((await p.executeCommand(`printf '%s' '\u00e9\u{1f600}'`)).result, '\u00e9\u{1f600}')
        t.check.equal((await p.executeCommand('cat <<X\none\ntwo\nX\n')).result, 'one\ntwo\n')
        t.check.equal((await p.executeCommand('cat')).result, '') // no input: an end, no wait
    },

    async 'the default folder is the work dir'(t) {
        const s = await t.sandbox()
        const dir = await s.getWorkDir()
        t.check.equal((await s.process.executeCommand('pwd')).result.trim(), dir)
        const home = await s.getUserHomeDir()
        t.check.equal((await s.process.executeCommand('echo ~')).result.trim(), home)
    },

    async 'a command of 300 KB, output of 4 MB'(t) {
        const p = (await t.sandbox()).process
        const long = 'x'.repeat(300_000)
        t.check.equal((await p.executeCommand(`printf %s '${long}' | wc -c`)).result.trim(), '300000')
        const r = await p.executeCommand('head -c 4000000 /dev/zero | tr "\\0" y')
        t.check.equal(r.exitCode, 0)
        t.check.equal(r.result.length, 4_000_000)
    },

    async 'a time limit ends the command and its children'(t) {
        const p = (await t.sandbox()).process
        const began = Date.now()
        await t.refused(p.executeCommand('sleep 4711 & sleep 4711', undefined, undefined, 1),
                        t.sdk.DaytonaTimeoutError, 408)
        t.check.ok(Date.now() - began < 10_000)
        await t.until(async () => (await p.executeCommand(
            'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " " | grep -c "sleep 471[1]"')).exitCode === 1,
                      'both sleeps have ended')
        t.check.equal((await p.executeCommand('echo well', undefined, undefined, 30)).result, 'well\n')
    },

    async 'a child in the background does not hold the answer'(t) {
        const p = (await t.sandbox()).process
        const began = Date.now()
        const r = await p.executeCommand('sleep 60 >/dev/null 2>&1 & echo done')
        t.check.equal(r.result, 'done\n')
        t.check.ok(Date.now() - began < 20_000)
    },

    async 'an empty command'(t) {
        const p = (await t.sandbox()).process
        await t.refused(p.executeCommand(''), t.sdk.DaytonaValidationError, 400)
    },

    async 'thirty commands at once'(t) {
        const p = (await t.sandbox()).process
        const results = await Promise.all(Array.from({ length: 30 }, (_, i) =>
            p.executeCommand(`echo ${i}`)))
        t.check.deepEqual(results.map((r) => r.result), Array.from({ length: 30 }, (_, i) => `${i}\n`))
    },

    async 'Python code'(t) {
        const p = (await t.sandbox()).process
        const r = await p.codeRun('import sys, os\nprint("hi", sys.argv[1:], os.environ["E"])',
                                  { argv: ['a', 'b c'], env: { E: 'env' } })
        t.check.equal(r.exitCode, 0)
        t.check.equal(r.result.trim(), "hi ['a', 'b c'] env")
        const bad = await p.codeRun('raise ValueError("boom")')
        t.check.equal(bad.exitCode, 1)
        t.check.match(bad.result, /ValueError: boom/)
        await t.refused(p.codeRun('import time; time.sleep(99)', undefined, 1),
                        t.sdk.DaytonaTimeoutError, 408)
    },

    async 'charts of Python code'(t) {
        const p = (await t.sandbox()).process
        if ((await p.executeCommand('python3 -c "import matplotlib"')).exitCode !== 0)
            return // the image is the host, which may have none
        const code = `import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [1, 4, 9], label='squares')
plt.title('T'); plt.xlabel('X'); plt.ylabel('Y')
plt.show()
plt.close()
plt.bar(['a', 'b'], [3, 5])
print('drawn')`
        for (const env of [{}, { PYTHONX: '1' }]) { // warm if there is one, and cold
            const r = await p.codeRun(code, { env })
            t.check.equal(r.result.trim(), 'drawn')
            const [line, bar] = r.artifacts.charts
            t.check.deepEqual([line.type, line.title, line.x_label, line.y_label], ['line', 'T', 'X', 'Y'])
            t.check.deepEqual(line.elements[0].points, [[1, 1], [2, 4], [3, 9]])
            t.check.equal(line.elements[0].label, 'squares')
            t.check.deepEqual(bar.elements.map((e) => [e.label, e.value]), [['a', '3'], ['b', '5']])
            for (const chart of [line, bar])
                t.check.equal(Buffer.from(chart.png, 'base64').subarray(1, 4).toString(), 'PNG')
        }
        const mixed = await p.codeRun(`import matplotlib.pyplot as plt
plt.bar([1, 2], [3, 4]); plt.plot([1, 2], [5, 6]); plt.show()`)
        const [both] = mixed.artifacts.charts
        t.check.equal(both.type, t.sdk.ChartType.COMPOSITE_CHART)
        t.check.deepEqual(both.elements.map((c) => c.type), [t.sdk.ChartType.BAR, t.sdk.ChartType.LINE])
        t.check.deepEqual((await p.codeRun('print(1)')).artifacts.charts, [])
    },

    async 'JavaScript code'(t) {
        const s = await t.create({ language: 'javascript' })
        const r = await s.process.codeRun('console.log([1, 2].map((x) => x * 2), process.argv.slice(2))',
                                          { argv: ['z'] })
        t.check.equal(r.result.trim(), "[ 2, 4 ] [ 'z' ]")
        t.check.equal((await s.process.codeRun('process.exit(4)')).exitCode, 4)
    },
}
