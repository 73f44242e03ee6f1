#include "engine/device.h"

#include <charconv>

#if defined(BOCHNER_CUDA)
#include "engine/cuda/runtime.h"
#endif

namespace bochner {

Device Device::named(std::string_view name) {
  if (name == "cpu") return cpu();
  const bool indexed = name.starts_with("cuda:");
  int index = 0;
  const char* begin = name.data() + std::string_view("cuda:").size();
  const char* end = name.data() + name.size();
  const bool valid =
      name == "cuda" || (indexed && begin != end && std::from_chars(begin, end, index).ptr == end && index >= 0);
  if (!valid) fail("device: '{}' is none of cpu, cuda, cuda:0, cuda:1, ...", name);
#if defined(BOCHNER_CUDA)
  cuda::require_device(index);
  return cuda(index);
#else
  fail("device: {}: this build has no CUDA backend: nvcc was not found, or BOCHNER_CUDA=OFF, when it was configured",
       name);
#endif
}

std::string Device::str() const { return is_cpu() ? "cpu" : fmt::format("cuda:{}", index); }

}  // namespace bochner
