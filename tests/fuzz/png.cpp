// The input as a file; as a file whose checksums are corrected; and as the fields and pixels of a file that is made
// from it: checksums and deflate would keep chance out of the rest of the decoder.
#include "engine/io/png.h"

#include <zlib.h>

#include <array>

#include "engine/io/stream.h"
#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";

void try_parser(Bytes bytes) {
  fuzz::may_refuse([&] {
    const Tensor image = parse_png(bytes, "fuzz");
    fuzz::must(fuzz::same(image, parse_png(format_png(image), "written")), "an image survives a round trip");
  });
}

uint32_t checksum(std::string_view body) {
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
}

std::string chunk(const std::string& name, std::string_view data) {
  const std::string body = name + std::string(data);
  std::string result(text_of(big_bytes(static_cast<uint32_t>(data.size()))));
  return result + body + std::string(text_of(big_bytes(checksum(body))));
}

std::string with_right_checksums(std::string file) {
  for (size_t at = kSignature.size(); at + 12 <= file.size();) {
    const auto length = ByteReader(bytes_of(std::string_view(file).substr(at, 4)), "chunk").big<uint32_t>("length");
    if (length > file.size() - at - 12) break;
    const uint32_t right = checksum(std::string_view(file).substr(at + 4, 4 + length));
    file.replace(at + 8 + length, 4, text_of(big_bytes(right)));
    at += 12 + length;
  }
  return file;
}

/// Takes bytes from the input, then starts again from its beginning.
class Loop {
 public:
  explicit Loop(std::string_view bytes) : bytes_(bytes) {}
  unsigned next() { return static_cast<unsigned char>(bytes_[at_++ % bytes_.size()]); }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

/// As many rows as the image has, each with a known filter: all of them, or those of the seven passes of Adam7.
std::string rows_for(unsigned width, unsigned height, unsigned bits_per_pixel, bool interlaced, Loop& input) {
  constexpr std::array<std::array<unsigned, 4>, 7> kPasses = {
      {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}};
  std::string rows;
  const auto add = [&](unsigned x, unsigned y, unsigned step_x, unsigned step_y) {
    const unsigned columns = width > x ? (width - x + step_x - 1) / step_x : 0;
    for (; columns > 0 && y < height; y += step_y) {
      rows += static_cast<char>(input.next() % 5);
      for (unsigned i = 0; i < (columns * bits_per_pixel + 7) / 8; ++i) rows += static_cast<char>(input.next());
    }
  };
  if (!interlaced) add(0, 0, 1, 1);
  for (const auto& [x, y, step_x, step_y] : kPasses) {
    if (interlaced) add(x, y, step_x, step_y);
  }
  return rows;
}

/// A correct file of any form, except for the fields that the input sets.
std::string made_of(std::string_view bytes) {
  constexpr std::array<unsigned, 7> kChannels = {1, 0, 3, 1, 2, 0, 4};  // per colour type
  Loop input(bytes);
  const unsigned width = input.next() % 40;
  const unsigned height = input.next() % 40;
  const unsigned bits = 1U << (input.next() % 5);
  const unsigned color = input.next() % 7;
  const bool interlaced = input.next() % 2 != 0;
  std::string header(text_of(big_bytes(uint32_t{width})));
  header += text_of(big_bytes(uint32_t{height}));
  header += {static_cast<char>(bits), static_cast<char>(color), '\0', '\0', interlaced ? '\1' : '\0'};
  std::string palette;
  for (unsigned i = color == 3 ? input.next() % 257 : 0; i > 0; --i) palette.append(3, static_cast<char>(input.next()));
  std::string transparency;
  for (unsigned i = input.next() % 9; i > 0; --i) transparency += static_cast<char>(input.next());
  const std::string rows = rows_for(width, height, bits * kChannels[color], interlaced, input);
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size(),
            1);
  packed.resize(size);
  return std::string(kSignature) + chunk("IHDR", header) + (palette.empty() ? "" : chunk("PLTE", palette)) +
         (transparency.empty() ? "" : chunk("tRNS", transparency)) + chunk("IDAT", packed) + chunk("IEND", "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(text_of(fuzz::input(data, size)));
  try_parser(bytes_of(input));
  try_parser(bytes_of(with_right_checksums(input)));
  if (size > 0) try_parser(bytes_of(made_of(input)));
  return 0;
}
