// Images that are built from what the SDK writes as a Dockerfile. 'sdk-base' is in the daemon's store.
function declared(t) {
    return t.sdk.Image.base('sdk-base')
        .runCommands('echo built >/built', 'echo to be seen')
        .env({ COLOUR: 'blue' })
        .workdir('/place')
        .dockerfileCommands(['COPY --from=sdk-base /bin/sh /place/tool'])
}

export const tests = {
    async 'a sandbox of it, with its log'(t) {
        const lines = []
        const s = await t.create({ image: declared(t) }, { onSnapshotCreateLogs: (l) => lines.push(l) })
        t.check.equal(s.state, 'started')
        const seen = await s.process.executeCommand('cat /built; echo $COLOUR; pwd; test -x tool && echo tool')
        t.check.equal(seen.result, 'built\nblue\n/place\ntool\n')
        const log = lines.join('\n')
        t.check.match(log, /to be seen/)
        t.check.match(log, /COPY --from=sdk-base/)
        await s.delete(60, true)
    },

    async 'again, from the cache, without a look at the log'(t) {
        const s = await t.create({ image: declared(t) })
        t.check.equal((await s.process.executeCommand('cat /built')).result, 'built\n')
        await s.delete(60, true)
    },

    async 'one that fails says why'(t) {
        const lines = []
        const image = t.sdk.Image.base('sdk-base').runCommands('echo it is broken; exit 3')
        const error = await t.refused(
            t.create({ name: 'sdk-broken', image }, { onSnapshotCreateLogs: (l) => lines.push(l) }),
            t.sdk.DaytonaError)
        t.check.match(error.message, /build_failed/)
        t.check.match(error.message, /exit code 3/)
        t.check.match(error.message, /it is broken/)
        t.check.match(lines.join('\n'), /it is broken/)
        const s = await t.daytona.get('sdk-broken')
        t.check.equal(s.state, 'build_failed')
        t.check.match(s.errorReason, /exit code 3/)
        await s.delete(60, true)
    },

    async 'a snapshot'(t) {
        const lines = []
        const made = await t.daytona.snapshot.create({ name: 'sdk-declared', image: declared(t) },
            { onLogs: (l) => lines.push(l) })
        t.check.deepEqual([made.name, made.state], ['sdk-declared', 'active'])
        t.check.match(lines[0], /sdk-declared \(building\)/)
        t.check.match(lines.join('\n'), /WORKDIR/)
        const s = await t.create({ snapshot: 'sdk-declared' })
        t.check.equal((await s.process.executeCommand('cat /built; pwd')).result, 'built\n/place\n')
        await s.delete(60, true)
        await t.refused(t.daytona.snapshot.create({ name: 'sdk-declared', image: declared(t) }),
            t.sdk.DaytonaConflictError, 409)
        await t.daytona.snapshot.delete('sdk-declared')
        await t.refused(t.daytona.snapshot.get('sdk-declared'), t.sdk.DaytonaNotFoundError, 404)
    },

    async 'a snapshot that fails'(t) {
        const snap = t.daytona.snapshot
        const image = t.sdk.Image.base('sdk-base').runCommands('echo no luck >&2; false')
        const error = await t.refused(snap.create({ name: 'sdk-failed', image }, { onLogs: () => {} }),
            t.sdk.DaytonaError)
        t.check.match(error.message, /exit code 1/)
        t.check.match(error.message, /no luck/)
        t.check.equal((await snap.get('sdk-failed')).state, 'build_failed')
        t.check.ok((await snap.list(1, 50)).items.some((s) => s.name === 'sdk-failed'))
        await t.refused(t.create({ snapshot: 'sdk-failed' }), t.sdk.DaytonaValidationError, 400)
        await snap.delete('sdk-failed')
        await t.refused(snap.get('sdk-failed'), t.sdk.DaytonaNotFoundError, 404)
    },

    async 'a snapshot that is not there is not looked for elsewhere'(t) {
        const error = await t.refused(t.create({ snapshot: 'sdk-nowhere' }), t.sdk.DaytonaValidationError, 400)
        t.check.match(error.message, /sdk-nowhere/)
    },
}
