#include "engine/ops/attention/softmax_attention.h"

#include "engine/comm/sequence_slices.h"
#include "engine/cpu/attention/softmax_attention_parts.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

/// The keys that queries attend to: all keys of their sequence, or one part after another, in order.
struct KeyPart {
  int64_t first_query = 0;  ///< position of the first query in the sequence
  int64_t first_key = 0;    ///< and of the first key
  int64_t keys = 0;         ///< of the whole sequence
  bool is_first = true;     ///< of its sequence's parts
  bool is_last = true;
  Tensor carried{};  ///< if in parts: (batch heads, tiles, n), what tiles of queries keep from one part to the next

  bool is_whole() const { return !carried.defined(); }
  template <class T>
  T* carried_of(int64_t head, int64_t tile) const {
    return carried.data<T>() + (head * carried.size(1) + tile) * carried.size(2);
  }
  /// If causal, query i sees the keys before number ahead() + i + 1 of the part.
  int64_t ahead() const { return first_query - first_key; }
};

template <class S>
void forward(const Tensor& Q, const Tensor& K, const Tensor& V, const KeyLists& lists, const KeyPart& part,
             const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  using T = ComputeType<S>;
  const int64_t heads = Q.size(1);
  const int64_t queries = Q.size(2);
  const int64_t dim = Q.size(3);
  const int64_t value_dim = V.size(3);
  const int64_t tiles = tiles_of(queries);
  const int64_t pieces = pieces_per_head(Q.size(0) * heads, tiles);
  parallel_for(Q.size(0) * heads * pieces, 1, [&](int64_t piece, int64_t) {
    const int64_t head = piece / pieces;
    const int64_t b = head / heads;
    const int64_t h = head % heads;
    const int64_t begin = tiles * (piece % pieces) / pieces * kTile;
    const int64_t end = std::min(tiles * (piece % pieces + 1) / pieces * kTile, queries);
    const KeyList list = lists[b];
    const int64_t reachable = options.causal ? list.before(part.ahead() + end) : list.count;
    const auto q = rows_of<const S>(Q, b, h);
    const auto o = rows_of<S>(O, b, h);
    T* lse = logsumexp.data<T>() + head * queries;
    const bool pays = end - begin > kTile;
    const TileRows<S> k(rows_of<const S>(K, b, h), list, reachable, dim, pays, true, false);
    const TileRows<S> v(rows_of<const S>(V, b, h), list, reachable, value_dim, pays, false, true);
    const Factor<S> Qt_factor(kTile, dim);
    const Buffer<T> Qt(dim * kTile);
    const Buffer<T> St(kTile * kTile);
    WrittenTile<S> Pt(kTile, St);
    const Buffer<T> own(part.is_whole() ? (value_dim + 2) * kTile : 1);
    DropoutTile<T> dropout(options.dropout, queries, part.keys, part.first_key);
    alignas(64) T top[kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t count = std::min(kTile, end - i);
      const int64_t columns = columns_of<T>(count);
      load_transposed<S>({q[i], q.stride}, count, dim, static_cast<T>(options.scale * kLog2E), Qt);
      const Right<S> Qt_right = Qt_factor.right(dim, columns, static_cast<const T*>(Qt), {kTile, 1});
      T* const Ot = part.is_whole() ? own : part.carried_of<T>(head, i / kTile);
      T* const sums = Ot + value_dim * kTile;
      T* const shift = sums + kTile;
      if (part.is_first) {
        std::fill_n(Ot, (value_dim + 1) * kTile, T(0));
        std::fill_n(shift, kTile, kNothing<T>);
      }
      const int64_t visible = options.causal ? list.before(part.ahead() + i + count) : list.count;
      for (int64_t j = 0; j < visible; j += kTile) {
        const int64_t n = std::min(kTile, visible - j);
        multiply<S>(n, columns, dim, k.plain(j), Qt_right, St, kTile);  // S^T = K Q^T
        if (options.causal && list[j + n - 1] > part.ahead() + i) {
          hide_future<T>(list, j, n, part.ahead() + i, columns, St);
        }
        column_maxima<T>(
            St, n, columns, [](Vector<T> s) { return s; }, top);
        follow_maxima<T>(top, columns, value_dim, shift, sums, Ot);
        const T* factors = dropout.active() ? dropout.draw(head, i, count, list, j, n) : nullptr;
        exponentials<S>(St, n, columns, shift, factors, sums, Pt);
        multiply<S>(value_dim, columns, n, v.transposed(j), Pt.right(), Ot, kTile, true);  // O^T += V^T P^T
      }
      if (!part.is_last) continue;
      for (int64_t c = 0; c < columns; ++c) {
        if (c < count) lse[i + c] = static_cast<T>((shift[c] + std::log2(sums[c])) * kLn2);
        sums[c] = sums[c] > 0 ? 1 / sums[c] : T(0);
      }
      store_transposed<S>(Ot, sums, count, value_dim, {o[i], o.stride});
    }
  });
}

