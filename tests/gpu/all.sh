#!/usr/bin/env bash
# Everything there is to know about Bochner on the card of this machine, in one command and under nine minutes: builds for
# it, runs the whole test suite, the sanitizers on the small set, and the benchmarks, PyTorch beside them. Writes
# OUT/record.json and OUT/record.md; exits with 0 only if all of it ran and passed.
#
#   tests/gpu/all.sh [--out DIR] [--built BUILD] [--without-sanitizer] [--without-peer]
#
# --built uses the binaries of a build folder made elsewhere. What --without-... leaves out is named in the record; without
# these options a missing tool is a failure.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=docs/gpu/last
built=
sanitizer=1
peer=1
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift ;;
    --built) built=$2; shift ;;
    --without-sanitizer) sanitizer=0 ;;
    --without-peer) peer=0 ;;
    *) echo "all.sh: '$1' is no option; see the head of this file" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$out"
steps=$out/steps.txt
: > "$steps"
failed=0
began=$(date +%s)

# step NAME SECONDS COMMAND...: runs it with a limit, keeps its output in OUT/NAME.log and its result in the record.
step() {
  local name=$1 limit=$2 start code
  shift 2
  start=$(date +%s)
  timeout "$limit" "$@" > "$out/$name.log" 2>&1
  code=$?
  local result=passed
  [ $code -eq 0 ] || result="failed ($code)"
  [ $code -eq 124 ] && result="stopped after $limit s"
  [ $code -eq 0 ] || { failed=1; tail -n 15 "$out/$name.log"; }
  printf '%s\t%s\t%s\n' "$name" "$result" "$(( $(date +%s) - start ))" | tee -a "$steps"
}
missing() {
  printf '%s\t%s\t0\n' "$1" "$2" | tee -a "$steps"
  [ "${3:-}" = allowed ] || failed=1
}

command -v nvidia-smi > /dev/null || { echo "all.sh: there is no nvidia-smi: no card" >&2; exit 1; }
nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader > "$out/card.txt" ||
  { echo "all.sh: nvidia-smi finds no card" >&2; exit 1; }

if [ -z "$built" ]; then
  built=build-gpu
  step configure 60 cmake -G Ninja -B $built -DBOCHNER_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native
  step build 300 cmake --build $built --target test_engine test_autograd test_layers gpu_bench
fi
for suite in engine autograd layers; do
  if [ -x "$built/bin/test_$suite" ]; then
    step "card_$suite" 150 "$built/bin/test_$suite" --gtest_filter='*Card*'
    # A skipped test has not run: here, where there is a card, none may be.
    if grep -q '\[  SKIPPED \]' "$out/card_$suite.log"; then missing "card_${suite}_skipped" "tests were skipped"; fi
  else
    missing "card_$suite" "was not built"
  fi
done
step whole_engine 120 "$built/bin/test_engine" --gtest_filter='-*Card*'
if [ $sanitizer -eq 0 ]; then
  missing sanitizer "left out by option" allowed
elif ! command -v compute-sanitizer > /dev/null; then
  missing sanitizer "compute-sanitizer is not installed"
else
  small='Card.*:CardOps.RowsOfAnyLength:CardOps.Indices:CardOps.Scans'
  step memcheck 120 compute-sanitizer --error-exitcode 1 "$built/bin/test_engine" --gtest_filter="$small:CardOps.*"
  step initcheck 90 compute-sanitizer --tool initcheck --error-exitcode 1 "$built/bin/test_engine" --gtest_filter="$small"
  step racecheck 120 compute-sanitizer --tool racecheck --error-exitcode 1 "$built/bin/test_layers" \
    --gtest_filter='*EveryMechanismOnACard.EqualsTheCpu/softmax:*EveryMechanismOnACard.EqualsTheCpu/performer'
fi
if [ -x "$built/bin/gpu_bench" ]; then
  step bench 120 "$built/bin/gpu_bench" "$out/bench.jsonl"
else
  missing bench "was not built"
fi
if [ $peer -eq 0 ]; then
  missing peer "left out by option" allowed
elif ! python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
  missing peer "PyTorch with CUDA is not installed"
else
  step peer 150 python3 tests/gpu/peer.py "$out/peer.jsonl"
fi
python3 tests/gpu/record.py "$out" "$(git rev-parse HEAD 2> /dev/null || echo unknown)" $(( $(date +%s) - began )) || failed=1
cat "$out/record.md"
exit $failed
