// Rows (or single elements) summed by bin, in the order of their positions, without atomics. Terms are sorted by the
// row of y to which they belong, so that each row has a run of terms. A short run is summed at once. A long one is
// split into pieces of the sorted order, which are summed and kept aside; then these parts are added in a fixed order.
#pragma once

#include <bit>

#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/parts/radix_sort.h"
#include "engine/tensor.h"

namespace bochner::cuda {

/// y[o, index, c] += source[o, i, c], with width = inner if all elements of a row have the same index, else 1.
struct BinSums {
  int64_t outer, bins, count, inner, width;
  int64_t outer_stride, count_stride, inner_stride;  ///< of the index
  int64_t skipped;                                   ///< positions with this bin add nothing; -1: none
  const int64_t* index;
  Fault* fault;
  const char* op;

  /// If one index serves all of `outer`, it is sorted once, and its order is reused.
  int64_t repeats() const { return outer_stride == 0 && inner_stride == 0 ? outer : 1; }
  /// The number of terms and of rows of y, each `width` wide, in each repeat.
  int64_t terms() const { return outer / repeats() * count * (inner / width); }
  int64_t rows() const { return outer / repeats() * bins * (inner / width); }
};

/// Term i: its row of y (one past the last if it adds nothing), then i, in the lowest bits.
struct MakeTerm {
  BinSums sums;
  int64_t columns, rows;
  int shift;

  BOCHNER_DEVICE uint64_t operator()(int64_t i) const {
    const int64_t column = columns == 1 ? 0 : i % columns;
    const int64_t line = columns == 1 ? i : i / columns;
    const int64_t o = line < sums.count ? 0 : line / sums.count;
    const int64_t place = line - o * sums.count;
    const int64_t bin = sums.index[o * sums.outer_stride + place * sums.count_stride + column * sums.inner_stride];
    const bool valid = bin >= 0 && bin < sums.bins;
    if (!valid && bin != sums.skipped) raise(sums.fault, sums.op, place, bin, sums.bins);
    const int64_t row = valid && bin != sums.skipped ? (o * sums.bins + bin) * columns + column : rows;
    return static_cast<uint64_t>(row) << shift | static_cast<uint64_t>(i);
  }
};

/// start[row]: the first sorted term of the row, or of the rows after it; start[rows] is the end of the terms that
/// count.
struct FindStarts {
  int64_t terms;
  int shift;
  const uint64_t* sorted;
  int64_t* start;
  BOCHNER_DEVICE void operator()(int64_t row) const {
    int64_t low = 0;
    int64_t high = terms;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (static_cast<int64_t>(sorted[middle] >> shift) < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    start[row] = low;
  }
};

/// n / size, by a multiplication if all n are below 2^31.
struct Quotient {
  int64_t size;
  bool quick;
  Divider divider;

  Quotient(int64_t divisor, int64_t bound)
      : size(divisor), quick(bound < int64_t{1} << 31), divider(quick ? divisor : 1) {}
  BOCHNER_DEVICE int64_t operator()(int64_t n) const {
    return quick ? static_cast<int64_t>(divider.quotient(static_cast<uint32_t>(n))) : n / size;
  }
};

/// Sorted terms per piece; one thread sums no run longer than this.
inline constexpr int64_t kRunPiece = 64;

/// Terms are stored as S and summed as T.
template <class T, int each, class S>
struct Runs {
  using Part = Vector<T, each>;  // neighbouring columns of a row

  int64_t repeats, terms, rows, groups;  ///< groups: groups of `each` columns per row
  int64_t pieces;
  int shift;
  bool adds;  ///< otherwise y is overwritten
  const uint64_t* sorted;
  const int64_t* start;
  const S* source;
  Part* y;
  Part* aside;  ///< (repeats, pieces, 2, groups): sums of the long runs in which a piece begins and ends

