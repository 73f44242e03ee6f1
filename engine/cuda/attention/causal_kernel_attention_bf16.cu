// Causal kernel attention on tensor cores. Tokens are taken in slabs of whole segments, whose states fit a bounded
// piece of memory. The kernels of causal_attention_tiles.h work on all tiles of a slab at once, and a pass of its own
// sums up the states between them. Backward walks the slabs from the last to the first, using the states that forward
// saved.
#include <optional>

#include "engine/cuda/attention/causal_attention_gradient_tiles.h"
#include "engine/cuda/attention/causal_attention_passes.h"
#include "engine/cuda/attention/kernel_attention_bf16.h"
#include "engine/cuda/attention/kernel_attention_call.h"

namespace bochner::cuda {
namespace {

using Call = KernelAttentionCall;

constexpr int64_t kSegmentTiles = kKernelAttentionSegment / kTile;
/// The most bytes that the states of a slab may take, except that a slab has at least one segment: few without a card,
/// so that tests have many slabs.
#if defined(__CUDACC__)
constexpr int64_t kSlabBytes = int64_t{64} << 20;
#else
constexpr int64_t kSlabBytes = int64_t{1} << 16;
#endif

/// Packed tokens of one side. Both sides have the length of the queries, since no query sees the keys after the last
/// query.
class Side {
 public:
  Side(const Call& call, const Tensor& x, const Tensor& mask, int64_t padded)
      : call_(call),
        tensor_(x),
        mask_tensor_(mask),
        mask_(mask),
        padded_(padded),
        x_(x, static_cast<float>(call.spec.scale), false, mask, nullptr, padded),
        norms_(count()),
        tops_(count()),
        less_(count()),
        weight_(count()),
        carry_(count()),
        last_(count()) {
    const AttentionSizes& sizes = call.sizes;
    if (!call.rule.exponent) return;
    launch_rows(count(), sizes.dim, TokenNorms{sizes.dim, call.rule.norm_factor, x_.data(), norms_});
    if (!call.exponential || !call.rule.shifts) return;
    with_case(sizes.dim, call.rule.kind,
              [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
                if constexpr (form == Form::positive || form == Form::hyperbolic) {
                  using Kernel = TokenTops<D, form>;
                  launch_blocks<kThreads>(count() / kTile, Kernel::kShared, Kernel{call.omega(), tokens(), tops_});
                }
              });
  }

  void add_values(const Tensor& y, bool transposed, const float* denominators = nullptr) {
    (transposed ? yt_ : y_).emplace(y, 1, transposed, mask_tensor_, denominators, padded_);
  }
  void add_transposed() {
    xt_.emplace(tensor_, static_cast<float>(call_.spec.scale), true, mask_tensor_, nullptr, padded_);
  }
  void set_scales(bool keys, const float* m, const float* r) {
    launch_threads(count(), CausalScales{call_.rule, call_.sizes.heads, length(), padded_, keys, mask_, norms_, tops_,
                                         m, r, less_, weight_, carry_, last_});
  }
  /// `last` of queries: G' without its last column is y.
  void set_last(const Tensor& O) {
    if (!call_.spec.renormalise) return last_.clear(count());
    launch_rows(count(), call_.sizes.dim,
                GradientOfDenominators{call_.sizes.heads, length(), padded_, call_.sizes.dim, y_->data(),
                                       StoredTokens(O), last_});
  }

  TokenSide tokens() const {
    const auto data = [](const std::optional<Packed>& packed) { return packed ? packed->data() : nullptr; };
    return {length(), padded_, x_.data(), data(xt_), data(y_), data(yt_), less_, weight_, last_};
  }
  CausalSide view(float eps, const float* flow = nullptr) const { return {tokens(), carry_, flow, eps}; }
  TileTops exponents(float* largest) const {
    return {call_.sizes.heads, length(), padded_, call_.exponential, mask_, norms_, tops_, largest};
  }
  int64_t count() const { return call_.sizes.jobs * padded_; }
  int64_t length() const { return tensor_.size(2); }
  const KeyMask& mask() const { return mask_; }

