// Two clients of one sandbox, and the event socket that tells them of each other.

export const tests = {
    async 'both work in it'(t) {
        const other = new t.sdk.Daytona()
        const a = await t.sandbox()
        const b = await other.get(a.id)
        const runs = []
        for (let i = 0; i < 10; i++)
            runs.push(a.process.executeCommand(`echo a${i}`), b.process.executeCommand(`echo b${i}`))
        const results = (await Promise.all(runs)).map((r) => r.result.trim())
        t.check.deepEqual(results.filter((_, i) => i % 2), Array.from({ length: 10 }, (_, i) => `b${i}`))
        await a.process.createSession('both')
        t.check.equal((await b.process.getSession('both')).sessionId, 'both')
        await b.fs.uploadFile(Buffer.from('from b'), '/tmp/b')
        t.check.equal(String(await a.fs.downloadFile('/tmp/b')), 'from b')
        await other[Symbol.asyncDispose]()
    },

    async 'one waits for what the other does'(t) {
        const other = new t.sdk.Daytona()
        const a = await t.create()
        const b = await other.get(a.id)
        const waits = b.waitUntilStopped(30)
        await a.stop()
        await waits
        t.check.equal(b.state, 'stopped')
        const again = b.waitUntilStarted(30)
        await a.start()
        await again
        t.check.equal(b.state, 'started')
        await other[Symbol.asyncDispose]()
    },

    async 'one removes what the other works in'(t) {
        const other = new t.sdk.Daytona()
        const a = await t.create()
        const b = await other.get(a.id)
        const runs = b.process.executeCommand('sleep 100').then(() => undefined, (e) => e)
        await t.until(async () => (await a.process.executeCommand(
            'cat /proc/[0-9]*/cmdline | tr "\\0" " " | grep -q "sleep 10[0]"')).exitCode === 0, 'it runs')
        await a.delete(60, true)
        await runs
        await t.refused(b.process.executeCommand('true'), t.sdk.DaytonaNotFoundError, 404)
        await other[Symbol.asyncDispose]()
    },

    async 'ten sandboxes at once'(t) {
        const boxes = await Promise.all(Array.from({ length: 10 }, () => t.create()))
        t.check.equal(new Set(boxes.map((s) => s.id)).size, 10)
        const names = await Promise.all(boxes.map((s) => s.process.executeCommand('hostname')))
        t.check.equal(new Set(names.map((r) => r.result)).size, 10)
        await Promise.all(boxes.map((s) => s.delete()))
    },
}
