#include "engine/io/elements.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace bochner {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

struct ElementEntry {
  int64_t size;
  DType dtype;
};

constexpr std::array<ElementEntry, 12> kElementTypes = {{{4, DType::f32},
                                                         {8, DType::f64},
                                                         {2, DType::bf16},
                                                         {4, DType::i32},
                                                         {8, DType::i64},
                                                         {1, DType::u8},
                                                         {1, DType::boolean},
                                                         {2, DType::f32},
                                                         {1, DType::i32},
                                                         {2, DType::i32},
                                                         {2, DType::i32},
                                                         {4, DType::i64}}};

bool is_native(FileType type) { return type <= FileType::boolean; }

/// IEEE 754 half precision: 1 bit of sign, 5 of exponent (bias 15), 10 of fraction.
float half_to_float(uint16_t bits) {
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : std::copysign(NAN, sign);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

void swap_bytes(std::span<std::byte> bytes, size_t size) {
  for (size_t i = 0; i < bytes.size(); i += size) std::reverse(bytes.begin() + i, bytes.begin() + i + size);
}

template <class From, class To, class Convert>
void widen(Bytes from, To* to, const Convert& convert) {
  for (size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From element;
    std::memcpy(&element, from.data() + i * sizeof(From), sizeof(From));
    to[i] = convert(element);
  }
}

void widen(FileType type, Bytes from, const Tensor& to) {
  const auto to_i32 = [](auto element) { return static_cast<int32_t>(element); };
  switch (type) {
    case FileType::f16:
      return widen<uint16_t>(from, to.data<float>(), half_to_float);
    case FileType::i8:
      return widen<int8_t>(from, to.data<int32_t>(), to_i32);
    case FileType::i16:
      return widen<int16_t>(from, to.data<int32_t>(), to_i32);
    case FileType::u16:
      return widen<uint16_t>(from, to.data<int32_t>(), to_i32);
    case FileType::u32:
      return widen<uint32_t>(from, to.data<int64_t>(), [](uint32_t element) { return static_cast<int64_t>(element); });
    default:
      BOCHNER_ASSERT(!is_native(type));
  }
}

}  // namespace

int64_t size_of(FileType type) { return kElementTypes.at(static_cast<size_t>(type)).size; }

DType dtype_for(FileType type) { return kElementTypes.at(static_cast<size_t>(type)).dtype; }

FileType file_type_of(DType dtype) { return static_cast<FileType>(dtype); }
static_assert(static_cast<int>(FileType::boolean) == static_cast<int>(DType::boolean));
static_assert(static_cast<int>(FileType::bf16) == static_cast<int>(DType::bf16));

ReadAt reader_of(Bytes bytes) {
  return [bytes](int64_t offset, std::span<std::byte> to) {
    BOCHNER_ASSERT(offset >= 0 && to.size() <= bytes.size() && static_cast<size_t>(offset) <= bytes.size() - to.size());
    std::copy_n(bytes.begin() + offset, to.size(), to.begin());
  };
}

Layout::Layout(FileType type, std::span<const int64_t> sizes, std::string_view what, std::string_view file,
               int64_t offset)
    : type_(type) {
  if (sizes.size() > static_cast<size_t>(Dims::kMaxRank)) {
    fail_at(file, offset, "{} has {} axes, Bochner's tensors have at most {}; reshape it before it is saved", what,
            sizes.size(), Dims::kMaxRank);
  }
  // Strides are products of the sizes other than 0, so these products must fit too. An element of the tensor may be
  // larger than one of the file.
  std::optional<int64_t> reach = std::max(size_of(type), static_cast<int64_t>(size_of(dtype_for(type))));
  for (const int64_t size : sizes) {
    if (size < 0) fail_at(file, offset, "{} has the negative size {}; the file is damaged", what, size);
    reach = try_multiply(*reach, std::max<int64_t>(size, 1));
    if (!reach) {
      fail_at(file, offset, "{} has shape {}, whose bytes overflow 63 bits; the file is damaged", what,
              Dims(sizes).str());
    }
  }
  shape_ = Shape(Dims(sizes));
  bytes_ = shape_.size() * size_of(type);
}

Tensor read_elements(const Layout& layout, std::endian order, const FillBytes& fill, std::string_view what,
                     std::string_view file, int64_t offset) {
  const FileType type = layout.type();
  Tensor tensor = Tensor::empty(layout.shape(), dtype_for(type));
  const auto count = static_cast<size_t>(layout.bytes());
  std::vector<std::byte> narrow(is_native(type) ? 0 : count);
  const std::span<std::byte> bytes =
      is_native(type) ? std::span(static_cast<std::byte*>(tensor.raw()), count) : std::span(narrow);
  fill(bytes);
  if (order != std::endian::native) swap_bytes(bytes, static_cast<size_t>(size_of(type)));
  if (type == FileType::boolean) {
    const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
    if (wrong != bytes.end()) {
      fail_at(file, offset + (wrong - bytes.begin()), "{} holds the bool {}, only 0 and 1 are allowed", what,
              std::to_integer<int>(*wrong));
    }
  }
  if (!is_native(type)) widen(type, bytes, tensor);
  return tensor;
}

Bytes bytes_of(const Tensor& tensor) {
  BOCHNER_ASSERT(tensor.defined() && tensor.device().is_cpu() && tensor.is_contiguous());
  return {static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(tensor.size()) * size_of(tensor.dtype())};
}

}  // namespace bochner