 private:
  const Call& call_;
  Tensor tensor_, mask_tensor_;
  KeyMask mask_;
  int64_t padded_;
  Packed x_;
  std::optional<Packed> y_, yt_, xt_;
  Floats norms_, tops_, less_, weight_, carry_, last_;
};

/// The largest exponent that each query sees, m, and the largest before each tile, r.
class Seen {
 public:
  Seen(const Call& call, const Side& keys)
      : tiles_(keys.count() / call.sizes.jobs / kTile), m_(keys.count()), r_(call.sizes.jobs * (tiles_ + 1)) {
    const int64_t jobs = call.sizes.jobs;
    if (!call.rule.shifts) {
      m_.clear(keys.count());
      r_.clear(jobs * (tiles_ + 1));
      return;
    }
    const Floats largest(jobs * tiles_);
    launch_threads(jobs * tiles_, keys.exponents(largest));
    launch_threads(jobs, TopsBefore{tiles_, largest, r_});
    launch_threads(jobs * tiles_, TopsSeen{keys.exponents(largest), r_, m_});
  }
  int64_t tiles() const { return tiles_; }
  const float* m() const { return m_; }
  const float* r() const { return r_; }

 private:
  int64_t tiles_;
  Floats m_, r_;
};

/// The states between the tiles of a slab, S or R, with the totals T or t, carried from one slab to the next.
class States {
 public:
  States(const Call& call, const Seen& seen, int64_t tiles, bool rows, bool columns, bool backward)
      : call_(call),
        seen_(seen),
        backward_(backward),
        has_rows_(rows),
        has_columns_(columns),
        parts_(call.parts()),
        size_(parts_ * call.sizes.frequencies * (call.sizes.dim + 1)),
        added_(call.sizes.jobs * tiles * size_),
        z_(call.sizes.jobs * tiles * parts_ * call.packed_frequencies),
        totals_(call.sizes.jobs * tiles * (call.sizes.dim + 1)),
        carried_(call.sizes.jobs * size_),
        carried_totals_(call.sizes.jobs * (call.sizes.dim + 1)),
        rows_(rows ? call.sizes.jobs * tiles * parts_ * call.packed_frequencies * call.sizes.dim : 1),
        columns_(columns ? call.sizes.jobs * tiles * parts_ * call.packed_frequencies * call.sizes.dim : 1) {
    carried_.clear(call.sizes.jobs * size_);
    carried_totals_.clear(call.sizes.jobs * (call.sizes.dim + 1));
  }

  /// The carried state becomes the one that forward saved before the slab.
  void load(const Tensor& state, const Slab& slab) {
    const int64_t width = call_.sizes.dim + 1;
    const LoadState own{size_, slab.first / kSegmentTiles, state.size(2), state.size(3), state.data<float>(), carried_};
    launch_threads(call_.sizes.jobs * size_, own);
    if (!call_.has_base()) return;
    const LoadState totals{
        width,          own.index, state.size(2), state.size(3), state.data<float>() + call_.sizes.features * width,
        carried_totals_};
    launch_threads(call_.sizes.jobs * width, totals);
  }
  /// From the tokens of a slab, with weights w of their totals; saves the states before segments where defined.
  template <int D, Form form>
  void sum(const CausalSide& side, const Slab& slab, const float* w, const Tensor& save = {}) {
    using Kernel = TileSums<D, form>;
    const int64_t jobs = call_.sizes.jobs;
    launch_blocks<kThreads>(jobs * slab.count, Kernel::kShared,
                            Kernel{{call_.rule}, call_.omega(), side, slab, added_});
    float* const saved = save.defined() ? save.data<float>() : nullptr;
    const int64_t segments = save.defined() ? save.size(2) : 0;
    const int64_t state = save.defined() ? save.size(3) : 0;
    launch_threads(jobs * parts_ * call_.packed_frequencies * (D + 1),
                   ScanTiles{call_.sizes.frequencies, call_.packed_frequencies, D, seen_.tiles(), parts_, slab,
                             backward_, seen_.r(), added_, carried_, saved, kSegmentTiles, segments, state,
                             has_rows_ ? static_cast<bfloat16*>(rows_) : nullptr,
                             has_columns_ ? static_cast<bfloat16*>(columns_) : nullptr, z_});
    if (!call_.has_base()) return;
    launch_threads(jobs * slab.count * (D + 1), TotalsOfTiles{D, side.tokens, slab, w, totals_});
    launch_threads(jobs * (D + 1),
                   ScanTotals{D + 1, slab, backward_, kSegmentTiles, segments, state, totals_, carried_totals_,
                              saved == nullptr ? nullptr : saved + call_.sizes.features * (D + 1)});
  }
  PackedSums view() const { return {rows_, columns_, z_, nullptr}; }
  const float* totals() const { return call_.has_base() ? static_cast<const float*>(totals_) : nullptr; }