  BOCHNER_DEVICE int64_t row_of(int64_t p) const { return static_cast<int64_t>(sorted[p] >> shift); }
  BOCHNER_DEVICE bool is_long(int64_t row) const { return start[row + 1] - start[row] > kRunPiece; }
  BOCHNER_DEVICE Part* aside_of(int64_t repeat, int64_t piece, int64_t group) const {
    return aside + (repeat * pieces + piece) * 2 * groups + group;
  }
  BOCHNER_DEVICE void put(int64_t repeat, int64_t row, int64_t group, Part sum) const {
    Part& to = y[(repeat * rows + row) * groups + group];
    if (adds) sum += to;
    to = sum;
  }
  /// The sum of at(0) ... at(count - 1), in this order. The reads of a batch are in flight together; near the end, the
  /// last element is read again in place of those that do not exist, since the compiler would serialise conditional
  /// reads.
  template <class At>
  BOCHNER_DEVICE static Part sum_of(int count, const At& at) {
    constexpr int kAtOnce = 4;
    Part sum{};
#pragma unroll 1
    for (int i = 0; i < count; i += kAtOnce) {
      Part held[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) held[j] = at(i + j < count ? i + j : count - 1);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (i + j < count) sum += held[j];
      }
    }
    return sum;
  }
  BOCHNER_DEVICE Part sum_terms(int64_t repeat, int64_t begin, int64_t end, int64_t group) const {
    const auto mask = static_cast<uint32_t>((uint64_t{1} << shift) - 1);
    const S* from = source + (repeat * terms * groups + group) * each;
    const uint64_t* first = sorted + begin;
    return sum_of(static_cast<int>(end - begin), [&](int i) {
      const uint64_t place = static_cast<uint32_t>(first[i]) & mask;
      return load_as<T, each>(from + place * static_cast<uint32_t>(groups) * each);
    });
  }
};

/// Two threads per group of columns of a piece, which keep the sums of long runs aside: of the one in which the piece
/// begins, and of the one that begins in it. Then one thread per group of columns of a row of y, which sums a short
/// run; if there are more rows than terms, one per group of columns of a term instead, active if the term is the first
/// of its run.
template <class T, int each, class S>
struct SumRuns {
  Runs<T, each, S> runs;
  int64_t piece_threads, units;  ///< rows, or terms
  bool by_term;
  Quotient by_groups, by_halves, by_units;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const bool of_piece = t < piece_threads;
    const int64_t place = of_piece ? t : t - piece_threads;
    const int64_t whole = by_groups(place);
    const int64_t group = place - whole * runs.groups;
    const int64_t repeat = of_piece ? by_halves(whole) : by_units(whole);
    const int64_t unit = whole - repeat * (of_piece ? 2 * runs.pieces : units);
    const int64_t piece_begin = unit / 2 * kRunPiece;
    const bool last = unit % 2 != 0;  // of a piece: the run that begins in it
    int64_t row = unit;
    int64_t piece_end = 0;
    if (of_piece) {
      const int64_t limit = runs.start[runs.rows];
      piece_end = piece_begin + kRunPiece < limit ? piece_begin + kRunPiece : limit;
      if (piece_begin >= piece_end) return;
      row = runs.row_of(last ? piece_end - 1 : piece_begin);
    } else if (by_term) {
      row = runs.row_of(unit);
      if (row == runs.rows) return;
    }
    int64_t begin = runs.start[row];
    int64_t end = runs.start[row + 1];
    if ((end - begin > kRunPiece) != of_piece) return;
    if (of_piece) {
      if (last != (begin >= piece_begin)) return;
      begin = last ? begin : piece_begin;
      end = end < piece_end ? end : piece_end;
    } else if ((by_term && begin != unit) || (runs.adds && begin == end)) {
      return;
    }
    const auto sum = runs.sum_terms(repeat, begin, end, group);
    if (of_piece) {
      runs.aside_of(repeat, unit / 2, group)[last ? runs.groups : 0] = sum;
    } else {
      runs.put(repeat, row, group, sum);
    }
  }
};

/// One block per kWide groups of columns (of all repeats) of kPieces pieces. It adds the parts of the long runs that
/// begin there: first runs of few parts, with one warp each, then the others, with all warps for each.
template <class T, int each, class S>
struct JoinRuns {
  using Part = Vector<T, each>;  // neighbouring columns of a row
  static constexpr int kPieces = 16, kWide = 32, kStrands = 16;
  static constexpr size_t kShared = kStrands * kWide * sizeof(Part) + 2 * kPieces * sizeof(int64_t);

  Runs<T, each, S> runs;
  Divider by_blocks;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const uint32_t stretch = by_blocks.quotient(static_cast<uint32_t>(team.index()));
    const int64_t first = static_cast<int64_t>(stretch) * kPieces;
    const int64_t first_column = (team.index() - static_cast<int64_t>(stretch) * by_blocks.divisor) * kWide;
    const int64_t columns = runs.repeats * runs.groups;
    Part* strands = team.template shared<Part>();
    auto* rows = reinterpret_cast<int64_t*>(strands + kStrands * kWide);
    int64_t* parts = rows + kPieces;
    for (int i = team.rank(); i < kPieces; i += team.size()) find(first + i, rows[i], parts[i]);
    team.sync();
    for (int l = team.rank(); l < kPieces * kWide; l += team.size()) {
      const int i = l / kWide;
      const int64_t column = first_column + l % kWide;
      if (column >= columns || parts[i] == 0 || parts[i] > kStrands) continue;
      put(rows[i], column, sum(first + i, column, 0, 1, parts[i]));
    }
    for (int i = 0; i < kPieces; ++i) {
      if (parts[i] <= kStrands) continue;
      for (int l = team.rank(); l < kStrands * kWide; l += team.size()) {
        const int64_t column = first_column + l % kWide;
        if (column < columns) strands[l] = sum(first + i, column, l / kWide, kStrands, parts[i]);
      }
      team.sync();
      for (int l = team.rank(); l < kWide && first_column + l < columns; l += team.size()) {
        Part total = strands[l];
        for (int strand = 1; strand < kStrands; ++strand) total += strands[strand * kWide + l];
        put(rows[i], first_column + l, total);
      }
      team.sync();
    }
  }
  /// The row of the long run that begins in a piece, and the number of pieces in which it has parts; 0 if none begins.
  BOCHNER_DEVICE void find(int64_t piece, int64_t& row, int64_t& parts) const {
    const int64_t begin = piece * kRunPiece;
    const int64_t end = begin + kRunPiece;
    row = 0;
    parts = 0;
    if (end >= runs.start[runs.rows]) return;
    row = runs.row_of(end - 1);
    if (runs.start[row] >= begin && runs.is_long(row)) parts = (runs.start[row + 1] - 1) / kRunPiece - piece + 1;
  }
  /// The sum of part `from` and every `step`-th part after it, of the run that begins in `piece`.
  BOCHNER_DEVICE Part sum(int64_t piece, int64_t column, int from, int step, int64_t parts) const {
    const int64_t repeat = column / runs.groups;
    const Part* aside = runs.aside_of(repeat, piece, column - repeat * runs.groups);
    return Runs<T, each, S>::sum_of(static_cast<int>(ceil_div(parts - from, step)), [&](int j) {
      const int64_t part = from + static_cast<int64_t>(j) * step;
      return aside[part == 0 ? runs.groups : part * 2 * runs.groups];
    });
  }
  BOCHNER_DEVICE void put(int64_t row, int64_t column, const Part& total) const {
    const int64_t repeat = column / runs.groups;
    runs.put(repeat, row, column - repeat * runs.groups, total);
  }
};

