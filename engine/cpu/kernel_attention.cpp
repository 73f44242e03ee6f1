#include "engine/cpu/kernel_attention.h"

#include <cmath>

#include "engine/cpu/feature_tile.h"
#include "engine/cpu/lanes.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

/// One (batch, head) of a (B, H, L, D) tensor: rows `stride` apart.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;
  T* operator[](int64_t row) const { return data + row * stride; }
};

template <class T>
Rows<T> rows_of(const Tensor& x, int64_t b, int64_t h) {
  return {x.data<T>() + b * x.strides()[0] + h * x.strides()[1], x.strides()[2]};
}

template <class T>
void transpose(const T* from, int64_t rows, int64_t columns, int64_t stride, T* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * stride + j];
  }
}

/// Everything one (batch, head) needs: frequencies, a tile for keys and one for queries, and scratch.
template <class T>
class Head {
 public:
  Head(const KernelAttentionSpec& spec, const Tensor& K, const Tensor& Omega, const Tensor& keys, int64_t b, int64_t h)
      : spec_(spec),
        D_(K.size(3)),
        Lk_(K.size(2)),
        M_(Omega.defined() ? Omega.size(1) : D_),
        F_(spec.map.features(M_)),
        memory_(Tensor::empty({2 * M_ * D_ + 2 * FeatureTile<T>::scratch(spec.map, M_)}, dtype_of<T>)) {
    frequencies_ = {nullptr, nullptr, M_, D_, static_cast<T>(spec.scale)};
    T* at = memory_.template data<T>();
    if (Omega.defined()) {
      const T* from = Omega.data<T>() + (Omega.size(0) == 1 ? 0 : h * M_ * D_);
      for (int64_t i = 0; i < M_ * D_; ++i) at[i] = frequencies_.scale * from[i];
      transpose(at, M_, D_, D_, at + M_ * D_);
      frequencies_.rows = at;
      frequencies_.columns = at + M_ * D_;
    }
    tiles_ = at + 2 * M_ * D_;
    real_ = keys.defined() ? keys.data<bool>() + b * Lk_ : nullptr;
  }

  const KernelAttentionSpec& spec() const { return spec_; }
  const Frequencies<T>& frequencies() const { return frequencies_; }
  int64_t D() const { return D_; }
  int64_t F() const { return F_; }
  int64_t M() const { return M_; }
  int64_t Lk() const { return Lk_; }
  bool real(int64_t key) const { return real_ == nullptr || real_[key]; }
  FeatureTile<T> query_tile() const { return {spec_.map, frequencies_, tiles_}; }
  FeatureTile<T> key_tile() const { return {spec_.map, frequencies_, tiles_ + FeatureTile<T>::scratch(spec_.map, M_)}; }

  /// phi (with eps) of queries [begin, begin + count), each shifted by its own maximum.
  void load_queries(FeatureTile<T>& tile, Rows<T> Q, int64_t begin, int64_t count) const {
    tile.project(Q[begin], Q.stride, count);
    for (int64_t i = 0; i < count; ++i) {
      tile.features_of(i, spec_.shifts() ? tile.top(i) : T(0));
      tile.add_eps(i);
    }
  }

  /// phi (with eps) of keys [begin, begin + count), shifted by `shift`; padded keys weigh nothing.
  void load_keys(FeatureTile<T>& tile, Rows<T> K, int64_t begin, int64_t count, T shift) const {
    tile.project(K[begin], K.stride, count);
    for (int64_t i = 0; i < count; ++i) {
      if (!real(begin + i)) {
        tile.clear(i);
        continue;
      }
      tile.features_of(i, shift);
      tile.add_eps(i);
    }
  }

