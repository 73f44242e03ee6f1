#!/usr/bin/env bash
# Everything there is to know about Bochner on the card of this machine, in one command and under nine minutes: builds for
# it, runs the whole test suite, the benchmarks, PyTorch beside them, whole programs, and the sanitizers on the small set.
# Writes OUT/record.json and OUT/record.md (with the logs in OUT/logs.tar.gz); exits with 0 only if all of it ran and passed.
#
#   tests/gpu/all.sh [--out DIR] [--built BUILD] [--data FOLDER] [--seconds N] [--without-sanitizer] [--without-processes]
#                    [--without-peer]
#
# --built uses binaries made elsewhere: a build folder, or what tests/gpu/pack.sh made for a machine that has no libraries to
# build with. --data is for the programs (tests/gpu/programs.py); cases without theirs are named and left out. NCCL for several
# processes (tests/gpu/processes.py) is the one that the loader finds, or that BOCHNER_NCCL names. --seconds is for
# everything together, and less than nine minutes unless told; what does not fit is stopped. What --without-... leaves out is
# named in the record; without these options a missing tool is a failure.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
out=docs/gpu/last
built=
data=data
total=525
sanitizer=1
processes=1
peer=1
while [ $# -gt 0 ]; do
  case $1 in
    --out | --built | --data | --seconds)
      [ $# -gt 1 ] || { echo "all.sh: $1 needs a value" >&2; exit 2; }
      case $1 in
        --out) out=$2 ;;
        --built) built=$2 ;;
        --data) data=$2 ;;
        --seconds) total=$2 ;;
      esac
      shift ;;
    --without-sanitizer) sanitizer=0 ;;
    --without-processes) processes=0 ;;
    --without-peer) peer=0 ;;
    *) echo "all.sh: '$1' is no option; see the head of this file" >&2; exit 2 ;;
  esac
  shift
done
[[ $total =~ ^[1-9][0-9]*$ ]] || { echo "all.sh: --seconds is a number, not '$total'" >&2; exit 2; }
[ -z "$built" ] || [ -d "$built/bin" ] || { echo "all.sh: there is no $built/bin" >&2; exit 2; }
for tool in nvidia-smi python3 timeout tar; do
  command -v $tool > /dev/null || { echo "all.sh: there is no $tool" >&2; exit 1; }
done
mkdir -p "$out" || exit 1
rm -f "$out"/*.log "$out"/*.jsonl "$out"/record.*
nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader > "$out/card.txt" ||
  { echo "all.sh: nvidia-smi finds no card" >&2; exit 1; }
steps=$out/steps.txt
: > "$steps"
began=$(date +%s)

left() { echo $((total - $(date +%s) + began)); }
told() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" | tee -a "$steps"; }
# step NAME SECONDS COMMAND...: runs it with a limit, and within what is left of the whole time; keeps its output in
# OUT/NAME.log and its result in the record. A test run without a test, or with one that was skipped, has not passed.
step() {
  local name=$1 limit=$2 start result code
  shift 2
  start=$(date +%s)
  [ "$(left)" -lt "$limit" ] && limit=$(left)
  if [ "$limit" -lt 5 ]; then told "$name" "no time was left" 0; return; fi
  timeout -k 5 "$limit" "$@" > "$out/$name.log" 2>&1
  code=$?
  result=passed
  [ $code -eq 0 ] || result="failed ($code)"
  { [ $code -eq 124 ] || [ $code -eq 137 ]; } && result="stopped after $limit s"
  grep -q '0 tests from 0 test suites ran' "$out/$name.log" && result="ran no test"
  if [ "$result" = passed ] && [[ $name != whole_* ]] && grep -q '\[  SKIPPED \]' "$out/$name.log"; then
    result="tests were skipped"
  fi
  [ "$result" = passed ] || tail -n 15 "$out/$name.log"
  told "$name" "$result" $(($(date +%s) - start))
}

if [ -z "$built" ]; then
  built=build-gpu
  step configure 60 cmake -G Ninja -B $built -DBOCHNER_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native -DBOCHNER_EXPERIMENTS=ON
  step build 300 cmake --build $built --target test_engine test_autograd test_layers gpu_bench gpu_training \
    lra sparsity siren qpnn uci mnist vit pretrain
fi
built=$(realpath "$built")
export BOCHNER_SOURCE_DIR=$PWD
# For our programs alone: libraries that came along, and cuBLAS where nvcc or PyTorch brought it.
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
torch=$(python3 -c 'import nvidia, glob; print(":".join(glob.glob(list(nvidia.__path__)[0] + "/*/lib")))' 2> /dev/null)
# Not PyTorch's NCCL, unless it is the only one: a newer one of this machine can do more.
nccl=$(tr : '\n' <<< "$torch" | grep '/nccl/lib$')
torch=$(tr : '\n' <<< "$torch" | grep -v '/nccl/lib$' | paste -sd:)
if [ -z "${BOCHNER_NCCL:-}" ] && [ -n "$nccl" ] && ! ldconfig -p | grep -q 'libnccl\.so\.2'; then
  export BOCHNER_NCCL=$nccl/libnccl.so.2
