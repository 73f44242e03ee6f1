// The kernels that a step's time goes into, as GFLOP/s and as a share of what the cores' multiply-add units can do,
// measured beside them.
//
//   kernels [FILTER] [--seconds S] [--threads N] [--cpu-time]
//
// FILTER is a part of a case's name. --cpu-time runs one thread and counts its processor time: for machines that other
// programs use meanwhile. Floating-point operations are those of the matrix products: softmax 4 L D forward and 14 L D
// with backward for each token and head (half of it if causal), kernel attention 8 M D and 24 M D (backward computes
// the features again).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "engine/cpu/blas.h"
#include "engine/cpu/limits.h"
#include "engine/ops/kernel_attention.h"
#include "engine/ops/linear.h"
#include "engine/ops/matmul.h"
#include "engine/ops/softmax_attention.h"
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

/// GFLOP/s that the threads could do at most.
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

struct Case {
  std::string name;
  double flops;
  std::function<void()> run;
};

/// C (b, m, n) = A B, through OpenBLAS in tiles; `transposed`: A is given as its transpose, as for a weight gradient.
void add_matmul(std::vector<Case>& cases, int64_t b, int64_t m, int64_t n, int64_t k, bool transposed = false) {
  Generator generator(1);
  const Tensor A = transposed ? normal({b, k, m}, generator).transpose(1, 2) : normal({b, m, k}, generator);
  const Tensor B = normal({b, k, n}, generator);
  cases.push_back({fmt::format("matmul{} {} x ({} x {} x {})", transposed ? "-transposed" : "", b, m, n, k),
                   2.0 * static_cast<double>(b * m) * static_cast<double>(n * k), [=] { matmul(A, B); }});
}

/// A linear layer with its norm: what stands for tall, thin products in a model.
void add_linear_layer(std::vector<Case>& cases, int64_t rows, int64_t inputs, int64_t outputs) {
  Generator generator(1);
  const Tensor x = normal({rows, inputs}, generator);
  const Tensor g = normal({rows, outputs}, generator);
  const LinearWeights weights{Tensor::full({inputs}, 1), Tensor::zeros({inputs}), normal({outputs, inputs}, generator),
                              Tensor::zeros({outputs})};
  const double unit = 2.0 * static_cast<double>(rows * inputs) * static_cast<double>(outputs);
  const std::string shape = fmt::format("linear {} x {} -> {}", rows, inputs, outputs);
  cases.push_back({shape + " forward", unit, [=] { linear(x, weights); }});
  const LinearResult made = linear(x, weights);
  cases.push_back({shape + " backward", 2 * unit, [=] { linear_backward(g, x, made.mean, made.rstd, weights); }});
}

/// Views (B, H, L, D) of a joint projection (B, L, 3, H, D).
std::vector<Tensor> joint(int64_t b, int64_t h, int64_t l, int64_t d) {
  Generator generator(1);
  const Tensor qkv = normal({b, l, 3, h, d}, generator);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 3; ++i) parts.push_back(qkv.select(2, i).transpose(1, 2));
  return parts;
}

void add_softmax(std::vector<Case>& cases, int64_t b, int64_t h, int64_t l, int64_t d, bool causal) {
  const auto qkv = joint(b, h, l, d);
  SoftmaxAttentionOptions options;
  options.scale = 1 / std::sqrt(static_cast<double>(d));
  options.causal = causal;
  const double unit = static_cast<double>(b * h * l) * static_cast<double>(l * d) * (causal ? 0.5 : 1);
  const std::string shape = fmt::format("softmax{} B{} H{} L{} D{}", causal ? "-causal" : "", b, h, l, d);
  cases.push_back({shape + " forward", 4 * unit, [=] { softmax_attention(qkv[0], qkv[1], qkv[2], {}, options); }});
  const auto grads = joint(b, h, l, d);
  const auto attended = softmax_attention(qkv[0], qkv[1], qkv[2], {}, options);
  cases.push_back({shape + " forward + backward", 14 * unit, [=] {
                     const auto result = softmax_attention(qkv[0], qkv[1], qkv[2], {}, options);
                     softmax_attention_backward(result.O, qkv[0], qkv[1], qkv[2], {}, result, options,
                                                {grads[0], grads[1], grads[2]});
                   }});
}

