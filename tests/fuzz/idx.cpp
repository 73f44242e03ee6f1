// The input as a file, plain or packed.
#include "engine/io/idx.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::may_refuse([&] {
    const Tensor array = parse_idx(fuzz::input(data, size), "fuzz");
    fuzz::must(fuzz::same(array, parse_idx(format_idx(array), "written")), "an array survives a round trip");
  });
  return 0;
}
