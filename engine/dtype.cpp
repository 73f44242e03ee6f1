#include "engine/dtype.h"

#include <array>
#include <utility>

namespace bochner {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  size_t size;
};

constexpr std::array<Entry, 7> kTypes = {{{DType::f32, "f32", 4},
                                          {DType::f64, "f64", 8},
                                          {DType::bf16, "bf16", 2},
                                          {DType::i32, "i32", 4},
                                          {DType::i64, "i64", 8},
                                          {DType::u8, "u8", 1},
                                          {DType::boolean, "bool", 1}}};

}  // namespace

size_t size_of(DType dtype) { return kTypes.at(static_cast<size_t>(dtype)).size; }

std::string_view name_of(DType dtype) { return kTypes.at(static_cast<size_t>(dtype)).name; }

}  // namespace bochner
