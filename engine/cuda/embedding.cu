#include "engine/ops/embedding.h"

#include "engine/bf16.h"
#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/parts/scatter.h"

namespace bochner::cuda {
namespace {

/// `each` elements of a row per thread.
template <class S, int each>
struct Forward {
  using T = ComputeType<S>;
  int64_t entries, dim, length;
  const T* table;
  const int64_t* ids;
  const T* positions;
  S* y;
  const char* op;  // from the host, which prints it: a literal in a kernel lies on the card
  Fault* fault;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t i = t / (dim / each);
    const int64_t column = t % (dim / each) * each;
    const int64_t id = ids[i];
    const bool valid = id >= 0 && id < entries;
    if (!valid && column == 0) raise(fault, op, i, id, entries);
    auto value = load<each>(table + (valid ? id : 0) * dim + column);
    if (positions != nullptr) value += load<each>(positions + i % length * dim + column);
    store_from<T, each>(y + t * each, valid ? value : Vector<T, each>{});
  }
};

}  // namespace

void embedding(const Tensor& table, const Tensor& ids, const Tensor& positions, const Tensor& y) {
  if (y.size() == 0) return;
  const int64_t dim = table.size(1);
  visit_stored(y.dtype(), "embedding", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const T* places = positions.defined() ? positions.data<T>() : nullptr;
    const int64_t length = positions.defined() ? positions.size(0) : 1;
    const T* rows = table.data<T>();
    S* to = y.data<S>();
    if (dim % 4 == 0 && aligned(rows) && aligned(to) && aligned(places)) {
      launch_threads(y.size() / 4, Forward<S, 4>{table.size(0), dim, length, rows, ids.data<int64_t>(), places, to,
                                                 "embedding", platform::fault()});
    } else {
      launch_threads(y.size(), Forward<S, 1>{table.size(0), dim, length, rows, ids.data<int64_t>(), places, to,
                                             "embedding", platform::fault()});
    }
  });
}

void embedding_backward(const Tensor& g, const Tensor& ids, int64_t padding, const Tensor& dtable) {
  if (dtable.size() == 0) return;
  visit_stored(g.dtype(), "embedding", [&]<class S>(TypeTag<S>) {
    const int64_t dim = dtable.size(1);
    add_by_bin({1, dtable.size(0), ids.size(), dim, dim, 0, 1, 0, padding, ids.data<int64_t>(), platform::fault(),
                "embedding"},
               g.data<S>(), dtable.data<ComputeType<S>>(), false);
  });
}

}  // namespace bochner::cuda
