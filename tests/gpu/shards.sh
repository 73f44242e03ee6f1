#!/usr/bin/env bash
# A test program in N processes side by side, each with its share of the tests and one thread: tests of a card wait for the CPU
# more than for the card. Exits with 0 only if all of them do.
#
#   tests/gpu/shards.sh N PROGRAM [ARGUMENT...]
set -uo pipefail
[ $# -ge 2 ] || { echo "shards.sh: how many of what? See the head of this file" >&2; exit 2; }
export GTEST_TOTAL_SHARDS=$1 OMP_NUM_THREADS=1
shift
shards=()
for ((shard = 0; shard < GTEST_TOTAL_SHARDS; ++shard)); do
  GTEST_SHARD_INDEX=$shard "$@" &
  shards+=($!)
done
failed=0
for shard in "${shards[@]}"; do wait "$shard" || failed=1; done
exit $failed
