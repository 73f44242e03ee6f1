#include "engine/cpu/embedding.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

void check(const int64_t* ids, int64_t count, int64_t entries) {
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= entries) {
      fail("embedding: id {} at place {} lies outside the table of {} entries", ids[i], i, entries);
    }
  }
}

}  // namespace

void embedding(const Tensor& table, const Tensor& ids, const Tensor& y) {
  const int64_t dim = table.size(1);
  const int64_t* id = ids.data<int64_t>();
  check(id, ids.size(), table.size(0));
  visit_floating(table.dtype(), "embedding", [&]<class T>(TypeTag<T>) {
    parallel_for(ids.size(), 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(y.data<T>() + i * dim, table.data<T>() + id[i] * dim, static_cast<size_t>(dim) * sizeof(T));
      }
    });
  });
}

void embedding_backward(const Tensor& g, const Tensor& ids, const Tensor& dtable) {
  const int64_t dim = dtable.size(1);
  const int64_t entries = dtable.size(0);
  const int64_t* id = ids.data<int64_t>();
  check(id, ids.size(), entries);
  // Places by entry, each entry's in their order (counting sort); then entries share nothing and sum alone.
  std::vector<int64_t> start(static_cast<size_t>(entries) + 1, 0);
  for (int64_t i = 0; i < ids.size(); ++i) ++start[static_cast<size_t>(id[i]) + 1];
  std::partial_sum(start.begin(), start.end(), start.begin());
  std::vector<int64_t> places(static_cast<size_t>(ids.size()));
  std::vector<int64_t> next(start.begin(), start.end() - 1);
  for (int64_t i = 0; i < ids.size(); ++i) places[static_cast<size_t>(next[static_cast<size_t>(id[i])]++)] = i;
  // A frequent entry is cut into pieces of its own, added in order.
  constexpr int64_t kPiece = 512;
  struct Piece {
    int64_t entry, begin, end;
  };
  std::vector<Piece> pieces;
  for (int64_t e = 0; e < entries; ++e) {
    const int64_t stop = start[static_cast<size_t>(e) + 1];
    for (int64_t at = start[static_cast<size_t>(e)]; at < stop; at += kPiece)
      pieces.push_back({e, at, std::min(stop, at + kPiece)});
  }
  visit_floating(dtable.dtype(), "embedding", [&]<class T>(TypeTag<T>) {
    const auto count = static_cast<int64_t>(pieces.size());
    const Tensor partial = Tensor::zeros({std::max<int64_t>(count, 1), dim}, dtable.dtype());
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const Piece& piece = pieces[static_cast<size_t>(p)];
        T* to = partial.data<T>() + p * dim;
        for (int64_t k = piece.begin; k < piece.end; ++k) {
          const T* from = g.data<T>() + places[static_cast<size_t>(k)] * dim;
          for (int64_t j = 0; j < dim; ++j) to[j] += from[j];
        }
      }
    });
    dtable.fill_(0);
    for (int64_t p = 0; p < count; ++p) {
      T* to = dtable.data<T>() + pieces[static_cast<size_t>(p)].entry * dim;
      const T* from = partial.data<T>() + p * dim;
      for (int64_t j = 0; j < dim; ++j) to[j] += from[j];
    }
  });
}

}  // namespace bochner::cpu
