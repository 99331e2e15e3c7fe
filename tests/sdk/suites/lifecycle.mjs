// Making, finding, changing and removing sandboxes.

async function all(iterator) {
    const found = []
    for await (const sandbox of iterator) found.push(sandbox)
    return found
}

export const tests = {
    async 'a sandbox of the defaults'(t) {
        const s = await t.sandbox()
        t.check.match(s.id, /^[0-9a-f-]+$/)
        t.check.equal(s.state, 'started')
        t.check.equal(s.desiredState, 'started')
        t.check.equal(s.labels['code-toolbox-language'], 'python')
        t.check.equal(s.public, false)
        t.check.equal(s.autoStopInterval, 15)
        t.check.equal(s.autoDeleteInterval, -1)
        t.check.equal(typeof s.organizationId, 'string')
        t.check.equal(typeof s.target, 'string')
        t.check.deepEqual(s.env, {})
        t.check.ok(s.cpu >= 1 && s.memory >= 1 && s.disk >= 0 && s.gpu === 0)
        t.check.match(s.toolboxProxyUrl, /^http:\/\/127\.0\.0\.1:\d+\/toolbox$/)
        t.check.ok(Math.abs(Date.now() - Date.parse(s.createdAt)) < 120_000)
    },

    async 'everything one can ask for'(t) {
        const s = await t.create({
            name: 'asked-for', language: 'javascript', envVars: { COLOUR: 'sea green' },
            labels: { team: 'blue' }, public: true, autoStopInterval: 30, autoArchiveInterval: 60,
            autoDeleteInterval: 90, networkBlockAll: true,
        })
        t.check.equal(s.name, 'asked-for')
        t.check.deepEqual(s.env, { COLOUR: 'sea green' })
        t.check.deepEqual(s.labels, { team: 'blue', 'code-toolbox-language': 'javascript' })
        t.check.equal(s.public, true)
        t.check.equal(s.networkBlockAll, true)
        t.check.deepEqual([s.autoStopInterval, s.autoArchiveInterval, s.autoDeleteInterval],
                          [30, 60, 90])
        t.check.equal((await s.process.executeCommand('echo "$COLOUR"')).result.trim(), 'sea green')
    },

    async 'get by id and by name'(t) {
        const byName = await t.daytona.get('asked-for')
        const byId = await t.daytona.get(byName.id)
        t.check.equal(byId.name, 'asked-for')
        t.check.deepEqual(byId.env, byName.env)
        await t.refused(t.daytona.get('nobody'), t.sdk.DaytonaNotFoundError, 404)
    },

    async 'list: all, by label, by name, by state, in pages'(t) {
        const shared = await t.sandbox()
        const ids = (await all(t.daytona.list())).map((s) => s.id)
        t.check.ok(ids.includes(shared.id) && ids.length >= 2)
        const blue = await all(t.daytona.list({ labels: { team: 'blue' } }))
        t.check.deepEqual(blue.map((s) => s.name), ['asked-for'])
        t.check.deepEqual(await all(t.daytona.list({ labels: { team: 'red' } })), [])
        t.check.deepEqual((await all(t.daytona.list({ name: 'ASKED' }))).map((s) => s.name),
                          ['asked-for'])
        t.check.deepEqual((await all(t.daytona.list({ states: ['stopped'] }))).map((s) => s.id), [])
        const paged = await all(t.daytona.list({ limit: 1 }))
        t.check.deepEqual(paged.map((s) => s.id).sort(), ids.sort())
    },

    async 'what a list gives can be worked with'(t) {
        for await (const s of t.daytona.list({ labels: { team: 'blue' } })) {
            t.check.equal((await s.process.executeCommand('echo here')).result.trim(), 'here')
            await s.refreshData()
            t.check.equal(s.env.COLOUR, 'sea green')
        }
    },

    async 'labels are replaced as a set'(t) {
        const s = await t.daytona.get('asked-for')
        const labels = { 'code-toolbox-language': 'javascript', shift: 'night' }
        t.check.deepEqual(await s.setLabels(labels), labels)
        await s.refreshData()
        t.check.deepEqual(s.labels, labels)
    },

    async 'intervals'(t) {
        const s = await t.sandbox()
        await s.setAutostopInterval(45)
        await s.setAutoArchiveInterval(120)
        await s.setAutoDeleteInterval(240)
        await s.refreshData()
        t.check.deepEqual([s.autoStopInterval, s.autoArchiveInterval, s.autoDeleteInterval],
                          [45, 120, 240])
        await s.setAutoDeleteInterval(-1)
        await s.setAutostopInterval(0)
        await s.refreshData()
        t.check.deepEqual([s.autoStopInterval, s.autoDeleteInterval], [0, -1])
        await s.refreshActivity()
    },

    async 'stop and start keep the files'(t) {
        const s = await t.sandbox()
        await s.process.executeCommand('echo kept >kept')
        await s.stop()
        t.check.equal(s.state, 'stopped')
        t.check.equal((await t.daytona.get(s.id)).state, 'stopped')
        t.check.deepEqual((await all(t.daytona.list({ states: ['stopped'] }))).map((x) => x.id),
                          [s.id])
        await s.start()
        t.check.equal(s.state, 'started')
        t.check.equal((await s.process.executeCommand('cat kept')).result, 'kept\n')
        await s.start() // of a started one: nothing to do
        t.check.equal(s.state, 'started')
    },

    async 'archive and start'(t) {
        const s = await t.sandbox()
        await s.stop()
        await s.archive()
        await t.until(async () => {
            await s.refreshData()
            return s.state === 'archived'
        }, 'archived')
        await s.start()
        t.check.equal(s.state, 'started')
        t.check.equal((await s.process.executeCommand('cat kept')).result, 'kept\n')
    },

    async 'resize'(t) {
        const s = await t.sandbox()
        await s.resize({ cpu: 2, memory: 2 })
        t.check.deepEqual([s.cpu, s.memory], [2, 2])
    },

    async 'delete'(t) {
        const s = await t.daytona.get('asked-for')
        await s.delete(60, true)
        await t.refused(t.daytona.get(s.id), t.sdk.DaytonaNotFoundError, 404)
        const again = await t.create({ name: 'asked-for' }) // the name is free at once
        t.check.notEqual(again.id, s.id)
        await t.daytona.delete(again)
    },

    async 'delete of a stopped one'(t) {
        const s = await t.create()
        await s.stop(60, true)
        await s.delete()
        await t.until(() => t.daytona.get(s.id).then(() => false, (e) => e.statusCode === 404), 'gone')
        t.check.ok(true)
    },

    async 'an ephemeral one goes when it stops'(t) {
        const s = await t.create({ ephemeral: true })
        t.check.equal(s.autoDeleteInterval, 0)
        await s.stop()
        await t.until(() => t.daytona.get(s.id).then(() => false, (e) => e.statusCode === 404), 'gone')
        t.check.ok(true)
    },
}
