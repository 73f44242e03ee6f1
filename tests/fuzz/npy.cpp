// The input as a file; then as a header text and data after a correct beginning.
#include "engine/io/npy.h"

#include "engine/io/stream.h"
#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

namespace {

void try_parser(Bytes bytes) {
  fuzz::may_refuse([&] {
    const Tensor array = parse_npy(bytes, "fuzz");
    fuzz::must(fuzz::same(array, parse_npy(format_npy(array), "written")), "an array survives a round trip");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes = fuzz::input(data, size);
  try_parser(bytes);
  if (size == 0) return 0;
  const size_t header = size - 1 - std::min<size_t>(data[0], size - 1);
  MemorySink file;
  file.write("\x93NUMPY\x02");
  file.write(std::string_view("\0", 1));
  file.write(Bytes(little_bytes(static_cast<uint32_t>(header))));
  file.write(bytes.subspan(1));
  try_parser(file.take());
  return 0;
}
