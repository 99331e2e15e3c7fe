// How long a program on the SDK waits from create() to the output of its first command.
//   node speed.mjs [COUNT]       the server is named by DAYTONA_API_URL and DAYTONA_API_KEY
import { Daytona } from '@daytonaio/sdk'

const count = Number(process.argv[2] ?? 100)
const daytona = new Daytona()

async function once(box) {
    const began = performance.now()
    box.sandbox = await daytona.create()
    const { result } = await box.sandbox.process.executeCommand('echo hello')
    if (result !== 'hello\n') throw new Error(`output: ${result}`)
    return performance.now() - began
}

async function measured() {
    const box = {}
    try {
        return await once(box)
    } finally {
        await box.sandbox?.delete()
    }
}

function report(title, times, total) {
    times.sort((a, b) => a - b)
    const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))].toFixed(1)
    console.log(`${title.padEnd(24)}${String(times.length).padStart(5)}  median ${at(0.5)} ms  ` +
                `p95 ${at(0.95)} ms  p99 ${at(0.99)} ms  all in ${(total / 1000).toFixed(2)} s`)
}

await measured() // connections, and what the server makes once
let began = performance.now()
const times = []
for (let i = 0; i < count; i++) times.push(await measured())
report('one after the other', times, performance.now() - began)
began = performance.now()
const burst = await Promise.all(Array.from({ length: count }, measured))
report('all at once', burst, performance.now() - began)
await daytona[Symbol.asyncDispose]()
