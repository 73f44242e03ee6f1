// Bidirectional kernel attention on tensor cores: runs the kernels of token_kernels.h and frequency_kernels.h in order.
// With phi + eps for a map's features, and its constant s as one more feature,
//
//   S'_f = sum_j phi_f(k_j) v'_j + eps sum_j v'_j,    O'_i = sum_f phi_f(q_i) S'_f + [eps sum_f S'_f + s S'_last]
//
// and likewise backward. The part in brackets, the base, is computed once per head. Tokens in bf16 are read in place.
// The shift of keys is known before any of their features is computed, that of queries is found by the kernels that
// need it, and backward recomputes equal features.
#include "engine/cuda/attention/kernel/attention_bf16.h"

#include "engine/cuda/attention/kernel/call.h"
#include "engine/cuda/attention/kernel/frequency_kernels.h"
#include "engine/cuda/attention/kernel/token_kernels.h"
#include "engine/precision.h"

namespace bochner::cuda {
namespace {

using Call = KernelAttentionCall;

/// x itself, or a contiguous copy of it.
Tensor whole(const Tensor& x) {
  if (is_whole(x)) return x;
  Tensor copy = Tensor::empty(x.shape(), DType::bf16, x.device());
  copy.copy_(x);
  return copy;
}

/// The tokens of one side, and the numbers kept for each.
class Side {
 public:
  Side(const Call& call, const Tensor& x, const Tensor& y, const Tensor& mask, bool queries)
      : x_(whole(x)),
        y_(whole(y)),
        padded_(padded_length(x.size(2))),
        less_(call.sizes.jobs * padded_),
        factor_(queries ? call.sizes.jobs * padded_ : 1),
        last_(queries ? call.sizes.jobs * padded_ : 1),
        view_{call.sizes.heads,
              x.size(2),
              padded_,
              Tokens<const bfloat16>(x_),
              Tokens<const bfloat16>(y_),
              KeyMask(mask),
              less_,
              queries ? static_cast<float*>(factor_) : nullptr,
              queries ? static_cast<float*>(last_) : nullptr,
              nullptr,
              0} {}

  /// With the shift that will not be part of `less`: for keys.
  TokenRows shifted_by(const Call& call, const float* shift) const {
    TokenRows view = view_;
    view.shift = call.rule.shifts ? shift : nullptr;
    view.shift_stride = call.state_stride;
    return view;
  }
  const TokenRows& view() const { return view_; }
  int64_t blocks(const Call& call) const { return call.sizes.jobs * (padded_ / kBlockRows); }

 private:
  Tensor x_, y_;
  int64_t padded_;
  Floats less_, factor_, last_;
  TokenRows view_;
};

/// How a sum over tokens is split: into about as many blocks as fill a card once, so that few parts are written.
struct Splits {
  static constexpr int64_t kBlocksAtOnce = 384;
  int64_t blocks;  ///< of one split
  int64_t count, tokens_each;

  Splits(const Call& call, int64_t length)
      : blocks(call.sizes.jobs * ceil_div(call.packed_frequencies, int64_t{kBlockRows})),
        count(std::clamp<int64_t>(kBlocksAtOnce / blocks, 1, std::max<int64_t>(ceil_div(length, kTile), 1))),
        tokens_each(ceil_div(ceil_div(length, kTile), count) * kTile) {}
};

/// S' or dS' as outputs and gradients read it.
template <int D>
class ReadSums {
 public:
  explicit ReadSums(const Call& call)
      : rows_count_(call.sizes.jobs * call.parts() * call.packed_frequencies),
        rows_(rows_count_ * D),
        z_(rows_count_),
        base_(call.sizes.jobs * (D + 1)),
        finish_{call.sizes.features,
                call.sizes.frequencies,
                call.packed_frequencies,
                call.sizes.jobs,
                1,
                call.parts(),
                0,
                0,
                0,
                0,
                nullptr,
                nullptr,
                nullptr,
                rows_,
                z_} {
    if (call.packed_frequencies == call.sizes.frequencies) return;
    rows_.clear(rows_count_ * D);
    z_.clear(rows_count_);
  }

