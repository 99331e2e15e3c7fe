// What goes wrong arrives as the class that programs catch, with words that say what to do.

export const tests = {
    async 'a wrong key'(t) {
        const stranger = new t.sdk.Daytona({ apiKey: 'cay_wrong' })
        await t.refused(stranger.create(), t.sdk.DaytonaAuthenticationError, 401)
        await t.refused(stranger.get('x'), t.sdk.DaytonaAuthenticationError, 401)
        await stranger[Symbol.asyncDispose]()
    },

    async 'a sandbox that is not there'(t) {
        const e = await t.refused(t.daytona.get('nobody'), t.sdk.DaytonaNotFoundError, 404)
        t.check.match(e.message, /nobody/)
    },

    async 'a name that is taken, or is none'(t) {
        await t.create({ name: 'taken' })
        const e = await t.refused(t.daytona.create({ name: 'taken' }), t.sdk.DaytonaConflictError, 409)
        t.check.match(e.message, /taken/)
        await t.refused(t.daytona.create({ name: '../..' }), t.sdk.DaytonaValidationError, 400)
    },

    async 'a snapshot that is not there'(t) {
        const snapshot = '127.0.0.1:1/no-such-snapshot' // where no registry is
        const e = await t.refused(t.daytona.create({ snapshot }), t.sdk.DaytonaError)
        t.check.match(e.message, /127\.0\.0\.1:1/)
        t.check.ok([400, 503].includes(e.statusCode), `status ${e.statusCode}`)
    },

    async 'the toolbox says who speaks'(t) {
        const s = await t.sandbox()
        const e = await t.refused(s.fs.getFileDetails('/none'), t.sdk.DaytonaFileNotFoundError, 404)
        t.check.equal(e.source, 'DAYTONA_DAEMON')
        t.check.equal(e.code, 'FILE_NOT_FOUND')
        t.check.match(e.message, /\/none/)
    },

    async 'a sandbox that is stopped takes no commands'(t) {
        const s = await t.create()
        await s.stop()
        const e = await t.refused(s.process.executeCommand('true'), t.sdk.DaytonaError)
        t.check.ok(e.statusCode >= 400 && e.statusCode < 500, `status ${e.statusCode}`)
        t.check.match(e.message, /start/)
    },

    async 'a time limit of the client'(t) {
        const hasty = new t.sdk.Daytona({ requestTimeoutMs: 300 })
        const s = await hasty.get((await t.sandbox()).id)
        const e = await s.process.executeCommand('sleep 30').then(() => undefined, (x) => x)
        t.check.ok(e instanceof t.sdk.DaytonaError, String(e))
        await hasty[Symbol.asyncDispose]()
        t.check.equal((await (await t.sandbox()).process.executeCommand('echo well')).result, 'well\n')
    },

    async 'numbers that are none'(t) {
        const s = await t.sandbox()
        const call = (path, method = 'POST') => fetch(`${process.env.DAYTONA_API_URL}/sandbox/${s.id}/${path}`, {
            method, headers: { Authorization: `Bearer ${process.env.DAYTONA_API_KEY}` },
        })
        for (const path of ['autostop/x', 'autostop/99999999999999999999', 'autodelete/1.5'])
            t.check.equal((await call(path)).status, 400, path)
        t.check.equal((await call('ports/0/preview-url', 'GET')).status, 400)
        t.check.equal((await call('ports/65536/preview-url', 'GET')).status, 400)
    },
}