/// G is the type of dK and dV. For a part, dK and dV are what its keys get from these queries.
template <class S, class G>
void backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V, const KeyLists& lists,
              const KeyPart& part, const SoftmaxAttended& attended, const SoftmaxAttentionOptions& options,
              const AttentionGradients& grads) {
  using T = ComputeType<S>;
  const int64_t heads = Q.size(1);
  const int64_t queries = Q.size(2);
  const int64_t keys = K.size(2);
  const int64_t dim = Q.size(3);
  const int64_t value_dim = V.size(3);
  const int64_t jobs = Q.size(0) * heads;
  const int64_t tiles = tiles_of(queries);
  // Each piece of the queries has its own dK and dV, so more pieces take more memory.
  const int64_t pieces = std::min<int64_t>(pieces_per_head(jobs, tiles), 8);
  const int64_t sum_size = keys * (dim + value_dim);
  const Buffer<T> partial(pieces > 1 ? jobs * pieces * sum_size : 1);
  const auto finish = [&](int64_t head, T* sums, int64_t count) {
    const int64_t b = head / heads;
    const int64_t h = head % heads;
    const auto dk = rows_of<G>(grads.dK, b, h);
    const auto dv = rows_of<G>(grads.dV, b, h);
    const KeyList list = lists[b];
    for (int64_t j = 0; j < list.count; ++j) {
      T* const to_k = sums + j * dim;
      T* const to_v = sums + keys * dim + j * value_dim;
      for (int64_t p = 1; p < count; ++p) {
        for (int64_t d = 0; d < dim; ++d) to_k[d] += sums[p * sum_size + j * dim + d];
        for (int64_t d = 0; d < value_dim; ++d) to_v[d] += sums[p * sum_size + keys * dim + j * value_dim + d];
      }
      for (int64_t d = 0; d < dim; ++d) to_k[d] *= static_cast<T>(options.scale);
      move_row(dim, to_k, dk[list[j]]);
      move_row(value_dim, to_v, dv[list[j]]);
    }
    clear_unlisted(list, keys, dim, dk);
    clear_unlisted(list, keys, value_dim, dv);
  };
  parallel_for(jobs * pieces, 1, [&](int64_t piece, int64_t) {
    const int64_t head = piece / pieces;
    const int64_t b = head / heads;
    const int64_t h = head % heads;
    const int64_t begin = tiles * (piece % pieces) / pieces * kTile;
    const int64_t end = std::min(tiles * (piece % pieces + 1) / pieces * kTile, queries);
    const KeyList list = lists[b];
    const int64_t reachable = options.causal ? list.before(part.ahead() + end) : list.count;
    const auto q = rows_of<const S>(Q, b, h);
    const auto o = rows_of<const S>(attended.O, b, h);
    const auto go = rows_of<const S>(dO, b, h);
    const auto dq = rows_of<S>(grads.dQ, b, h);
    const T* lse = attended.logsumexp.data<T>() + head * queries;
    const bool pays = end - begin > kTile;
    const TileRows<S> k(rows_of<const S>(K, b, h), list, reachable, dim, pays, true, true);
    const TileRows<S> v(rows_of<const S>(V, b, h), list, reachable, value_dim, pays, true, false);
    const Factor<S> Qt_factor(kTile, dim), Q_factor(dim, kTile), dOt_factor(kTile, value_dim),
        dO_factor(value_dim, kTile);
    const Buffer<T> own(pieces > 1 ? 1 : sum_size);
    T* dK = pieces > 1 ? partial + piece * sum_size : static_cast<T*>(own);
    T* dV = dK + keys * dim;
    std::fill_n(dK, sum_size, T(0));
    const int64_t widest = std::max(dim, value_dim);
    const Buffer<T> Qt(dim * kTile);
    const Buffer<T> Qc(kTile * dim);
    const Buffer<T> dOt(value_dim * kTile);
    const Buffer<T> dOc(kTile * value_dim);
    const Buffer<T> Ot(widest * kTile);
    const Buffer<T> St(kTile * kTile);
    const Buffer<T> dPt(kTile * kTile);
    WrittenTile<S> P(kTile, St);
    WrittenTile<S> dS(kTile, dPt);
    DropoutTile<T> dropout(options.dropout, queries, part.keys, part.first_key);
    alignas(64) T shift[kTile];
    alignas(64) T delta[kTile];
    alignas(64) T scales[kTile];
    std::fill_n(scales, kTile, static_cast<T>(options.scale));
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t count = std::min(kTile, end - i);
      const int64_t columns = columns_of<T>(count);
      const KeyList all{nullptr, queries};
      load_transposed<S>({q[i], q.stride}, count, dim, static_cast<T>(options.scale * kLog2E), Qt);
      load_transposed<S>({go[i], go.stride}, count, value_dim, T(1), dOt);
      load_transposed<S>({o[i], o.stride}, count, value_dim, T(1), Ot);
      gather_rows<S>(q, all, i, count, dim, Qc);
      gather_rows<S>(go, all, i, count, value_dim, dOc);
      const Right<S> Qt_right = Qt_factor.right(dim, columns, static_cast<const T*>(Qt), {kTile, 1});
      const Right<S> Q_right = Q_factor.right(count, dim, static_cast<const T*>(Qc), {dim, 1});
      const Right<S> dOt_right = dOt_factor.right(value_dim, columns, static_cast<const T*>(dOt), {kTile, 1});
      const Right<S> dO_right = dO_factor.right(count, value_dim, static_cast<const T*>(dOc), {value_dim, 1});
      column_products<T>(dOt, Ot, value_dim, columns, delta);
      for (int64_t c = 0; c < columns; ++c) {
        const bool sees = c < count && lse[i + c] > -std::numeric_limits<T>::infinity();
        shift[c] = sees ? lse[i + c] * static_cast<T>(kLog2E) : std::numeric_limits<T>::max();
      }
      T* const dQt = part.is_whole() ? Ot : part.carried_of<T>(head, i / kTile);  // O is no longer needed
      if (part.is_first) std::fill_n(dQt, dim * kTile, T(0));
      const int64_t visible = options.causal ? list.before(part.ahead() + i + count) : list.count;
      for (int64_t j = 0; j < visible; j += kTile) {
        const int64_t n = std::min(kTile, visible - j);
        multiply<S>(n, columns, dim, k.plain(j), Qt_right, St, kTile);          // S^T = K Q^T
        multiply<S>(n, columns, value_dim, v.plain(j), dOt_right, dPt, kTile);  // dP^T = V dO^T
        if (options.causal && list[j + n - 1] > part.ahead() + i) {
          hide_future<T>(list, j, n, part.ahead() + i, columns, St);
        }
        const T* factors = dropout.active() ? dropout.draw(head, i, count, list, j, n) : nullptr;
        score_gradients<S>(St, dPt, n, columns, shift, delta, factors, P, dS);
        multiply<S>(n, value_dim, count, P.left(), dO_right, dV + j * value_dim, value_dim, true);  // dV += P^T dO
        multiply<S>(n, dim, count, dS.left(), Q_right, dK + j * dim, dim, true);                    // dK += dS^T Q
        multiply<S>(dim, columns, n, k.transposed(j), dS.right(), dQt, kTile, true);                // dQ^T += K^T dS^T
      }
      if (part.is_last) store_transposed<S>(dQt, scales, count, dim, {dq[i], dq.stride});
    }
    if (pieces == 1) finish(head, own, 1);
  });
  if (pieces == 1) return;
  parallel_for(jobs, 1, [&](int64_t head, int64_t) { finish(head, partial + head * pieces * sum_size, pieces); });
}

