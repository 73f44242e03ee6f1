// The kernels that take most of a step's time, in GFLOP/s and as a fraction of the measured limit of the cores'
// multiply-add units.
//
//   kernels [FILTER] [--seconds S] [--threads N] [--cpu-time]
//
// FILTER is part of a case's name, and only matching cases run. Transforms that wait for memory are measured in GB/s
// and against a copy; a FastFood feature map counts the operations of the dense map that it replaces. --cpu-time runs
// one thread and counts its processor time: for machines that also run other programs. Floating-point operations are
// those of the matrix products: softmax 4 L D forward and 14 L D with backward per token and head (half of it if
// causal), kernel attention 8 M D and 24 M D (backward recomputes the features).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "engine/cpu/attention/feature_tile.h"
#include "engine/cpu/parts/blas.h"
#include "engine/cpu/parts/limits.h"
#include "engine/ops/attention/kernel_attention.h"
#include "engine/ops/attention/softmax_attention.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/linear.h"
#include "engine/ops/matmul.h"
#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner {
namespace {

clockid_t clock_in_use = CLOCK_MONOTONIC;

double now() {
  timespec time{};
  clock_gettime(clock_in_use, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The limit of the threads in use, in GFLOP/s.
double peak_in_use() { return cpu::multiply_add_peak() * 1e-9; }

struct Timing {
  double best, median;
};

Timing measure(double seconds, const std::function<void()>& run) {
  run();
  std::vector<double> times;
  for (const double start = now(); times.size() < 5 || now() - start < seconds;) {
    const double begin = now();
    run();
    times.push_back(now() - begin);
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

/// Measures and prints the cases that match a filter.
class Bench {
 public:
  Bench(std::string filter, double seconds) : filter_(std::move(filter)), seconds_(seconds) {}

  /// Whether the filter can match a case whose name begins with `shape`.
  bool wants(const std::string& shape) const {
    return filter_.starts_with(shape) || (shape + " forward + backward").find(filter_) != std::string::npos;
  }
  void run(const std::string& name, double flops, const std::function<void()>& body) const {
    report(name, flops, "GFLOP/s", peak_in_use, body);
  }
  void run_memory(const std::string& name, double bytes, const std::function<void()>& body) const {
    report(
        name, bytes, "GB/s", [] { return cpu::copy_bandwidth() * 1e-9; }, body);
  }

 private:
  void report(const std::string& name, double amount, const char* unit, double (*limit_of)(),
              const std::function<void()>& body) const {
    if (name.find(filter_) == std::string::npos) return;
    const double before = limit_of();
    const Timing time = measure(seconds_, body);
    const double limit = std::max(before, limit_of());
    fmt::print("{:<60} {:8.2f} ms (median {:8.2f})  {:6.1f} {}  {:4.1f} % of {:.0f}\n", name, 1e3 * time.best,
               1e3 * time.median, amount / time.best * 1e-9, unit, amount / time.best * 1e-7 / limit, limit);
    std::fflush(stdout);
  }

  std::string filter_;
  double seconds_;
};

/// C (b, m, n) = A B, through OpenBLAS in tiles; `transposed`: A is given as its transpose, as for a weight gradient.
void add_matmul(const Bench& bench, int64_t b, int64_t m, int64_t n, int64_t k, bool transposed = false) {
  const std::string name = fmt::format("matmul{} {} x ({} x {} x {})", transposed ? "-transposed" : "", b, m, n, k);
  if (!bench.wants(name)) return;
  Generator generator(1);
  const Tensor A = transposed ? normal({b, k, m}, generator).transpose(1, 2) : normal({b, m, k}, generator);
  const Tensor B = normal({b, k, n}, generator);
  bench.run(name, 2.0 * static_cast<double>(b * m) * static_cast<double>(n * k), [=] { matmul(A, B); });
}

/// A linear layer with its norm: an example of tall, thin products in a model.
void add_linear_layer(const Bench& bench, int64_t rows, int64_t inputs, int64_t outputs) {
  const std::string shape = fmt::format("linear {} x {} -> {}", rows, inputs, outputs);
  if (!bench.wants(shape)) return;
  Generator generator(1);
  const Tensor x = normal({rows, inputs}, generator);
  const Tensor g = normal({rows, outputs}, generator);
  const LinearWeights weights{normal({outputs, inputs}, generator), Tensor::zeros({outputs}), Tensor::full({inputs}, 1),
                              Tensor::zeros({inputs})};
  const double unit = 2.0 * static_cast<double>(rows * inputs) * static_cast<double>(outputs);
  bench.run(shape + " forward", unit, [=] { linear(x, weights); });
  const LinearResult made = linear(x, weights);
  bench.run(shape + " backward", 2 * unit, [=] { linear_backward(g, x, made, weights); });
}

/// Views (B, H, L, D) of a joint projection (B, L, 3, H, D).
std::vector<Tensor> joint(int64_t b, int64_t h, int64_t l, int64_t d) {
  Generator generator(1);
  const Tensor qkv = normal({b, l, 3, h, d}, generator);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 3; ++i) parts.push_back(qkv.select(2, i).transpose(1, 2));
  return parts;
}

void add_softmax(const Bench& bench, int64_t b, int64_t h, int64_t l, int64_t d, bool causal) {
  const std::string shape = fmt::format("softmax{} B{} H{} L{} D{}", causal ? "-causal" : "", b, h, l, d);
  if (!bench.wants(shape)) return;
  const auto qkv = joint(b, h, l, d);
  SoftmaxAttentionOptions options;
  options.scale = 1 / std::sqrt(static_cast<double>(d));
  options.causal = causal;
  const double unit = static_cast<double>(b * h * l) * static_cast<double>(l * d) * (causal ? 0.5 : 1);
  bench.run(shape + " forward", 4 * unit, [=] { softmax_attention(qkv[0], qkv[1], qkv[2], {}, options); });
  bench.run(shape + " forward + backward", 14 * unit, [=] {
    const auto result = softmax_attention(qkv[0], qkv[1], qkv[2], {}, options);
    softmax_attention_backward(result.O, qkv[0], qkv[1], qkv[2], {}, result, options);
  });
}

void add_kernel(const Bench& bench, int64_t b, int64_t h, int64_t l, int64_t d, int64_t m, bool learns_omega) {
  const std::string shape =
      fmt::format("performer{} M{} B{} H{} L{} D{}", learns_omega ? "-dOmega" : "", m, b, h, l, d);
  if (!bench.wants(shape)) return;
  const auto qkv = joint(b, h, l, d);
  Generator generator(2);
  const Tensor Omega = normal({h, m, d}, generator);
  KernelAttentionSpec spec;
  spec.scale = std::pow(static_cast<double>(d), -0.25);
  const double unit = static_cast<double>(b * h * l) * static_cast<double>(m * d);
  if (!learns_omega) {
    bench.run(shape + " forward", 8 * unit, [=] { kernel_attention(spec, qkv[0], qkv[1], qkv[2], Omega, {}); });
  }
  bench.run(shape + " forward + backward", (learns_omega ? 28 : 24) * unit, [=] {
    const auto result = kernel_attention(spec, qkv[0], qkv[1], qkv[2], Omega, {});
    kernel_attention_backward(spec, result.O, qkv[0], qkv[1], qkv[2], Omega, {}, result, learns_omega);
  });
}

/// Features phi(x) = elu(x) + 1 of the inputs themselves.
void add_linear(const Bench& bench, int64_t b, int64_t h, int64_t l, int64_t d) {
  const std::string shape = fmt::format("linear-elu B{} H{} L{} D{}", b, h, l, d);
  if (!bench.wants(shape)) return;
  const auto qkv = joint(b, h, l, d);
  KernelAttentionSpec spec;
  spec.map = {.kind = FeatureMap::Kind::elementwise, .function = FeatureMap::Function::elu_plus_one, .eps = 0};
  const double unit = static_cast<double>(b * h * l) * static_cast<double>(d * d);
  bench.run(shape + " forward", 4 * unit, [=] { kernel_attention(spec, qkv[0], qkv[1], qkv[2], {}, {}); });
  bench.run(shape + " forward + backward", 12 * unit, [=] {
    const auto result = kernel_attention(spec, qkv[0], qkv[1], qkv[2], {}, {});
    kernel_attention_backward(spec, result.O, qkv[0], qkv[1], qkv[2], {}, {}, result, false);
  });
}

/// Causal, from given features (of size m) of queries and keys, with half of each chunk's weights wasted.
void add_causal(const Bench& bench, int64_t heads, int64_t l, int64_t d, int64_t m) {
  const std::string shape = fmt::format("causal-features {} x {} d{} m{}", heads, l, d, m);
  if (!bench.wants(shape)) return;
  Generator generator(3);
  const Tensor q = uniform({heads, 1, l, m}, generator);
  const Tensor k = uniform({heads, 1, l, m}, generator);
  const Tensor v = normal({heads, 1, l, d}, generator);
  KernelAttentionSpec spec;
  spec.map = {.kind = FeatureMap::Kind::elementwise, .function = FeatureMap::Function::identity, .eps = 0};
  spec.causal = true;
  spec.denominator_eps = 1e-6;
  const double unit = static_cast<double>(heads * l) * static_cast<double>(4 * m * d + 64 * (m + d));
  bench.run(shape + " forward", unit, [=] { kernel_attention(spec, q, k, v, {}, {}); });
  bench.run(shape + " forward + backward", 3 * unit, [=] {
    const auto result = kernel_attention(spec, q, k, v, {}, {});
    kernel_attention_backward(spec, result.O, q, k, v, {}, {}, result, false);
  });
}

/// In place, as FastFood and structured rotations use the transform.
void add_hadamard(const Bench& bench, int64_t rows, int64_t n) {
  const std::string name = fmt::format("hadamard {} x {} in place", rows, n);
  if (!bench.wants(name)) return;
  const Tensor x = Tensor::zeros({rows, n});  // stays finite however often it is transformed
  bench.run_memory(name, 2.0 * static_cast<double>(rows * n * 4), [=] { hadamard_(x); });
}

/// u = Omega x for tiles of tokens, by a dense Omega and by FastFood.
void add_maps(const Bench& bench, int64_t tokens, int64_t d, int64_t m) {
  const std::string shape = fmt::format("map L{} D{} M{}", tokens, d, m);
  if (!bench.wants(shape)) return;
  Generator generator(4);
  const Tensor x = normal({tokens, d}, generator);
  const Tensor Omega = normal({m, d}, generator);
  const Tensor diagonals = normal({m / d * 3, d}, generator);
  std::vector<int64_t> order(static_cast<size_t>(m));
  for (size_t i = 0; i < order.size(); ++i) order[i] = (static_cast<int64_t>(i) * 5 + 3) % d;  // 5 and d are coprime
  const FeatureMap map;
  const auto run = [&](const std::string& name, const auto& make_tile) {
    bench.run(shape + name, 2.0 * static_cast<double>(tokens * m) * static_cast<double>(d), [&] {
      parallel_for(tokens, 512, [&](int64_t begin, int64_t end) {
        auto tile = make_tile();
        for (int64_t i = begin; i < end; i += cpu::kTile) {
          tile.project({x.data<float>(), d}, {nullptr, tokens}, i, std::min(cpu::kTile, end - i));
        }
      });
    });
  };
  run(" dense", [&] { return cpu::FeatureTile<float>(map, Omega.data<float>(), m, d, 1, true, cpu::Sides::none); });
  const cpu::FastFood<float> fastfood{diagonals.data<float>(), order.data(), m / d, d};
  run(" fastfood", [&] { return cpu::FeatureTile<float>(map, fastfood, m, d, 1, true, cpu::Sides::none); });
}

int main(int argc, char** argv) {
  std::string filter;
  double seconds = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seconds" && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (word == "--threads" && i + 1 < argc) {
      set_threads(std::atoi(argv[++i]));
    } else if (word == "--cpu-time") {
      clock_in_use = CLOCK_PROCESS_CPUTIME_ID;
      set_threads(1);
    } else {
      filter = word;
    }
  }
  const Bench bench(filter, seconds);
  fmt::print("{} threads, OpenBLAS core {}\n", threads(), cpu::blas_core());
  add_matmul(bench, 1, 1024, 1024, 1024);
  add_matmul(bench, 1, 64000, 512, 512);
  add_matmul(bench, 1, 1024, 512, 512);
  add_matmul(bench, 1, 64000, 64, 64);
  add_matmul(bench, 1, 64, 64, 64000, true);
  add_linear_layer(bench, 64000, 64, 64);
  add_linear_layer(bench, 16000, 256, 768);
  add_softmax(bench, 16, 2, 1024, 32, false);
  add_softmax(bench, 4, 4, 4000, 64, false);
  add_softmax(bench, 8, 1, 4096, 64, true);
  for (const int64_t m : {128, 256}) {
    add_kernel(bench, 16, 2, 1024, 32, m, false);
    add_kernel(bench, 4, 4, 4000, 64, m, false);
  }
  add_kernel(bench, 4, 4, 4000, 64, 128, true);
  add_linear(bench, 16, 2, 1024, 32);
  add_causal(bench, 8, 4096, 64, 128);
  add_hadamard(bench, 65536, 512);
  add_maps(bench, 4096, 512, 512);
  return 0;
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) { return bochner::main(argc, argv); }
