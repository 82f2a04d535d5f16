#!/bin/bash
# bench.sh: the numbers of tests/bench_cluster.rs, with the release binary, on a cluster of its own
set -euo pipefail
export RIG=${RIG:-/tmp/mcx-bench} RIG_PORT=${RIG_PORT:-16740} MCX_PROFILE=release
cd "$(dirname "$0")/../.."
MCX_BINARY=$(build/static.sh release)
export MCX_BINARY SHOW=1
exec tests/rig/e2e.sh bench_cluster