/// Keys and values on their way round the ring, and the slice they belong to.
struct Visitors {
  Tensor K, V, mask;  ///< undefined if the queries see none of them
  SliceTour tour;
  KeyPart part;
};

/// body(visitors) for the keys of slice 0, 1, ... of the sequence. All processes do the same.
template <class Body>
void for_each_slice(const Tensor& K, const Tensor& V, const Tensor& mask, const SoftmaxAttentionOptions& options,
                    const Tensor& carried, const Body& body) {
  SequenceSlice& slice = *options.slice;
  const int count = slice.count();
  const Tensor own = Tensor::zeros({count}, DType::f64);
  own.data<double>()[slice.number()] = static_cast<double>(K.size(2));
  const std::vector<double> keys = slice.sum(own).to_vector<double>();
  std::vector<int64_t> begins{0};
  for (const double n : keys) begins.push_back(begins.back() + static_cast<int64_t>(n));
  for (int j = 0; j < count; ++j) {
    const auto at = static_cast<size_t>(j);
    const int64_t n = begins[at + 1] - begins[at];
    const SliceTour tour{j, options.causal ? count - 1 : (j + count - 1) % count};
    Visitors visitors{slice.hand_round(tour, K, {K.size(0), K.size(1), n, K.size(3)}),
                      slice.hand_round(tour, V, {V.size(0), V.size(1), n, V.size(3)}),
                      mask.defined() ? slice.hand_round(tour, mask, {mask.size(0), n}) : Tensor(), tour,
                      KeyPart{.first_query = begins[static_cast<size_t>(slice.number())],
                              .first_key = begins[at],
                              .keys = begins.back(),
                              .is_first = j == 0,
                              .is_last = j == (options.causal ? slice.number() : count - 1),
                              .carried = carried}};
    body(visitors);
  }
}