  /// From sums whose jobs are `stride` apart.
  void read(const float* sums, int64_t stride) {
    FinishSums<D> finish = finish_;
    finish.from_stride = stride;
    finish.parts = sums;
    launch_blocks<FinishSums<D>::kThreads>(finish.blocks(), 0, finish);
  }
  /// From parts of the sums, which become `sums`, jobs `stride` apart, and the totals of y', null without a base.
  void finish(const Call& call, int64_t splits, const float* parts, const float* totals, float* sums, int64_t stride) {
    FinishSums<D> finish = finish_;
    finish.splits = splits;
    finish.from_stride = call.sizes.features * (D + 1);
    finish.stride = stride;
    finish.eps = call.eps;
    finish.constant = call.constant;
    finish.parts = parts;
    finish.totals = totals;
    finish.sums = sums;
    launch_blocks<FinishSums<D>::kThreads>(finish.blocks(), 0, finish);
    if (totals == nullptr) return;
    launch_blocks<Base<D>::kThreads>(call.sizes.jobs, Base<D>::kShared,
                                     Base<D>{call.sizes.features, stride, call.eps, call.constant, sums, base_});
    has_base_ = true;
  }
  PackedSums view() const { return {rows_, z_, has_base_ ? static_cast<const float*>(base_) : nullptr}; }