fi
libraries=$built/lib:$(dirname "$(dirname "$(realpath -m "$nvcc")")")/lib64:$torch:${LD_LIBRARY_PATH:-}
ours=(env "LD_LIBRARY_PATH=$libraries")

for suite in engine autograd layers; do
  if [ -x "$built/bin/test_$suite" ]; then
    step "card_$suite" 150 "${ours[@]}" tests/gpu/shards.sh 4 "$built/bin/test_$suite" \
      --gtest_filter='*Card*:*Bf16*:MixedPrecision.*' &
  else
    told "card_$suite" "was not built" 0
  fi
done
wait
# Times: nothing beside them.
for program in bench training; do
  if [ -x "$built/bin/gpu_$program" ]; then
    step $program 90 "${ours[@]}" "$built/bin/gpu_$program" "$out/$program.jsonl"
  else
    told $program "was not built" 0
  fi
done
sanitizers=$(command -v compute-sanitizer || ls "$(dirname "$nvcc")/compute-sanitizer" 2> /dev/null)
if [ $sanitizer -eq 0 ]; then
  told sanitizer "left out by option" 0
elif [ -z "$sanitizers" ]; then
  told sanitizer "compute-sanitizer is not installed" 0
else
  small='Card.*:CardOps.RowsOfAnyLength:CardOps.Indices:CardOps.Scans'
  # One of these tests asks for more memory than there is, which is an error of the API and none of ours.
  step memcheck 120 "${ours[@]}" "$sanitizers" --report-api-errors no --error-exitcode 1 "$built/bin/test_engine" \
    --gtest_filter='Card.*:CardOps.*' &
  step initcheck 120 "${ours[@]}" "$sanitizers" --tool initcheck --error-exitcode 1 "$built/bin/test_engine" --gtest_filter="$small" &
  race() { step "$1" 150 "${ours[@]}" "$sanitizers" --tool racecheck --error-exitcode 1 "$built/bin/test_$2" --gtest_filter="$3"; }
  outside='*EveryMechanismOnACard.WritesNothing*'
  race racecheck layers "$outside/softmax:$outside/performer:$outside/gaussian:$outside/skyformer:$outside/nystromformer" &
  race racecheck_bf16 autograd 'SoftmaxAttentionBf16.*WritesNothing*:*KernelAttentionBf16.*WritesNothing*:Bf16.*WriteNothing*' &
  slow='CardOps.RowsThatAWarpHolds:CardOps.OrderAndPlaces'
  race racecheck_rows engine "$slow" &
  race racecheck_ops engine "CardOps.*:-CardOps.*Products*:$slow" &  # cuBLAS's own kernels are said to race
fi
if [ -x "$built/bin/lra" ]; then
  step programs 150 "${ours[@]}" python3 tests/gpu/programs.py "$built/bin" --data "$data" --out "$out/programs.jsonl" &
else
  told programs "were not built" 0
fi
step whole_engine 120 "${ours[@]}" "$built/bin/test_engine" --gtest_filter='-*Card*:Nccl.*'
wait
# Nothing beside them: kernels of NCCL wait for those of other processes.
if [ $processes -eq 0 ]; then
  told processes "left out by option" 0
elif ! command -v mpirun > /dev/null; then
  told processes "mpirun is not installed" 0
else
  step processes 150 python3 tests/gpu/processes.py "$built/bin/lra" --libraries "$libraries" --out "$out/processes.jsonl"
fi
# Last, since its compiler may take all the time that is left; nothing beside it.
if [ $peer -eq 0 ]; then
  told peer "left out by option" 0
elif ! python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
  told peer "PyTorch with CUDA is not installed" 0
else
  step peer 200 python3 tests/gpu/peer.py --seconds $(($(left) - 30 < 170 ? $(left) - 30 : 170)) "$out/peer.jsonl"
fi

commit=$(cat "$built/COMMIT" 2> /dev/null || git rev-parse HEAD 2> /dev/null || echo unknown)
python3 tests/gpu/record.py "$out" "$commit" $(($(date +%s) - began)) || exit 1
(cd "$out" && tar -czf logs.tar.gz --remove-files ./*.log)
cat "$out/record.md"
! grep -qvP '\t(passed|left out by option)\t' "$steps"
