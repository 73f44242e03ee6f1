// Causal kernel attention on tensor cores. Tokens are processed in slabs of whole segments, whose states fit a bounded
// piece of memory. The kernels of causal_tiles.h work on all tiles of a slab at once; the state with which each tile
// begins is computed before (causal_states.h). Backward walks the slabs from the last to the first, using the states
// that forward saved. With 256 features and heads of 64, a tile of 64 tokens has 32 KiB of state, four times the size
// of its queries: states are written and read once in forward, S and R once each in backward, and nothing else of that
// size.
#include "engine/cuda/attention/kernel/attention_bf16.h"
#include "engine/cuda/attention/kernel/call.h"
#include "engine/cuda/attention/kernel/causal_gradient_tiles.h"
#include "engine/cuda/attention/kernel/causal_passes.h"
#include "engine/cuda/attention/kernel/causal_states.h"

namespace bochner::cuda {
namespace {

using Call = KernelAttentionCall;

template <Form form>
Phi<form> phi(const Call& call) {
  return {call.rule, static_cast<float>(call.spec.scale)};
}

/// The most blocks for one sum over tokens: enough to fill a card several times.
constexpr int64_t kBlocks = 1024;
constexpr int64_t kSegmentTiles = kKernelAttentionSegment / kTile;
/// The number of blocks that walk at once, where there are fewer than half as many in one piece: four per
/// multiprocessor of a large card. More pieces would not make up for the walk over their sums.
constexpr int64_t kWalks = 512;
/// The most bytes that the states of a slab may take, except that a slab has at least one segment. It is small without
/// a card, so that tests have many slabs.
#if defined(__CUDACC__)
constexpr int64_t kSlabBytes = int64_t{160} << 20;
constexpr int64_t kLeastTiles = 8;  // of a walk
#else
constexpr int64_t kSlabBytes = int64_t{1} << 16;
constexpr int64_t kLeastTiles = 2;
#endif

/// x in whole tiles: x itself if it already has whole tiles, otherwise packed.
class WholeRows {
 public:
  WholeRows(const Tensor& x, const Tensor& mask, int64_t padded) : tensor_(x) {
    const bool whole = is_whole(x);
    if (whole && x.size(2) == padded && !mask.defined()) return;
    tensor_ = Tensor::empty({x.size(0), x.size(1), padded, x.size(3)}, DType::bf16, x.device());
    launch_threads(tensor_.size() / 8, PackEights{x.size(1), x.size(2), padded, x.size(3), StoredTokens(x), whole,
                                                  KeyMask(mask), tensor_.data<bfloat16>()});
  }
  HeadRows view() const { return {tensor_.size(1), Tokens<const bfloat16>(tensor_)}; }

 private:
  Tensor tensor_;
};

/// The tokens of one side. Both sides have the length of the queries, since no query sees the keys after the last
/// query.
class Side {
 public:
  Side(const Call& call, const Tensor& x, const Tensor& y, const Tensor& mask, int64_t padded)
      : call_(call),
        mask_(mask),
        length_(x.size(2)),
        padded_(padded),
        x_(x, mask, padded),
        y_(y, mask, padded),
        norms_(count()),
        less_(count()),
        weight_(count()),
        carry_(count()),
        last_(count()) {}

  TokenSide tokens() const { return {length_, padded_, x_.view(), y_.view(), less_, weight_, last_}; }
  CausalSide view(float eps, const float* flow = nullptr) const { return {tokens(), carry_, flow, eps}; }
  float* last() const { return last_; }
  SideNumbers numbers() const { return {norms_, less_, weight_, carry_, last_}; }
  float* norms() const { return norms_; }
  int64_t count() const { return call_.sizes.jobs * padded_; }
  int64_t length() const { return length_; }
  const KeyMask& mask() const { return mask_; }

 private:
  const Call& call_;
  KeyMask mask_;
  int64_t length_, padded_;
  WholeRows x_, y_;
  Floats norms_, less_, weight_, carry_, last_;
};

/// The largest exponent that each query sees, m, and the largest before each tile, r. Finds the numbers of both sides.
class Seen {
 public:
  /// With the denominators of queries in backward, if queries are divided by them.
  Seen(const Call& call, const Side& queries, const Side& keys, const float* denominators)
      : tiles_(keys.count() / call.sizes.jobs / kTile),
        m_(keys.count()),
        factor_(keys.count()),
        r_(call.sizes.jobs * (tiles_ + 1)) {
    const int64_t blocks = call.sizes.jobs * tiles_;
    const Floats tops(keys.count());
    const Floats exponents(keys.count());
    const Floats largest(blocks);
    if (call.rule.exponent) {
      const auto scale = static_cast<float>(call.spec.scale);
      with_case(call.sizes.dim, call.rule.kind,
                [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
                  using Kernel = TokenExponents<D, form>;
                  launch_blocks<kThreads>(blocks, Kernel::kShared,
                                          Kernel{call.omega(), queries.tokens(), keys.tokens(), keys.mask(), scale,
                                                 call.rule.norm_factor * scale * scale, call.rule.shifts,
                                                 queries.norms(), tops, keys.norms(), exponents, largest});
                });
    }
    launch_blocks<kTile>(
        blocks, CausalShifts::kShared,
        CausalShifts{call.rule, call.sizes.heads, tiles_ * kTile, queries.length(), keys.length(), keys.mask(), tops,
                     exponents, largest, queries.numbers(), keys.numbers(), denominators, m_, r_, factor_});
  }
  int64_t tiles() const { return tiles_; }
  const float* m() const { return m_; }
  const float* r() const { return r_; }
  /// What the gradients of outputs are multiplied by.
  const float* factor() const { return factor_; }

