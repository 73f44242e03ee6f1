// The input as a packed file, read whole and in small pieces.
#include "engine/io/zstd.h"

#include <array>

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes = fuzz::input(data, size);
  fuzz::may_refuse([&] {
    const std::vector<std::byte> whole = parse_zstd(bytes, "fuzz", 1 << 20);
    ZstdSource source(std::make_unique<MemorySource>(bytes, "fuzz"));
    std::vector<std::byte> pieces;
    std::array<std::byte, 7> piece{};
    while (const size_t count = source.read(piece)) pieces.insert(pieces.end(), piece.begin(), piece.begin() + count);
    fuzz::must(whole == pieces, "pieces make the whole");
  });
  return 0;
}
