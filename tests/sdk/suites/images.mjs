// Sandboxes of images. 'sdk-base' is in the daemon's store: a shell, and little else.
export const tests = {
    async 'an image by name costs no build'(t) {
        const s = await t.create({ image: 'sdk-base', resources: { cpu: 1, memory: 1, disk: 1 } })
        t.check.equal(s.state, 'started')
        t.check.deepEqual([s.cpu, s.memory, s.disk], [1, 1, 1])
        t.check.equal((await s.process.executeCommand('echo in')).result, 'in\n')
    },

    async 'an image as a snapshot'(t) {
        const s = await t.create({ snapshot: 'sdk-base' })
        t.check.equal(s.snapshot, 'sdk-base')
        t.check.equal((await s.process.executeCommand('echo in')).result, 'in\n')
    },

    async 'a program that the image lacks'(t) {
        const s = await t.create({ snapshot: 'sdk-base' })
        t.check.equal((await s.process.executeCommand('python3')).exitCode, 127)
        const e = await t.refused(s.process.codeRun('print(1)'), t.sdk.DaytonaError, 501)
        t.check.match(e.message, /python/)
    },

    async 'an image that is not there'(t) {
        const e = await t.refused(t.daytona.create({ image: '127.0.0.1:1/none' }), t.sdk.DaytonaError)
        t.check.match(e.message, /127\.0\.0\.1:1/)
    },
}
