// Where tensors live: a value, passed explicitly. Nothing moves between devices unless Tensor::to is called.
#pragma once

#include <string>
#include <string_view>

#include "engine/error.h"

namespace bochner {

struct Device {
  enum class Kind : unsigned char { cpu, cuda };

  Kind kind = Kind::cpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index = 0) { return {Kind::cuda, index}; }
  /// `cpu`, `cuda` or `cuda:1`; an Error with the reason if this build or machine has no such device.
  static Device named(std::string_view name);

  bool is_cpu() const { return kind == Kind::cpu; }
  bool is_cuda() const { return kind == Kind::cuda; }
  bool operator==(const Device&) const = default;
  /// `cpu` or `cuda:0`.
  std::string str() const;
};

}  // namespace bochner

template <>
struct fmt::formatter<bochner::Device> : fmt::formatter<fmt::string_view> {
  template <class Context>
  auto format(const bochner::Device& device, Context& context) const {
    return fmt::formatter<fmt::string_view>::format(device.str(), context);
  }
};
