// Bidirectional kernel attention on tensor cores: packs tokens, frequencies and sums for the kernels of
// kernel_attention_tiles.h, and runs them in order. With phi + eps for a map's features, and its constant s as one
// more,
//
//   S'_f = sum_j phi_f(k_j) v'_j + eps sum_j v'_j,    O'_i = sum_f phi_f(q_i) S'_f + [eps sum_f S'_f + s S'_last]
//
// and likewise backward. The part in brackets, the base, is computed once for a head. Exponents are computed first, so
// that the shifts of queries and keys are known before any feature is made, and backward makes equal features.
#include "engine/cuda/attention/kernel_attention_bf16.h"

#include <optional>

#include "engine/cuda/attention/kernel_attention_call.h"
#include "engine/cuda/attention/kernel_attention_gradient_tiles.h"
#include "engine/precision.h"

namespace bochner::cuda {
namespace {

using Call = KernelAttentionCall;

/// Packed tokens of one side, with their values or gradients, and how their features are scaled.
class Side {
 public:
  /// For keys, `shift` is not null: it is found, or, `backward`, read, with call.state_stride from job to job.
  Side(const Call& call, const Tensor& x, const Tensor& mask, float* shift, bool backward)
      : mask_(mask),
        x_(x, static_cast<float>(call.spec.scale), false, mask),
        length_(x.size(2)),
        padded_(padded_length(length_)),
        less_(call.sizes.jobs * padded_),
        weight_(call.sizes.jobs * padded_),
        last_(call.sizes.jobs * padded_) {
    const bool keys = shift != nullptr;
    const int64_t count = call.sizes.jobs * padded_;
    const Floats norms(count);
    const Floats tops(count);
    if (call.rule.exponent) {
      launch_rows(count, call.sizes.dim, TokenNorms{call.sizes.dim, call.rule.norm_factor, x_.data(), norms});
    }
    if (call.exponential && call.rule.shifts && !(keys && backward)) {
      with_case(call.sizes.dim, call.rule.kind,
                [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
                  if constexpr (form == Form::positive || form == Form::hyperbolic) {
                    using Kernel = TokenTops<D, form>;
                    launch_blocks<kThreads>(count / kTile, Kernel::kShared, Kernel{call.omega(), view(), tops});
                  }
                });
    }
    if (keys && !backward && call.rule.shifts) {
      launch_rows(
          call.sizes.jobs, length_,
          KeyShift{call.sizes.heads, length_, padded_, call.exponential, mask_, norms, tops, call.state_stride, shift});
    }
    launch_threads(count, TokenScales{call.rule, call.sizes.heads, length_, padded_, keys, mask_, norms, tops, shift,
                                      call.state_stride, less_, weight_, last_});
  }

  /// Only some products need each of these.
  void add_values(const Tensor& y, const Tensor& mask, const float* denominators = nullptr) {
    y_.emplace(y, 1, false, mask, denominators);
  }
  void add_transposed_values(const Tensor& y, const Tensor& mask, const float* denominators = nullptr) {
    yt_.emplace(y, 1, true, mask, denominators);
  }
  void add_transposed(const Call& call, const Tensor& x, const Tensor& mask) {
    xt_.emplace(x, static_cast<float>(call.spec.scale), true, mask);
  }

  TokenSide view() const {
    const auto data = [](const std::optional<Packed>& packed) { return packed ? packed->data() : nullptr; };
    return {length_, padded_, x_.data(), data(xt_), data(y_), data(yt_), less_, weight_, last_};
  }
  /// `last` of queries: G' without its last column is y.
  void set_last(const Call& call, const Tensor& O) {
    const int64_t count = call.sizes.jobs * padded_;
    if (!call.spec.renormalise) return last_.clear(count);
    launch_rows(
        count, call.sizes.dim,
        GradientOfDenominators{call.sizes.heads, length_, padded_, call.sizes.dim, y_->data(), StoredTokens(O), last_});
  }
  int64_t blocks(const Call& call) const { return call.sizes.jobs * (padded_ / kTile); }
  const KeyMask& mask() const { return mask_; }

