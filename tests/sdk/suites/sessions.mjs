// Sessions: one shell, many commands.

export const tests = {
    async 'a session is one shell'(t) {
        const p = (await t.sandbox()).process
        await p.createSession('s1')
        const first = await p.executeSessionCommand('s1', { command: 'cd /tmp; V=kept; f() { echo "f $1"; }' })
        t.check.equal(first.exitCode, 0)
        t.check.equal(typeof first.cmdId, 'string')
        const r = await p.executeSessionCommand('s1', { command: 'pwd; echo $V; f x; echo bad >&2' })
        t.check.equal(r.stdout, '/tmp\nkept\nf x\n')
        t.check.equal(r.stderr, 'bad\n')
        t.check.ok(r.output.includes('kept') && r.output.includes('bad'))
        t.check.notEqual(r.cmdId, first.cmdId)
        t.check.equal((await p.executeSessionCommand('s1', { command: '(exit 7)' })).exitCode, 7)
    },

    async 'heredocs and readers of stdin do not hang'(t) {
        const p = (await t.sandbox()).process
        const r = await p.executeSessionCommand('s1', { command: 'cat <<X\none\nX\ncat\necho end' })
        t.check.equal(r.stdout, 'one\nend\n')
    },

    async 'it is listed, with its commands'(t) {
        const p = (await t.sandbox()).process
        const session = await p.getSession('s1')
        t.check.equal(session.sessionId, 's1')
        t.check.equal(session.commands.length, 4)
        t.check.equal(session.commands[2].command, '(exit 7)')
        t.check.equal(session.commands[2].exitCode, 7)
        t.check.ok((await p.listSessions()).some((s) => s.sessionId === 's1'))
        const command = await p.getSessionCommand('s1', session.commands[2].id)
        t.check.equal(command.exitCode, 7)
    },

    async 'a command in the background, and its logs'(t) {
        const p = (await t.sandbox()).process
        await p.createSession('s2')
        const { cmdId, exitCode } = await p.executeSessionCommand('s2', {
            command: 'echo one; echo two >&2; while ! [ -e /tmp/go ]; do sleep 0.05; done; echo three; exit 5',
            runAsync: true,
        })
        t.check.equal(exitCode, undefined)
        await t.until(async () => (await p.getSessionCommandLogs('s2', cmdId)).stdout === 'one\n', 'one')
        const running = await p.getSessionCommand('s2', cmdId)
        t.check.ok(running.exitCode === undefined || running.exitCode === null)
        await p.executeCommand('touch /tmp/go')
        await t.until(async () => typeof (await p.getSessionCommand('s2', cmdId)).exitCode === 'number', 'its end')
        t.check.equal((await p.getSessionCommand('s2', cmdId)).exitCode, 5)
        const logs = await p.getSessionCommandLogs('s2', cmdId)
        t.check.equal(logs.stdout, 'one\nthree\n')
        t.check.equal(logs.stderr, 'two\n')
        t.check.ok(logs.output.includes('three'))
    },

    async 'logs as they come'(t) {
        const p = (await t.sandbox()).process
        await p.createSession('s3')
        const { cmdId } = await p.executeSessionCommand('s3', {
            command: 'for i in 1 2 3; do echo out$i; echo err$i >&2; sleep 0.1; done; printf "\u00e9nd"',
            runAsync: true,
        })
        let out = ''
        let err = ''
        await p.getSessionCommandLogs('s3', cmdId, (c) => { out += c }, (c) => { err += c })
        t.check.equal(out, 'out1\nout2\nout3\n\u00e9nd')
        t.check.equal(err, 'err1\nerr2\nerr3\n')
        let again = ''
        await p.getSessionCommandLogs('s3', cmdId, (c) => { again += c }, () => {})
        t.check.equal(again, out) // a later follower gets it from the start
    },

    async 'a million bytes of logs, in order'(t) {
        const p = (await t.sandbox()).process
        const { cmdId } = await p.executeSessionCommand('s3', { command: 'seq 1 150000', runAsync: true })
        let out = ''
        await p.getSessionCommandLogs('s3', cmdId, (c) => { out += c }, () => {})
        const lines = out.trimEnd().split('\n')
        t.check.equal(lines.length, 150000)
        t.check.ok(lines.every((line, i) => line === String(i + 1)))
    },

    async 'input'(t) {
        const p = (await t.sandbox()).process
        await p.createSession('s4')
        const { cmdId } = await p.executeSessionCommand('s4', {
            command: 'read a; read b; echo "got $a $b"', runAsync: true, suppressInputEcho: true,
        })
        await p.sendSessionCommandInput('s4', cmdId, 'x\n')
        await p.sendSessionCommandInput('s4', cmdId, 'y') // the server adds the end of the line
        await t.until(async () => typeof (await p.getSessionCommand('s4', cmdId)).exitCode === 'number', 'its end')
        t.check.equal((await p.getSessionCommandLogs('s4', cmdId)).stdout, 'got x y\n')
        await t.refused(p.sendSessionCommandInput('s4', cmdId, 'z'), t.sdk.DaytonaGoneError, 410)
    },

    async 'input is in the logs, unless it is not wanted there'(t) {
        const p = (await t.sandbox()).process
        const { cmdId } = await p.executeSessionCommand('s4', { command: 'read a; echo "got $a"', runAsync: true })
        await p.sendSessionCommandInput('s4', cmdId, 'typed')
        let out = ''
        await p.getSessionCommandLogs('s4', cmdId, (c) => { out += c }, () => {})
        t.check.equal(out, 'typed\ngot typed\n')
        t.check.equal((await p.getSessionCommandLogs('s4', cmdId)).output, out)
    },

    async 'what is not there'(t) {
        const p = (await t.sandbox()).process
        const { DaytonaNotFoundError, DaytonaConflictError } = t.sdk
        await t.refused(p.getSession('none'), DaytonaNotFoundError, 404)
        await t.refused(p.executeSessionCommand('none', { command: 'true' }), DaytonaNotFoundError, 404)
        await t.refused(p.getSessionCommand('s1', 'none'), DaytonaNotFoundError, 404)
        await t.refused(p.deleteSession('none'), DaytonaNotFoundError, 404)
        await t.refused(p.createSession('s1'), DaytonaConflictError, 409)
    },

    async 'delete ends what runs in it'(t) {
        const p = (await t.sandbox()).process
        await p.createSession('s5')
        await p.executeSessionCommand('s5', { command: 'sleep 815', runAsync: true })
        await p.deleteSession('s5')
        await t.refused(p.getSession('s5'), t.sdk.DaytonaNotFoundError, 404)
        await t.until(async () => (await p.executeCommand(
            'cat /proc/[0-9]*/cmdline | tr "\\0" " " | grep -q "sleep 81[5]"')).exitCode === 1, 'its end')
        t.check.ok(!(await p.listSessions()).some((s) => s.sessionId === 's5'))
    },

    async 'a session whose shell was replaced stays'(t) {
        const p = (await t.sandbox()).process
        await p.createSession('s6')
        await p.executeSessionCommand('s6', { command: 'exec sleep 300', runAsync: true })
        t.check.equal((await p.getSession('s6')).sessionId, 's6')
        await p.deleteSession('s6')
    },
}