void add_kernel(std::vector<Case>& cases, int64_t b, int64_t h, int64_t l, int64_t d, int64_t m, bool learns_omega) {
  const auto qkv = joint(b, h, l, d);
  Generator generator(2);
  const Tensor Omega = normal({h, m, d}, generator);
  KernelAttentionSpec spec;
  spec.scale = std::pow(static_cast<double>(d), -0.25);
  const double unit = static_cast<double>(b * h * l) * static_cast<double>(m * d);
  const std::string shape =
      fmt::format("performer{} M{} B{} H{} L{} D{}", learns_omega ? "-dOmega" : "", m, b, h, l, d);
  if (!learns_omega) {
    cases.push_back({shape + " forward", 8 * unit, [=] { kernel_attention(spec, qkv[0], qkv[1], qkv[2], Omega, {}); }});
  }
  cases.push_back({shape + " forward + backward", (learns_omega ? 28 : 24) * unit, [=] {
                     const auto result = kernel_attention(spec, qkv[0], qkv[1], qkv[2], Omega, {});
                     kernel_attention_backward(spec, result.O, qkv[0], qkv[1], qkv[2], Omega, {}, result, learns_omega);
                   }});
}

/// Features phi(x) = elu(x) + 1 of the inputs themselves.
void add_linear(std::vector<Case>& cases, int64_t b, int64_t h, int64_t l, int64_t d) {
  const auto qkv = joint(b, h, l, d);
  KernelAttentionSpec spec;
  spec.map = {.kind = FeatureMap::Kind::elementwise, .function = FeatureMap::Function::elu_plus_one, .eps = 0};
  const double unit = static_cast<double>(b * h * l) * static_cast<double>(d * d);
  const std::string shape = fmt::format("linear-elu B{} H{} L{} D{}", b, h, l, d);
  cases.push_back({shape + " forward", 4 * unit, [=] { kernel_attention(spec, qkv[0], qkv[1], qkv[2], {}, {}); }});
  cases.push_back({shape + " forward + backward", 12 * unit, [=] {
                     const auto result = kernel_attention(spec, qkv[0], qkv[1], qkv[2], {}, {});
                     kernel_attention_backward(spec, result.O, qkv[0], qkv[1], qkv[2], {}, {}, result, false);
                   }});
}

/// Causal, from given features (of size m) of queries and keys, with half of each chunk's weights wasted.
void add_causal(std::vector<Case>& cases, int64_t heads, int64_t l, int64_t d, int64_t m) {
  Generator generator(3);
  const Tensor q = uniform({heads, 1, l, m}, generator);
  const Tensor k = uniform({heads, 1, l, m}, generator);
  const Tensor v = normal({heads, 1, l, d}, generator);
  KernelAttentionSpec spec;
  spec.map = {.kind = FeatureMap::Kind::elementwise, .function = FeatureMap::Function::identity, .eps = 0};
  spec.causal = true;
  spec.denominator_eps = 1e-6;
  const double unit = static_cast<double>(heads * l) * static_cast<double>(4 * m * d + 64 * (m + d));
  const std::string shape = fmt::format("causal-features {} x {} d{} m{}", heads, l, d, m);
  cases.push_back({shape + " forward", unit, [=] { kernel_attention(spec, q, k, v, {}, {}); }});
  cases.push_back({shape + " forward + backward", 3 * unit, [=] {
                     const auto result = kernel_attention(spec, q, k, v, {}, {});
                     kernel_attention_backward(spec, result.O, q, k, v, {}, {}, result, false);
                   }});
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
  std::vector<Case> cases;
  add_matmul(cases, 1, 1024, 1024, 1024);
  add_matmul(cases, 1, 64000, 512, 512);
  add_matmul(cases, 1, 1024, 512, 512);
  add_matmul(cases, 1, 64000, 64, 64);
  add_matmul(cases, 1, 64, 64, 64000, true);
  add_linear_layer(cases, 64000, 64, 64);
  add_linear_layer(cases, 16000, 256, 768);
  add_softmax(cases, 16, 2, 1024, 32, false);
  add_softmax(cases, 4, 4, 4000, 64, false);
  add_softmax(cases, 8, 1, 4096, 64, true);
  for (const int64_t m : {128, 256}) {
    add_kernel(cases, 16, 2, 1024, 32, m, false);
    add_kernel(cases, 4, 4, 4000, 64, m, false);
  }
  add_kernel(cases, 4, 4, 4000, 64, 128, true);
  add_linear(cases, 16, 2, 1024, 32);
  add_causal(cases, 8, 4096, 64, 128);
  fmt::print("{} threads, OpenBLAS core {}\n", threads(), cpu::blas_core());
  for (const Case& one : cases) {
    if (one.name.find(filter) == std::string::npos) continue;
    const double before = peak_in_use();
    const Timing time = measure(seconds, one.run);
    const double peak = std::max(before, peak_in_use());
    fmt::print("{:<60} {:8.2f} ms (median {:8.2f})  {:6.1f} GFLOP/s  {:4.1f} % of {:.0f}\n", one.name, 1e3 * time.best,
               1e3 * time.median, one.flops / time.best * 1e-9, one.flops / time.best * 1e-7 / peak, peak);
  }
  return 0;
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) { return bochner::main(argc, argv); }