 private:
  KeyMask mask_;
  Packed x_;
  std::optional<Packed> y_, xt_, yt_;
  int64_t length_, padded_;
  Floats less_, weight_, last_;
};

/// S' or dS' as outputs and gradients read it.
class ReadSums {
 public:
  ReadSums(const Call& call, const float* sums, int64_t stride)
      : parts_(call.rule.kind == FeatureMap::Kind::positive || call.rule.kind == FeatureMap::Kind::elementwise ? 1 : 2),
        z_(call.sizes.jobs * parts_ * call.packed_frequencies),
        base_(call.sizes.jobs * (call.sizes.dim + 1)),
        rows_(call.sizes.jobs * parts_ * call.packed_frequencies * call.sizes.dim),
        columns_(call.sizes.jobs * parts_ * call.packed_frequencies * call.sizes.dim),
        has_base_(call.has_base()) {
    launch_threads(call.sizes.jobs * parts_ * call.packed_frequencies,
                   PackSums{call.sizes.frequencies, call.packed_frequencies, call.sizes.dim, stride, parts_, sums,
                            rows_, columns_, z_});
    if (!has_base_) return;
    launch_threads(call.sizes.jobs * (call.sizes.dim + 1),
                   Base{call.sizes.features, call.sizes.dim, stride, call.eps, call.constant, sums, base_});
  }
  PackedSums view() const { return {rows_, columns_, z_, has_base_ ? static_cast<const float*>(base_) : nullptr}; }

