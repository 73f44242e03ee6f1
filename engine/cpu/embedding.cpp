#include "engine/ops/embedding.h"

#include <numeric>
#include <vector>

#include "engine/bf16.h"
#include "engine/cpu/parts/column_sum.h"
#include "engine/cpu/parts/stream.h"
#include "engine/ops/index.h"

namespace bochner::cpu {
namespace {

void check(const int64_t* ids, int64_t count, int64_t entries) {
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= entries) fail("{}", out_of_range("embedding", std::to_string(i), ids[i], entries));
  }
}

/// to += from
template <class T, class S>
void add_row(const S* from, int64_t dim, T* to) {
  for_lanes<T>(dim, [=]<class V>(TypeTag<V>, int64_t j) { store<V>(to + j, load<V>(to + j) + load<V>(from + j)); });
}

/// A small table: each piece of positions adds into its own table, which stays in the cache; then these tables are
/// added.
constexpr int64_t kPieces = 8;
constexpr int64_t kSmallTable = int64_t{1} << 19;  // bytes

template <class T, class S>
void add_into_tables(const S* g, const int64_t* ids, int64_t count, int64_t entries, int64_t dim, int64_t padding,
                     T* to) {
  const int64_t grain = ceil_div(count, kPieces);
  const int64_t pieces = ceil_div(count, grain);
  const Tensor tables = Tensor::zeros({pieces, entries, dim}, dtype_of<T>);
  T* all = tables.data<T>();
  parallel_for(count, grain, [=](int64_t begin, int64_t end) {
    T* table = all + begin / grain * entries * dim;
    for (int64_t i = begin; i < end; ++i) {
      if (ids[i] != padding) add_row(g + i * dim, dim, table + ids[i] * dim);
    }
  });
  add_parts(pieces, entries * dim, all, to);
}

/// Any table: positions are sorted by id and cut into pieces. An id whose positions lie in one piece is summed directly
/// into the table. If an id continues beyond a piece, its part of the sum is kept aside, and these parts are added in
/// order.
template <class T, class S>
void add_by_id(const S* g, const int64_t* ids, int64_t count, int64_t entries, int64_t dim, int64_t padding, T* to) {
  // Counting sort: the positions of id e, ascending, are order[start[e]] ... order[start[e + 1] - 1].
  std::vector<int64_t> start(static_cast<size_t>(entries) + 1, 0);
  for (int64_t i = 0; i < count; ++i) start[static_cast<size_t>(ids[i]) + 1] += ids[i] != padding;
  std::partial_sum(start.begin(), start.end(), start.begin());
  std::vector<int64_t> order(static_cast<size_t>(start.back()));
  std::vector<int64_t> next(start.begin(), start.end() - 1);
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] != padding) order[static_cast<size_t>(next[static_cast<size_t>(ids[i])]++)] = i;
  }
  parallel_for(entries, std::max<int64_t>(1, 65536 / dim),
               [=](int64_t begin, int64_t end) { std::fill(to + begin * dim, to + end * dim, T(0)); });

  const auto sorted = static_cast<int64_t>(order.size());
  const int64_t grain = std::max<int64_t>(64, 16384 / dim);
  const int64_t pieces = ceil_div(sorted, grain);
  // For each piece, the id that continues from the previous piece and the one that continues into the next, or -1.
  std::vector<int64_t> split(2 * static_cast<size_t>(pieces), -1);
  const Tensor aside = Tensor::zeros({2 * pieces, dim}, dtype_of<T>);
  T* sums = aside.data<T>();
  parallel_for(sorted, grain, [&](int64_t begin, int64_t end) {
    int64_t at = begin;
    while (at < end) {
      const int64_t id = ids[order[static_cast<size_t>(at)]];
      const int64_t first = start[static_cast<size_t>(id)];
      const int64_t stop = std::min(end, start[static_cast<size_t>(id) + 1]);
      T* row = to + id * dim;
      if (first < begin || stop < start[static_cast<size_t>(id) + 1]) {
        const int64_t slot = begin / grain * 2 + (first < begin ? 0 : 1);
        split[static_cast<size_t>(slot)] = id;
        row = sums + slot * dim;
      }
      for (; at < stop; ++at) add_row(g + order[static_cast<size_t>(at)] * dim, dim, row);
    }
  });
  for (int64_t slot = 0; slot < 2 * pieces; ++slot) {
    const int64_t id = split[static_cast<size_t>(slot)];
    if (id >= 0) add_row(sums + slot * dim, dim, to + id * dim);
  }
}

}  // namespace

void embedding(const Tensor& table, const Tensor& ids, const Tensor& positions, const Tensor& y) {
  const int64_t dim = table.size(1);
  const int64_t count = ids.size();
  const int64_t* id = ids.data<int64_t>();
  check(id, count, table.size(0));
  visit_stored(y.dtype(), "embedding", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const T* places = positions.defined() ? positions.data<T>() : nullptr;
    const int64_t length = positions.defined() ? positions.size(0) : 1;
    const auto piece = [=, rows = table.data<T>(), ys = y.data<S>()](int64_t begin, int64_t end) {
      BlockWriter<S> writer(ys + begin * dim, count * dim);
      for (int64_t i = begin; i < end; ++i) {
        const T* row = rows + id[i] * dim;
        S* to = writer.block(dim);
        if (places == nullptr) {
          for_lanes<T>(dim, [=]<class V>(TypeTag<V>, int64_t j) { store<V>(to + j, load<V>(row + j)); });
        } else {
          const T* place = places + i % length * dim;
          for_lanes<T>(
              dim, [=]<class V>(TypeTag<V>, int64_t j) { store<V>(to + j, load<V>(row + j) + load<V>(place + j)); });
        }
      }
    };
    if (dim > 0) parallel_for(count, std::max<int64_t>(1, 32768 / dim), piece);
  });
}

void embedding_backward(const Tensor& g, const Tensor& ids, int64_t padding, const Tensor& dtable) {
  const int64_t entries = dtable.size(0);
  const int64_t dim = dtable.size(1);
  const int64_t count = ids.size();
  const int64_t* id = ids.data<int64_t>();
  check(id, count, entries);
  if (dtable.size() == 0) return;
  visit_stored(g.dtype(), "embedding", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const bool small = entries * dim * static_cast<int64_t>(sizeof(T)) <= kSmallTable && 2 * kPieces * entries <= count;
    if (small) {
      add_into_tables(g.data<S>(), id, count, entries, dim, padding, dtable.data<T>());
    } else {
      add_by_id(g.data<S>(), id, count, entries, dim, padding, dtable.data<T>());
    }
  });
}

}  // namespace bochner::cpu
