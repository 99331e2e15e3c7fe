// Keeps a JavaScript interpreter for the keeper of a context, as python_context.py keeps Python's:
// each piece of code finds what the one before left. Values and errors are reported in records of
// a kind (a byte), a length (4 bytes, little endian) and so many bytes.
(() => {
  'use strict'
  const fs = require('fs'), net = require('net'), util = require('util'), vm = require('vm')
  const { createRequire } = require('module')
  const ERROR = 1, RESULT = 2, NOTICE = 3, TEXT_MAX = 1 << 20, INTERRUPTED = 130
  const IMPORT = '$mport', LENT = '$cay', PLACES_MAX = 100, LOOKS = 1000, QUESTION = 63
  const exitNow = process.reallyExit.bind(process)
  let streams = null // of the code that runs, or ran last
  let interrupt = null // breaks off what is waited for
  let current = '' // the number of the code that runs

  // To break a script off by SIGINT, node changes who hears that signal when it begins and when it ends. In
  // between the signal ends the interpreter, or breaks the next script off. So node's watchdog, a thread that
  // hears it in scripts, stays for the whole run; outside of scripts it remembers. A node without it, or code
  // that wants to hear the signal itself, has it as node does it.
  const { startSigintWatchdog, stopSigintWatchdog, watchdogHasPendingSigint } = (() => {
    try {
      return process.binding('contextify')
    } catch {
      return {}
    }
  })()
  const canWatch = !!(startSigintWatchdog && stopSigintWatchdog && watchdogHasPendingSigint)
  let watches = false, broke = false // a script off, which is one signal
  const isHeard = () => {
    if (process.listenerCount('SIGINT') > 0) return false
    try {
      return /^SigCgt:\s*[0-9a-f]*[2367abef]$/m.test(fs.readFileSync('/proc/self/status', 'latin1'))
    } catch {
      return true // code has used up its descriptors
    }
  }
  const forget = () => {
    startSigintWatchdog()
    stopSigintWatchdog() // the inner one of two
    broke = false
  }
  const watch = () => { // code may have changed who hears it
    if (!canWatch) return
    if (watches && !isHeard()) stopSigintWatchdog()
    else if (watches) return forget()
    watches = process.listenerCount('SIGINT') === 0
    if (watches) startSigintWatchdog()
  }
  const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
  // A line follows each signal. The watchdog, a thread, may come to the signal later, but not in the next run.
  const settle = () => {
    for (let i = 0; i < LOOKS && watches && !broke && !watchdogHasPendingSigint() && isHeard(); i++) pause()
    if (watches) forget()
  }

  const writeAll = (fd, data) => {
    for (let at = 0; at < data.length;) {
      try {
        at += fs.writeSync(fd, data, at)
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error
      }
    }
  }
  const tell = (line) => writeAll(1, Buffer.from(line))
  const record = (kind, data) => {
    const head = Buffer.alloc(5)
    head[0] = kind
    head.writeUInt32LE(data.length, 1)
    try {
      writeAll(streams.rep, Buffer.concat([head, data]))
    } catch { /* the code closed it */ }
  }
  const bytes = (text) => Buffer.from(String(text).slice(0, TEXT_MAX))

  // Descriptors cannot be exchanged here, so what prints is told where to.
  const divert = (stream, name) => {
    stream.write = (chunk, encoding, done) => {
      if (typeof encoding === 'function') [encoding, done] = [undefined, encoding]
      try {
        if (streams) writeAll(streams[name], typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk)
      } catch { /* the code closed it */ }
      if (done) process.nextTick(done)
      return true
    }
  }

  const item = (kind, text) => {
    const data = Buffer.concat([Buffer.from(kind + '\0'), bytes(text)])
    const length = Buffer.alloc(4)
    length.writeUInt32LE(data.length)
    return Buffer.concat([length, data])
  }
  const show = (value, isLast, echo) => {
    const text = typeof value === 'string' ? util.inspect(value) : util.inspect(value, { depth: 4 })
    if (echo) process.stdout.write(text + '\n')
    const items = [item('text/plain', text)]
    if (value !== null && typeof value === 'object') {
      try {
        const json = JSON.stringify(value)
        if (json !== undefined && json.length <= TEXT_MAX) items.push(item('application/json', json))
      } catch { /* it has no such form */ }
    }
    record(RESULT, Buffer.concat([Buffer.from([isLast ? 1 : 0]), ...items]))
  }
  const named = (text) => text.replace(/<code_(\d+)>/g, '<code $1>')
  const stackOf = (error) => named(String(error.stack)).split('\n')
    .filter((line) => !/\[eval\]|node:vm|node:inspector/.test(line)).join('\n')
  const tellError = (error) => {
    const is = error !== null && typeof error === 'object'
    const parts = [is && error.name ? error.name : 'Error', is && 'message' in error ? error.message : util.inspect(error),
      is && error.stack ? stackOf(error) : '']
    record(ERROR, Buffer.concat(parts.flatMap((part, i) => [bytes(part).map((byte) => byte || QUESTION), Buffer.from(i < 2 ? '\0' : '')])))
  }

  const readEnvironment = (path) => {
    const before = []
    for (const entry of fs.readFileSync(path, 'utf8').split('\0')) {
      const sign = entry.indexOf('=')
      if (sign < 1) continue
      before.push([entry.slice(0, sign), process.env[entry.slice(0, sign)]])
      process.env[entry.slice(0, sign)] = entry.slice(sign + 1)
    }
    return before.reverse()
  }
  const openStreams = (place) => {
    const old = streams
    streams = Object.fromEntries(['out', 'err', 'rep'].map((name) => [name, fs.openSync(place + name, 'w')]))
    for (const fd of old ? Object.values(old) : []) {
      try {
        fs.closeSync(fd)
      } catch { /* the code did */ }
    }
  }

  const load = (specifier) => import(specifier) // vm's own constant for it warns on stderr
  const compile = (text, name) => {
    try {
      return { script: new vm.Script(text, { filename: name, importModuleDynamically: load }) }
    } catch (error) {
      return { error }
    }
  }
  const compiles = (text) => !compile(text).error
  const exchange = (text, at, word, other) => text.slice(0, at) + other + text.slice(at + word.length)
  const placesOf = (text, pattern) => Array.from(text.matchAll(pattern), (match) => match.index).slice(0, PLACES_MAX)
  // Whether a word is code, and not in a string, a comment or the name of a property. The parser
  // tells: with a reserved word in its place it refuses the whole.
  const isCode = (text, at, word, around) => !compiles(around(exchange(text, at, word, 'enum')))
  const inAsync = (text) => `(async () => {${text.replace(/^#!/, '//')}\n})`
  // Outside of async functions "await (x)" and its like call a function of that name, which nobody means.
  const callsAwait = (text) => {
    const pattern = /\bawait(?=\s*[([`+\-/]|\s*\n)/g
    if (text.search(pattern) < 0 || compiles(text.replace(pattern, 'await 0<'))) return false // it does not
    return placesOf(text, pattern).some((at) => isCode(text, at, 'await', (whole) => whole) &&
      compiles(exchange(text, at, 'await', 'await.x'))) && compiles(inAsync(text))
  }
  // What the inspector evaluates cannot import(), so a function does it there.
  const withImports = (text) => {
    if (!text.includes('import') || !compiles(inAsync(text))) return text
    return placesOf(text, /\bimport\b/g).filter((at) => isCode(text, at, 'import', inAsync))
      .reduce((whole, at) => exchange(whole, at, 'import', IMPORT), text)
  }

  // V8 itself awaits at the top level, and keeps what is declared, for those who ask by its inspector.
  const openInspector = () => {
    try {
      const { Session } = require('inspector') // not every node has it
      const session = new Session()
      session.connect()
      Object.defineProperty(globalThis, IMPORT, { value: load, configurable: true })
      return session
    } catch {
      return null
    }
  }
  // The value of which the inspector tells a description. Users' code never sees the name that is lent.
  const valueOf = (session, { objectId, unserializableValue, value }) => {
    const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value }
    let found
    globalThis[LENT] = (it) => { found = it }
    session.post('Runtime.evaluate', { expression: LENT }, (_, { result }) =>
      session.post('Runtime.callFunctionOn', { objectId: result.objectId, arguments: [argument],
        functionDeclaration: 'function (it) { this(it) }' }))
    delete globalThis[LENT]
    return found
  }
  const errorOf = (session, details, { text, name, error: plain }) => {
    const error = valueOf(session, details.exception || {})
    // Of the parser, and not of JSON or an imported file: no code had run, so it was made where the text was given.
    if (!(error instanceof SyntaxError) || !/^.*\n +at .*\(node:inspector/.test(error.stack)) return error
    if (plain && plain.message === error.message) return plain
    const { lineNumber, columnNumber } = details // told as vm does
    error.stack = `${name}:${lineNumber + 1}\n${text.split('\n')[lineNumber]}\n${' '.repeat(columnNumber)}^\n\n${error}`
    return error
  }
  // Calls what SIGINT breaks off, also one that came since the run began.
  const breakable = (action) => {
    const lent = () => {
      delete globalThis[LENT]
      broke = watches && watchdogHasPendingSigint()
      if (broke) throw Object.assign(new Error('interrupted'), { stack: 'KeyboardInterrupt: interrupted' })
      return action()
    }
    if (!Reflect.set(globalThis, LENT, lent)) return action({ breakOnSigint: true }) // code has closed it
    return vm.runInThisContext(LENT + '()', { filename: '[eval]', breakOnSigint: true, displayErrors: false })
  }
  const evaluateAwaiting = async (session, code, broken) => {
    const expression = `${withImports(code.text)}\n//# sourceURL=${code.name.replace(' ', '_')}` // spaces end it
    let end
    const ended = new Promise((resolve, reject) => {
      end = (failure, it) => {
        if (failure) reject(new Error(failure.message))
        else if (it.exceptionDetails) reject(errorOf(session, it.exceptionDetails, code))
        else resolve(valueOf(session, it.result))
      }
    })
    ended.catch(() => {})
    try {
      breakable(() => session.post('Runtime.evaluate', { expression, replMode: true }, end))
      return await Promise.race([ended, broken])
    } finally {
      session.disconnect()
    }
  }
  const evaluate = async (text, name) => {
    const broken = new Promise((_, reject) => { interrupt = () => reject(new Error('interrupted')) })
    broken.catch(() => {})
    const { script, error } = compile(text, name)
    const awaits = script ? callsAwait(text) : error instanceof SyntaxError && /\bawait\b/.test(text)
    const session = awaits && openInspector()
    if (session) return Promise.race([evaluateAwaiting(session, { text, name, error }, broken), broken])
    if (error) throw error
    return Promise.race([breakable((options) => script.runInThisContext(options)), broken])
  }
  const isInterrupt = (error) =>
    error && (error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' || error.message === 'interrupted')
  const run = async (text, name, echo) => {
    try {
      const value = await evaluate(text, name)
      if (value !== undefined) {
        globalThis._ = value
        show(value, true, echo)
      }
      return 0
    } catch (error) {
      const stopped = isInterrupt(error)
      if (stopped && error.code) broke = true
      if (stopped) error.name = 'KeyboardInterrupt'
      tellError(error)
      return stopped ? INTERRUPTED : 1
    } finally {
      interrupt = null
    }
  }
  const isGone = () => {
    try {
      return fs.readlinkSync('/proc/self/cwd').endsWith(' (deleted)')
    } catch {
      return false
    }
  }
  let folder = '/'
  const noteFolder = () => {
    if (!isGone()) folder = process.cwd()
  }
  // Code before may have removed the folder that this is to run in.
  const findFolder = () => {
    if (!isGone()) return
    try {
      fs.mkdirSync(folder, { recursive: true })
      process.chdir(folder)
    } catch {
      folder = '/'
      process.chdir(folder)
    }
    record(NOTICE, bytes('the work folder was removed; this runs in ' + folder))
  }
  const serve = async (number, echo, io) => {
    const place = `${io}/${number}.`
    current = number
    openStreams(place)
    watch()
    tell(`\ns ${number}\n`)
    const text = fs.readFileSync(place + 'sh', 'utf8')
    const before = readEnvironment(place + 'env')
    globalThis.display = (...values) => values.forEach((value) => show(value, false, echo === '1'))
    findFolder()
    const status = await run(text, `<code ${number}>`, echo === '1')
    for (const [key, value] of before) {
      if (value === undefined) delete process.env[key]
      else process.env[key] = value
    }
    noteFolder()
    tell(`\ne ${number} ${status} ${folder}\n`) // the code may have begun a line there
  }

  divert(process.stdout, 'out')
  divert(process.stderr, 'err')
  noteFolder()
  globalThis.require = createRequire(folder + '/')
  if (canWatch) watch()
  else process.on('SIGINT', () => interrupt && interrupt())
  const uncaught = (error) => {
    if (streams) record(NOTICE, bytes('an error that nothing caught: ' + named(util.inspect(error))))
  }
  process.on('uncaughtException', uncaught)
  process.on('unhandledRejection', uncaught)
  let rest = '', turn = Promise.resolve()
  const input = new net.Socket({ fd: 0, writable: false }).setEncoding('utf8') // a file would hold up the end
  input.on('data', (data) => {
    const lines = (rest + data).split('\n')
    rest = lines.pop()
    for (const line of lines) {
      const [word, number, , echo, ...io] = line.split(' ')
      if (word === 'i') settle()
      if (word === 'i' && number === current && interrupt) interrupt()
      if (word === 'r') turn = turn.then(() => serve(number, echo, io.join(' '))).catch(() => exitNow(70))
    }
  })
  input.on('end', () => exitNow(0))
})()
