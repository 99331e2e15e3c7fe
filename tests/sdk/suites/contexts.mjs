// Files of this machine in images: the SDK uploads them as tars, with temporary credentials, and COPY
// of the Dockerfile takes them from there. 'sdk-base' is in the daemon's store.
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const require = createRequire(import.meta.url)

// A folder with files, that goes with the test.
async function withFiles(files, body) {
    const folder = mkdtempSync(join(tmpdir(), 'context-'))
    try {
        for (const [name, content] of Object.entries(files)) {
            mkdirSync(join(folder, name, '..'), { recursive: true })
            writeFileSync(join(folder, name), content)
        }
        return await body(folder)
    } finally {
        rmSync(folder, { recursive: true })
    }
}

// What the methods of the S3 client were, from now on.
function watch() {
    const { S3Client } = require('@aws-sdk/client-s3')
    const send = S3Client.prototype.send
    const seen = []
    S3Client.prototype.send = function (command, ...rest) {
        seen.push(command.constructor.name.replace(/Command$/, ''))
        return send.call(this, command, ...rest)
    }
    return { seen, end: () => { S3Client.prototype.send = send } }
}

async function printed(t, image, command) {
    const s = await t.create({ image })
    const { result } = await s.process.executeCommand(command)
    await s.delete(60, true)
    return result
}

export const tests = {
    async 'a file'(t) {
        await withFiles({ 'hello.txt': 'from here\n' }, async (folder) => {
            const image = t.sdk.Image.base('sdk-base').addLocalFile(join(folder, 'hello.txt'), '/app/hello.txt')
            t.check.equal(await printed(t, image, 'cat /app/hello.txt'), 'from here\n')
        })
    },

    async 'a folder, and what it is uploaded for the second time: not at all'(t) {
        await withFiles({ 'src/a.txt': 'A', 'src/deep/b.txt': randomBytes(8).toString('hex') }, async (folder) => {
            const image = () => t.sdk.Image.base('sdk-base').addLocalDir(join(folder, 'src'), '/app')
            const watched = watch()
            try {
                t.check.match(await printed(t, image(), 'cat /app/a.txt /app/deep/b.txt'), /^A[0-9a-f]{16}$/)
                t.check.deepEqual(watched.seen, ['ListObjectsV2', 'PutObject'])
                t.check.match(await printed(t, image(), 'cat /app/a.txt /app/deep/b.txt'), /^A[0-9a-f]{16}$/)
                t.check.deepEqual(watched.seen, ['ListObjectsV2', 'PutObject', 'ListObjectsV2'])
            } finally {
                watched.end()
            }
        })
    },

    async 'a Dockerfile with COPY'(t) {
        const dockerfile = 'FROM sdk-base\nWORKDIR /place\nCOPY one.txt two.txt /place/\nCOPY more /place/more/\n'
        await withFiles({ Dockerfile: dockerfile, 'one.txt': '1', 'two.txt': '2', 'more/three.txt': '3' },
            async (folder) => {
                const image = t.sdk.Image.fromDockerfile(join(folder, 'Dockerfile'))
                t.check.equal(await printed(t, image, 'cat one.txt two.txt more/three.txt'), '123')
            })
    },

    async 'a large one comes in parts'(t) {
        const bytes = randomBytes(23 * 1024 * 1024)
        await withFiles({ 'large.bin': bytes }, async (folder) => {
            const image = t.sdk.Image.base('sdk-base').addLocalFile(join(folder, 'large.bin'), '/large.bin')
            const watched = watch()
            try {
                const s = await t.create({ image })
                const back = await s.fs.downloadFile('/large.bin')
                t.check.equal(createHash('sha256').update(back).digest('hex'),
                    createHash('sha256').update(bytes).digest('hex'))
                await s.delete(60, true)
            } finally {
                watched.end()
            }
            t.check.ok(watched.seen.includes('CreateMultipartUpload'))
            t.check.equal(watched.seen.filter((name) => name === 'UploadPart').length, 5)
            t.check.equal(watched.seen.at(-1), 'CompleteMultipartUpload')
        })
    },

    async 'a snapshot, and several contexts'(t) {
        await withFiles({ 'a/x': 'x', 'b/y': 'y' }, async (folder) => {
            const image = t.sdk.Image.base('sdk-base').addLocalDir(join(folder, 'a'), '/a')
                .addLocalFile(join(folder, 'b', 'y'), '/b/y')
            const made = await t.daytona.snapshot.create({ name: 'sdk-contexts', image })
            t.check.equal(made.state, 'active')
            const s = await t.create({ snapshot: 'sdk-contexts' })
            t.check.equal((await s.process.executeCommand('cat /a/x /b/y')).result, 'xy')
            await s.delete(60, true)
            await t.daytona.snapshot.delete('sdk-contexts')
        })
    },

    async 'a link that leads out of the context is not followed'(t) {
        await withFiles({ 'src/keep': '' }, async (folder) => {
            symlinkSync('/etc/passwd', join(folder, 'src', 'out'))
            const image = t.sdk.Image.base('sdk-base').addLocalDir(join(folder, 'src'), '/app')
            const s = await t.create({ image })
            t.check.equal((await s.process.executeCommand('readlink /app/out')).result, '/etc/passwd\n')
            await s.delete(60, true)
        })
    },
}