 private:
  int64_t tiles_;
  Floats m_, factor_, r_;
};

/// The states between the tiles of a slab, S or R, with the totals T or t.
class States {
 public:
  States(const Call& call, const Seen& seen, int64_t tiles, bool backward)
      : call_(call),
        seen_(seen),
        backward_(backward),
        size_((call.sizes.features + 1) * (call.sizes.dim + 1)),
        most_(ceil_div(tiles, kLeastTiles)),
        z_(call.sizes.jobs * tiles * call.parts() * call.packed_frequencies),
        totals_(call.sizes.jobs * tiles * (call.sizes.dim + 1)),
        carried_(call.sizes.jobs * size_),
        starts_(call.sizes.jobs * most_ * size_),
        rows_(call.sizes.jobs * tiles * call.parts() * call.packed_frequencies * call.sizes.dim) {}

  /// From the tokens of a slab, with weights w of their totals, and the slab before it; saves the states before
  /// segments if defined.
  template <int D, Form form>
  void sum(const CausalSide& side, const Slab& slab, const float* w, const Tensor& save = {}) {
    auto kernel = walk<D, form>(side, slab);
    kernel.w = w;
    kernel.saved = saved(save);
    const SavedStates carried{carried_, size_, size_};
    const bool before = slab.first > 0;
    const bool after = slab.first + slab.count < ceil_div(call_.sizes.queries, kTile);
    if (backward_ ? after : before) kernel.starts = carried;
    if (backward_ ? before : after) kernel.ends = carried;
    Walk& way = kernel.walk;
    const int64_t longest = ceil_div(slab.count, kLeastTiles);
    const int64_t pieces = 2 * kernel.blocks() < kWalks ? kWalks / kernel.blocks() : 1;
    way.each = ceil_div(slab.count, std::min(pieces, longest));
    way.segments = ceil_div(slab.count, way.each);
    if (way.segments > 1) {
      const SavedStates begun = kernel.starts;
      kernel.starts = SavedStates{starts_, most_ * size_, size_};
      kernel.sums = true;
      launch_blocks<kThreads>((way.segments - 1) * kernel.blocks(), kernel.kShared, kernel);
      kernel.sums = false;
      const int64_t sums = call_.parts() * call_.sizes.frequencies * (D + 1);
      const int64_t elements = sums + (call_.has_base() ? D + 1 : 0);
      launch_threads(call_.sizes.jobs * elements,
                     ScanSegments{way, sums, kernel.totals_at, elements, begun, kernel.starts});
    }
    launch_blocks<kThreads>(way.segments * kernel.blocks(), kernel.kShared, kernel);
  }
  /// The same from the states that forward saved before each segment.
  template <int D, Form form>
  void load(const CausalSide& side, const Slab& slab, const Tensor& state) {
    auto kernel = walk<D, form>(side, slab);
    kernel.walk.each = kSegmentTiles;
    kernel.walk.segments = ceil_div(slab.count, kSegmentTiles);
    kernel.starts = saved(state);
    kernel.starts.data += slab.first / kSegmentTiles * kernel.starts.stride;
    launch_blocks<kThreads>(kernel.walk.segments * kernel.blocks(), kernel.kShared, kernel);
  }
  PackedSums view() const { return {rows_, z_, nullptr}; }
  const float* totals() const { return call_.has_base() ? static_cast<const float*>(totals_) : nullptr; }

 private:
  static SavedStates saved(const Tensor& state) {
    if (!state.defined()) return {};
    return {state.data<float>(), state.size(2) * state.size(3), state.size(3)};
  }
  template <int D, Form form>
  WalkStates<D, form> walk(const CausalSide& side, const Slab& slab) {
    const Walk way{slab, backward_, slab.count, 1, call_.sizes.jobs, seen_.tiles(), seen_.r()};
    return {phi<form>(call_),
            call_.omega(),
            side,
            way,
            false,
            call_.sizes.features * (D + 1),
            {},
            {},
            {},
            kSegmentTiles,
            rows_,
            z_,
            call_.has_base() ? static_cast<float*>(totals_) : nullptr,
            nullptr};
  }

