// Ports inside a sandbox, seen from outside.
import http from 'node:http'

// The host part of a preview address need not resolve here: the daemon is asked, by that name.
function visit(address, headers = {}) {
    const url = new URL(address)
    return new Promise((done, fail) => {
        const request = http.get({
            host: '127.0.0.1', port: url.port, path: url.pathname + url.search,
            headers: { Host: url.host, ...headers }, agent: false,
        }, (answer) => {
            let text = ''
            answer.setEncoding('utf8').on('data', (piece) => { text += piece })
            answer.on('end', () => done({ status: answer.statusCode, text, headers: answer.headers }))
        })
        request.on('error', fail)
    })
}

const SERVE = `
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404 if self.path == '/missing' else 200)
        self.end_headers()
        self.wfile.write(('saw ' + self.path).encode())
http.server.ThreadingHTTPServer(('127.0.0.1', 8080), H).serve_forever()`

async function serving(t) {
    const s = await t.sandbox()
    if (t.served) return s
    await s.fs.uploadFile(Buffer.from(SERVE), '/tmp/serve.py')
    await s.process.createSession('serve')
    await s.process.executeSessionCommand('serve', { command: 'python3 /tmp/serve.py', runAsync: true })
    await t.until(async () => (await s.process.executeCommand(
        'python3 -c "import socket; socket.create_connection((\'127.0.0.1\', 8080))"')).exitCode === 0, 'the server')
    t.served = true
    return s
}

export const tests = {
    async 'a private port needs its token'(t) {
        const s = await serving(t)
        const { url, token } = await s.getPreviewLink(8080)
        t.check.match(url, /^http:\/\//)
        t.check.ok(token.length >= 16)
        const seen = await visit(`${url}/a?b=c`, { 'X-Daytona-Preview-Token': token })
        t.check.equal(seen.status, 200)
        t.check.equal(seen.text, 'saw /a?b=c')
        const missing = await visit(`${url}/missing`, { 'X-Daytona-Preview-Token': token })
        t.check.equal(missing.status, 404)
        t.check.equal(missing.text, 'saw /missing')
        const bare = await visit(`${url}/a`)
        t.check.ok([302, 307, 401, 403].includes(bare.status), `status ${bare.status}`)
        t.check.ok(!bare.text.includes('saw'))
        const wrong = await visit(`${url}/a`, { 'X-Daytona-Preview-Token': `${token}x` })
        t.check.ok(!wrong.text.includes('saw'))
    },

    async 'a signed address carries its right'(t) {
        const s = await serving(t)
        const { url, token } = await s.getSignedPreviewUrl(8080, 60)
        const seen = await visit(`${url.replace(/\/$/, '')}/signed`)
        t.check.equal(seen.status, 200)
        t.check.equal(seen.text, 'saw /signed')
        await s.expireSignedPreviewUrl(8080, token)
        t.check.ok(!(await visit(`${url.replace(/\/$/, '')}/signed`)).text.includes('saw'))
    },

    async 'a port where nobody listens'(t) {
        const s = await serving(t)
        const { url, token } = await s.getPreviewLink(8081)
        const seen = await visit(`${url}/`, { 'X-Daytona-Preview-Token': token })
        t.check.equal(seen.status, 502)
        t.check.ok(seen.text.length > 0)
    },

    async 'a public sandbox needs none'(t) {
        const s = await t.create({ public: true })
        await s.fs.uploadFile(Buffer.from(SERVE), '/tmp/serve.py')
        await s.process.createSession('serve')
        await s.process.executeSessionCommand('serve', { command: 'python3 /tmp/serve.py', runAsync: true })
        const { url } = await s.getPreviewLink(8080)
        const seen = await t.until(async () => {
            const answer = await visit(`${url}/open`)
            return answer.status === 200 && answer
        }, 'the server')
        t.check.equal(seen.text, 'saw /open')
    },
}
