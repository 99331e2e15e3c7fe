/**
 * Sandboxes for untrusted code: a client of the cay daemon, for Node 18 or newer and for browsers.
 *
 *     import { Sandbox } from './cay.mjs'
 *
 *     const box = await Sandbox.create()
 *     console.log((await box.run('uname -a')).output)
 *     console.log((await box.python('6 * 7')).text)
 *     await box.delete()
 *
 * It needs no package. In Node it talks to the daemon of this machine over its unix socket; CAY_HOST
 * and CAY_API_KEY name another one. In a browser the daemon has to serve the page, or a proxy has to
 * bring both under one origin. docs/clients.md describes it.
 */

const isNode = typeof process !== 'undefined' && process.versions?.node !== undefined

// ---- errors ----

/** What the daemon refused or could not do. `remedy` says what to do about it, or is empty. */
export class CayError extends Error {
  constructor(message, { code = 'internal', remedy = '', status = 0, retryAfter } = {}) {
    super(remedy ? `${message}; ${remedy}` : message)
    this.name = 'CayError'
    Object.assign(this, { code, remedy, status, retryAfter })
  }
}

const codes = {
  400: 'invalid_argument', 401: 'unauthorized', 403: 'forbidden', 404: 'not_found', 408: 'timeout',
  409: 'conflict', 429: 'limit_reached', 501: 'unsupported', 503: 'unavailable', 504: 'timeout',
  507: 'resource_exhausted',
}

/** Error codes of the toolbox differ from those of the API; the status gives the class. */
function httpError(status, text, retryAfter) {
  let said
  try { said = JSON.parse(text) } catch { said = undefined }
  const remedy = String(said?.remedy ?? '')
  let message = String(said?.message ?? (text.slice(0, 500) || `HTTP status ${status}`))
  if (remedy && message.endsWith(`; ${remedy}`)) message = message.slice(0, -remedy.length - 2)
  return new CayError(message, { code: codes[status] ?? 'internal', remedy, status,
    retryAfter: retryAfter ? Number(retryAfter) : undefined })
}

const unreachable = (host, cause) => new CayError(`cannot reach ${host}: ${cause.message ?? cause}`, {
  code: 'unavailable', remedy: "start the daemon with 'cay serve', or correct the host" })

// ---- how the daemon is reached ----

const utf8 = new TextEncoder()
const toBytes = (data) => (typeof data === 'string' ? utf8.encode(data) : data)

async function collect(parts) {
  const all = []
  for await (const part of parts) all.push(part)
  const whole = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0))
  let used = 0
  for (const part of all) { whole.set(part, used); used += part.length }
  return whole
}

/** An async queue: what an emitter pushes, a loop takes. */
class Queue {
  #items = []
  #waiting = []
  #end