  const Call& call_;
  const Seen& seen_;
  bool backward_;
  int64_t size_, most_;  ///< of a state in f32; segments of a slab
  Floats z_, totals_, carried_, starts_;
  Rounded rows_;
};

/// The most tiles of a slab, in whole segments.
int64_t slab_tiles(const Call& call) {
  const int64_t state =
      call.sizes.jobs * call.parts() * call.packed_frequencies * call.sizes.dim * int64_t{sizeof(bfloat16)};
  const int64_t all = ceil_div(call.sizes.queries, kTile);
  return std::min(all, std::max<int64_t>(1, kSlabBytes / (state * kSegmentTiles)) * kSegmentTiles);
}

Slab slab_at(const Call& call, int64_t first) {
  return {first, std::min(slab_tiles(call), ceil_div(call.sizes.queries, kTile) - first)};
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
  Side queries(call, Q, Q, {}, padded);
  Side keys(call, seen_by_queries(call, K), seen_by_queries(call, V), mask, padded);
  const Seen seen(call, queries, keys, nullptr);
  States S(call, seen, slab_tiles(call), false);
  with_case(sizes.dim, spec.map.kind,
            [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
              for (int64_t first = 0; first * kTile < sizes.queries; first += slab_tiles(call)) {
                const Slab slab = slab_at(call, first);
                const int64_t blocks = sizes.jobs * slab.count;
                const CausalSide q = queries.view(call.eps);
                const CausalSide k = keys.view(0);
                S.sum<D, form>(k, slab, nullptr, to.state);
                using Outputs = CausalOutputs<D, form>;
                launch_blocks<kThreads>(
                    blocks, Outputs::kShared,
                    Outputs{phi<form>(call), call.omega(), q, k, slab, S.view(), seen.m(), S.totals(),
                            call.constant * call.constant, static_cast<float>(spec.denominator_eps),
                            spec.renormalise ? to.denominator.data<float>() : nullptr, output(to.O)});
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
  Side queries(call, Q, dO, {}, padded);
  Side keys(call, seen_by_queries(call, K), seen_by_queries(call, V), mask, padded);
  const Seen seen(call, queries, keys, denominators);
  const WholeRows O(spec.renormalise ? forward.O : Q, {}, padded);
  if (sizes.keys > sizes.queries) {
    to.dK.slice(2, sizes.queries, sizes.keys).fill_(0);
    to.dV.slice(2, sizes.queries, sizes.keys).fill_(0);
  }
  States S(call, seen, tiles, false);
  States R(call, seen, tiles, true);
  const Floats w(queries.count());
  const Floats flows(queries.count());
  const int64_t frequency_blocks = call.packed_frequencies / kTile;
  const int64_t splits = std::clamp<int64_t>(kBlocks / (sizes.jobs * frequency_blocks), 1, tiles);
  const int64_t omega_size = sizes.frequencies * sizes.dim;
  const int64_t parts_size = wants_omega ? splits * sizes.jobs * omega_size : 1;
  const Floats parts(parts_size);
  parts.clear(parts_size);
  with_case(sizes.dim, spec.map.kind,
            [&]<int D, Form form>(std::integral_constant<int, D>, std::integral_constant<Form, form>) {
              const auto gradients = [&]<bool of_keys>(std::bool_constant<of_keys>, const CausalSide& own,
                                                       const CausalSide& other, const Slab& slab, const States& sums,
                                                       const KeyMask& own_mask, const Tensor& dx) {
                using OfTokens = CausalGradientOfTokens<D, form, of_keys>;
                launch_blocks<kThreads>(
                    sizes.jobs * slab.count, OfTokens::kShared,
                    OfTokens{phi<form>(call), call.omega(), own, other, slab, sums.view(), seen.m(), seen.factor(),
                             sums.totals(), O.view(), spec.renormalise, call.constant * call.constant, queries.last(),
                             flows, w, own_mask, output(dx), output(to.dV)});
                if (!wants_omega) return;
                using OfOmega = CausalGradientOfOmega<D, form, of_keys>;
                launch_blocks<kThreads>(splits * sizes.jobs * frequency_blocks, OfOmega::kShared,
                                        OfOmega{phi<form>(call), call.omega(), own, other, slab, sums.view(), seen.m(),
                                                seen.factor(), sizes.jobs, ceil_div(slab.count, splits), parts});
              };
              for (int64_t first = (sizes.queries - 1) / kTile / tiles * tiles; first >= 0; first -= tiles) {
                const Slab slab = slab_at(call, first);
                const CausalSide q = queries.view(call.eps, call.eps != 0 ? static_cast<const float*>(flows) : nullptr);
                const CausalSide k = keys.view(0);
                S.load<D, form>(k, slab, forward.state);
                gradients(std::false_type{}, q, k, slab, S, queries.mask(), to.dQ);
                R.sum<D, form>(q, slab, w);
                gradients(std::true_type{}, k, q, slab, R, keys.mask(), to.dK);
              }
            });
  if (!wants_omega) return;
  launch_threads(to.dOmega.size(), FinishOmega{omega_size, sizes.batch, sizes.heads, splits, to.dOmega.size(0) == 1,
                                               parts, to.dOmega.data<float>()});
}

}  // namespace bochner::cuda
