#include "engine/ops/copy.h"

#include <cstring>
#include <numeric>

#include "engine/cpu/parts/rows.h"

namespace bochner::cpu {
namespace {

template <class To, class From>
void copy_rows(const Loop& loop) {
  for_each_row<2>(loop, [&](const Row<2>& row) {
    To* to = loop.at<To>(0) + row.offsets[0];
    const From* from = loop.at<From>(1) + row.offsets[1];
    const auto [step, stride] = row.strides;
    if (row.contiguous()) {
      if constexpr (std::is_same_v<To, From>) {
        std::memcpy(to, from, static_cast<size_t>(row.size) * sizeof(To));
      } else {
        for (int64_t i = 0; i < row.size; ++i) to[i] = converted<To>(from[i]);
      }
    } else {
      for (int64_t i = 0; i < row.size; ++i) to[i * step] = converted<To>(from[i * stride]);
    }
  });
}

}  // namespace

void copy(const Loop& loop, DType to, DType from) {
  visit_all(to, [&]<class To>(TypeTag<To>) {
    visit_all(from, [&]<class From>(TypeTag<From>) { copy_rows<To, From>(loop); });
  });
}

void fill(const Loop& loop, DType to, double value) {
  visit_all(to, [&]<class To>(TypeTag<To>) {
    const To number = converted<To>(value);
    for_each_row<1>(loop, [&](const Row<1>& row) {
      To* data = loop.at<To>(0) + row.offsets[0];
      for (int64_t i = 0; i < row.size; ++i) data[i * row.strides[0]] = number;
    });
  });
}

void count_up(int64_t* to, int64_t count) { std::iota(to, to + count, int64_t{0}); }

}  // namespace bochner::cpu
