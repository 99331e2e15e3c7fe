// Git, with a bare repository inside as the remote.

const REMOTE = '/tmp/git/remote.git'
const WORK = '/tmp/git/work'
const SEED = `
set -e
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=init.defaultBranch GIT_CONFIG_VALUE_0=main
mkdir -p /tmp/git; cd /tmp/git
git init -q --bare remote.git
git init -q seed; cd seed
echo one >one; git add one
git -c user.name=Ann -c user.email=ann@example.org commit -q -m first
git push -q ../remote.git main
git push -q ../remote.git main:other`

export const tests = {
    async 'clone and status'(t) {
        const { git, fs, process } = await t.sandbox()
        const seed = await process.executeCommand(SEED)
        t.check.equal(seed.exitCode, 0, seed.result)
        await git.clone(REMOTE, WORK)
        t.check.equal(String(await fs.downloadFile(`${WORK}/one`)), 'one\n')
        const status = await git.status(WORK)
        t.check.equal(status.currentBranch, 'main')
        t.check.deepEqual(status.fileStatus, [])
        t.check.equal(status.branchPublished, true)
        t.check.deepEqual([status.ahead ?? 0, status.behind ?? 0], [0, 0])
    },

    async 'clone of a branch and of a commit'(t) {
        const { git } = await t.sandbox()
        await git.clone(REMOTE, '/tmp/git/branch', 'other')
        t.check.equal((await git.status('/tmp/git/branch')).currentBranch, 'other')
    },

    async 'what has changed'(t) {
        const { git, fs } = await t.sandbox()
        await fs.uploadFile(Buffer.from('changed'), `${WORK}/one`)
        await fs.uploadFile(Buffer.from('new'), `${WORK}/a new file`)
        const files = (await git.status(WORK)).fileStatus
        const one = files.find((f) => f.name === 'one')
        t.check.deepEqual([one.staging, one.worktree], ['Unmodified', 'Modified'])
        const fresh = files.find((f) => f.name === 'a new file')
        t.check.deepEqual([fresh.staging, fresh.worktree], ['Untracked', 'Untracked'])
        await git.add(WORK, ['a new file'])
        const added = (await git.status(WORK)).fileStatus.find((f) => f.name === 'a new file')
        t.check.equal(added.staging, 'Added')
    },

    async 'commit, push, pull'(t) {
        const { git, fs, process } = await t.sandbox()
        await git.add(WORK, ['.'])
        const { sha } = await git.commit(WORK, 'a second "one"', 'Bob', 'bob@example.org')
        t.check.match(sha, /^[0-9a-f]{40}$/)
        t.check.equal((await git.status(WORK)).ahead, 1)
        const log = await process.executeCommand('git log -1 --format="%H|%an|%ae|%s"', WORK)
        t.check.equal(log.result, `${sha}|Bob|bob@example.org|a second "one"\n`)
        await git.push(WORK)
        t.check.equal((await git.status(WORK)).ahead ?? 0, 0)
        await git.clone(REMOTE, '/tmp/git/second')
        await git.pull('/tmp/git/second')
        t.check.equal(String(await fs.downloadFile('/tmp/git/second/a new file')), 'new')
        const empty = await git.commit(WORK, 'nothing', 'Bob', 'bob@example.org', true)
        t.check.notEqual(empty.sha, sha)
    },

    async 'branches'(t) {
        const { git } = await t.sandbox()
        await git.createBranch(WORK, 'topic')
        t.check.ok((await git.branches(WORK)).branches.includes('topic'))
        await git.checkoutBranch(WORK, 'topic')
        t.check.equal((await git.status(WORK)).currentBranch, 'topic')
        await git.checkoutBranch(WORK, 'main')
        await git.deleteBranch(WORK, 'topic')
        t.check.ok(!(await git.branches(WORK)).branches.includes('topic'))
    },

    async 'what goes wrong has a class'(t) {
        const { git } = await t.sandbox()
        await t.refused(git.checkoutBranch(WORK, 'none'), t.sdk.DaytonaNotFoundError, 404)
        await t.refused(git.clone('/tmp/git/none.git', '/tmp/git/x'), t.sdk.DaytonaError)
        await t.refused(git.status('/tmp'), t.sdk.DaytonaError)
    },

    async 'new repositories, remotes, settings'(t) {
        const { git } = await t.sandbox()
        await git.init('/tmp/git/fresh', false, 'trunk')
        t.check.equal((await git.status('/tmp/git/fresh')).currentBranch, 'trunk')
        await git.remoteAdd('/tmp/git/fresh', 'origin', REMOTE)
        t.check.equal(await git.remoteGet('/tmp/git/fresh', 'origin'), REMOTE)
        await git.setConfig('user.name', 'Zoe', 'local', '/tmp/git/fresh')
        t.check.equal(await git.getConfig('user.name', 'local', '/tmp/git/fresh'), 'Zoe')
    },
}
