#include "engine/ops/embedding.h"

#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/parts/scatter.h"

namespace bochner::cuda {
namespace {

/// `each` elements of a row per thread.
template <class T, int each>
struct Forward {
  int64_t entries, dim, length;
  const T* table;
  const int64_t* ids;
  const T* positions;
  T* y;
  const char* op;  // from the host, which prints it: a literal in a kernel lies on the card
  Fault* fault;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t i = t / (dim / each);
    const int64_t column = t % (dim / each) * each;
    const int64_t id = ids[i];
    const bool valid = id >= 0 && id < entries;
    if (!valid && column == 0) raise(fault, op, i, id, entries);
    const T* row = table + (valid ? id : 0) * dim + column;
    const T* place = positions == nullptr ? nullptr : positions + i % length * dim + column;
    if constexpr (each == 4) {
      Four<T> value = load4(row);
      if (place != nullptr) {
        const Four<T> add = load4(place);
        for (int j = 0; j < 4; ++j) value.at[j] += add.at[j];
      }
      store4(y + t * 4, valid ? value : Four<T>{});
    } else {
      y[t] = valid ? (place == nullptr ? *row : *row + *place) : T(0);
    }
  }
};

}  // namespace

void embedding(const Tensor& table, const Tensor& ids, const Tensor& positions, const Tensor& y) {
  if (y.size() == 0) return;
  const int64_t dim = table.size(1);
  visit_floating(table.dtype(), "embedding", [&]<class T>(TypeTag<T>) {
    const T* places = positions.defined() ? positions.data<T>() : nullptr;
    const int64_t length = positions.defined() ? positions.size(0) : 1;
    const T* rows = table.data<T>();
    T* to = y.data<T>();
    if (dim % 4 == 0 && aligned(rows) && aligned(to) && aligned(places)) {
      launch_threads(y.size() / 4, Forward<T, 4>{table.size(0), dim, length, rows, ids.data<int64_t>(), places, to,
                                                 "embedding", platform::fault()});
    } else {
      launch_threads(y.size(), Forward<T, 1>{table.size(0), dim, length, rows, ids.data<int64_t>(), places, to,
                                             "embedding", platform::fault()});
    }
  });
}

void embedding_backward(const Tensor& g, const Tensor& ids, int64_t padding, const Tensor& dtable) {
  if (dtable.size() == 0) return;
  visit_floating(dtable.dtype(), "embedding", [&]<class T>(TypeTag<T>) {
    const int64_t dim = dtable.size(1);
    add_by_bin<T>({1, dtable.size(0), ids.size(), dim, dim, 0, 1, 0, padding, ids.data<int64_t>(), platform::fault(),
                   "embedding"},
                  g.data<T>(), dtable.data<T>(), false);
  });
}

}  // namespace bochner::cuda
