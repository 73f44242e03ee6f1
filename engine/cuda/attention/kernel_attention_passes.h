// The passes before and after the tiles of kernel attention in bf16: packing, exponents and shifts, and sums of parts.
#pragma once

#include "engine/cuda/attention/feature_rows.h"
#include "engine/cuda/parts/packed.h"

namespace bochner::cuda {

/// Omega, or 1 where undefined, in both layouts; a thread for each element of the first.
struct PackOmega {
  int64_t count, padded, dim;
  const float* Omega;
  bfloat16 *rows, *columns;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % dim;
    const int64_t row = i / dim % padded;
    const int64_t head = i / dim / padded;
    const int64_t from = row % count;
    const float value =
        Omega == nullptr ? static_cast<float>(from == column) : Omega[(head * count + from) * dim + column];
    rows[i] = bfloat16(value);
    columns[(head * dim + column) * padded + row] = bfloat16(value);
  }
};

/// Sums (jobs, F, D + 1), jobs `stride` apart, in both layouts and z apart; a thread for each element of z.
struct PackSums {
  int64_t count, padded, dim, stride;
  int parts;
  const float* sums;
  bfloat16 *rows, *columns;
  float* z;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t m = i % padded;
    const int64_t part = i / padded % parts;
    const int64_t job = i / padded / parts;
    const float* from = sums + job * stride + (part * count + m) * (dim + 1);
    for (int64_t e = 0; e < dim; ++e) {
      const bfloat16 value(m < count ? from[e] : 0.0f);
      rows[i * dim + e] = value;
      columns[((job * parts + part) * dim + e) * padded + m] = value;
    }
    z[i] = m < count ? from[dim] : 0.0f;
  }
};

/// c |x|^2 of packed tokens; a team for each.
struct TokenNorms {
  int64_t dim;
  float factor;
  const bfloat16* x;
  float* norms;
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    float squares = 0;
    for (int64_t i = team.rank(); i < dim; i += team.size()) {
      const auto value = static_cast<float>(x[team.index() * dim + i]);
      squares += value * value;
    }
    squares = team.sum(squares);
    if (team.rank() == 0) norms[team.index()] = factor * squares;
  }
};

/// The largest exponent of real keys; a team for each job.
struct KeyShift {
  int64_t heads, length, padded;
  bool exponential;
  KeyMask mask;
  const float *norms, *tops;
  int64_t stride;  ///< between the shifts of two jobs
  float* shift;
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    float largest = no_exponent<float>();
    for (int64_t i = team.rank(); i < length; i += team.size()) {
      if (!mask.real(team.index() / heads, i)) continue;
      const int64_t at = team.index() * padded + i;
      const float exponent = exponential ? tops[at] - norms[at] : norms[at];
      largest = exponent > largest ? exponent : largest;
    }
    largest = team.max(largest);
    if (team.rank() == 0) shift[team.index() * stride] = largest;
  }
};

/// `less`, `weight` and, for keys, `last` of TokenSide.
struct TokenScales {
  FeatureRule<float> rule;
  int64_t heads, length, padded;
  bool keys;
  KeyMask mask;
  const float *norms, *tops;
  const float* shift;  ///< of keys, (jobs), shift_stride apart
  int64_t shift_stride;
  float *less, *weight, *last;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / padded;
    const bool there = i % padded < length && mask.real(job / heads, i % padded);
    const float held = keys && rule.shifts ? shift[job * shift_stride] : 0.0f;
    float off = 0;
    float by = there ? 1.0f : 0.0f;
    if (rule.exponential()) {
      off = keys || !rule.shifts ? norms[i] + held : tops[i];
      off = there ? kLog2E * off : std::numeric_limits<float>::infinity();
    } else if (rule.exponent && there) {
      by = keys || !rule.shifts ? math::exp(norms[i] - held) : 1.0f;
    }
    less[i] = off;
    weight[i] = by;
    if (keys) last[i] = there ? 1.0f : 0.0f;
  }
};

/// last = -(G . O), with G rounded to bf16; a team for each packed query.
struct GradientOfDenominators {
  int64_t heads, length, padded, dim;
  const bfloat16* g;
  StoredTokens O;
  float* last;
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / padded;
    const int64_t token = team.index() % padded;
    float sum = 0;
    if (token < length) {
      const StoredTokens::Head o = O.head(job / heads, job % heads);
      for (int64_t i = team.rank(); i < dim; i += team.size())
        sum += static_cast<float>(g[team.index() * dim + i]) * o.get(token, i);
    }
    sum = team.sum(sum);
    if (team.rank() == 0) last[team.index()] = -sum;
  }
};

/// totals (jobs, D + 1) = sum_i y'_i; a team for each.
struct Totals {
  int64_t padded, dim;
  const bfloat16* yt;
  const float* last;
  float* totals;
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / (dim + 1);
    const int64_t column = team.index() % (dim + 1);
    float sum = 0;
    for (int64_t i = team.rank(); i < padded; i += team.size()) {
      sum += column < dim ? static_cast<float>(yt[(job * dim + column) * padded + i]) : last[job * padded + i];
    }
    sum = team.sum(sum);
    if (team.rank() == 0) totals[team.index()] = sum;
  }
};

/// S' from its splits, with the parts of eps and the constant; jobs of `sums` are `stride` apart.
struct FinishSums {
  int64_t features, dim, jobs, splits, stride;
  float eps, constant;
  const float *parts, *totals;  ///< totals: null if both are 0
  float* sums;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t size = features * (dim + 1);
    const int64_t job = i / size;
    const float total = totals == nullptr ? 0.0f : totals[job * (dim + 1) + i % (dim + 1)];
    const bool is_constant = constant != 0 && i % size / (dim + 1) == features - 1;
    float sum = 0;
    for (int64_t split = 0; split < splits && !is_constant; ++split) sum += parts[split * jobs * size + i];
    sums[job * stride + i % size] = is_constant ? constant * total : sum + eps * total;
  }
};

/// base (jobs, D + 1) of PackedSums.
struct Base {
  int64_t features, dim, stride;
  float eps, constant;
  const float* sums;
  float* base;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const float* from = sums + i / (dim + 1) * stride + i % (dim + 1);
    const int64_t count = constant != 0 ? features - 1 : features;
    float sum = 0;
    for (int64_t f = 0; f < count; ++f) sum += from[f * (dim + 1)];
    base[i] = eps * sum + (constant != 0 ? constant * from[count * (dim + 1)] : 0.0f);
  }
};

/// dOmega (heads or 1, M, D) from parts (splits, jobs, M, D), of a head or of all.
struct FinishOmega {
  int64_t size, batch, heads, splits;
  bool shared;
  const float* parts;
  float* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t split = 0; split < splits; ++split) {
      for (int64_t job = shared ? 0 : i / size; job < batch * heads; job += shared ? 1 : heads)
        sum += parts[(split * batch * heads + job) * size + i % size];
    }
    to[i] = sum;
  }
};

}  // namespace bochner::cuda
