// A call of kernel attention on tensor cores, bidirectional or causal, on the host: sizes, the parts of the map that
// are not features, packed frequencies, and which instance of each kernel to run.
#pragma once

#include <algorithm>

#include "engine/cuda/attention/kernel/parts.h"
#include "engine/cuda/attention/kernel/passes.h"
#include "engine/cuda/attention/kernel/tiles.h"

namespace bochner::cuda {

using Floats = DeviceBuffer<float>;
using Rounded = DeviceBuffer<bfloat16>;

/// body(integral constants: the head size, the form)
template <class Body>
void with_case(int64_t dim, FeatureMap::Kind kind, const Body& body) {
  const auto with_form = [&]<int D>(std::integral_constant<int, D> d) {
    switch (kind) {
      case FeatureMap::Kind::positive:
        return body(d, std::integral_constant<Form, Form::positive>{});
      case FeatureMap::Kind::hyperbolic:
        return body(d, std::integral_constant<Form, Form::hyperbolic>{});
      case FeatureMap::Kind::trigonometric:
      case FeatureMap::Kind::softmax_trigonometric:
        return body(d, std::integral_constant<Form, Form::trigonometric>{});
      case FeatureMap::Kind::elementwise:
        return body(d, std::integral_constant<Form, Form::elementwise>{});
    }
  };
  dim == 32 ? with_form(std::integral_constant<int, 32>{}) : with_form(std::integral_constant<int, 64>{});
}

/// Whether rows of bf16 can be read and written 16 bytes at a time.
inline bool is_whole(const Tensor& x) {
  const auto eights = [&](int axis) { return x.strides()[axis] % 8 == 0; };
  return x.dtype() == DType::bf16 && reinterpret_cast<uintptr_t>(x.raw()) % sizeof(Eight) == 0 && eights(0) &&
         eights(1) && eights(2);
}

inline OutputTokens output(const Tensor& x) { return {StoredTokens(x), is_whole(x)}; }

/// The constants of a call, and values that follow from them.
class KernelAttentionCall {
 public:
  KernelAttentionCall(const KernelAttentionSpec& given, const Tensor& Q, const Tensor& K, const Tensor& V,
                      const Tensor& Omega)
      : spec(given),
        sizes(given, Q, K, V, Omega),
        rule(given, sizes.frequencies),
        exponential(rule.kind == FeatureMap::Kind::positive || rule.kind == FeatureMap::Kind::hyperbolic),
        eps(static_cast<float>(exponential || rule.kind == FeatureMap::Kind::elementwise ? given.map.eps : 0)),
        constant(static_cast<float>(given.map.constant)),
        packed_frequencies(round_up(sizes.frequencies, kTile)),
        state_stride(kernel_attention_state_size(sizes.features, sizes.dim)),
        heads_of_omega_(Omega.defined() ? Omega.size(0) : 1),
        rows_(heads_of_omega_ * packed_frequencies * sizes.dim) {
    launch_threads(heads_of_omega_ * packed_frequencies * sizes.dim,
                   PackOmega{sizes.frequencies, packed_frequencies, sizes.dim,
                             Omega.defined() ? Omega.data<float>() : nullptr, rows_});
  }

  PackedFrequencies omega() const {
    return {sizes.heads, sizes.frequencies, packed_frequencies, heads_of_omega_ == 1, rows_};
  }
  bool has_base() const { return eps != 0 || constant != 0; }
  /// Features per frequency.
  int parts() const { return static_cast<int>((sizes.features - (constant != 0 ? 1 : 0)) / sizes.frequencies); }

  const KernelAttentionSpec& spec;
  const AttentionSizes sizes;
  const FeatureRule<float> rule;
  const bool exponential;  ///< whether features are exponentials of u
  const float eps, constant;
  const int64_t packed_frequencies;
  const int64_t state_stride;  ///< between the states of two jobs

 private:
  int64_t heads_of_omega_;
  Rounded rows_;
};

}  // namespace bochner::cuda
