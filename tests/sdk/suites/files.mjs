// Files: up, down, and what lies there.
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const tests = {
    async 'up and down, as bytes'(t) {
        const { fs } = await t.sandbox()
        const bytes = randomBytes(300_000)
        await fs.uploadFile(bytes, '/tmp/new/folders/r\u00e9d file.bin')
        t.check.ok((await fs.downloadFile('/tmp/new/folders/r\u00e9d file.bin')).equals(bytes))
        await fs.uploadFile(Buffer.from('short'), '/tmp/new/folders/r\u00e9d file.bin') // replaces it whole
        t.check.equal(String(await fs.downloadFile('/tmp/new/folders/r\u00e9d file.bin')), 'short')
        await fs.uploadFile(Buffer.alloc(0), '/tmp/empty')
        t.check.equal((await fs.downloadFile('/tmp/empty')).length, 0)
    },

    async 'relative paths are below the work dir'(t) {
        const s = await t.sandbox()
        await s.fs.uploadFile(Buffer.from('rel'), 'rel/x.txt')
        t.check.equal((await s.process.executeCommand('cat rel/x.txt')).result, 'rel')
        t.check.equal(String(await s.fs.downloadFile(`${await s.getWorkDir()}/rel/x.txt`)), 'rel')
    },

    async 'from and to files of this side'(t) {
        const { fs } = await t.sandbox()
        const folder = await mkdtemp(join(tmpdir(), 'sdk-'))
        try {
            await writeFile(join(folder, 'in'), 'local')
            await fs.uploadFile(join(folder, 'in'), '/tmp/local')
            await fs.downloadFile('/tmp/local', join(folder, 'out'))
            t.check.equal(await readFile(join(folder, 'out'), 'utf8'), 'local')
        } finally {
            await rm(folder, { recursive: true })
        }
    },

    async 'many at once, one of them missing'(t) {
        const { fs } = await t.sandbox()
        const files = Array.from({ length: 12 }, (_, i) => ({
            source: Buffer.from(`--boundary\r\n${i}\r\n`), destination: `/tmp/many/${i}`,
        }))
        await fs.uploadFiles(files)
        const wanted = [...files.map((f) => ({ source: f.destination })), { source: '/tmp/many/none' }]
        const got = await fs.downloadFiles(wanted)
        t.check.equal(got.length, 13)
        for (const [i, f] of files.entries())
            t.check.equal(String(got.find((g) => g.source === f.destination).result), String(f.source), `file ${i}`)
        const missing = got.find((g) => g.source === '/tmp/many/none')
        t.check.equal(missing.result, undefined)
        t.check.equal(missing.errorDetails.statusCode, 404)
        t.check.equal(missing.errorDetails.code, 'FILE_NOT_FOUND')
    },

    async 'folders, lists and details'(t) {
        const { fs } = await t.sandbox()
        await fs.createFolder('/tmp/shelf', '750')
        await fs.uploadFile(Buffer.from('12345'), '/tmp/shelf/book')
        await fs.uploadFile(Buffer.from('1'), '/tmp/shelf/deep/er')
        const list = await fs.listFiles('/tmp/shelf')
        t.check.deepEqual(list.map((f) => f.name).sort(), ['book', 'deep'])
        const book = list.find((f) => f.name === 'book')
        t.check.deepEqual([book.size, book.isDir], [5, false])
        t.check.equal(list.find((f) => f.name === 'deep').isDir, true)
        const folder = await fs.getFileDetails('/tmp/shelf')
        t.check.equal(folder.permissions, '0750')
        t.check.match(folder.mode, /^drwxr-x---$/)
        t.check.equal(folder.isDir, true)
        t.check.ok(Math.abs(Date.now() - Date.parse(book.modifiedAt)) < 120_000)
        const deep = await fs.listFiles('/tmp/shelf', { depth: 2 })
        t.check.ok(deep.some((f) => f.name === 'er'))
    },

    async 'permissions'(t) {
        const { fs, process } = await t.sandbox()
        await fs.setFilePermissions('/tmp/shelf/book', { mode: '600' })
        t.check.equal((await fs.getFileDetails('/tmp/shelf/book')).permissions, '0600')
        t.check.equal((await process.executeCommand('stat -c %a /tmp/shelf/book')).result, '600\n')
    },

    async 'move and delete'(t) {
        const { fs } = await t.sandbox()
        await fs.moveFiles('/tmp/shelf/book', '/tmp/shelf/novel')
        t.check.equal(String(await fs.downloadFile('/tmp/shelf/novel')), '12345')
        await t.refused(fs.getFileDetails('/tmp/shelf/book'), t.sdk.DaytonaFileNotFoundError, 404)
        await t.refused(fs.moveFiles('/tmp/shelf/novel', '/tmp/shelf/deep/er'), t.sdk.DaytonaConflictError, 409)
        await fs.deleteFile('/tmp/shelf/novel')
        await t.refused(fs.deleteFile('/tmp/shelf/novel'), t.sdk.DaytonaFileNotFoundError, 404)
        await t.refused(fs.deleteFile('/tmp/shelf'), t.sdk.DaytonaValidationError, 400)
        await fs.deleteFile('/tmp/shelf', true)
        await t.refused(fs.listFiles('/tmp/shelf'), t.sdk.DaytonaFileNotFoundError, 404)
    },

    async 'find, search, replace'(t) {
        const { fs } = await t.sandbox()
        await fs.uploadFiles([
            { source: Buffer.from('first\nneedle (.*) here\nlast\n'), destination: '/tmp/hay/a.txt' },
            { source: Buffer.from('needle (.*) needle (.*)'), destination: '/tmp/hay/sub/b.txt' },
            { source: Buffer.from('no match'), destination: '/tmp/hay/c.md' },
        ])
        const found = await fs.findFiles('/tmp/hay', 'needle (.*)')
        t.check.deepEqual(found.map((m) => `${m.file.split('/').pop()}:${m.line}`).sort(), ['a.txt:2', 'b.txt:1'])
        t.check.equal(found.find((m) => m.line === 2).content, 'needle (.*) here')
        const named = await fs.searchFiles('/tmp/hay', '*.txt')
        t.check.deepEqual(named.files.map((f) => f.split('/').pop()).sort(), ['a.txt', 'b.txt'])
        const replaced = await fs.replaceInFiles(['/tmp/hay/a.txt', '/tmp/hay/sub/b.txt'], 'needle (.*)', 'pin')
        t.check.ok(replaced.length === 2 && replaced.every((r) => r.success))
        t.check.equal(String(await fs.downloadFile('/tmp/hay/sub/b.txt')), 'pin pin')
    },

    async 'signed addresses need no key'(t) {
        const s = await t.sandbox()
        await s.fs.uploadFile(Buffer.from('signed'), '/tmp/signed file')
        const down = await s.downloadUrl('/tmp/signed file', 60)
        const got = await fetch(down)
        t.check.equal(got.status, 200)
        t.check.equal(await got.text(), 'signed')
        const other = new URL(down)
        other.searchParams.set('path', '/etc/passwd')
        t.check.ok([401, 403].includes((await fetch(other)).status))
        const form = new FormData()
        form.append('file', new Blob(['by form']), 'x')
        const up = await fetch(await s.uploadUrl('/tmp/by-form', 60), { method: 'POST', body: form })
        t.check.ok(up.ok, `status ${up.status}`)
        t.check.equal(String(await s.fs.downloadFile('/tmp/by-form')), 'by form')
        const raw = await fetch(await s.uploadUrl('/tmp/raw', 60), { method: 'POST', body: Buffer.from('raw') })
        t.check.ok(raw.ok, `status ${raw.status}`)
        t.check.equal(String(await s.fs.downloadFile('/tmp/raw')), 'raw')
        await s.rotateSigningKey()
        t.check.ok([401, 403].includes((await fetch(down)).status))
    },
}
