// What test_client_js.py runs: clients/js/cay.mjs against a daemon. HOST, KEY; BROWSER: by fetch and WebSocket.
import assert from 'node:assert/strict'
import { BrowserTransport, CayError, Client, Sandbox, createVolume, deleteVolume, runPython, volumes } from '../../clients/js/cay.mjs'

const { HOST, KEY, CA, BROWSER } = process.env
const client = new Client({ host: HOST, key: KEY, caFile: CA, transport: BROWSER ? new BrowserTransport(HOST) : undefined })
const text = (data) => new TextDecoder().decode(data)
const failsWith = (code, promise) => assert.rejects(promise, (e) => e instanceof CayError && e.code === code)

const box = await Sandbox.create({ name: 'js', env: { FROM_SANDBOX: 'yes' }, memory: '256m', client })
try {
  assert.equal(box.state, 'started')
  assert.equal(box.info.memory, 256 << 20)

  // commands
  const done = await box.run('pwd; echo $FROM_SANDBOX $MORE; echo oh >&2; exit 3', { cwd: '/tmp', env: { MORE: 'x=y' } })
  assert.deepEqual(done, { exitCode: 3, output: '/tmp\nyes x=y\noh\n', oomKilled: false })
  await failsWith('timeout', box.run('sleep 300', { timeout: 1 }))
  const parts = []
  for await (const { stream, data } of box.stream('echo a; sleep 0.3; echo b >&2')) parts.push([stream, text(data)])
  assert.deepEqual(parts, [['stdout', 'a\n'], ['stderr', 'b\n']])
  for await (const _ of box.stream('echo first; exec sleep 23456')) break
  assert.equal((await box.run('pgrep -x sleep')).exitCode, 1) // leaving the loop ended it

  // sessions
  const session = await box.session('work')
  await session.run('cd /tmp; X=1')
  assert.deepEqual(await session.run('echo $X $PWD; echo e >&2; (exit 4)'), { exitCode: 4, stdout: '1 /tmp\n', stderr: 'e\n' })
  const id = await session.start('read line; echo got $line')
  assert.equal(await session.exitCode(id), undefined)
  await session.send(id, 'it')
  let log = ''
  for await (const { data } of session.follow(id)) log += text(data)
  assert.equal(log, 'got it\n')
  assert.equal(await session.exitCode(id), 0)
  await session.delete()
  await failsWith('not_found', session.run('true'))

  // code
  assert.equal((await box.python('x = 6 * 7\nx')).text, '42')
  const failed = await box.python('print(x)\n1/0')
  assert.equal(failed.stdout, '42\n')
  assert.equal(failed.error.name, 'ZeroDivisionError')
  const context = await box.context({ language: 'bash' })
  await context.run('Z=5')
  assert.equal((await context.run('echo $Z')).stdout, '5\n')
  assert.equal((await context.run('sleep 300', { timeout: 1 })).timedOut, true)
  await context.delete()
  assert.equal((await runPython('print(1)', { client })).stdout, '1\n')

  // files
  await box.write('folder/ä b%20.txt', 'grüße\n')
  assert.equal(await box.readText('folder/ä b%20.txt'), 'grüße\n')
  assert.deepEqual((await box.files('folder')).map((f) => f.name), ['ä b%20.txt'])
  const large = new Uint8Array(3_000_000).map((_, i) => i % 251)
  await box.write('large', large)
  assert.deepEqual(Buffer.compare(Buffer.from(await box.read('large')), Buffer.from(large)), 0)
  if (!BROWSER) {
    await box.write('parts', (async function * () { yield Buffer.from('a'); yield Buffer.from('b') })())
    assert.equal(await box.readText('parts'), 'ab')
  }
  await box.mkdir('deep/er')
  await failsWith('invalid_argument', box.remove('deep'))
  await box.remove('deep', { recursive: true })
  await failsWith('not_found', box.read('deep'))
  assert.equal((await box.find('grüße', 'folder'))[0].line, 1)

  // life
  assert.equal((await box.stop()).state, 'stopped')
  await failsWith('conflict', box.run('true'))
  assert.equal((await box.start()).state, 'started')
  assert.equal((await box.resize({ memory: '300m' })).info.memory, 300 << 20)
  await failsWith('conflict', Sandbox.create({ name: 'js', client }))
  await failsWith('invalid_argument', Sandbox.create({ memory: 'much', client }))
  assert.equal((await Sandbox.get('js', { client })).id, box.id)
  const names = []
  for await (const each of Sandbox.list({ client })) names.push(each.name)
  assert.deepEqual(names, ['js'])
  assert.match(await box.preview(8080, { signed: 60 }), /\/8080$/)
  await createVolume('shared', client)
  assert.deepEqual((await volumes(client)).map((v) => v.name), ['shared'])
  await deleteVolume('shared', client)

  // many at once
  const many = await Promise.all(Array.from({ length: 20 }, (_, i) => box.run(`echo ${i}`)))
  assert.deepEqual(many.map((r) => r.output), Array.from({ length: 20 }, (_, i) => `${i}\n`))
} finally {
  await box.delete()
  await box.delete() // what is gone stays gone
}
await failsWith('not_found', Sandbox.get('js', { client }))
console.log('all is well')
process.exit(0) // kept connections would hold it for a moment
