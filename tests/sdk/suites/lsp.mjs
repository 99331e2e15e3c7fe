// Language servers: one of our own, which is placed in the sandbox.
import { readFile } from 'node:fs/promises'

const PROGRAM = '/usr/local/bin/typescript-language-server'

async function project(t) {
    const sandbox = await t.sandbox()
    await sandbox.fs.uploadFile(await readFile(new URL('../../integration/fake_lsp.py', import.meta.url)), PROGRAM)
    await sandbox.fs.setFilePermissions(PROGRAM, { mode: '755' })
    await sandbox.fs.uploadFile(Buffer.from('one two'), '/tmp/lsp-sdk/a b.ts')
    return sandbox
}

export const tests = {
    async 'an image without one says so'(t) {
        const lsp = await (await t.sandbox()).createLspServer('javascript', '/tmp')
        const error = await t.refused(lsp.start(), t.sdk.DaytonaError, 501)
        t.check.match(error.message, /typescript-language-server/)
    },

    async 'completions and symbols'(t) {
        const lsp = await (await project(t)).createLspServer('typescript', '/tmp/lsp-sdk')
        await lsp.start()
        await lsp.didOpen('/tmp/lsp-sdk/a b.ts')
        const symbols = await lsp.documentSymbols('/tmp/lsp-sdk/a b.ts')
        t.check.deepEqual(symbols.map((s) => s.name), ['one', 'two'])
        t.check.deepEqual(symbols[0].location.range.start, { line: 1, character: 2 })
        t.check.equal((await lsp.sandboxSymbols('all')).length, 2)
        t.check.deepEqual(await lsp.workspaceSymbols('none'), [])
        const list = await lsp.completions('/tmp/lsp-sdk/a b.ts', { line: 1, character: 2 })
        t.check.equal(list.isIncomplete, true)
        t.check.equal(list.items[0].label, 'one two')
        await lsp.didClose('/tmp/lsp-sdk/a b.ts')
        await lsp.stop()
    },

    async 'one that was not started'(t) {
        const lsp = await (await t.sandbox()).createLspServer('typescript', '/tmp/lsp-sdk')
        const error = await t.refused(lsp.documentSymbols('/tmp/lsp-sdk/a b.ts'), t.sdk.DaytonaError, 400)
        t.check.equal(error.errorCode ?? error.code, 'LSP_SERVER_NOT_INITIALIZED')
        await t.refused(lsp.stop(), t.sdk.DaytonaError, 400)
    },
}
