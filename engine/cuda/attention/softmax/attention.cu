// Streaming softmax attention in tiles of shared memory, for the cases not covered by attention_f32.h and
// attention_bf16.h: f64, and wide heads. A block has a tile of queries and walks the keys, or has a tile of keys and
// walks the queries. Nothing is summed across blocks, so no atomics are needed: backward computes the scores twice,
// once for dQ and once for dK and dV.
#include "engine/ops/attention/softmax_attention.h"

#include "engine/cuda/attention/softmax/attention_bf16.h"
#include "engine/cuda/attention/softmax/attention_f32.h"
#include "engine/cuda/attention/softmax/problem.h"
#include "engine/cuda/attention/softmax/products.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

constexpr int kParts = 4;  // per row, each reduced by one thread

template <class T>
struct Forward {
  AttentionProblem<T> p;
  Tokens<T> O;
  T* logsumexp;

  static int64_t elements(const AttentionProblem<T>& p, int64_t q, int64_t k) {
    return tile_elements(q, p.dim) + tile_elements(k, std::max(p.dim, p.value_dim)) + tile_elements(q, k) +
           tile_elements(q, p.value_dim) + q * (3 + 2 * kParts);
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t tiles = ceil_div(p.queries, p.query_tile);
    const int64_t head = team.index() / tiles;
    const int64_t b = head / p.heads;
    const int64_t h = head % p.heads;
    const int64_t first = team.index() % tiles * p.query_tile;
    const int rows = p.query_tile;
    const int columns = p.key_tile;
    const T kNothing = -std::numeric_limits<T>::infinity();
    SharedMemory<T> shared(team.template shared<T>());
    T* const q = shared.tile(rows, p.dim);
    T* const kv = shared.tile(columns, p.dim > p.value_dim ? p.dim : p.value_dim);
    T* const s = shared.tile(rows, columns);
    T* const o = shared.tile(rows, p.value_dim);
    T* const top = shared.take(rows);
    T* const sum = shared.take(rows);
    T* const factor = shared.take(rows);
    T* const part_top = shared.take(rows * kParts);
    T* const part_sum = shared.take(rows * kParts);
    const int lds = tile_stride(columns);
    const int ldo = tile_stride(p.value_dim);

    load_tile(team, p.Q.head(b, h) + first * p.Q.stride, p.Q.stride, rows, p.dim, p.scale, q,
              [&](int row) { return first + row < p.queries; });
    for (int i = team.rank(); i < rows * ldo; i += team.size()) o[i] = 0;
    for (int i = team.rank(); i < rows; i += team.size()) {
      top[i] = kNothing;
      sum[i] = 0;
    }
    const int64_t last = first + rows < p.queries ? first + rows : p.queries;
    const int64_t visible = p.visible_before(last);
    for (int64_t key = 0; key < visible; key += columns) {
      const auto real = [&](int row) { return key + row < p.keys && p.mask.real(b, key + row); };
      team.sync();
      load_tile(team, p.K.head(b, h) + key * p.K.stride, p.K.stride, columns, p.dim, T(1), kv, real);
      team.sync();
      multiply<false>(team, rows, columns, p.dim, matrix<T>(q, p.dim), transposed<T>(kv, p.dim), s, lds);  // S = Q K^T
      team.sync();
      load_tile(team, p.V.head(b, h) + key * p.V.stride, p.V.stride, columns, p.value_dim, T(1), kv, real);
      for (int i = team.rank(); i < rows * kParts; i += team.size()) {
        const int row = i / kParts;
        T largest = kNothing;
        for (int j = i % kParts; j < columns; j += kParts) {
          T& score = s[row * lds + j];
          if (p.hidden(b, first + row, key + j)) score = kNothing;
          largest = score > largest ? score : largest;
        }
        part_top[i] = largest;
      }
      team.sync();
      for (int row = team.rank(); row < rows; row += team.size()) {
        T largest = top[row];
        for (int j = 0; j < kParts; ++j)
          largest = part_top[row * kParts + j] > largest ? part_top[row * kParts + j] : largest;
        factor[row] = largest == kNothing ? T(1) : math::exp(top[row] - largest);
        top[row] = largest;
      }
      team.sync();
      for (int i = team.rank(); i < rows * kParts; i += team.size()) {
        const int row = i / kParts;
        T total = 0;
        for (int j = i % kParts; j < columns; j += kParts) {
          T& score = s[row * lds + j];
          const T probability = score == kNothing ? T(0) : math::exp(score - top[row]);
          total += probability;
          const bool drawn = p.drops && probability > T(0);
          score = drawn ? probability * p.factor(head, first + row, key + j) : probability;
        }
        part_sum[i] = total;
        for (int j = i % kParts; j < p.value_dim; j += kParts) o[row * ldo + j] *= factor[row];
      }
      team.sync();
      for (int row = team.rank(); row < rows; row += team.size()) {
        T total = sum[row] * factor[row];
        for (int j = 0; j < kParts; ++j) total += part_sum[row * kParts + j];
        sum[row] = total;
      }
      multiply<true>(team, rows, p.value_dim, columns, matrix<T>(s, columns), matrix<T>(kv, p.value_dim), o, ldo);
    }
    team.sync();
    T* const to = O.head(b, h) + first * O.stride;
    for (int i = team.rank(); i < rows * p.value_dim; i += team.size()) {
      const int row = i / p.value_dim;
      const int column = i - row * p.value_dim;
      if (first + row < p.queries) {
        to[row * O.stride + column] = sum[row] == T(0) ? T(0) : o[row * ldo + column] / sum[row];
      }
    }
    for (int row = team.rank(); row < rows; row += team.size()) {
      if (first + row < p.queries) {
        logsumexp[head * p.queries + first + row] = sum[row] == T(0) ? kNothing : top[row] + math::log(sum[row]);
      }
    }
  }
};

