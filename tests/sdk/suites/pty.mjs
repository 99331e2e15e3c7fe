// Terminals.

// A terminal that collects what it shows.
async function open(p, options) {
    const screen = { text: '' }
    const decoder = new TextDecoder()
    const onData = (data) => { screen.text += decoder.decode(data, { stream: true }) }
    const handle = options.connect ? await p.connectPty(options.connect, { onData })
                                   : await p.createPty({ ...options, onData })
    return { handle, screen }
}

export const tests = {
    async 'what one types is answered'(t) {
        const p = (await t.sandbox()).process
        const { handle, screen } = await open(p, {
            id: 'p1', cols: 100, rows: 30, cwd: '/tmp', envs: { WORD: 'gr\u00fcn' },
        })
        t.check.ok(handle.isConnected())
        await handle.sendInput('echo "<$(stty size) $PWD $WORD>"\n')
        await t.until(() => screen.text.includes('<30 100 /tmp gr\u00fcn>'), 'the answer')
        await handle.sendInput('exit 3\n')
        const end = await handle.wait()
        t.check.equal(end.exitCode, 3)
        t.check.equal(handle.exitCode, 3)
        await handle.disconnect()
    },

    async 'list, info, resize'(t) {
        const p = (await t.sandbox()).process
        const { handle, screen } = await open(p, { id: 'p2' })
        const info = await p.getPtySessionInfo('p2')
        t.check.deepEqual([info.id, info.cols, info.rows, info.active], ['p2', 80, 24, true])
        t.check.ok((await p.listPtySessions()).some((x) => x.id === 'p2'))
        const resized = await handle.resize(132, 43)
        t.check.deepEqual([resized.cols, resized.rows], [132, 43])
        await handle.sendInput('stty size\n')
        await t.until(() => screen.text.includes('43 132'), 'its new size')
        t.check.equal((await p.getPtySessionInfo('p2')).cols, 132)
        await handle.disconnect()
    },

    async 'it outlives its connection, and several may watch'(t) {
        const p = (await t.sandbox()).process
        const a = await open(p, { connect: 'p2' })
        const b = await open(p, { connect: 'p2' })
        await a.handle.sendInput('echo "to $((20 + 3)) both"\n')
        await t.until(() => a.screen.text.includes('to 23 both'), 'seen by the first')
        await t.until(() => b.screen.text.includes('to 23 both'), 'seen by the second')
        t.check.ok(true)
        await a.handle.disconnect()
        await b.handle.kill()
        const end = await b.handle.wait()
        t.check.equal(end.exitCode, 137)
        await t.until(async () => !(await p.listPtySessions()).some((x) => x.id === 'p2' && x.active), 'gone')
    },

    async 'a size that is set while nobody looks'(t) {
        const p = (await t.sandbox()).process
        const { handle } = await open(p, { id: 'p5' })
        await handle.disconnect()
        t.check.equal((await p.resizePtySession('p5', 99, 33)).cols, 99)
        const again = await open(p, { connect: 'p5' })
        await again.handle.sendInput('echo "<$(stty size)>"; kill -9 $$\n')
        await t.until(() => again.screen.text.includes('<33 99>'), 'its new size')
        t.check.equal((await again.handle.wait()).exitCode, 137)
        t.check.equal((await p.getPtySessionInfo('p5')).active, false)
    },

    async 'exit 0, and signals'(t) {
        const p = (await t.sandbox()).process
        const { handle, screen } = await open(p, { id: 'p3' })
        await handle.sendInput('sh -c \'echo up-$$; exec sleep 999\'\n')
        await t.until(() => /up-\d/.test(screen.text), 'its start') // before it has the terminal, the key is the shell's
        await handle.sendInput('\x03')
        await handle.sendInput('echo "after $((1 + 1))"; exit 0\n')
        t.check.equal((await handle.wait()).exitCode, 0)
        t.check.ok(screen.text.includes('after 2'))
    },

    async 'what is not there'(t) {
        const p = (await t.sandbox()).process
        await t.refused(p.getPtySessionInfo('none'), t.sdk.DaytonaNotFoundError, 404)
        await t.refused(p.killPtySession('none'), t.sdk.DaytonaNotFoundError, 404)
        const error = await open(p, { connect: 'none' }).then(() => undefined, (e) => e)
        t.check.ok(error instanceof Error)
    },

    async 'an id that is taken'(t) {
        const p = (await t.sandbox()).process
        const { handle } = await open(p, { id: 'p4' })
        const error = await open(p, { id: 'p4' }).then(() => undefined, (e) => e)
        t.check.ok(error instanceof Error)
        await handle.kill()
        await handle.wait()
    },
}
