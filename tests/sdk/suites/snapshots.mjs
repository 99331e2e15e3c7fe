// Snapshots: names of images. 'sdk-base' is in the daemon's store.
export const tests = {
    async 'make one of an image, get, list'(t) {
        const snap = t.daytona.snapshot
        const lines = []
        const made = await snap.create({ name: 'sdk-snap', image: 'sdk-base' }, { onLogs: (l) => lines.push(l) })
        t.check.equal(made.name, 'sdk-snap')
        t.check.equal(made.state, 'active')
        t.check.ok(lines.length >= 1)
        t.check.equal((await snap.get('sdk-snap')).id, made.id)
        t.check.equal((await snap.activate('sdk-snap')).state, 'active')
        const list = await snap.list(1, 50)
        t.check.ok(list.items.some((s) => s.id === made.id))
        t.check.deepEqual([list.page, list.total, list.totalPages], [1, list.items.length, 1])
        t.check.equal((await snap.list(1, 1)).items.length, 1)
    },

    async 'a name that is taken, an image that is not there'(t) {
        const snap = t.daytona.snapshot
        await t.refused(snap.create({ name: 'sdk-snap', image: 'sdk-base' }), t.sdk.DaytonaConflictError, 409)
        await t.refused(snap.get('sdk-none'), t.sdk.DaytonaNotFoundError, 404)
        await t.refused(snap.delete('sdk-none'), t.sdk.DaytonaNotFoundError, 404)
        await t.refused(snap.create({ name: 'A B', image: 'sdk-base' }), t.sdk.DaytonaValidationError, 400)
    },

    async 'a sandbox of it, and a snapshot of that one'(t) {
        const s = await t.create({ snapshot: 'sdk-snap' })
        t.check.equal(s.snapshot, 'sdk-snap')
        await s.process.executeCommand('echo kept >/home/kept')
        await s.createSnapshot('sdk-kept')
        await s.refreshData()
        t.check.equal(s.state, 'started')
        t.check.equal((await s.process.executeCommand('cat /home/kept')).result, 'kept\n')
        const again = await t.create({ snapshot: 'sdk-kept' })
        t.check.equal((await again.process.executeCommand('cat /home/kept')).result, 'kept\n')
        await s.delete(60, true)
        await again.delete(60, true)
    },

    async 'remove'(t) {
        const snap = t.daytona.snapshot
        await snap.delete(await snap.get('sdk-snap'))
        await snap.delete('sdk-kept')
        await t.until(() => snap.get('sdk-snap').then(() => false, (e) => e.statusCode === 404), 'gone')
        t.check.ok(!(await snap.list(1, 50)).items.some((s) => s.name.startsWith('sdk-snap')))
    },
}