 private:
  int64_t rows_count_;
  Rounded rows_;
  Floats z_, base_;
  FinishSums<D> finish_;
  bool has_base_ = false;
};

/// S' of keys or dS' of queries, also written to `sums`, jobs `stride` apart.
template <int D, Form form>
void sum_over_tokens(const Call& call, const Phi<form>& phi, const TokenRows& tokens, float* sums, int64_t stride,
                     ReadSums<D>& to) {
  using Kernel = SumsOverTokens<D, form>;
  const AttentionSizes& sizes = call.sizes;
  const Splits splits(call, tokens.length);
  const Floats parts(splits.count * sizes.jobs * sizes.features * (D + 1));
  const Floats room(splits.count * sizes.jobs * (D + 1));
  float* const totals = call.has_base() ? static_cast<float*>(room) : nullptr;
  launch_blocks<Kernel::kThreads>(
      splits.count * splits.blocks, Kernel::kShared,
      Kernel{phi, call.omega(), tokens, sizes.jobs, sizes.features, splits.tokens_each, parts, totals});
  to.finish(call, splits.count, parts, totals, sums, stride);
}

template <int D, Form form>
void gradient_of_omega(const Call& call, const Phi<form>& phi, const TokenRows& tokens, const PackedSums& sums,
                       float* parts) {
  using Kernel = GradientOfOmega<D, form>;
  const Splits splits(call, tokens.length);
  launch_blocks<Kernel::kThreads>(splits.count * splits.blocks, Kernel::kShared,
                                  Kernel{phi, call.omega(), tokens, sums, call.sizes.jobs, splits.tokens_each, parts});
}

template <int D, Form form>
void attend(const Call& call, const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& mask,
            const KernelAttentionResult& to) {
  const KernelAttentionSpec& spec = call.spec;
  const Phi<form> phi{call.rule, static_cast<float>(spec.scale)};
  auto* const state = to.state.data<float>();
  float* const shift = state + call.sizes.features * (D + 1);
  ReadSums<D> sums(call);
  {
    using Kernel = KeyExponents<D, form>;
    const Side keys(call, K, V, mask, false);
    const Floats largest(keys.blocks(call));
    launch_blocks<Kernel::kThreads>(keys.blocks(call), Kernel::kShared,
                                    Kernel{phi, call.omega(), keys.view(), largest});
    if (call.rule.shifts) {
      const int64_t each = keys.view().padded / kBlockRows;
      launch_rows(call.sizes.jobs, each, KeyShift{each, largest, call.state_stride, shift});
    }
    sum_over_tokens<D, form>(call, phi, keys.shifted_by(call, shift), state, call.state_stride, sums);
  }
  using Kernel = OutputsOfQueries<D, form>;
  const Side queries(call, Q, Q, {}, false);
  launch_blocks<Kernel::kThreads>(
      queries.blocks(call), Kernel::kShared,
      Kernel{phi, call.omega(), queries.view(), sums.view(), static_cast<float>(spec.denominator_eps),
             spec.renormalise ? to.denominator.data<float>() : nullptr, output(to.O)});
}

template <int D, Form form>
void attend_backward(const Call& call, const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                     const Tensor& mask, const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const KernelAttentionSpec& spec = call.spec;
  const AttentionSizes& sizes = call.sizes;
  const Phi<form> phi{call.rule, static_cast<float>(spec.scale)};
  auto* const state = forward.state.data<float>();
  const int64_t stride = sizes.features * (D + 1);
  const bool wants_omega = to.dOmega.defined();
  const Splits of_queries(call, sizes.queries);
  const int64_t splits = of_queries.count + Splits(call, sizes.keys).count;
  const int64_t omega_size = sizes.frequencies * sizes.dim;
  const Floats parts(wants_omega ? splits * sizes.jobs * omega_size : 1);
  const Floats dS(call.has_base() ? sizes.jobs * stride : 1);
  ReadSums<D> gradients(call);
  {
    using Kernel = GradientsOfTokens<D, form, false>;
    const Side queries(call, Q, dO, {}, true);
    const Tensor O = spec.renormalise ? whole(forward.O) : Tensor();
    ReadSums<D> sums(call);
    sums.read(state, call.state_stride);
    launch_blocks<Kernel::kThreads>(
        queries.blocks(call), Kernel::kShared,
        Kernel{phi, call.omega(), queries.view(), sums.view(),
               spec.renormalise ? forward.denominator.data<float>() : nullptr,
               O.defined() ? Tokens<const bfloat16>(O) : queries.view().x, output(to.dQ), output(to.dQ)});
    if (wants_omega) gradient_of_omega<D, form>(call, phi, queries.view(), sums.view(), parts);
    sum_over_tokens<D, form>(call, phi, queries.view(), call.has_base() ? static_cast<float*>(dS) : nullptr, stride,
                             gradients);
  }
  using Kernel = GradientsOfTokens<D, form, true>;
  const Side keys(call, K, V, mask, false);
  const TokenRows shifted = keys.shifted_by(call, state + stride);
  launch_blocks<Kernel::kThreads>(
      keys.blocks(call), Kernel::kShared,
      Kernel{phi, call.omega(), shifted, gradients.view(), nullptr, shifted.x, output(to.dK), output(to.dV)});
  if (!wants_omega) return;
  gradient_of_omega<D, form>(call, phi, keys.view(), gradients.view(),
                             parts + of_queries.count * sizes.jobs * omega_size);
  launch_threads(to.dOmega.size(), FinishOmega{omega_size, sizes.batch, sizes.heads, splits, to.dOmega.size(0) == 1,
                                               parts, to.dOmega.data<float>()});
}

}  // namespace

bool kernel_attends_in_bf16(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& V) {
  const bool fits = Q.size(3) == V.size(3) && (Q.size(3) == 32 || Q.size(3) == 64);
  if (spec.causal && (Q.size(2) == 0 || V.size(2) == 0)) return false;
  // These kernels add one eps to all features after the shift.
  if (spec.shifts() && spec.map.absolute_eps && spec.map.eps > 0) return false;
  const bool may = Q.dtype() == DType::bf16 || (Q.dtype() == DType::f32 && precision() == Precision::bf16);
  return may && fits && platform::has_bf16();
}

void kernel_attention_bf16(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to) {
  const Call call(spec, Q, K, V, Omega);
  with_case(Q.size(3), spec.map.kind,
            [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
              attend<D, form>(call, Q, K, V, keys, to);
            });
}

void kernel_attention_backward_bf16(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K,
                                    const Tensor& V, const Tensor& Omega, const Tensor& keys,
                                    const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const Call call(spec, Q, K, V, Omega);
  with_case(Q.size(3), spec.map.kind,
            [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
              attend_backward<D, form>(call, dO, Q, K, V, keys, forward, to);
            });
}

}  // namespace bochner::cuda