  push(value) { this.#settle({ value, done: false }) }
  end(error) { this.#end ??= { error }; while (this.#waiting.length) this.#finish(this.#waiting.shift()) }
  #finish({ resolve, reject }) { this.#end.error ? reject(this.#end.error) : resolve({ value: undefined, done: true }) }
  #settle(item) { this.#waiting.length ? this.#waiting.shift().resolve(item) : this.#items.push(item) }
  next() {
    if (this.#items.length) return Promise.resolve(this.#items.shift())
    return new Promise((resolve, reject) => {
      if (this.#end) this.#finish({ resolve, reject })
      else this.#waiting.push({ resolve, reject })
    })
  }
  [Symbol.asyncIterator]() { return this }
}

/** Browsers: fetch and WebSocket, on the page's own origin or where CORS allows it. */
export class BrowserTransport {
  constructor(host) { this.host = host.replace(/\/$/, '') }

  async request(method, path, { body, headers, signal }) {
    let answer
    try {
      answer = await fetch(this.host + path, { method, body, headers, signal })
    } catch (e) {
      if (e.name === 'AbortError') throw e
      throw unreachable(this.host, e)
    }
    const reader = answer.body?.getReader()
    const parts = (async function * () {
      for (let part; reader && !(part = await reader.read()).done;) yield part.value
    })()
    return { status: answer.status, header: (name) => answer.headers.get(name), parts }
  }

  /** WebSockets of browsers send no headers: the token of the toolbox's own port opens it. */
  async socket(path, client, sandboxId) {
    const { token } = await client.call('GET', `/api/sandbox/${sandboxId}/ports/2280/preview-url`)
    const rest = path.slice(`/toolbox/${sandboxId}`.length)
    const url = new URL(`${this.host}/preview/${sandboxId}/2280${rest}`, globalThis.location?.href)
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    url.searchParams.set('DAYTONA_SANDBOX_AUTH_KEY', token)
    const ws = new WebSocket(url)
    ws.binaryType = 'arraybuffer'
    const messages = new Queue()
    const state = { messages, closeCode: 1006, closeReason: '', send: (text) => ws.send(text), close: () => ws.close() }
    ws.onmessage = ({ data }) => messages.push(typeof data === 'string' ? utf8.encode(data) : new Uint8Array(data))
    ws.onclose = (e) => { Object.assign(state, { closeCode: e.code, closeReason: e.reason }); messages.end() }
    await new Promise((resolve, reject) => {
      ws.onopen = resolve
      ws.onerror = () => reject(unreachable(this.host, 'the WebSocket was refused'))
    })
    return state
  }
}

/** Node: node:http, for unix sockets, keep-alive and headers of WebSockets. */
class NodeTransport {
  constructor(host, caFile) { Object.assign(this, { host, caFile }) }

  async #options() {
    if (this.options) return this.options
    const url = new URL(this.host)
    const isTls = url.protocol === 'https:'
    this.http = await import(isTls ? 'node:https' : 'node:http')
    const ca = this.caFile ? (await import('node:fs')).readFileSync(this.caFile) : undefined
    this.agent = new this.http.Agent({ keepAlive: true })
    this.options = url.protocol === 'unix:' ? { socketPath: decodeURIComponent(url.pathname) }
      : { host: url.hostname.replace(/^\[|\]$/g, ''), port: url.port || undefined, ca }
    return this.options
  }

  async request(method, path, { body, headers, signal }) {
    const options = await this.#options()
    const request = this.http.request({ ...options, method, path, headers, agent: this.agent, signal })
    const answer = await new Promise((resolve, reject) => {
      request.on('response', resolve)
      request.on('error', (e) => reject(e.name === 'AbortError' ? e : unreachable(this.host, e)))
      if (body?.[Symbol.asyncIterator]) feed(body, request).catch((e) => request.destroy(e))
      else request.end(body)
    })
    return { status: answer.statusCode, header: (name) => answer.headers[name.toLowerCase()], parts: answer }
  }

  async socket(path, client) {
    const options = await this.#options()
    const { randomBytes } = await import('node:crypto')
    const headers = client.headers({ Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13',
      'Sec-WebSocket-Key': randomBytes(16).toString('base64') })
    const request = this.http.request({ ...options, path, headers })
    return new Promise((resolve, reject) => {
      request.on('upgrade', (_, socket, first) => resolve(new NodeSocket(socket, first)))
      request.on('response', async (answer) => {
        const text = new TextDecoder().decode(await collect(answer))
        reject(httpError(answer.statusCode, text, answer.headers['retry-after']))
      })
      request.on('error', (e) => reject(unreachable(this.host, e)))
      request.end()
    })
  }
}

async function feed(body, request) {
  for await (const part of body)
    if (!request.write(part)) await new Promise((resolve) => request.once('drain', resolve))
  request.end()
}

/** A client of RFC 6455 over a socket of Node. */
class NodeSocket {
  messages = new Queue()
  closeCode = 1006
  closeReason = ''
  #buffer = Buffer.alloc(0)
  #whole = []

  constructor(socket, first) {
    this.socket = socket
    socket.on('data', (data) => this.#take(data))
    socket.on('close', () => this.messages.end())
    socket.on('error', (e) => this.messages.end(unreachable('the daemon', e)))
    if (first.length) this.#take(first)
  }

  #take(data) {
    this.#buffer = Buffer.concat([this.#buffer, data])
    for (let frame; (frame = this.#frame());) this.#handle(frame)
  }

  #frame() {
    const b = this.#buffer
    if (b.length < 2) return undefined
    const short = b[1] & 0x7f
    const start = short === 126 ? 4 : short === 127 ? 10 : 2
    if (b.length < start) return undefined
    const length = short === 126 ? b.readUInt16BE(2) : short === 127 ? Number(b.readBigUInt64BE(2)) : short
    if (length > 64 << 20) { this.socket.destroy(new Error('a message is too long')); return undefined }
    if (b.length < start + length) return undefined
    this.#buffer = b.subarray(start + length)
    return { isLast: (b[0] & 0x80) !== 0, opcode: b[0] & 0x0f, data: b.subarray(start, start + length) }
  }

  #handle({ isLast, opcode, data }) {
    if (opcode === 9) this.#send(10, data)
    else if (opcode === 8) {
      this.closeCode = data.length >= 2 ? data.readUInt16BE(0) : 1005
      this.closeReason = data.subarray(2).toString()
      this.#send(8, data.subarray(0, 2))
      this.socket.end()
      this.messages.end()
    } else if (opcode < 3) {
      this.#whole.push(data)
      if (!isLast) return
      this.messages.push(Buffer.concat(this.#whole))
      this.#whole = []
    }
  }

  #send(opcode, data) {
    const n = data.length
    const head = Buffer.alloc(n < 126 ? 6 : n < 65536 ? 8 : 14) // the mask is zeros
    head[0] = 0x80 | opcode
    head[1] = 0x80 | (n < 126 ? n : n < 65536 ? 126 : 127)
    if (n >= 65536) head.writeBigUInt64BE(BigInt(n), 2)
    else if (n >= 126) head.writeUInt16BE(n, 2)
    this.socket.write(Buffer.concat([head, data]))
  }

  send(text) { this.#send(1, Buffer.from(text)) }
  close() { this.socket.destroy() }
}

function ownSocket() {
  if (process.env.CAY_STATE_DIR) return `unix://${process.env.CAY_STATE_DIR}/daemon/cay.sock`
  const home = process.env.XDG_STATE_HOME?.startsWith('/') ? process.env.XDG_STATE_HOME
    : `${process.env.HOME}/.local/state`
  return `unix://${process.geteuid?.() === 0 ? '/var/lib' : home}/cay/daemon/cay.sock`
}

/** A daemon, and connections to it. `host`: unix:///path, http://host:port or https://host. `grace`: seconds
 * beyond the time limit of a command after which a sandbox that ignores it is hung up on. */
export class Client {
  constructor({ host, key, caFile, transport, grace = 30 } = {}) {
    this.grace = grace
    const env = isNode ? process.env : {}
    this.host = host ?? env.CAY_HOST ?? (isNode ? ownSocket() : globalThis.location?.origin ?? '')
    this.key = key ?? env.CAY_API_KEY ?? ''
    if (isNode && !/^(unix|https?):\/\//.test(this.host))
      throw new CayError(`invalid host '${this.host}'`, { code: 'invalid_argument',
        remedy: 'give unix:///PATH, http://HOST:PORT or https://HOST' })
    this.transport = transport ?? (isNode ? new NodeTransport(this.host, caFile) : new BrowserTransport(this.host))
  }

  headers(more = {}) { return { ...(this.key ? { Authorization: `Bearer ${this.key}` } : {}), ...more } }

  /** Sends a request; `parts` of what it returns are to be read. Throws CayError. */
  async open(method, path, body, { query, headers, signal } = {}) {
    const wanted = Object.entries(query ?? {}).filter(([, value]) => value !== undefined)
    if (wanted.length) path += `?${new URLSearchParams(wanted)}`
    const isJson = body !== undefined && !(body instanceof Uint8Array) && !body?.[Symbol.asyncIterator]
    const answer = await this.transport.request(method, path, {
      body: isJson ? JSON.stringify(body) : body, signal,
      headers: this.headers({ ...(isJson ? { 'Content-Type': 'application/json' } : {}), ...headers }) })
    if (answer.status < 400) return answer
    throw httpError(answer.status, new TextDecoder().decode(await collect(answer.parts)), answer.header('Retry-After'))
  }

  /** Calls `hangUp` when a command with this time limit is late; a function that tells whether it was, and ends that. */
  deadline(timeout, hangUp) {
    if (timeout === undefined) return () => false
    let isLate = false
    const timer = setTimeout(() => { isLate = true; hangUp() }, (timeout + this.grace) * 1000)
    return () => { clearTimeout(timer); return isLate }
  }

  /** What a request answers: decoded JSON, or undefined if it has no content. */
  async call(method, path, body, options) {
    const text = new TextDecoder().decode(await collect((await this.open(method, path, body, options)).parts))
    return text.trim() ? JSON.parse(text) : undefined
  }
}

let defaultClient
const theClient = (given) => given ?? (defaultClient ??= new Client())

// ---- code ----

/** An interpreter that keeps its variables: python, javascript or bash. */
export class Context {
  constructor(sandbox, id) { Object.assign(this, { sandbox, id }) }

  /** Runs code: {stdout, stderr, error, results, text, figures, notices, exitCode, timedOut}. */
  async run(code, { timeout, env, onOutput } = {}) {
    const { sandbox } = this
    const socket = await sandbox.client.transport.socket(
      `/toolbox/${sandbox.id}/process/interpreter/execute`, sandbox.client, sandbox.id)
    const done = { stdout: '', stderr: '', error: undefined, results: [], notices: [], exitCode: 0, timedOut: false }
    const isLate = sandbox.client.deadline(timeout, () => socket.close())
    try {
      socket.send(JSON.stringify({ code, results: true, envs: env ?? {}, contextId: this.id, timeout }))
      for await (const message of socket.messages) Context.#take(JSON.parse(new TextDecoder().decode(message)), done, onOutput)
    } finally {
      done.timedOut = isLate()
      socket.close()
    }
    if (done.timedOut) return { ...done, exitCode: 124, text: '', figures: [] }
    if (socket.closeCode === 1008) throw new CayError(socket.closeReason || 'the request was refused', { code: 'invalid_argument' })
    if (socket.closeCode === 1006) throw unreachable(sandbox.client.host, 'the connection ended before the code did')
    done.timedOut = socket.closeCode === 4008
    done.text = done.results.at(-1)?.data['text/plain'] ?? ''
    done.figures = done.results.map((r) => r.data['image/png']).filter(Boolean)
    return done
  }

  static #take(message, done, onOutput) {
    const { type } = message
    if (type === 'stdout' || type === 'stderr') { done[type] += message.text; onOutput?.(type, message.text) }
    else if (type === 'error') done.error = { name: message.name, value: message.value, traceback: message.traceback }
    else if (type === 'result') done.results.push({ data: message.data, chart: message.chart }) // images: base64
    else if (type === 'notice') done.notices.push(message.text)
    else if (type === 'control') done.exitCode = message.exitCode ?? done.exitCode
  }

  async interrupt() { await this.sandbox.tool('POST', `/process/interpreter/context/${this.id}/interrupt`) }
  async delete() { await this.sandbox.tool('DELETE', `/process/interpreter/context/${this.id}`) }
}

// ---- sessions ----

/** A shell that keeps its folder, variables and functions between commands. */
export class Session {
  constructor(sandbox, id) { Object.assign(this, { sandbox, id, path: `/process/session/${encodeURIComponent(id)}` }) }

  /** Runs a command and waits: {exitCode, stdout, stderr}. */
  async run(command) {
    const { exitCode, stdout = '', stderr = '' } = await this.sandbox.tool('POST', `${this.path}/exec`, { command },
      { headers: { 'X-Daytona-Split-Output': 'true' } })
    return { exitCode, stdout, stderr }
  }

  /** Starts a command in the background; its id. */
  async start(command) {
    return (await this.sandbox.tool('POST', `${this.path}/exec`, { command, runAsync: true, suppressInputEcho: true })).cmdId
  }

  /** The output of a command from its beginning until it ends: {stream, data}. */
  async * follow(id) {
    const { client } = this.sandbox
    const socket = await client.transport.socket(
      `/toolbox/${this.sandbox.id}${this.path}/command/${id}/logs?follow=true`, client, this.sandbox.id)
    try {
      for await (const message of socket.messages)
        yield { stream: message[0] === 2 ? 'stderr' : 'stdout', data: message.subarray(3) }
    } finally {
      socket.close()
    }
  }

  /** The exit code of a command; undefined while it runs. */
  async exitCode(id) { return (await this.sandbox.tool('GET', `${this.path}/command/${id}`)).exitCode ?? undefined }
  /** Gives a command that was started with start() a line of input. */
  async send(id, line) { await this.sandbox.tool('POST', `${this.path}/command/${id}/input`, { data: line }) }
  /** Ends the shell and everything that runs in it. */
  async delete() { await this.sandbox.tool('DELETE', this.path) }
}

// ---- sandboxes ----

export class Sandbox {
  constructor(info, client) { Object.assign(this, { info, client }) }

  /** Creates and starts one: {name, image, memory, cpus, disk, pids, network, env, labels, volumes, …}. */
  static async create({ client, ...wishes } = {}) {
    client = theClient(client)
    return new Sandbox(await client.call('POST', '/api/cay/sandbox', wishes), client)
  }

  /** An existing one, by name or id. */
  static async get(name, { client } = {}) {
    client = theClient(client)
    return new Sandbox(await client.call('GET', `/api/cay/sandbox/${encodeURIComponent(name)}`), client)
  }

  /** All, oldest first, read page by page. */
  static async * list({ label, client } = {}) {
    client = theClient(client)
    for (let cursor; ;) {
      const answer = await client.open('GET', '/api/cay/sandbox', undefined, { query: { label, limit: 500, cursor } })
      for (const info of JSON.parse(new TextDecoder().decode(await collect(answer.parts)))) yield new Sandbox(info, client)
      cursor = answer.header('X-Cay-Next-Cursor') ?? undefined
      if (cursor === undefined) return
    }
  }

  get id() { return this.info.id }
  get name() { return this.info.name }
  get state() { return this.info.state }

  /** A request to the toolbox of this sandbox. */
  tool(method, rest, body, options) { return this.client.call(method, `/toolbox/${this.id}${rest}`, body, options) }

  async #change(rest, body, options) {
    this.info = await this.client.call('POST', `/api/cay/sandbox/${this.id}${rest}`, body, options)
    return this
  }

  async refresh() { this.info = await this.client.call('GET', `/api/cay/sandbox/${this.id}`); return this }
  start() { return this.#change('/start') }
  stop({ force } = {}) { return this.#change('/stop', undefined, { query: { force: force ? 'true' : undefined } }) }
  pause() { return this.#change('/pause') }
  resume() { return this.#change('/resume') }
  archive() { return this.#change('/archive') }
  resize(limits) { return this.#change('/resize', limits) }
  update(changes) { return this.#change('/update', changes) }
  /** Makes an image of it. */
  snapshot(name) { return this.#change('/snapshot', { name }) }
  stats() { return this.client.call('GET', `/api/cay/sandbox/${this.id}/stats`) }
  events(after = 0) { return this.client.call('GET', `/api/cay/sandbox/${this.id}/events`, undefined, { query: { after } }) }

  /** Removes it and everything in it. One that is gone already is fine. */
  async delete() {
    try {
      await this.client.call('DELETE', `/api/cay/sandbox/${this.id}`, undefined, { query: { force: 'true' } })
    } catch (e) {
      if (e.code !== 'not_found') throw e
    }
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() { await this.delete() }

  /** Runs a command by the shell and waits: {exitCode, output, oomKilled}. `output` has both streams in order. */
  async run(command, { cwd, env, timeout, signal } = {}) {
    const controller = new AbortController()
    const stop = () => controller.abort(signal.reason)
    if (signal?.aborted) stop()
    signal?.addEventListener('abort', stop)
    const isLate = this.client.deadline(timeout, () => controller.abort())
    let late = false
    const done = await this.tool('POST', '/process/execute', { command, cwd, envs: env, timeout }, { signal: controller.signal })
      .catch((e) => { if ((late = isLate())) return undefined; throw e })
      .finally(() => { isLate(); signal?.removeEventListener('abort', stop) })
    if (late) throw new CayError('the sandbox did not keep the time limit', { code: 'timeout', status: 408 })
    return { exitCode: done.exitCode, output: done.result, oomKilled: done.oomKilled === true }
  }

  /** The output of a command as it comes: {stream, data}. Leaving the loop ends the command. */
  async * stream(command) {
    const session = await this.session(`stream-${Math.random().toString(36).slice(2)}`)
    try {
      yield * session.follow(await session.start(command))
    } finally {
      await session.delete()
    }
  }

  /** Runs code in the sandbox's own interpreter, which keeps its variables. */
  python(code, options) { return new Context(this, undefined).run(code, options) }

  /** A further interpreter: python, javascript or bash. */
  async context({ language = 'python', cwd } = {}) {
    return new Context(this, (await this.tool('POST', '/process/interpreter/context', { language, cwd })).id)
  }

  async session(id) {
    await this.tool('POST', '/process/session', { sessionId: id })
    return new Session(this, id)
  }

  /** Writes a file: text, bytes, or in Node an async iterable of bytes. It appears whole or not at all. */
  async write(path, data) {
    await this.tool('POST', '/files/upload-v2', toBytes(data),
      { query: { path }, headers: { 'Content-Type': 'application/octet-stream' } })
  }

  /** The content of a file as an async iterable of bytes. */
  async * readParts(path) {
    yield * (await this.client.open('GET', `/toolbox/${this.id}/files/download`, undefined, { query: { path } })).parts
  }

  read(path) { return collect(this.readParts(path)) }
  async readText(path) { return new TextDecoder().decode(await this.read(path)) }
  files(path = '.') { return this.tool('GET', '/files', undefined, { query: { path } }) }
  stat(path) { return this.tool('GET', '/files/info', undefined, { query: { path } }) }
  async mkdir(path, mode = '0755') { await this.tool('POST', '/files/folder', undefined, { query: { path, mode } }) }
  async move(source, destination) { await this.tool('POST', '/files/move', undefined, { query: { source, destination } }) }
  async remove(path, { recursive = false } = {}) { await this.tool('DELETE', '/files', undefined, { query: { path, recursive } }) }
  async search(pattern, path = '.') { return (await this.tool('GET', '/files/search', undefined, { query: { path, pattern } })).files }
  find(text, path = '.') { return this.tool('GET', '/files/find', undefined, { query: { path, pattern: text } }) }

  /** The address of a port. With `signed`, one that needs no key, valid for so many seconds. */
  async preview(port, { signed } = {}) {
    const base = `/api/sandbox/${this.id}/ports/${port}`
    return (await (signed === undefined ? this.client.call('GET', `${base}/preview-url`)
      : this.client.call('GET', `${base}/signed-preview-url`, undefined, { query: { expiresInSeconds: signed } }))).url
  }

  async ports() { return (await this.tool('GET', '/port')).ports }
}

/** Runs a program in a fresh sandbox, by the fastest way; the document of docs/python.md. */
export const runPython = (code, { client, ...wishes } = {}) =>
  theClient(client).call('POST', '/api/cay/python', { code, ...wishes })

export const volumes = (client) => theClient(client).call('GET', '/api/cay/volumes')
export const createVolume = (name, client) => theClient(client).call('POST', '/api/cay/volumes', { name })
export const deleteVolume = (name, client) =>
  theClient(client).call('DELETE', `/api/cay/volumes/${encodeURIComponent(name)}`)