template <class T, int each, class S>
void sum_runs(const BinSums& sums, const Tensor& sorted, int shift, const Tensor& start, const S* source, T* y,
              bool adds) {
  using Part = Vector<T, each>;  // neighbouring columns of a row
  const int64_t repeats = sums.repeats();
  const int64_t terms = sums.terms();
  const int64_t pieces = terms > kRunPiece ? ceil_div(terms, kRunPiece) : 0;  // otherwise no run is long
  const int64_t groups = sums.width / each;
  const Tensor aside = Tensor::empty({repeats * pieces * 2 * sums.width}, dtype_of<T>, sorted.device());
  const Runs<T, each, S> runs{repeats,
                              terms,
                              sums.rows(),
                              groups,
                              pieces,
                              shift,
                              adds,
                              static_cast<const uint64_t*>(sorted.raw()),
                              start.data<int64_t>(),
                              source,
                              reinterpret_cast<Part*>(y),
                              reinterpret_cast<Part*>(aside.data<T>())};
  const bool by_term = adds && terms < runs.rows;
  const int64_t units = by_term ? terms : runs.rows;
  const int64_t piece_threads = repeats * 2 * pieces * groups;
  const int64_t row_threads = repeats * units * groups;
  const int64_t bound = std::max(piece_threads, row_threads);
  launch_threads(piece_threads + row_threads,
                 SumRuns<T, each, S>{runs, piece_threads, units, by_term, Quotient(groups, bound),
                                     Quotient(std::max<int64_t>(2 * pieces, 1), bound), Quotient(units, bound)});
  using Join = JoinRuns<T, each, S>;
  const int64_t blocks = ceil_div(repeats * groups, Join::kWide);
  launch_blocks<Join::kStrands * Join::kWide>(ceil_div(pieces, Join::kPieces) * blocks, Join::kShared,
                                              Join{runs, Divider(blocks)});
}

/// Without `adds`, y is overwritten: rows without a term become 0.
template <class T, class S>
void add_by_bin(const BinSums& sums, const S* source, T* y, bool adds = true) {
  if (sums.outer == 0 || sums.bins == 0 || sums.inner == 0) return;
  const int64_t terms = sums.terms();
  const int64_t rows = sums.rows();
  if (terms == 0) {
    if (!adds) platform::clear(y, static_cast<size_t>(sums.outer * sums.bins * sums.inner) * sizeof(T));
    return;
  }
  const int shift = std::bit_width(static_cast<uint64_t>(terms - 1));
  const int bits = std::bit_width(static_cast<uint64_t>(rows));
  if (shift > 32 || shift + bits > 64)
    fail("{}: {} terms for {} places are too many; there may be 2^32 of each", sums.op, terms, rows);
  const Tensor sorted = sorted_entries(terms, shift, bits, MakeTerm{sums, sums.inner / sums.width, rows, shift});
  const Tensor start = Tensor::empty({rows + 1}, DType::i64, sorted.device());
  launch_threads(rows + 1, FindStarts{terms, shift, static_cast<const uint64_t*>(sorted.raw()), start.data<int64_t>()});
  constexpr int kEach = 16 / sizeof(T);
  const auto aligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
  if (sums.width % kEach == 0 && aligned(source) && aligned(y)) {
    sum_runs<T, kEach, S>(sums, sorted, shift, start, source, y, adds);
  } else {
    sum_runs<T, 1, S>(sums, sorted, shift, start, source, y, adds);
  }
}

}  // namespace bochner::cuda
