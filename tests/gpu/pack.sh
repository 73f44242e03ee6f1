#!/usr/bin/env bash
# Binaries of tests/gpu/all.sh for a machine that has a card but no libraries to build with: OUT/bin, OUT/lib with the shared
# libraries that such a machine may lack (all but the C library, the compiler's and CUDA's big ones), OUT/COMMIT. Built for any
# CPU with AVX2, and for the cards named (90 unless told); and all of it as OUT.tar.xz. There:  tests/gpu/all.sh --built OUT
#
#   tests/gpu/pack.sh OUT [ARCHITECTURES]
set -euo pipefail
[ $# -ge 1 ] || { echo "pack.sh: where to? See the head of this file" >&2; exit 2; }
out=$(realpath -m "$1")
cd "$(dirname "$0")/../.."
cmake -G Ninja -B build-pack -DBOCHNER_CUDA=ON -DBOCHNER_ARCH=x86-64-v3 -DCMAKE_CUDA_ARCHITECTURES="${2:-90}" \
  -DBOCHNER_EXPERIMENTS=ON -DBOCHNER_BENCHMARKS=OFF
programs=(test_engine test_autograd test_layers gpu_bench gpu_training
  data lra sparsity turing uci mnist qpnn siren approximation efficiency glue vit pretrain bert)
cmake --build build-pack --target "${programs[@]}"
mkdir -p "$out/bin" "$out/lib"
for program in "${programs[@]}"; do
  cp "build-pack/bin/$program" "$out/bin/"
  strip "$out/bin/$program"
  ldd "$out/bin/$program" | awk '$3 ~ /^\// { print $3 }'
done | sort -u | grep -vE '/(ld-linux[^/]*|lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s|cublas|cublasLt))\.so' | while read -r library; do
  cp -L "$library" "$out/lib/"
done
git rev-parse HEAD > "$out/COMMIT"
# The programs hold the same kernels: a window as large as all of them keeps one copy.
tar -C "$(dirname "$out")" -c "$(basename "$out")" | xz -5 --lzma2=preset=5,dict=512MiB > "$out.tar.xz"
du -sh "$out" "$out.tar.xz"
