// Volumes, shared by sandboxes.

export const tests = {
    async 'make, get, list'(t) {
        const made = await t.daytona.volume.create('sdk-data')
        t.check.equal(made.name, 'sdk-data')
        t.check.equal(made.state, 'ready')
        t.check.equal((await t.daytona.volume.get('sdk-data')).id, made.id)
        t.check.ok((await t.daytona.volume.list()).some((v) => v.id === made.id))
        await t.refused(t.daytona.volume.create('sdk-data'), t.sdk.DaytonaConflictError, 409)
        await t.refused(t.daytona.volume.get('sdk-none'), t.sdk.DaytonaNotFoundError, 404)
        const got = await t.daytona.volume.get('sdk-more', true)
        t.check.equal(got.name, 'sdk-more')
        await t.daytona.volume.delete(got)
        await t.refused(t.daytona.volume.get('sdk-more'), t.sdk.DaytonaNotFoundError, 404)
    },

    async 'two sandboxes share one, and it outlives them'(t) {
        const { id } = await t.daytona.volume.get('sdk-data')
        const volumes = [{ volumeId: id, mountPath: '/mnt/data' }]
        const a = await t.create({ volumes })
        const b = await t.create({ volumes })
        t.check.deepEqual(a.volumes.map((v) => [v.volumeId, v.mountPath]), [[id, '/mnt/data']])
        await a.fs.uploadFile(Buffer.from('shared'), '/mnt/data/x')
        t.check.equal(String(await b.fs.downloadFile('/mnt/data/x')), 'shared')
        await t.refused(t.daytona.volume.delete({ id }), t.sdk.DaytonaConflictError, 409)
        await a.delete(60, true)
        await b.delete(60, true)
        const c = await t.create({ volumes })
        t.check.equal(String(await c.fs.downloadFile('/mnt/data/x')), 'shared')
        await c.delete(60, true)
        await t.daytona.volume.delete({ id })
        await t.refused(t.daytona.volume.get('sdk-data'), t.sdk.DaytonaNotFoundError, 404)
    },

    async 'a folder in a volume'(t) {
        const { id } = await t.daytona.volume.create('sdk-parts')
        const part = { volumeId: id, mountPath: '/mnt/part', subpath: 'users/alice' }
        const a = await t.create({ volumes: [part] })
        t.check.equal(a.volumes[0].subpath, 'users/alice')
        await a.fs.uploadFile(Buffer.from('of alice'), '/mnt/part/x')
        const b = await t.create({ volumes: [{ volumeId: id, mountPath: '/mnt/all' }] })
        t.check.equal(String(await b.fs.downloadFile('/mnt/all/users/alice/x')), 'of alice')
        const e = await t.refused(t.create({ volumes: [{ ...part, subpath: '../x' }] }),
            t.sdk.DaytonaValidationError, 400)
        t.check.match(e.message, /no plain path/)
        await a.delete(60, true)
        await t.refused(t.daytona.volume.delete({ id }), t.sdk.DaytonaConflictError, 409)
        await b.delete(60, true)
        await t.daytona.volume.delete({ id })
    },

    async 'a volume that is not there'(t) {
        const params = { volumes: [{ volumeId: 'sdk-none', mountPath: '/mnt/data' }] }
        await t.refused(t.daytona.create(params), t.sdk.DaytonaError)
    },
}