 private:
  int parts_;
  Floats z_, base_;
  Rounded rows_, columns_;
  bool has_base_;
};

/// S' of keys or dS' of queries; jobs of `sums` are `stride` apart.
template <int D, Form form>
void sum_over_tokens(const Call& call, const Side& side, float* sums, int64_t stride) {
  using Kernel = SumsOverTokens<D, form>;
  const AttentionSizes& sizes = call.sizes;
  const TokenSide tokens = side.view();
  const int64_t splits = call.splits(tokens.length);
  const Floats parts(splits * sizes.jobs * sizes.features * (D + 1));
  launch_blocks<kThreads>(
      splits * sizes.jobs * (call.packed_frequencies / kTile), Kernel::kShared,
      Kernel{{call.rule}, call.omega(), tokens, sizes.jobs, sizes.features, call.tokens_each(tokens.length), parts});
  const Floats totals(sizes.jobs * (D + 1));
  if (call.has_base()) {
    launch_rows(sizes.jobs * (D + 1), tokens.padded, Totals{tokens.padded, D, tokens.yt, tokens.last, totals});
  }
  launch_threads(sizes.jobs * sizes.features * (D + 1),
                 FinishSums{sizes.features, D, sizes.jobs, splits, stride, call.eps, call.constant, parts,
                            call.has_base() ? static_cast<float*>(totals) : nullptr, sums});
}

template <int D, Form form>
void outputs_of_tokens(const Call& call, const Side& side, const ReadSums& sums, float* denominators,
                       const Tensor& to) {
  using Kernel = OutputsOfTokens<D, form>;
  launch_blocks<kThreads>(side.blocks(call), Kernel::kShared,
                          Kernel{{call.rule},
                                 call.omega(),
                                 side.view(),
                                 sums.view(),
                                 side.mask(),
                                 static_cast<float>(call.spec.denominator_eps),
                                 denominators,
                                 StoredTokens(to)});
}

template <int D, Form form>
void gradient_of_tokens(const Call& call, const Side& side, const ReadSums& sums, const Tensor& to) {
  using Kernel = GradientOfTokens<D, form>;
  launch_blocks<kThreads>(side.blocks(call), Kernel::kShared,
                          Kernel{{call.rule},
                                 call.omega(),
                                 side.view(),
                                 sums.view(),
                                 side.mask(),
                                 static_cast<float>(call.spec.scale),
                                 StoredTokens(to)});
}

template <int D, Form form>
void gradient_of_omega(const Call& call, const Side& side, const ReadSums& sums, float* parts) {
  using Kernel = GradientOfOmega<D, form>;
  const TokenSide tokens = side.view();
  launch_blocks<kThreads>(
      call.splits(tokens.length) * call.sizes.jobs * (call.packed_frequencies / kTile), Kernel::kShared,
      Kernel{{call.rule}, call.omega(), tokens, sums.view(), call.sizes.jobs, call.tokens_each(tokens.length), parts});
}

}  // namespace

bool kernel_attends_in_bf16(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& V) {
  const bool fits = Q.size(3) == V.size(3) && (Q.size(3) == 32 || Q.size(3) == 64);
  if (spec.causal && (Q.size(2) == 0 || V.size(2) == 0)) return false;
  // These kernels add one eps to all features behind the shift.
  if (spec.shifts() && spec.map.absolute_eps && spec.map.eps > 0) return false;
  const bool may = Q.dtype() == DType::bf16 || (Q.dtype() == DType::f32 && precision() == Precision::bf16);
  return may && fits && platform::has_bf16();
}

void kernel_attention_bf16(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to) {
  const Call call(spec, Q, K, V, Omega);
  auto* const state = to.state.data<float>();
  with_case(Q.size(3), spec.map.kind,
            [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
              {
                Side side(call, K, keys, state + call.sizes.features * (D + 1), false);
                side.add_transposed_values(V, keys);
                sum_over_tokens<D, form>(call, side, state, call.state_stride);
              }
              const ReadSums sums(call, state, call.state_stride);
              const Side side(call, Q, {}, nullptr, false);
              outputs_of_tokens<D, form>(call, side, sums, spec.renormalise ? to.denominator.data<float>() : nullptr,
                                         to.O);
            });
}

void kernel_attention_backward_bf16(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K,
                                    const Tensor& V, const Tensor& Omega, const Tensor& keys,
                                    const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const Call call(spec, Q, K, V, Omega);
  const AttentionSizes& sizes = call.sizes;
  auto* const state = forward.state.data<float>();
  const int64_t stride = sizes.features * (sizes.dim + 1);
  const Floats dS(sizes.jobs * stride);
  const int64_t query_splits = call.splits(sizes.queries);
  const int64_t splits = query_splits + call.splits(sizes.keys);
  const int64_t omega_size = sizes.frequencies * sizes.dim;
  const Floats parts(to.dOmega.defined() ? splits * sizes.jobs * omega_size : 1);
  with_case(Q.size(3), spec.map.kind,
            [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
              {
                const float* denominators = spec.renormalise ? forward.denominator.data<float>() : nullptr;
                Side side(call, Q, {}, nullptr, true);
                side.add_values(dO, {}, denominators);
                side.add_transposed_values(dO, {}, denominators);
                if (to.dOmega.defined()) side.add_transposed(call, Q, {});
                side.set_last(call, forward.O);
                const ReadSums sums(call, state, call.state_stride);
                sum_over_tokens<D, form>(call, side, dS, stride);
                gradient_of_tokens<D, form>(call, side, sums, to.dQ);
                if (to.dOmega.defined()) gradient_of_omega<D, form>(call, side, sums, parts);
              }
              Side side(call, K, keys, state + stride, true);
              side.add_values(V, keys);
              if (to.dOmega.defined()) side.add_transposed(call, K, keys);
              const ReadSums sums(call, dS, stride);
              outputs_of_tokens<D, form>(call, side, sums, nullptr, to.dV);
              gradient_of_tokens<D, form>(call, side, sums, to.dK);
              if (to.dOmega.defined())
                gradient_of_omega<D, form>(call, side, sums, parts + query_splits * sizes.jobs * omega_size);
            });
  if (!to.dOmega.defined()) return;
  launch_threads(to.dOmega.size(), FinishOmega{omega_size, sizes.batch, sizes.heads, splits, to.dOmega.size(0) == 1,
                                               parts, to.dOmega.data<float>()});
}

}  // namespace bochner::cuda