  /// The largest exponent of the real keys, or the lowest number if there are none.
  T largest_exponent(Rows<T> K) const {
    if (!spec_.shifts()) return T(0);
    FeatureTile<T> tile = key_tile();
    T largest = std::numeric_limits<T>::lowest();
    for (int64_t begin = 0; begin < Lk_; begin += kTile) {
      const int64_t count = std::min(kTile, Lk_ - begin);
      tile.project(K[begin], K.stride, count);
      for (int64_t i = 0; i < count; ++i) largest = real(begin + i) ? std::max(largest, tile.top(i)) : largest;
    }
    return largest;
  }

 private:
  const KernelAttentionSpec& spec_;
  int64_t D_;
  int64_t Lk_;
  int64_t M_;
  int64_t F_;
  Tensor memory_;
  Frequencies<T> frequencies_;
  T* tiles_ = nullptr;
  const bool* real_ = nullptr;
};

/// y += column sums of x (rows, columns), each row weighted by w if given.
template <class T>
void add_columns(const T* x, int64_t rows, int64_t columns, const T* w, T* y) {
  for (int64_t i = 0; i < rows; ++i) {
    const T weight = w != nullptr ? w[i] : T(1);
    const T* row = x + i * columns;
    for (int64_t j = 0; j < columns; ++j) y[j] += weight * row[j];
  }
}

template <class T>
T dot(const T* x, const T* y, int64_t count) {
  return lane_sum<T>(count, [&](int64_t i) { return x[i] * y[i]; });
}

