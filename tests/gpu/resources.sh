#!/usr/bin/env bash
# What the compiler says of each kernel: registers, spilled bytes, stack, shared memory, for each architecture named (75 and
# 90a unless told). Needs nvcc alone, no card. One line a kernel, sorted; kernels that spill or have a stack come first.
#
#   tests/gpu/resources.sh [75 90a ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
for arch in "${@:-75 90a}"; do
  for one in $arch; do
    for file in engine/cuda/*.cu engine/cuda/attention/*/*.cu; do
      "$nvcc" -std=c++20 -O3 -I. -DBOCHNER_CUDA -DFMT_USE_CONSTEXPR=1 --expt-relaxed-constexpr -arch="sm_$one" \
        -Xptxas -v -cubin -o /dev/null "$file" 2>&1 | c++filt | awk -v arch="sm_$one" -v file="${file#engine/cuda/}" '
        /Compiling entry function/ { name = $0; sub(/.*entry function ./, "", name); sub(/. for .*/, "", name) }
        /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
        /Used [0-9]+ registers/ {
          match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
          shared = 0; if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART, RLENGTH - 11)
          printf "%d %s %s registers %d stack %d spilled %d shared %d %s\n", (stack > 0 || stores > 0) ? 0 : 1, arch, file, registers, stack, stores + loads, shared, name
        }'
    done
  done
done | sort -k1,1n -k2,3 -k5,5nr | cut -d' ' -f2-
