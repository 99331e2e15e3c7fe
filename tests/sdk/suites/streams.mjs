// Large files piece by piece, and transfers that are given up.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'

const MB = 1 << 20

// So many bytes that are not all alike, without holding them.
function* pieces(count) {
    for (let i = 0; i < count; i++) yield Buffer.alloc(MB, `piece ${i} `)
}

async function digest(stream) {
    const hash = createHash('sha256')
    let size = 0
    for await (const piece of stream) {
        hash.update(piece)
        size += piece.length
    }
    return [size, hash.digest('hex')]
}

export const tests = {
    async '100 MB up and down'(t) {
        const { fs } = await t.sandbox()
        const before = await digest(pieces(100))
        let sent = 0
        await fs.uploadFileStream(Readable.from(pieces(100)), '/tmp/large', {
            onProgress: (p) => { sent = p.bytesSent },
        })
        t.check.equal(sent, 100 * MB)
        t.check.equal((await fs.getFileDetails('/tmp/large')).size, 100 * MB)
        let progress = {}
        const down = await fs.downloadFileStream('/tmp/large', { onProgress: (p) => { progress = p } })
        t.check.deepEqual(await digest(down), before)
        t.check.equal(progress.bytesReceived, 100 * MB)
        await fs.deleteFile('/tmp/large')
    },

    async 'a download that is given up'(t) {
        const { fs, process } = await t.sandbox()
        await process.executeCommand('head -c 50000000 /dev/zero >/tmp/zeros')
        const stop = new AbortController()
        const down = await fs.downloadFileStream('/tmp/zeros', { signal: stop.signal })
        const error = await (async () => {
            for await (const _ of down) stop.abort()
        })().then(() => undefined, (e) => e)
        t.check.ok(error instanceof Error)
        t.check.equal((await process.executeCommand('echo well')).result, 'well\n')
    },

    async 'an upload that is given up'(t) {
        const { fs, process } = await t.sandbox()
        const stop = new AbortController()
        async function* endless() {
            for (;;) {
                yield Buffer.alloc(MB)
                await new Promise((done) => setTimeout(done, 5))
            }
        }
        const up = fs.uploadFileStream(Readable.from(endless()), '/tmp/endless', {
            signal: stop.signal,
            onProgress: (p) => { if (p.bytesSent > 4 * MB) stop.abort() },
        })
        t.check.ok((await up.then(() => undefined, (e) => e)) instanceof Error)
        t.check.equal((await process.executeCommand('echo well')).result, 'well\n')
    },

    async 'one file that cannot be written keeps none of the others'(t) {
        const { fs } = await t.sandbox()
        const files = ['/tmp/one', '/tmp', '/tmp/two'].map((destination) => ({ source: Buffer.from(destination), destination }))
        const error = await t.refused(fs.uploadFiles(files), t.sdk.DaytonaError, 400)
        t.check.match(error.message, /1 of 3 files/)
        t.check.equal(String(await fs.downloadFile('/tmp/one')), '/tmp/one')
        t.check.equal(String(await fs.downloadFile('/tmp/two')), '/tmp/two')
    },

    async 'a stream of a file that is not there'(t) {
        const { fs } = await t.sandbox()
        const error = await (async () => {
            for await (const _ of await fs.downloadFileStream('/tmp/none')) t.check.fail('data')
        })().then(() => undefined, (e) => e)
        t.check.ok(error instanceof t.sdk.DaytonaNotFoundError, String(error))
    },

    async 'an aborted signal sends nothing'(t) {
        const { fs } = await t.sandbox()
        const error = await fs.uploadFileStream(Readable.from(pieces(1)), '/tmp/never', {
            signal: AbortSignal.abort(),
        }).then(() => undefined, (e) => e)
        t.check.ok(error instanceof Error)
        await t.refused(fs.getFileDetails('/tmp/never'), t.sdk.DaytonaNotFoundError, 404)
    },
}
