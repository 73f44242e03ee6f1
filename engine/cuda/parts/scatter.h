// Rows (or single elements) summed by bin, in the order of their places, without atomics. Places are sorted by bin and
// cut into pieces. A bin whose places lie in one piece is summed there. Where a bin continues beyond a piece, its part
// of the sum is kept aside, and the piece in which the bin begins adds these parts in order.
#pragma once

#include <bit>

#include "engine/cuda/parts/sort_words.h"
#include "engine/tensor.h"

namespace bochner::cuda {

/// y[o, index, c] += source[o, i, c] for each of `jobs`: (o, c ... c + width - 1), with width = inner if all elements
/// of a row have the same index, else 1.
struct BinSums {
  int64_t outer, bins, count, inner, width;
  int64_t outer_stride, count_stride, inner_stride;  ///< of the index
  int64_t skipped;                                   ///< places with this bin add nothing; -1: none
  const int64_t* index;
  Fault* fault;
  const char* op;

  int64_t columns() const { return inner / width; }  ///< jobs for each o
  /// Jobs with different indices.
  int64_t orders() const { return outer_stride == 0 && inner_stride == 0 ? 1 : outer * columns(); }
};

struct MakeBinEntries {
  BinSums sums;
  int64_t padded;
  uint64_t* to;
  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t order = t / padded;
    const int64_t i = t % padded;
    if (i >= sums.count) {
      to[t] = ~uint64_t{0};
      return;
    }
    const int64_t columns = sums.inner / sums.width;
    const int64_t bin =
        sums.index[order / columns * sums.outer_stride + i * sums.count_stride + order % columns * sums.inner_stride];
    const bool valid = bin >= 0 && bin < sums.bins;
    if (!valid && bin != sums.skipped) raise(sums.fault, sums.op, i, bin, sums.bins);
    const auto kept = static_cast<uint64_t>(valid && bin != sums.skipped ? bin : sums.bins);
    to[t] = kept << 32 | static_cast<uint64_t>(i);
  }
};

/// start[order][bin]: the first sorted place of the bin or of the bins after it; start[bins] is the end of the real
/// ones.
struct FindStarts {
  int64_t bins, count, padded;
  const uint64_t* entries;
  int64_t* start;
  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t order = t / (count + 1);
    const int64_t p = t % (count + 1);
    const uint64_t* sorted = entries + order * padded;
    const int64_t before = p == 0 ? -1 : static_cast<int64_t>(sorted[p - 1] >> 32);
    const int64_t here = p == count ? bins : static_cast<int64_t>(sorted[p] >> 32);
    for (int64_t bin = before + 1; bin <= here; ++bin) start[order * (bins + 1) + bin] = p;
  }
};

inline constexpr int64_t kBinPiece = 64;

template <class T>
struct BinPlaces {
  BinSums sums;
  int64_t padded, pieces;
  bool one_order;
  const uint64_t* entries;
  const int64_t* start;
  const T* source;
  T* y;
  T* aside;   ///< (jobs, pieces, 2, width)
  bool adds;  ///< else y holds zeros, and is not read

  BOCHNER_DEVICE void put(T& place, T sum) const { place = adds ? place + sum : sum; }
};

