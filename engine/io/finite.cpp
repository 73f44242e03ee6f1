#include "engine/io/finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/error.h"
#include "engine/io/bytes.h"
#include "engine/io/elements.h"

namespace bochner {
namespace {

/// The first element all of whose bits of the exponent are set; -1 if there is none. Whole blocks are tested without a
/// branch, which takes less time than reading them from a file.
template <class Bits>
int64_t first_not_finite(const Tensor& tensor, Bits exponent) {
  constexpr int64_t kBlock = 4096;
  const auto* const bytes = bytes_of(tensor).data();
  const auto is_bad = [&](int64_t i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    return (bits & exponent) == exponent;
  };
  for (int64_t begin = 0; begin < tensor.size(); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, tensor.size());
    bool any = false;
    for (int64_t i = begin; i < end; ++i) any |= is_bad(i);
    for (int64_t i = begin; any && i < end; ++i) {
      if (is_bad(i)) return i;
    }
  }
  return -1;
}

int64_t first_not_finite(const Tensor& tensor) {
  if (tensor.dtype() == DType::f32) return first_not_finite<uint32_t>(tensor, 0x7f800000U);
  if (tensor.dtype() == DType::bf16) return first_not_finite<uint16_t>(tensor, 0x7f80U);
  if (tensor.dtype() == DType::f64) return first_not_finite<uint64_t>(tensor, 0x7ff0000000000000ULL);
  return -1;
}

}  // namespace

void require_finite(const Tensor& tensor, const std::string& name, const std::string& file) {
  const int64_t bad = first_not_finite(tensor);
  if (bad < 0) return;
  fail("{}: tensor {}: element {} of {} is infinite or no number; restore the file from a copy, or take another", file,
       shown(name), bad, tensor.size());
}

}  // namespace bochner
