#!/usr/bin/env bash
# usage: capacity.sh COUNT     (as root, in the machine of run-vm)
#
# COUNT persistent sandboxes alive at once through the daemon, as tests/integration/test_capacity.py does
# outside: all are started, cost the launcher at most two descriptors each, outlive it, and go.
set -euo pipefail
count=$1
build=$(cd "$(dirname "$0")/../.." && pwd)/${CAY_BUILD_NAME:-build}
state=/var/disk-state

fail() { echo "capacity.sh: $1"; tail -20 /var/log-cayd; exit 1; }
ask() { curl -sS -m 600 --unix-socket "$state/daemon/cay.sock" -X "$1" "http://localhost$2"; }
launcher() { pgrep -o -x cay-launcher; }
descriptors() { find "/proc/$(launcher)/fd" -mindepth 1 | wc -l; }
alive() { ask GET /api/cay/sandbox | grep -o '"state":"started"' | wc -l; }

truncate -s 64G /var/disk && mkfs.ext4 -q /var/disk
mkdir "$state" && mount -o loop /var/disk "$state"
ulimit -n 65536
CAY_MANAGER_MAX_SANDBOXES=$((count + 10)) CAY_MANAGER_POOL_SIZE=0 \
    "$build/cayd" --state-dir "$state" >/var/log-cayd 2>&1 &
for _ in $(seq 600); do
    [[ $(ask GET /livez 2>/dev/null) ]] && break
    sleep 0.1
done
one=$(ask POST /api/cay/sandbox | grep -o '"id":"[a-z0-9]*"' | head -1 | cut -d'"' -f4)
ask DELETE "/api/cay/sandbox/$one?force=true" >/dev/null
before=$(descriptors)
began=$SECONDS
"$build/bench/cay-load" -s "$state/daemon/cay.sock" -c 8 -a "$count" -t 0 || fail "not all were created"
echo "$count created in $((SECONDS - began)) s"
(($(alive) == count)) || fail "$(alive) of $count are started"
(($(descriptors) - before <= 2 * count)) || fail "the launcher has $(descriptors) descriptors"
free -m | sed -n 2p
kill -KILL "$(launcher)"
for _ in $(seq 600); do
    [[ $(ask GET /healthz) == ok ]] && break
    sleep 0.1
done
(($(alive) == count)) || fail "$(alive) of $count outlived the launcher"
echo "$count outlived the launcher; $SECONDS s altogether"