/// delta_i = dO_i . O_i, a team per query.
template <class T>
struct Delta {
  int64_t heads, queries;
  int value_dim;
  Tokens<const T> dO, O;
  T* delta;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t head = team.index() / queries;
    const int64_t i = team.index() % queries;
    const T* g = dO.head(head / heads, head % heads) + i * dO.stride;
    const T* o = O.head(head / heads, head % heads) + i * O.stride;
    T sum = 0;
    for (int j = team.rank(); j < value_dim; j += team.size()) sum += g[j] * o[j];
    sum = team.sum(sum);
    if (team.rank() == 0) delta[team.index()] = sum;
  }
};

/// A tile of queries and a tile of keys in shared memory, and what both gradients compute from them:
///   S = scale Q K^T,  dP = dO V^T,  P = exp(S - lse) [times the dropout factor],  dS = P (dP - delta)
template <class T>
struct GradientTiles {
  const AttentionProblem<T>& p;
  const Tokens<const T>& dO;
  const T *logsumexp, *delta;
  int64_t head, b, h;
  T *q, *g, *k, *v;
  T *s, *ds;  ///< P and dS (query_tile x key_tile)
  T *lse, *less;

  static int64_t elements(const AttentionProblem<T>& p, int64_t q, int64_t k) {
    return tile_elements(q, p.dim) + tile_elements(q, p.value_dim) + tile_elements(k, p.dim) +
           tile_elements(k, p.value_dim) + 2 * tile_elements(q, k) + 2 * q;
  }

  BOCHNER_DEVICE GradientTiles(const AttentionProblem<T>& problem, const Tokens<const T>& gradient, const T* logsumexp_,
                               const T* delta_, int64_t head_, SharedMemory<T>& shared)
      : p(problem),
        dO(gradient),
        logsumexp(logsumexp_ + head_ * problem.queries),
        delta(delta_ + head_ * problem.queries),
        head(head_),
        b(head_ / problem.heads),
        h(head_ % problem.heads),
        q(shared.tile(p.query_tile, p.dim)),
        g(shared.tile(p.query_tile, p.value_dim)),
        k(shared.tile(p.key_tile, p.dim)),
        v(shared.tile(p.key_tile, p.value_dim)),
        s(shared.tile(p.query_tile, p.key_tile)),
        ds(shared.tile(p.query_tile, p.key_tile)),
        lse(shared.take(p.query_tile)),
        less(shared.take(p.query_tile)) {}

