// The input as a file; then as [number of bytes of data][header text][data], so that the length of the header, which
// chance does not hit, is right.
#include "engine/io/safetensors.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

namespace {

void try_parser(Bytes bytes) {
  fuzz::may_refuse([&] {
    const Safetensors file = parse_safetensors(bytes, "fuzz");
    const Safetensors back = parse_safetensors(format_safetensors(file.tensors, file.metadata), "written");
    fuzz::must(back.metadata == file.metadata, "metadata survive a round trip");
    fuzz::must(back.tensors.size() == file.tensors.size(), "all tensors survive a round trip");
    for (const auto& [name, tensor] : file.tensors) {
      fuzz::must(fuzz::same(tensor, back.tensors.at(name)), "a tensor survives a round trip");
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes = fuzz::input(data, size);
  try_parser(bytes);
  if (size == 0) return 0;
  const size_t header = size - 1 - std::min<size_t>(data[0], size - 1);
  MemorySink file;
  file.write(Bytes(little_bytes<uint64_t>(header)));
  file.write(bytes.subspan(1));
  try_parser(file.take());
  return 0;
}