 private:
  const Call& call_;
  const Seen& seen_;
  bool backward_, has_rows_, has_columns_;
  int parts_;
  int64_t size_;
  Floats added_, z_, totals_, carried_, carried_totals_;
  Rounded rows_, columns_;
};

/// The most tiles of a slab, in whole segments.
int64_t slab_tiles(const Call& call) {
  const int64_t state = call.sizes.jobs * call.sizes.features * (call.sizes.dim + 1) * int64_t{sizeof(float)};
  const int64_t all = ceil_div(call.sizes.queries, kTile);
  return std::min(all, std::max<int64_t>(1, kSlabBytes / (state * kSegmentTiles)) * kSegmentTiles);
}

Slab slab_at(const Call& call, int64_t first) {
  return {first, std::min(slab_tiles(call), ceil_div(call.sizes.queries, kTile) - first)};
}

/// The weights of each tile of a slab, A or its transpose, and w, the weights of the totals through eps and the
/// constant.
template <int D, Form form>
void weigh(const Call& call, const Seen& seen, const CausalSide& queries, const CausalSide& keys, const Slab& slab,
           bool transposed, bfloat16* A, float* w) {
  using Kernel = TileWeights<D, form>;
  launch_blocks<kThreads>(call.sizes.jobs * slab.count, Kernel::kShared,
                          Kernel{{call.rule},
                                 call.omega(),
                                 queries,
                                 keys,
                                 slab,
                                 call.eps,
                                 call.constant * call.constant,
                                 seen.m(),
                                 transposed,
                                 A,
                                 w});
}

Tensor seen_by_queries(const Call& call, const Tensor& x) {
  return x.slice(2, 0, std::min(call.sizes.keys, call.sizes.queries));
}

}  // namespace

void causal_kernel_attention_bf16(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                                  const Tensor& Omega, const Tensor& mask, const KernelAttentionResult& to) {
  const Call call(spec, Q, K, V, Omega);
  const AttentionSizes& sizes = call.sizes;
  const int64_t padded = padded_length(sizes.queries);
  const int64_t most = sizes.jobs * slab_tiles(call);
  Side queries(call, Q, {}, padded);
  Side keys(call, seen_by_queries(call, K), mask, padded);
  keys.add_values(seen_by_queries(call, V), true);
  const Seen seen(call, keys);
  queries.set_scales(false, seen.m(), seen.r());
  keys.set_scales(true, seen.m(), seen.r());
  States S(call, seen, slab_tiles(call), false, true, false);
  const Rounded A(most * kTile * kTile);
  const Floats w(queries.count());
  with_case(sizes.dim, spec.map.kind,
            [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
              for (int64_t first = 0; first * kTile < sizes.queries; first += slab_tiles(call)) {
                const Slab slab = slab_at(call, first);
                const int64_t blocks = sizes.jobs * slab.count;
                const CausalSide q = queries.view(call.eps);
                const CausalSide k = keys.view(0);
                S.sum<D, form>(k, slab, nullptr, to.state);
                weigh<D, form>(call, seen, q, k, slab, false, A, w);
                using Outputs = CausalOutputs<D, form>;
                launch_blocks<kThreads>(blocks, Outputs::kShared,
                                        Outputs{{call.rule},
                                                call.omega(),
                                                q,
                                                k,
                                                slab,
                                                S.view(),
                                                A,
                                                S.totals(),
                                                w,
                                                queries.mask(),
                                                static_cast<float>(spec.denominator_eps),
                                                spec.renormalise ? to.denominator.data<float>() : nullptr,
                                                StoredTokens(to.O)});
              }
            });
}

void causal_kernel_attention_backward_bf16(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q,
                                           const Tensor& K, const Tensor& V, const Tensor& Omega, const Tensor& mask,
                                           const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const Call call(spec, Q, K, V, Omega);
  const AttentionSizes& sizes = call.sizes;
  const int64_t padded = padded_length(sizes.queries);
  const int64_t tiles = slab_tiles(call);
  const bool wants_omega = to.dOmega.defined();
  const float* denominators = spec.renormalise ? forward.denominator.data<float>() : nullptr;
  Side queries(call, Q, {}, padded);
  queries.add_values(dO, false, denominators);
  queries.add_values(dO, true, denominators);
  Side keys(call, seen_by_queries(call, K), mask, padded);
  keys.add_values(seen_by_queries(call, V), false);
  keys.add_values(seen_by_queries(call, V), true);
  if (wants_omega) {
    queries.add_transposed();
    keys.add_transposed();
  }
  const Seen seen(call, keys);
  queries.set_scales(false, seen.m(), seen.r());
  keys.set_scales(true, seen.m(), seen.r());
  queries.set_last(forward.O);
  if (sizes.keys > sizes.queries) {
    to.dK.slice(2, sizes.queries, sizes.keys).fill_(0);
    to.dV.slice(2, sizes.queries, sizes.keys).fill_(0);
  }
  States S(call, seen, tiles, true, false, false);
  States R(call, seen, tiles, true, true, true);
  const int64_t matrices = sizes.jobs * tiles * kTile * kTile;
  const Rounded At(matrices);
  const Rounded matrix(matrices);
  const Rounded transposed(matrices);
  const Floats w(queries.count());
  const Floats flows(queries.count());
  const int64_t frequency_blocks = call.packed_frequencies / kTile;
  const int64_t splits = std::clamp<int64_t>(kBlocks / (sizes.jobs * frequency_blocks), 1, tiles);
  const int64_t omega_size = sizes.frequencies * sizes.dim;
  const int64_t parts_size = wants_omega ? splits * sizes.jobs * omega_size : 1;
  const Floats parts(parts_size);
  parts.clear(parts_size);
  with_case(
      sizes.dim, spec.map.kind,
      [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
        const auto gradients = [&](const CausalSide& own, const CausalSide& other, const Slab& slab, const States& sums,
                                   const bfloat16* within, const KeyMask& own_mask, const Tensor& dx) {
          using OfTokens = CausalGradientOfTokens<D, form>;
          launch_blocks<kThreads>(sizes.jobs * slab.count, OfTokens::kShared,
                                  OfTokens{{call.rule},
                                           call.omega(),
                                           own,
                                           other,
                                           slab,
                                           sums.view(),
                                           within,
                                           own_mask,
                                           static_cast<float>(spec.scale),
                                           StoredTokens(dx)});
          if (!wants_omega) return;
          using OfOmega = CausalGradientOfOmega<D, form>;
          launch_blocks<kThreads>(splits * sizes.jobs * frequency_blocks, OfOmega::kShared,
                                  OfOmega{{call.rule},
                                          call.omega(),
                                          own,
                                          other,
                                          slab,
                                          sums.view(),
                                          within,
                                          sizes.jobs,
                                          ceil_div(slab.count, splits),
                                          parts});
        };
        for (int64_t first = (sizes.queries - 1) / kTile / tiles * tiles; first >= 0; first -= tiles) {
          const Slab slab = slab_at(call, first);
          const int64_t blocks = sizes.jobs * slab.count;
          const CausalSide q = queries.view(call.eps, call.eps != 0 ? static_cast<const float*>(flows) : nullptr);
          const CausalSide k = keys.view(0);
          S.load(forward.state, slab);
          S.sum<D, form>(k, slab, nullptr);
          weigh<D, form>(call, seen, q, k, slab, true, At, w);
          using Matrices = TileGradients<D>;
          launch_blocks<kThreads>(blocks, Matrices::kShared, Matrices{q, k, slab, seen.m(), matrix, transposed, flows});
          if (call.eps != 0) {
            launch_rows(blocks * kTile, D + 1, FinishFlows{D, call.eps, q.tokens, slab, S.totals(), flows});
          }
          gradients(q, k, slab, S, matrix, queries.mask(), to.dQ);
          R.sum<D, form>(q, slab, w);
          using Outputs = CausalOutputs<D, form>;
          launch_blocks<kThreads>(blocks, Outputs::kShared,
                                  Outputs{{call.rule},
                                          call.omega(),
                                          k,
                                          q,
                                          slab,
                                          R.view(),
                                          At,
                                          R.totals(),
                                          nullptr,
                                          keys.mask(),
                                          0,
                                          nullptr,
                                          StoredTokens(to.dV)});
          gradients(k, q, slab, R, transposed, keys.mask(), to.dK);
        }
      });
  if (!wants_omega) return;
  launch_threads(to.dOmega.size(), FinishOmega{omega_size, sizes.batch, sizes.heads, splits, to.dOmega.size(0) == 1,
                                               parts, to.dOmega.data<float>()});
}

}  // namespace bochner::cuda