  template <class Team>
  BOCHNER_DEVICE void load_queries(const Team& team, int64_t first) {
    const auto there = [&](int row) { return first + row < p.queries; };
    load_tile(team, p.Q.head(b, h) + first * p.Q.stride, p.Q.stride, p.query_tile, p.dim, p.scale, q, there);
    load_tile(team, dO.head(b, h) + first * dO.stride, dO.stride, p.query_tile, p.value_dim, T(1), g, there);
    for (int row = team.rank(); row < p.query_tile; row += team.size()) {
      lse[row] = there(row) ? logsumexp[first + row] : T(0);
      less[row] = there(row) ? delta[first + row] : T(0);
    }
  }
  template <class Team>
  BOCHNER_DEVICE void load_keys(const Team& team, int64_t key) {
    const auto real = [&](int row) { return key + row < p.keys && p.mask.real(b, key + row); };
    load_tile(team, p.K.head(b, h) + key * p.K.stride, p.K.stride, p.key_tile, p.dim, T(1), k, real);
    load_tile(team, p.V.head(b, h) + key * p.V.stride, p.V.stride, p.key_tile, p.value_dim, T(1), v, real);
  }
  /// Computes P and dS from the loaded tiles; synchronises before and after.
  template <class Team>
  BOCHNER_DEVICE void make_scores(const Team& team, int64_t query, int64_t key) {
    const int ld = tile_stride(p.key_tile);
    team.sync();
    multiply<false>(team, p.query_tile, p.key_tile, p.dim, matrix<T>(q, p.dim), transposed<T>(k, p.dim), s, ld);
    multiply<false>(team, p.query_tile, p.key_tile, p.value_dim, matrix<T>(g, p.value_dim),
                    transposed<T>(v, p.value_dim), ds, ld);
    team.sync();
    for (int i = team.rank(); i < p.query_tile * p.key_tile; i += team.size()) {
      const int row = i / p.key_tile;
      const int column = i - row * p.key_tile;
      const int at = row * ld + column;
      const bool seen = !p.hidden(b, query + row, key + column) && lse[row] != -std::numeric_limits<T>::infinity();
      // Scores are rounded, so a difference of huge ones could exceed 0. NaN is kept.
      const T below = s[at] - lse[row];
      const T probability = seen ? math::exp(below > T(0) ? T(0) : below) : T(0);
      const T kept = p.drops && seen ? p.factor(head, query + row, key + column) : T(1);
      s[at] = probability * kept;
      ds[at] = seen ? probability * (kept * ds[at] - less[row]) : T(0);
    }
    team.sync();
  }
};

/// to (rows x columns) = factor * tile, except rows from `count` on.
template <class T, class Team>
BOCHNER_DEVICE void store_tile(const Team& team, const T* tile, int rows, int columns, T factor, int64_t count, T* to,
                               int64_t stride) {
  for (int i = team.rank(); i < rows * columns; i += team.size()) {
    const int row = i / columns;
    const int column = i - row * columns;
    if (row < count) to[row * stride + column] = factor * tile[row * tile_stride(columns) + column];
  }
}

/// One block per tile of queries: dQ = scale dS K.
template <class T>
struct QueryGradients {
  AttentionProblem<T> p;
  Tokens<const T> dO;
  const T *logsumexp, *delta;
  Tokens<T> dQ;

  static int64_t elements(const AttentionProblem<T>& p, int64_t q, int64_t k) {
    return GradientTiles<T>::elements(p, q, k) + tile_elements(q, p.dim);
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t tiles = ceil_div(p.queries, p.query_tile);
    const int64_t first = team.index() % tiles * p.query_tile;
    const int rows = p.query_tile;
    SharedMemory<T> shared(team.template shared<T>());
    GradientTiles<T> own(p, dO, logsumexp, delta, team.index() / tiles, shared);
    T* const dq = shared.tile(rows, p.dim);
    own.load_queries(team, first);
    for (int i = team.rank(); i < rows * tile_stride(p.dim); i += team.size()) dq[i] = 0;
    const int64_t visible = p.visible_before(first + rows < p.queries ? first + rows : p.queries);
    for (int64_t key = 0; key < visible; key += p.key_tile) {
      team.sync();
      own.load_keys(team, key);
      own.make_scores(team, first, key);
      multiply<true>(team, rows, p.dim, p.key_tile, matrix<T>(own.ds, p.key_tile), matrix<T>(own.k, p.dim), dq,
                     tile_stride(p.dim));
    }
    team.sync();
    store_tile(team, dq, rows, p.dim, p.scale, p.queries - first, dQ.head(own.b, own.h) + first * dQ.stride, dQ.stride);
  }
};

/// One block per tile of keys: dV = P^T dO,  dK = scale dS^T Q.
template <class T>
struct KeyGradients {
  AttentionProblem<T> p;
  Tokens<const T> dO;
  const T *logsumexp, *delta;
  Tokens<T> dK, dV;

  static int64_t elements(const AttentionProblem<T>& p, int64_t q, int64_t k) {
    return GradientTiles<T>::elements(p, q, k) + tile_elements(k, p.dim) + tile_elements(k, p.value_dim);
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t tiles = ceil_div(p.keys, p.key_tile);
    const int64_t key = team.index() % tiles * p.key_tile;
    const int rows = p.query_tile;
    const int columns = p.key_tile;
    SharedMemory<T> shared(team.template shared<T>());
    GradientTiles<T> own(p, dO, logsumexp, delta, team.index() / tiles, shared);
    T* const dk = shared.tile(columns, p.dim);
    T* const dv = shared.tile(columns, p.value_dim);
    own.load_keys(team, key);
    for (int i = team.rank(); i < columns * tile_stride(p.dim); i += team.size()) dk[i] = 0;
    for (int i = team.rank(); i < columns * tile_stride(p.value_dim); i += team.size()) dv[i] = 0;
    const int64_t begin = p.causal ? key / rows * rows : 0;  // earlier queries see none of these keys
    for (int64_t first = begin; first < p.queries; first += rows) {
      team.sync();
      own.load_queries(team, first);
      own.make_scores(team, first, key);
      multiply<true>(team, columns, p.value_dim, rows, transposed<T>(own.s, columns), matrix<T>(own.g, p.value_dim), dv,
                     tile_stride(p.value_dim));
      multiply<true>(team, columns, p.dim, rows, transposed<T>(own.ds, columns), matrix<T>(own.q, p.dim), dk,
                     tile_stride(p.dim));  // Q includes the scale
    }
    team.sync();
    store_tile(team, dk, columns, p.dim, T(1), p.keys - key, dK.head(own.b, own.h) + key * dK.stride, dK.stride);
    store_tile(team, dv, columns, p.value_dim, T(1), p.keys - key, dV.head(own.b, own.h) + key * dV.stride, dV.stride);
  }
};