/// S (F x D) and z (F) of all keys, with a running maximum; the maximum is returned.
template <class T>
T gather_state(const Head<T>& head, Rows<T> K, Rows<T> V, T* S, T* z) {
  const int64_t F = head.F();
  const int64_t D = head.D();
  FeatureTile<T> tile = head.key_tile();
  std::fill(S, S + F * D, T(0));
  std::fill(z, z + F, T(0));
  const Tensor totals = Tensor::zeros({D}, dtype_of<T>);  // sum of v_j: what eps weighs
  T count_of_keys = 0;
  const bool shifts = head.spec().shifts();
  T shift = shifts ? std::numeric_limits<T>::lowest() : T(0);
  for (int64_t begin = 0; begin < head.Lk(); begin += kTile) {
    const int64_t count = std::min(kTile, head.Lk() - begin);
    tile.project(K[begin], K.stride, count);
    if (shifts) {
      T largest = shift;
      for (int64_t i = 0; i < count; ++i) largest = head.real(begin + i) ? std::max(largest, tile.top(i)) : largest;
      if (largest > shift) {
        const T factor = math::exp(shift - largest);
        const int64_t scaled = tile.with_eps();
        for (int64_t i = 0; i < scaled * D; ++i) S[i] *= factor;
        for (int64_t i = 0; i < scaled; ++i) z[i] *= factor;
        shift = largest;
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      if (!head.real(begin + i)) {
        tile.clear(i);
        continue;
      }
      tile.features_of(i, shift);
      if (tile.eps() != T(0)) add_columns(V[begin + i], 1, D, static_cast<const T*>(nullptr), totals.data<T>());
      count_of_keys += T(1);
    }
    tile_product<T>(F, D, count, tile.phi(), {1, F}, V[begin], V.stride, S, D, true);
    add_columns(tile.phi(), count, F, static_cast<const T*>(nullptr), z);
  }
  if (const T e = tile.eps(); e != T(0)) {
    for (int64_t f = 0; f < tile.with_eps(); ++f) {
      for (int64_t j = 0; j < D; ++j) S[f * D + j] += e * totals.data<T>()[j];
      z[f] += e * count_of_keys;
    }
  }
  return shift;
}

/// O = numerators / denominators, in place.
template <class T>
void divide(const KernelAttentionSpec& spec, Rows<T> O, int64_t begin, int64_t count, int64_t D, T* denominators) {
  for (int64_t i = 0; i < count; ++i) {
    T& denominator = denominators[begin + i];
    denominator = spec.renormalise ? denominator + static_cast<T>(spec.denominator_eps) : T(1);
    if (!spec.renormalise) continue;
    const T inverse = T(1) / denominator;
    T* row = O[begin + i];
    for (int64_t j = 0; j < D; ++j) row[j] *= inverse;
  }
}

template <class T>
void attend(const Head<T>& head, Rows<T> Q, int64_t Lq, Rows<T> K, Rows<T> V, Rows<T> O, T* S, T* z, T* shift,
            T* denominators) {
  *shift = gather_state(head, K, V, S, z);
  const int64_t F = head.F();
  const int64_t D = head.D();
  FeatureTile<T> tile = head.query_tile();
  for (int64_t begin = 0; begin < Lq; begin += kTile) {
    const int64_t count = std::min(kTile, Lq - begin);
    head.load_queries(tile, Q, begin, count);
    tile_product<T>(count, D, F, tile.phi(), {F, 1}, S, D, O[begin], O.stride);
    for (int64_t i = 0; i < count; ++i) denominators[begin + i] = dot(tile.phi() + i * F, z, F);
    divide(head.spec(), O, begin, count, D, denominators);
  }
}

/// A (queries x keys) = phi_q phi_k^T within a chunk, zero above the diagonal. `scratch` holds phi_k^T.
template <class T>
void chunk_weights(const FeatureTile<T>& q, const FeatureTile<T>& k, int64_t queries, int64_t keys, T* scratch, T* A) {
  const int64_t F = q.features();
  transpose(k.phi(), keys, F, F, scratch);
  tile_product<T>(queries, keys, F, q.phi(), {F, 1}, scratch, keys, A, keys);
  for (int64_t i = 0; i < queries; ++i) std::fill(A + i * keys + std::min(i + 1, keys), A + (i + 1) * keys, T(0));
}

template <class T>
void attend_causal(const Head<T>& head, Rows<T> Q, int64_t L, Rows<T> K, Rows<T> V, Rows<T> O, T* shift,
                   T* denominators) {
  const int64_t F = head.F();
  const int64_t D = head.D();
  const Tensor memory = Tensor::zeros({F * D + F + kTile * F + kTile * kTile}, dtype_of<T>);
  T* const S = memory.data<T>();
  T* const z = S + F * D;
  T* const turned = z + F;
  T* const A = turned + kTile * F;
  *shift = head.largest_exponent(K);
  FeatureTile<T> q = head.query_tile();
  FeatureTile<T> k = head.key_tile();
  for (int64_t begin = 0; begin < L; begin += kTile) {
    const int64_t count = std::min(kTile, L - begin);
    head.load_queries(q, Q, begin, count);
    head.load_keys(k, K, begin, count, *shift);
    chunk_weights(q, k, count, count, turned, A);
    tile_product<T>(count, D, F, q.phi(), {F, 1}, S, D, O[begin], O.stride);
    tile_product<T>(count, D, count, A, {count, 1}, V[begin], V.stride, O[begin], O.stride, true);
    for (int64_t i = 0; i < count; ++i) {
      T weight = dot(q.phi() + i * F, z, F);
      for (int64_t j = 0; j <= i; ++j) weight += A[i * count + j];
      denominators[begin + i] = weight;
    }
    divide(head.spec(), O, begin, count, D, denominators);
    tile_product<T>(F, D, count, k.phi(), {1, F}, V[begin], V.stride, S, D, true);
    add_columns(k.phi(), count, F, static_cast<const T*>(nullptr), z);
  }
}

/// Backward of one (batch, head), in the scratch of its head.
template <class T>
class HeadBackward {
 public:
  HeadBackward(const Head<T>& head, Rows<T> O, Rows<T> dO, const T* denominators, T* dOmega)
      : head_(head),
        O_(O),
        dO_(dO),
        denominators_(denominators),
        dOmega_(dOmega),
        F_(head.F()),
        D_(head.D()),
        M_(head.M()),
        memory_(Tensor::empty({kTile * (D_ + 1) + kTile + kTile * F_ + kTile * M_}, dtype_of<T>)) {
    G_ = memory_.template data<T>();
    h_ = G_ + kTile * (D_ + 1);
    dphi_ = h_ + kTile;
    du_ = dphi_ + kTile * F_;
  }

  int64_t F() const { return F_; }
  int64_t D() const { return D_; }
  /// G = dO / denominator and, as its last column, h = -(dO . O) / denominator: what flows into numerators and
  /// denominators.
  T* G() const { return G_; }
  T* h() const { return h_; }
  T* dphi() const { return dphi_; }

  void load_gradient(int64_t begin, int64_t count) {
    const bool renormalise = head_.spec().renormalise;
    for (int64_t i = 0; i < count; ++i) {
      const T inverse = T(1) / denominators_[begin + i];
      const T* g = dO_[begin + i];
      T* row = G_ + i * (D_ + 1);
      for (int64_t j = 0; j < D_; ++j) row[j] = g[j] * inverse;
      h_[i] = renormalise ? -dot(g, O_[begin + i], D_) * inverse : T(0);
      row[D_] = h_[i];
    }
  }

  /// From dphi of a tile to dx (rows of `to`), and dOmega.
  void pull_back(const FeatureTile<T>& tile, Rows<T> x, Rows<T> to, int64_t begin, int64_t count) {
    const Frequencies<T>& w = head_.frequencies();
    T norms[kTile];
    for (int64_t i = 0; i < count; ++i) norms[i] = tile.pull_back(i, dphi_ + i * F_, du_ + i * M_);
    if (w.rows != nullptr) {
      tile_product<T>(count, D_, M_, du_, {M_, 1}, w.rows, D_, to[begin], to.stride);
    }
    const T square = 2 * w.scale * w.scale;
    for (int64_t i = 0; i < count; ++i) {
      T* row = to[begin + i];
      const T* value = x[begin + i];
      if (w.rows == nullptr) {
        for (int64_t j = 0; j < D_; ++j) row[j] = w.scale * du_[i * M_ + j];
      }
      if (head_.spec().map.has_exponent()) {
        for (int64_t j = 0; j < D_; ++j) row[j] += square * norms[i] * value[j];
      }
    }
    if (dOmega_ != nullptr) tile_product<T>(M_, D_, count, du_, {1, M_}, x[begin], x.stride, dOmega_, D_, true);
  }

 private:
  const Head<T>& head_;
  Rows<T> O_;
  Rows<T> dO_;
  const T* denominators_;
  T* dOmega_;
  int64_t F_;
  int64_t D_;
  int64_t M_;
  Tensor memory_;
  T* G_;
  T* h_;
  T* dphi_;
  T* du_;
};

/// num = phi_q S, den = phi_q z:  dphi_q = G S^T + h z^T,  dS = phi_q^T G,  dz = phi_q^T h;  dphi_k = V dS^T + dz,  dV
/// = phi_k dS
template <class T>
void attend_backward(const Head<T>& head, HeadBackward<T>& back, Rows<T> Q, int64_t Lq, Rows<T> K, Rows<T> V,
                     const T* S, const T* z, T shift, Rows<T> dQ, Rows<T> dK, Rows<T> dV) {
  const int64_t F = head.F();
  const int64_t D = head.D();
  const Tensor memory = Tensor::zeros({(D + 1) * F + F * D + F}, dtype_of<T>);
  T* const turned = memory.data<T>();  // (D + 1, F): S^T over z, later dS^T
  T* const dS = turned + (D + 1) * F;
  T* const dz = dS + F * D;
  transpose(S, F, D, D, turned);
  std::copy(z, z + F, turned + D * F);
  FeatureTile<T> q = head.query_tile();
  for (int64_t begin = 0; begin < Lq; begin += kTile) {
    const int64_t count = std::min(kTile, Lq - begin);
    head.load_queries(q, Q, begin, count);
    back.load_gradient(begin, count);
    tile_product<T>(count, F, D + 1, back.G(), {D + 1, 1}, turned, F, back.dphi(), F);
    tile_product<T>(F, D, count, q.phi(), {1, F}, back.G(), D + 1, dS, D, true);
    add_columns(q.phi(), count, F, back.h(), dz);
    back.pull_back(q, Q, dQ, begin, count);
  }
  transpose(dS, F, D, D, turned);
  FeatureTile<T> k = head.key_tile();
  for (int64_t begin = 0; begin < head.Lk(); begin += kTile) {
    const int64_t count = std::min(kTile, head.Lk() - begin);
    head.load_keys(k, K, begin, count, shift);
    tile_product<T>(count, D, F, k.phi(), {F, 1}, dS, D, dV[begin], dV.stride);
    for (int64_t i = 0; i < count; ++i) std::copy(dz, dz + F, back.dphi() + i * F);
    tile_product<T>(count, F, D, V[begin], {V.stride, 1}, turned, F, back.dphi(), F, true);
    for (int64_t i = 0; i < count; ++i) {
      if (!head.real(begin + i)) std::fill(back.dphi() + i * F, back.dphi() + (i + 1) * F, T(0));
    }
    back.pull_back(k, K, dK, begin, count);
  }
}

/// Within a chunk also A = tril(phi_q phi_k^T), num += A V, den += A 1:  dA = tril(G V^T + h 1^T),
/// dphi_q += dA phi_k,  dphi_k += dA^T phi_q,  dV += A^T G. S and z are those of earlier chunks, dS and dz come from
/// later ones.
template <class T>
void attend_causal_backward(const Head<T>& head, HeadBackward<T>& back, Rows<T> Q, int64_t L, Rows<T> K, Rows<T> V,
                            T shift, Rows<T> dQ, Rows<T> dK, Rows<T> dV) {
  const int64_t F = head.F();
  const int64_t D = head.D();
  const Tensor memory = Tensor::zeros({2 * (D + 1) * F + kTile * F + 2 * kTile * kTile + kTile * D}, dtype_of<T>);
  T* const S = memory.data<T>();  // (F, D), z behind it; in the second sweep dS and dz
  T* const z = S + F * D;
  T* const turned = z + F;  // (D + 1, F)
  T* const keys_turned = turned + (D + 1) * F;
  T* const A = keys_turned + kTile * F;
  T* const dA = A + kTile * kTile;
  T* const values_turned = dA + kTile * kTile;
  FeatureTile<T> q = head.query_tile();
  FeatureTile<T> k = head.key_tile();
  const auto load = [&](int64_t begin, int64_t count) {
    head.load_queries(q, Q, begin, count);
    head.load_keys(k, K, begin, count, shift);
    back.load_gradient(begin, count);
    transpose(V[begin], count, D, V.stride, values_turned);
    for (int64_t i = 0; i < count; ++i) std::fill(dA + i * count, dA + (i + 1) * count, back.h()[i]);
    tile_product<T>(count, count, D, back.G(), {D + 1, 1}, values_turned, count, dA, count, true);
    for (int64_t i = 0; i < count; ++i) std::fill(dA + i * count + i + 1, dA + (i + 1) * count, T(0));
  };
  for (int64_t begin = 0; begin < L; begin += kTile) {
    const int64_t count = std::min(kTile, L - begin);
    load(begin, count);
    transpose(S, F, D, D, turned);
    std::copy(z, z + F, turned + D * F);
    tile_product<T>(count, F, D + 1, back.G(), {D + 1, 1}, turned, F, back.dphi(), F);
    tile_product<T>(count, F, count, dA, {count, 1}, k.phi(), F, back.dphi(), F, true);
    back.pull_back(q, Q, dQ, begin, count);
    tile_product<T>(F, D, count, k.phi(), {1, F}, V[begin], V.stride, S, D, true);
    add_columns(k.phi(), count, F, static_cast<const T*>(nullptr), z);
  }
  std::fill(S, z + F, T(0));
  for (int64_t begin = (L - 1) / kTile * kTile; begin >= 0; begin -= kTile) {
    const int64_t count = std::min(kTile, L - begin);
    load(begin, count);
    chunk_weights(q, k, count, count, keys_turned, A);
    tile_product<T>(count, D, F, k.phi(), {F, 1}, S, D, dV[begin], dV.stride);
    tile_product<T>(count, D, count, A, {1, count}, back.G(), D + 1, dV[begin], dV.stride, true);
    transpose(S, F, D, D, turned);
    for (int64_t i = 0; i < count; ++i) std::copy(z, z + F, back.dphi() + i * F);
    tile_product<T>(count, F, D, V[begin], {V.stride, 1}, turned, F, back.dphi(), F, true);
    tile_product<T>(count, F, count, dA, {1, count}, q.phi(), F, back.dphi(), F, true);
    for (int64_t i = 0; i < count; ++i) {
      if (!head.real(begin + i)) std::fill(back.dphi() + i * F, back.dphi() + (i + 1) * F, T(0));
    }
    back.pull_back(k, K, dK, begin, count);
    tile_product<T>(F, D, count, q.phi(), {1, F}, back.G(), D + 1, S, D, true);
    add_columns(q.phi(), count, F, back.h(), z);
  }
}

}  // namespace

