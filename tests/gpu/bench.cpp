// The cases of the bars in docs/gpu/status.md, timed on a card: one JSON object per line, with the median of several
// runs.
//
//   gpu_bench [--only TEXT] [--once] [FILE]      also writes the lines to FILE
//
// --only leaves out the cases whose name does not contain TEXT; --once runs each of them once, for a profiler.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "engine/card.h"
#include "engine/ops/attention/kernel_attention.h"
#include "engine/ops/attention/softmax_attention.h"
#include "engine/ops/bias_activation.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/matmul.h"
#include "engine/ops/norm.h"
#include "engine/ops/optimizer_step.h"
#include "engine/precision.h"
#include "engine/random.h"

namespace bochner {
namespace {

void wait() { synchronize(Device::cuda()); }

FILE* file = nullptr;
std::string only;
bool once = false;

/// The median time of one call, over several rounds of as many calls as take 20 ms.
double milliseconds(const std::function<void()>& f) {
  const auto timed = [&](int calls) {
    wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) f();
    wait();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / calls;
  };
  if (once) return timed(1);
  timed(2);
  const int calls = std::clamp(static_cast<int>(20 / std::max(timed(1), 1e-3)), 1, 200);
  std::vector<double> rounds;
  for (int i = 0; i < 7; ++i) rounds.push_back(timed(calls));
  std::nth_element(rounds.begin(), rounds.begin() + 3, rounds.end());
  return rounds[3];
}

void report(const std::string& name, double ms, const std::string& more) {
  const std::string line = fmt::format(R"({{"case": "{}", "ms": {:.5f}{}}})", name, ms, more) + "\n";
  fmt::print("{}", line);
  if (file != nullptr) fmt::print(file, "{}", line);
}

bool left_out(const std::string& name) { return name.find(only) == std::string::npos; }

void bytes(const std::string& name, double moved, const std::function<void()>& f) {
  if (left_out(name)) return;
  const double ms = milliseconds(f);
  report(name, ms, fmt::format(R"(, "gb_per_s": {:.1f})", moved / ms / 1e6));
}

void flops(const std::string& name, double count, const std::function<void()>& f) {
  if (left_out(name)) return;
  const double ms = milliseconds(f);
  report(name, ms, fmt::format(R"(, "tflops": {:.2f})", count / ms / 1e9));
}

Tensor values(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  Generator generator(seed);
  return normal(shape, generator, 0, 1, DType::f32, Device::cuda()).cast(dtype);
}

void copy_like() {
  constexpr int64_t kRows = 1 << 17;
  constexpr int64_t kColumns = 1024;  // 512 MiB
  const Shape shape{kRows, kColumns};
  const double size = 4.0 * kRows * kColumns;
  const Tensor x = values(shape, 1);
  const Tensor y = values(shape, 2);
  const Tensor gamma = values({kColumns}, 3);
  const Tensor beta = values({kColumns}, 4);
  bytes("copy", 2 * size, [&] { y.copy_(x); });
  bytes("layer_norm", 2 * size, [&] { layer_norm(x, gamma, beta); });
  const NormResult normed = layer_norm(x, gamma, beta);
  bytes("layer_norm_backward", 3 * size, [&] { layer_norm_backward(y, x, gamma, normed.statistics); });
  const Dropout drop = Dropout::at(0.1, Generator(5));
  bytes("dropout", 2 * size, [&] { dropout(x, drop); });
  bytes("bias_gelu", 2 * size, [&] { bias_activation(x, beta, Activation::gelu); });
  bytes("bias_gelu_backward", 3 * size, [&] { bias_activation_backward(y, x, beta, Activation::gelu); });
  Generator generator(6);
  const Tensor labels = integers({kRows}, 0, kColumns, generator, Device::cuda());
  const Tensor one = Tensor::scalar(1, DType::f32, Device::cuda());
  const CrossEntropy loss = cross_entropy(x, labels);
  bytes("cross_entropy", size, [&] { cross_entropy(x, labels); });
  bytes("cross_entropy_backward", 2 * size, [&] { cross_entropy_backward(one, x, labels, loss.rest); });
  const std::vector<AdamTensors> adam = {{x, y, values(shape, 7), Tensor::full(shape, 1, DType::f32, Device::cuda())}};
  bytes("adamw", 7 * size, [&] { adam_step({1e-6, 0.9, 0.99, 1e-8, 0.1, true, 3}, adam); });
}

/// Sums in a fixed order, next to a copy of the bytes that any order must move: a bound that atomics could not beat.
void adjoints() {
  constexpr int64_t kEntries = 30522;  // BERT's
  constexpr int64_t kDim = 768;
  constexpr int64_t kPlaces = 1 << 17;
  const Tensor g = values({kPlaces, kDim}, 1);
  const double moved = 4.0 * kDim * (kPlaces + kEntries);
  const Tensor half = values({(kPlaces + kEntries) / 2, kDim}, 2);
  const Tensor other = Tensor::empty(half.shape(), DType::f32, Device::cuda());
  bytes("embedding_backward floor", moved, [&] { other.copy_(half); });
  Generator generator(3);
  const Tensor even = integers({kPlaces}, 0, kEntries, generator, Device::cuda());
  bytes("embedding_backward", moved, [&] { embedding_backward(g, even, kEntries); });
  // Half of all positions hold one word, like the most common word of a text, or padding that is not left out.
  const Tensor skewed = even.clone();
  skewed.slice(0, 0, kPlaces / 2).fill_(7);
  bytes("embedding_backward of a common word", moved, [&] { embedding_backward(g, skewed, kEntries); });
  const double size = 4.0 * kPlaces * kDim;
  bytes("column_sum", size, [&] { column_sum(g); });
}

void transforms() {
  for (const int64_t n : {64, 512, 1024, 4096, 8192}) {
    const int64_t rows = (int64_t{1} << 27) / n;
    const Tensor x = values({rows, n}, 1);
    bytes(fmt::format("hadamard {}", n), 8.0 * static_cast<double>(rows * n), [&] { hadamard(x); });
  }
}

void products() {
  for (const auto& [name, precision] :
       {std::pair("f32", Precision::f32), std::pair("tf32", Precision::tf32), std::pair("bf16", Precision::bf16)}) {
    set_precision(precision);
    const Tensor a = values({8192, 8192}, 1);
    const Tensor b = values({8192, 8192}, 2);
    flops(fmt::format("matmul 8192 {}", name), 2.0 * 8192 * 8192 * 8192, [&] { matmul(a, b); });
  }
  set_precision(Precision::f32);
}

/// In bf16, as under --precision=bf16, or in f32, the default.
void attentions(DType dtype, std::initializer_list<int64_t> lengths) {
  constexpr int64_t kHeads = 16;
  constexpr int64_t kDim = 64;
  const SoftmaxAttentionOptions options{0.125, false, {}};
  const std::string type = dtype == DType::bf16 ? "" : " f32";
  if (dtype == DType::bf16) set_precision(Precision::bf16);
  for (const int64_t length : lengths) {
    const int64_t batch = std::max<int64_t>(1, 16384 / length);
    const Shape shape{batch, kHeads, length, kDim};
    const Tensor Q = values(shape, 1, dtype);
    const Tensor K = values(shape, 2, dtype);
    const Tensor V = values(shape, 3, dtype);
    const Tensor dO = values(shape, 4, dtype);
    const double pairs = static_cast<double>(batch * kHeads * length * length) * kDim;
    flops(fmt::format("softmax attention {} forward{}", length, type), 4 * pairs,
          [&] { softmax_attention(Q, K, V, {}, options); });
    flops(fmt::format("softmax attention {}{}", length, type), 14 * pairs, [&] {
      const SoftmaxAttended y = softmax_attention(Q, K, V, {}, options);
      softmax_attention_backward(dO, Q, K, V, {}, y, options);
    });
    const Tensor Omega = values({1, 256, kDim}, 5);
    for (const bool causal : {false, true}) {
      KernelAttentionSpec spec;
      spec.scale = 0.35;
      spec.causal = causal;
      const double tokens = static_cast<double>(batch * kHeads * length) * kDim * 256;
      flops(fmt::format("kernel attention {}{}{}", length, causal ? " causal" : "", type), 24 * tokens, [&] {
        const KernelAttentionResult y = kernel_attention(spec, Q, K, V, Omega, {});
        kernel_attention_backward(spec, dO, Q, K, V, Omega, {}, y, false);
      });
    }
  }
  set_precision(Precision::f32);
}

}  // namespace
}  // namespace bochner

int main(int count, char** arguments) {
  using namespace bochner;  // NOLINT: a program
  try {
    Device::named("cuda");
    for (int i = 1; i < count; ++i) {
      const std::string word = arguments[i];
      if (word == "--once") {
        once = true;
      } else if (word == "--only" && i + 1 < count) {
        only = arguments[++i];
      } else {
        file = std::fopen(word.c_str(), "w");
      }
    }
    copy_like();
    adjoints();
    transforms();
    products();
    attentions(DType::bf16, {1024, 2048, 4096, 16384});
    attentions(DType::f32, {4096});
    if (file != nullptr) std::fclose(file);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
