#include "engine/device.h"

#include <charconv>

#include "engine/card.h"

#if defined(BOCHNER_CUDA)
#include "engine/cuda/runtime/runtime.h"
#endif

namespace bochner {

Device Device::named(std::string_view name) {
  if (name == "cpu") return cpu();
  const bool indexed = name.starts_with("cuda:");
  int index = indexed ? 0 : own_card();
  const char* begin = name.data() + std::string_view("cuda:").size();
  const char* end = name.data() + name.size();
  const bool valid =
      name == "cuda" || (indexed && begin != end && std::from_chars(begin, end, index).ptr == end && index >= 0);
  if (!valid) fail("device: '{}' is none of cpu, cuda, cuda:0, cuda:1, ...", name);
#if defined(BOCHNER_CUDA)
  cuda::require_device(index);
  return cuda(index);
#else
  fail(
      "device: {}: the CUDA kernels are not built, as no card or no nvcc was found, or BOCHNER_CUDA=OFF; "
      "`./run --cuda NAME ...` builds them (or cmake -DBOCHNER_CUDA=ON)",
      name);
#endif
}

std::string Device::str() const { return is_cpu() ? "cpu" : fmt::format("cuda:{}", index); }

}  // namespace bochner