void kernel_attention(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                      const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to) {
  const int64_t H = Q.size(1);
  const int64_t Lq = Q.size(2);
  const int64_t D = Q.size(3);
  visit_floating(Q.dtype(), "kernel_attention", [&]<class T>(TypeTag<T>) {
    parallel_for(Q.size(0) * H, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / H;
        const int64_t h = i % H;
        const Head<T> head(spec, K, Omega, keys, b, h);
        T* const denominators = to.denominator.data<T>() + i * Lq;
        T* const shift = to.shift.data<T>() + i;
        const auto O = rows_of<T>(to.O, b, h);
        if (spec.causal) {
          attend_causal(head, rows_of<T>(Q, b, h), Lq, rows_of<T>(K, b, h), rows_of<T>(V, b, h), O, shift,
                        denominators);
        } else {
          T* const S = to.state.data<T>() + i * head.F() * (D + 1);
          attend(head, rows_of<T>(Q, b, h), Lq, rows_of<T>(K, b, h), rows_of<T>(V, b, h), O, S, S + head.F() * D, shift,
                 denominators);
        }
      }
    });
  });
}

void kernel_attention_backward(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K,
                               const Tensor& V, const Tensor& Omega, const Tensor& keys,
                               const KernelAttentionResult& forward, const KernelAttentionGradients& to,
                               const Tensor& dOmega_parts) {
  const int64_t H = Q.size(1);
  const int64_t Lq = Q.size(2);
  const int64_t D = Q.size(3);
  visit_floating(Q.dtype(), "kernel_attention", [&]<class T>(TypeTag<T>) {
    parallel_for(Q.size(0) * H, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / H;
        const int64_t h = i % H;
        const Head<T> head(spec, K, Omega, keys, b, h);
        T* const dOmega = dOmega_parts.defined() ? dOmega_parts.data<T>() + i * head.M() * D : nullptr;
        const T shift = forward.shift.data<T>()[i];
        HeadBackward<T> back(head, rows_of<T>(forward.O, b, h), rows_of<T>(dO, b, h),
                             forward.denominator.data<T>() + i * Lq, dOmega);
        const auto q = rows_of<T>(Q, b, h);
        const auto k = rows_of<T>(K, b, h);
        const auto v = rows_of<T>(V, b, h);
        const auto dQ = rows_of<T>(to.dQ, b, h);
        const auto dK = rows_of<T>(to.dK, b, h);
        const auto dV = rows_of<T>(to.dV, b, h);
        if (spec.causal) {
          attend_causal_backward(head, back, q, Lq, k, v, shift, dQ, dK, dV);
        } else {
          const T* const S = forward.state.data<T>() + i * head.F() * (D + 1);
          attend_backward(head, back, q, Lq, k, v, S, S + head.F() * D, shift, dQ, dK, dV);
        }
      }
    });
  });
}

}  // namespace bochner::cpu
