// An SDK of the 0.21 line, which agent programs still pin: lists are arrays, logs are text, the
// toolbox lies below the API.
export const tests = {
    async 'a sandbox, as OpenManus makes it'(t) {
        const s = await t.create({
            image: 'host', public: true, labels: { id: 'project' }, envVars: { CHROME: 'yes' },
            resources: { cpu: 1, memory: 1, disk: 1 }, autoStopInterval: 15, autoArchiveInterval: 1440,
        })
        t.shared = Promise.resolve(s)
        t.check.equal(s.state, 'started')
        t.check.equal(s.env.CHROME, 'yes')
        t.check.deepEqual([s.cpu, s.memory], [1, 1])
    },

    async 'lists are arrays'(t) {
        const s = await t.sandbox()
        const list = await t.daytona.list({ id: 'project' })
        t.check.ok(Array.isArray(list))
        t.check.deepEqual(list.map((x) => x.id), [s.id])
        t.check.equal((await t.daytona.findOne({ labels: { id: 'project' } })).id, s.id)
        t.check.equal((await t.daytona.get(s.id)).env.CHROME, 'yes')
    },

    async 'commands and code'(t) {
        const s = await t.sandbox()
        const r = await s.process.executeCommand('echo "$A b"; exit 3', '/tmp', { A: "it's" })
        t.check.equal(r.exitCode, 3)
        t.check.equal(r.result, "it's b\n")
        const odd = 'a  "b" $HOME `c` \\ *'
        t.check.equal((await s.process.executeCommand('printf %s "$A"', '/tmp', { A: odd })).result, odd)
        t.check.match(await s.getUserRootDir(), /^\//)
        t.check.equal((await s.process.codeRun('print(6 * 7)')).result.trim(), '42')
    },

    async 'sessions, with logs as text'(t) {
        const p = (await t.sandbox()).process
        await p.createSession('old')
        const r = await p.executeSessionCommand('old', { command: 'cd /tmp; pwd' })
        t.check.equal(r.exitCode, 0)
        t.check.equal(r.output.trim(), '/tmp')
        const { cmdId } = await p.executeSessionCommand('old', {
            command: 'echo one; sleep 0.2; echo two', runAsync: true,
        })
        await t.until(async () => typeof (await p.getSessionCommand('old', cmdId)).exitCode === 'number', 'its end')
        const logs = await p.getSessionCommandLogs('old', cmdId)
        t.check.equal(typeof logs, 'string')
        t.check.equal(logs, 'one\ntwo\n')
        let followed = ''
        await p.getSessionCommandLogs('old', cmdId, (piece) => { followed += piece })
        t.check.equal(followed, 'one\ntwo\n')
        t.check.deepEqual((await p.listSessions()).map((s) => s.sessionId), ['old'])
        await p.deleteSession('old')
    },

    async 'files'(t) {
        const { fs } = await t.sandbox()
        await fs.uploadFile(Buffer.from('old way'), '/tmp/old/file')
        t.check.equal(String(await fs.downloadFile('/tmp/old/file')), 'old way')
        t.check.equal((await fs.getFileDetails('/tmp/old/file')).size, 7)
        t.check.deepEqual((await fs.listFiles('/tmp/old')).map((f) => f.name), ['file'])
        await fs.createFolder('/tmp/old/folder', '755')
        await fs.setFilePermissions('/tmp/old/file', { mode: '600' })
        t.check.equal((await fs.getFileDetails('/tmp/old/file')).permissions, '0600')
        await fs.deleteFile('/tmp/old/file')
        const error = await fs.getFileDetails('/tmp/old/file').then(() => undefined, (e) => e)
        t.check.ok(error instanceof t.sdk.DaytonaError, String(error))
        await fs.uploadFile(Buffer.from('relative'), 'rel.txt')
        t.check.equal(String(await fs.downloadFile('rel.txt')), 'relative')
    },

    async 'preview, stop, start, delete'(t) {
        const s = await t.sandbox()
        const link = await s.getPreviewLink(6080)
        t.check.match(link.url, /^http/)
        await s.stop()
        t.check.equal(s.state, 'stopped')
        await s.start()
        t.check.equal(s.state, 'started')
        await s.setAutostopInterval(20)
        await s.delete() // asks for it again afterwards, and must not be told 404
        t.check.ok(['destroyed', 'destroying'].includes(s.state), s.state)
    },
}