template <class S>
void forward_of_slice(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                      const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  const Tensor carried =
      Tensor::empty({Q.size(0) * Q.size(1), tiles_of(Q.size(2)), (V.size(3) + 2) * kTile}, dtype_of<ComputeType<S>>);
  for_each_slice(K, V, key_mask, options, carried, [&](const Visitors& of) {
    if (!of.K.defined()) return;
    forward<S>(Q, of.K, of.V, {of.mask, of.K.size(0), of.K.size(2)}, of.part, options, O, logsumexp);
  });
}

template <class S>
void backward_of_slice(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                       const SoftmaxAttended& attended, const SoftmaxAttentionOptions& options,
                       const AttentionGradients& grads) {
  using T = ComputeType<S>;
  const Tensor carried = Tensor::empty({Q.size(0) * Q.size(1), tiles_of(Q.size(2)), Q.size(3) * kTile}, dtype_of<T>);
  for_each_slice(K, V, key_mask, options, carried, [&](const Visitors& of) {
    Tensor dK;
    Tensor dV;
    if (of.K.defined()) {
      dK = Tensor::empty(of.K.shape(), dtype_of<T>);
      dV = Tensor::empty(of.V.shape(), dtype_of<T>);
      backward<S, T>(dO, Q, of.K, of.V, {of.mask, of.K.size(0), of.K.size(2)}, of.part, attended, options,
                     {grads.dQ, dK, dV});
    }
    const Tensor dK_of_all = options.slice->sum_round(of.tour, dK);
    const Tensor dV_of_all = options.slice->sum_round(of.tour, dV);
    if (!dK_of_all.defined()) return;
    grads.dK.copy_(dK_of_all);
    grads.dV.copy_(dV_of_all);
  });
}

}  // namespace

void softmax_attention(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                       const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  visit_stored(Q.dtype(), "softmax_attention", [&]<class S>(TypeTag<S>) {
    if (options.slice != nullptr) return forward_of_slice<S>(Q, K, V, key_mask, options, O, logsumexp);
    forward<S>(Q, K, V, {key_mask, K.size(0), K.size(2)}, {.keys = K.size(2)}, options, O, logsumexp);
  });
}

void softmax_attention_backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                const Tensor& key_mask, const SoftmaxAttended& attended,
                                const SoftmaxAttentionOptions& options, const AttentionGradients& grads) {
  visit_stored(Q.dtype(), "softmax_attention", [&]<class S>(TypeTag<S>) {
    if (options.slice != nullptr) return backward_of_slice<S>(dO, Q, K, V, key_mask, attended, options, grads);
    backward<S, S>(dO, Q, K, V, {key_mask, K.size(0), K.size(2)}, {.keys = K.size(2)}, attended, options, grads);
  });
}

}  // namespace bochner::cpu