/// A team for each piece of each job.
template <class T>
struct SumPieces {
  BinPlaces<T> all;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const BinSums& s = all.sums;
    const int64_t job = team.index() / all.pieces;
    const int64_t piece = team.index() % all.pieces;
    const int64_t order = all.one_order ? 0 : job;
    const uint64_t* sorted = all.entries + order * all.padded;
    const int64_t* start = all.start + order * (s.bins + 1);
    const int64_t columns = s.inner / s.width;
    const int64_t o = job / columns;
    const int64_t column = job % columns * s.width;
    const int64_t begin = piece * kBinPiece;
    const int64_t limit = start[s.bins];
    const int64_t end = begin + kBinPiece < limit ? begin + kBinPiece : limit;
    T* aside = all.aside + team.index() * 2 * s.width;
    for (int64_t w = team.rank(); w < s.width; w += team.size()) {
      const T* from = all.source + o * s.count * s.inner + column + w;
      T* to = all.y + o * s.bins * s.inner + column + w;
      for (int64_t p = begin; p < end;) {
        const auto bin = static_cast<int64_t>(sorted[p] >> 32);
        const int64_t stop = start[bin + 1] < end ? start[bin + 1] : end;
        T sum = 0;
        for (; p < stop; ++p) sum += from[static_cast<int64_t>(sorted[p] & 0xFFFFFFFFU) * s.inner];
        if (start[bin] < begin) {
          aside[w] = sum;
        } else if (start[bin + 1] > end) {
          aside[s.width + w] = sum;
        } else {
          all.put(to[bin * s.inner], sum);
        }
      }
    }
  }
};

/// A team for each piece in which a bin begins that continues beyond the piece.
template <class T>
struct JoinPieces {
  BinPlaces<T> all;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const BinSums& s = all.sums;
    const int64_t job = team.index() / all.pieces;
    const int64_t piece = team.index() % all.pieces;
    const int64_t order = all.one_order ? 0 : job;
    const int64_t* start = all.start + order * (s.bins + 1);
    const int64_t begin = piece * kBinPiece;
    const int64_t end = begin + kBinPiece;
    if (end >= start[s.bins]) return;
    const auto bin = static_cast<int64_t>(all.entries[order * all.padded + end - 1] >> 32);
    if (start[bin] < begin || start[bin + 1] <= end) return;
    const int64_t last = (start[bin + 1] - 1) / kBinPiece;
    const int64_t columns = s.inner / s.width;
    T* to = all.y + (job / columns * s.bins + bin) * s.inner + job % columns * s.width;
    const T* aside = all.aside + team.index() * 2 * s.width;
    for (int64_t w = team.rank(); w < s.width; w += team.size()) {
      T sum = aside[s.width + w];
      for (int64_t p = piece + 1; p <= last; ++p) sum += aside[(p - piece) * 2 * s.width + w];
      all.put(to[w], sum);
    }
  }
};

/// Without `adds`, y must hold zeros.
template <class T>
void add_by_bin(const BinSums& sums, const T* source, T* y, bool adds = true) {
  if (sums.count == 0 || sums.outer == 0 || sums.inner == 0) return;
  if (sums.count >= int64_t{1} << 31 || sums.bins >= int64_t{1} << 31)
    fail("{}: {} terms for {} places are too many; there may be 2^31 - 1 of each", sums.op, sums.count, sums.bins);
  const Device device = Device::cuda(platform::current());
  const int64_t orders = sums.orders();
  const int64_t jobs = sums.outer * sums.columns();
  const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sums.count)));
  const Tensor entries = Tensor::empty({orders * padded}, DType::i64, device);
  const Tensor start = Tensor::empty({orders * (sums.bins + 1)}, DType::i64, device);
  auto* sorted = static_cast<uint64_t*>(entries.raw());
  launch_threads(orders * padded, MakeBinEntries{sums, padded, sorted});
  sort_rows_of_entries(orders, padded, sorted);
  launch_threads(orders * (sums.count + 1), FindStarts{sums.bins, sums.count, padded, sorted, start.data<int64_t>()});
  const int64_t pieces = ceil_div(sums.count, kBinPiece);
  const Tensor aside = Tensor::empty({jobs * pieces * 2 * sums.width}, dtype_of<T>, device);
  const BinPlaces<T> places{sums,   padded, pieces,          orders == 1, sorted, start.data<int64_t>(),
                            source, y,      aside.data<T>(), adds};
  launch_rows(jobs * pieces, sums.width, SumPieces<T>{places});
  launch_rows(jobs * pieces, sums.width, JoinPieces<T>{places});
}

}  // namespace bochner::cuda
