// What else a sandbox can be asked, and what is not there.
export const tests = {
    async 'environment for what runs later'(t) {
        const s = await t.sandbox()
        await s.updateEnv({ LATER: 'yes' })
        t.check.equal((await s.process.executeCommand('echo $LATER')).result, 'yes\n')
        await s.updateEnv({}, { unset: ['LATER'] })
        t.check.equal((await s.process.executeCommand('echo $LATER')).result, '\n')
    },

    async 'metrics'(t) {
        const m = await (await t.sandbox()).getMetricsLatest()
        t.check.ok(m.memTotal > 0 && m.memUsed > 0 && m.cpuCount >= 1, JSON.stringify(m))
    },

    async 'time to live'(t) {
        const s = await t.create({ ttlMinutes: 60 })
        t.check.ok(Math.abs(Date.parse(s.autoDestroyAt) - Date.now() - 3600_000) < 120_000)
        await s.setTtl(120)
        await s.refreshData()
        t.check.ok(Math.abs(Date.parse(s.autoDestroyAt) - Date.now() - 7200_000) < 120_000)
    },

    async 'pause and go on'(t) {
        const s = await t.create()
        await s.pause()
        t.check.equal(s.state, 'paused')
        await s.start()
        t.check.equal(s.state, 'started')
        t.check.equal((await s.process.executeCommand('echo on')).result, 'on\n')
    },

    async 'the network is closed, or open for a list'(t) {
        const s = await t.sandbox()
        await s.updateNetworkSettings({ networkBlockAll: true })
        t.check.equal(s.networkBlockAll, true)
        await s.updateNetworkSettings({ networkBlockAll: false })
        t.check.equal(s.networkBlockAll, false)
        await s.updateNetworkSettings({ networkAllowList: '10.0.0.0/8,203.0.113.7/32' })
        t.check.equal(s.networkAllowList, '10.0.0.0/8,203.0.113.7/32')
        const listed = await t.create({ networkAllowList: '10.0.0.0/8' })
        t.check.equal(listed.networkAllowList, '10.0.0.0/8')
        t.check.equal((await listed.process.executeCommand('echo $HTTP_PROXY')).result, 'http://127.0.0.1:3128\n')
        await t.refused(t.daytona.create({ networkAllowList: '127.0.0.1' }), t.sdk.DaytonaError, 400)
    },

    async 'the entrypoint has no logs'(t) {
        const p = (await t.sandbox()).process
        t.check.deepEqual((await p.getEntrypointSession()).commands, [])
        t.check.equal((await p.getEntrypointLogs()).output, '')
    },

    async 'recover takes one that is stopped'(t) {
        const s = await t.create()
        await s.stop()
        await s.recover()
        t.check.equal(s.state, 'started')
    },

    async 'what is not there says so'(t) {
        const s = await t.sandbox()
        const none = (promise) => t.refused(promise, t.sdk.DaytonaError, 501)
        await none(s.createSshAccess(10))
        await none(s.fork())
        await none(s.computerUse.start())
        await none(t.daytona.secret.list())
        await none(t.daytona.warmPool.list())
    },
}
