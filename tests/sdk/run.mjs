// Runs one suite with one SDK:  node run.mjs SUITE PACKAGE
// The daemon is named by DAYTONA_API_URL and DAYTONA_API_KEY, as for any program on the SDK. One line
// for each test; below a failed one, the requests it made. The last line is a summary in JSON.
import assert from 'node:assert/strict'
import { subscribe } from 'node:diagnostics_channel'
import { createRequire } from 'node:module'

const TEST_SECONDS = 40
const [suite, name] = process.argv.slice(2)

// ---- what went over the wire, to say it when a test fails ----

let requests = []

subscribe('http.client.response.finish', ({ request, response }) => {
    requests.push(`${request.method} ${request.path} -> ${response.statusCode}`)
})
subscribe('http.client.request.start', ({ request }) => {
    request.on('upgrade', () => requests.push(`${request.method} ${request.path} -> 101`))
    request.on('error', (e) => requests.push(`${request.method} ${request.path} -> ${e.message}`))
})

// ---- checks are counted ----

let checks = 0

function counted(value) {
    if (typeof value !== 'function') return value
    return (...args) => {
        checks++
        return value(...args)
    }
}

const check = new Proxy(counted(assert), { get: (_, key) => counted(assert[key]) })

// ---- what a test gets ----

// The CommonJS form: with Node 18, which Debian 12 has, the other one of new SDKs cannot upload.
const sdk = createRequire(import.meta.url)(name)
// The first client of a program takes everything from the environment.
const daytona = new sdk.Daytona()
const made = []

const t = {
    sdk,
    daytona,
    check,

    // A sandbox that is removed when the suite ends.
    async create(params, options) {
        const sandbox = await daytona.create(params, options)
        made.push(sandbox)
        return sandbox
    },

    // The one that the tests of a suite share.
    sandbox() {
        this.shared ??= this.create()
        return this.shared
    },

    // The error that a call is refused with, of the class that the SDK makes of it.
    async refused(promise, kind, status) {
        const error = await promise.then(() => undefined, (e) => e)
        check.ok(error, 'it is refused')
        check.ok(error instanceof kind, `${error?.constructor?.name} is no ${kind.name}: ${error}`)
        if (status) check.equal(error.statusCode, status)
        return error
    },

    // Waits for a condition.
    async until(condition, what, seconds = 20) {
        const end = Date.now() + seconds * 1000
        for (;;) {
            const value = await condition()
            if (value) return value
            if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`)
            await new Promise((done) => setTimeout(done, 20))
        }
    },
}

// ---- running ----

async function within(promise, seconds) {
    let timer
    const late = new Promise((_, fail) => {
        timer = setTimeout(() => fail(new Error(`no end after ${seconds} s`)), seconds * 1000)
    })
    return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

const { tests } = await import(`./suites/${suite}.mjs`)
const failed = []

for (const [title, body] of Object.entries(tests)) {
    requests = []
    const began = Date.now()
    try {
        await within(body(t), TEST_SECONDS)
        console.log(`ok      ${title} (${Date.now() - began} ms)`)
    } catch (e) {
        failed.push(title)
        console.log(`FAILED  ${title}: ${e.constructor.name}: ${e.message}`)
        for (const line of requests.slice(-12)) console.log(`        ${line}`)
        const place = /suites\/\S+:\d+:\d+/.exec(e.stack ?? '')
        if (place) console.log(`        at ${place[0]}`)
    }
}
for (const sandbox of made) await within(sandbox.delete(), TEST_SECONDS).catch(() => {})
await daytona[Symbol.asyncDispose]?.()
console.log(JSON.stringify({ suite, sdk: name, tests: Object.keys(tests).length, checks, failed }))
process.exit(failed.length ? 1 : 0)
