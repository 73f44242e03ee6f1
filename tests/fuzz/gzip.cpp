// The input as a packed file, read whole and in small pieces; then as bytes to pack.
#include "engine/io/gzip.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes = fuzz::input(data, size);
  fuzz::may_refuse([&] {
    const std::vector<std::byte> whole = parse_gzip(bytes, "fuzz", 1 << 20);
    GzipSource source(std::make_unique<MemorySource>(bytes, "pieces"));
    std::vector<std::byte> pieces;
    std::array<std::byte, 7> piece{};
    while (const size_t count = source.read(piece)) pieces.insert(pieces.end(), piece.begin(), piece.begin() + count);
    fuzz::must(whole == pieces, "pieces make the whole");
  });
  const std::vector<std::byte> back = parse_gzip(format_gzip(bytes, 1), "written", 1 << 30);
  fuzz::must(text_of(back) == text_of(bytes), "bytes survive a round trip");
  return 0;
}