constexpr int kThreads = 256;

}  // namespace

void softmax_attention(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                       const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  if (attends_in_bf16(Q, V)) return softmax_attention_bf16(Q, K, V, key_mask, options, O, logsumexp);
  if (Q.dtype() == DType::bf16) {
    const Tensor in_f32 = Tensor::empty(O.shape(), DType::f32, O.device());
    softmax_attention(to_f32(Q), to_f32(K), to_f32(V), key_mask, options, in_f32, logsumexp);
    return O.copy_(in_f32);
  }
  if (attends_by_products(Q, K, options)) {
    return softmax_attention_by_products(Q, K, V, key_mask, options, O, logsumexp);
  }
  if (attends_in_f32(Q, V)) return softmax_attention_f32(Q, K, V, key_mask, options, O, logsumexp);
  visit_floating(Q.dtype(), "softmax_attention", [&]<class T>(TypeTag<T>) {
    AttentionProblem<T> p(Q, K, V, key_mask, options);
    const size_t bytes = choose_tiles(p, [&](int64_t q, int64_t k) { return Forward<T>::elements(p, q, k); });
    launch_blocks<kThreads>(Q.size(0) * p.heads * p.query_tiles(), bytes,
                            Forward<T>{p, Tokens<T>(O), logsumexp.data<T>()});
  });
}

void softmax_attention_backward(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                const Tensor& key_mask, const SoftmaxAttended& attended,
                                const SoftmaxAttentionOptions& options, const AttentionGradients& grads) {
  if (attends_in_bf16(Q, V)) {
    return softmax_attention_backward_bf16(dO, Q, K, V, key_mask, attended, options, grads);
  }
  if (Q.dtype() == DType::bf16) {
    const auto in_f32 = [](const Tensor& x) { return Tensor::empty(x.shape(), DType::f32, x.device()); };
    const AttentionGradients found{in_f32(grads.dQ), in_f32(grads.dK), in_f32(grads.dV)};
    cuda::softmax_attention_backward(to_f32(dO), to_f32(Q), to_f32(K), to_f32(V), key_mask,
                                     {to_f32(attended.O), attended.logsumexp}, options, found);
    grads.dQ.copy_(found.dQ);
    grads.dK.copy_(found.dK);
    return grads.dV.copy_(found.dV);
  }
  if (attends_by_products(Q, K, options)) {
    return softmax_attention_backward_by_products(dO, Q, K, V, key_mask, attended, options, grads);
  }
  visit_floating(Q.dtype(), "softmax_attention", [&]<class T>(TypeTag<T>) {
    AttentionProblem<T> p(Q, K, V, key_mask, options);
    const int64_t jobs = Q.size(0) * p.heads;
    const Tensor delta = Tensor::empty(Shape{jobs, Q.size(2)}, Q.dtype(), Q.device());
    const Tokens<const T> g(dO);
    const T* lse = attended.logsumexp.data<T>();
    launch_rows(jobs * p.queries, p.value_dim,
                Delta<T>{p.heads, p.queries, p.value_dim, g, Tokens<const T>(attended.O), delta.data<T>()});
    if (attends_in_f32(Q, V)) {
      return softmax_attention_backward_f32(dO, Q, K, V, key_mask, attended.logsumexp, delta, options, grads);
    }
    size_t bytes = choose_tiles(p, [&](int64_t q, int64_t k) { return QueryGradients<T>::elements(p, q, k); });
    launch_blocks<kThreads>(jobs * p.query_tiles(), bytes,
                            QueryGradients<T>{p, g, lse, delta.data<T>(), Tokens<T>(grads.dQ)});
    bytes = choose_tiles(p, [&](int64_t q, int64_t k) { return KeyGradients<T>::elements(p, q, k); });
    launch_blocks<kThreads>(jobs * p.key_tiles(), bytes,
                            KeyGradients<T>{p, g, lse, delta.data<T>(), Tokens<T>(grads.dK), Tokens<T>(grads.dV)});
  });
}

}  // namespace bochner::cuda
