#include "engine/io/png.h"

#include <zlib.h>

#include "tests/engine/io/io_test.h"

namespace bochner {
namespace {

using test::BadFile;
using test::elements;
using test::expect_refused;
using test::golden;
using test::largest_allocation;
using test::message_of;
using test::TemporaryFolder;
using test::text;

const std::string kSignature = "\x89PNG\r\n\x1a\n";

std::string chunk(const std::string& name, const std::string& data) {
  const std::string body = name + data;
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return text(big_bytes(static_cast<uint32_t>(data.size()))) + body + text(big_bytes(static_cast<uint32_t>(crc)));
}

std::string header(uint32_t width, uint32_t height, int bits = 8, int color = 0, int rest = 0) {
  return chunk("IHDR", text(big_bytes(width)) + text(big_bytes(height)) + static_cast<char>(bits) +
                           static_cast<char>(color) + text(big_bytes(static_cast<uint32_t>(rest))).substr(1));
}

std::string deflated(const std::string& bytes) {
  std::string packed(bytes.size() + 100, '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return packed.substr(0, size);
}

std::string pixels(const std::string& rows) { return chunk("IDAT", deflated(rows)); }

const std::string kEnd = chunk("IEND", "");

Tensor sevens(const Shape& shape) {
  std::vector<uint8_t> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 7);
  return Tensor::from(values, shape);
}

TEST(Png, RoundTripKeepsPixels) {
  const TemporaryFolder folder;
  for (const int64_t channels : {1, 3, 4}) {
    for (const auto& [height, width] : {std::pair{1, 1}, {1, 17}, {33, 1}, {19, 23}, {300, 200}}) {
      const Tensor image = sevens({height, width, channels});
      write_png(folder / "a.png", image);
      const Tensor back = read_png(folder / "a.png");
      EXPECT_EQ(back.shape(), image.shape());
      EXPECT_EQ(elements(back), elements(image));
      EXPECT_EQ(read_file(folder / "a.png"), format_png(image));
    }
  }
  const Tensor flat = sevens({4, 5});
  EXPECT_EQ(parse_png(format_png(flat), "f").shape(), (Shape{4, 5, 1}));
  const Tensor turned = sevens({4, 5}).transpose(0, 1);
  EXPECT_EQ(elements(parse_png(format_png(turned), "f")), elements(turned));
}

TEST(Png, ReadsWhatPillowWrites) {
  std::vector<uint8_t> grey(12);
  std::vector<uint8_t> rgb, rgba, grey_alpha, bits;
  for (size_t i = 0; i < 12; ++i) {
    const auto g = grey[i] = static_cast<uint8_t>(i * 20);
    const auto last = static_cast<uint8_t>(255 - g);
    rgb.insert(rgb.end(), {g, static_cast<uint8_t>(g + 1), last});
    rgba.insert(rgba.end(), {g, static_cast<uint8_t>(g + 1), last, g});
    grey_alpha.insert(grey_alpha.end(), {g, g, g, last});
    bits.push_back(g > 100 ? 255 : 0);
  }
  const auto values = [](const char* name, int64_t channels) {
    const Tensor image = read_png(golden(name));
    EXPECT_EQ(image.shape(), (Shape{3, 4, channels})) << name;
    return image.to_vector<uint8_t>();
  };
  EXPECT_EQ(values("grey.png", 1), grey);
  EXPECT_EQ(values("rgb.png", 3), rgb);
  EXPECT_EQ(values("rgba.png", 4), rgba);
  EXPECT_EQ(values("grey_alpha.png", 4), grey_alpha);
  EXPECT_EQ(values("bits.png", 1), bits);
  EXPECT_EQ(values("palette.png", 3), rgb);
}

TEST(Png, ReadsOtherForms) {
  const auto values = [](const std::string& bytes) {
    return parse_png(bytes_of(kSignature + bytes), "f").to_vector<int32_t>();
  };
  using Values = std::vector<int32_t>;
  EXPECT_EQ(values(header(4, 1, 2) + pixels(std::string("\0\x1b", 2)) + kEnd), (Values{0, 85, 170, 255}));
  EXPECT_EQ(values(header(2, 1) + chunk("tRNS", std::string("\0\5", 2)) + pixels(std::string("\0\5\6", 3)) + kEnd),
            (Values{5, 5, 5, 0, 6, 6, 6, 255}));
  EXPECT_EQ(values(header(2, 1, 1, 3) + chunk("PLTE", "abcdef") + chunk("tRNS", "\x09") +
                   pixels(std::string("\0\x40", 2)) + kEnd),
            (Values{'a', 'b', 'c', 9, 'd', 'e', 'f', 255}));
  // Gamma changes nothing; two IDAT chunks; interlaced (the second pixel of a row of two comes in the sixth pass).
  EXPECT_EQ(
      values(header(1, 1) + chunk("gAMA", std::string("\0\0\xb1\x8f", 4)) + pixels(std::string("\0\x50", 2)) + kEnd),
      (Values{80}));
  EXPECT_EQ(values(header(2, 1, 8, 0, 1) + pixels(std::string("\0\7\0\x08", 4)) + kEnd), (Values{7, 8}));
  const std::string packed = deflated(std::string("\0\7", 2));
  EXPECT_EQ(values(header(1, 1) + chunk("IDAT", packed.substr(0, 3)) + chunk("IDAT", packed.substr(3)) + kEnd),
            (Values{7}));
}

TEST(Png, RefusesMorePixelsThanAskedForBeforeItUnpacksThem) {
  const std::vector<std::byte> large = format_png(Tensor::zeros({3000, 2000}, DType::u8));
  const auto parse = [&](int64_t most) { return message_of([&] { parse_png(large, "f", most); }); };
  EXPECT_EQ(parse(6'000'000), "no error");
  EXPECT_EQ(parse(5'999'999), "f: offset 16: png: 2000 x 3000 pixels are more than the 5999999 of an image here");
  EXPECT_LT(largest_allocation([&] { parse(1024); }), 100'000);
}

TEST(Png, RefusesToWriteWhatIsNoImage) {
  EXPECT_EQ(message_of([] {
              format_png(Tensor::zeros({4, 4, 2}, DType::u8));
            }),
            "png: u8 (4, 4, 2) cpu is no image; needs u8 (height, width) or (height, width, channels) with 1, 3 or 4 "
            "channels");
  EXPECT_NE(message_of([] {
              format_png(Tensor::zeros({4, 4}));
            }).find("f32 (4, 4) cpu is no image"),
            std::string::npos);
  EXPECT_NE(message_of([] { format_png(Tensor::zeros({4}, DType::u8)); }).find("is no image"), std::string::npos);
  EXPECT_EQ(message_of([] {
              format_png(Tensor::zeros({0, 4}, DType::u8));
            }),
            "png: (0, 4) is empty or too large for an image");
  EXPECT_THROW(format_png(Tensor()), Error);
}

TEST(Png, EveryChangeOfEveryByteBehindTheHeaderIsNoticed) {
  const std::string good = text(read_file(golden("rgba.png")));
  for (size_t i = 0; i < good.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      ASSERT_NE(message_of([&] { parse_png(bytes_of(bad), "f"); }), "no error") << "byte " << i << " by " << change;
    }
  }
}

TEST(Png, RefusesBadFiles) {
  const std::string s = kSignature;
  const std::string good = s + header(2, 2) + pixels(std::string("\0ab\0cd", 6)) + kEnd;
  const std::string row = pixels(std::string("\0a", 2));
  std::vector<BadFile> files = {
      {"an empty file", "", "the file is empty, no PNG image"},
      {"a JPEG", "\xff\xd8\xff\xe0" + std::string(20, 'x'), "offset 0: it does not begin as a PNG image does"},
      {"a file changed by a text mode", "\x89PNG\n\x1a\n" + good.substr(8), "it does not begin as a PNG image does"},
      {"pixels first", s + row, "Missing IHDR before IDAT'"},
      {"a short header chunk", s + chunk("IHDR", "abc"), "png: 'IHDR: invalid'"},
      {"two headers", s + header(1, 1) + header(1, 1) + row + kEnd, "png: 'IHDR: out of place'"},
      {"a wrong checksum of the header", s + header(1, 1).substr(0, 24) + "x" + row, "png: 'IHDR: CRC error'"},
      {"width 0", s + header(0, 1) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"height 0", s + header(1, 0) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"a width above the limit", s + header(0x7fffffff, 1) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"a height above the limit", s + header(1, 0x00100001) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"a terapixel", s + header(1 << 20, 1 << 20) + row + kEnd, "1048576 x 1048576 pixels cannot come out of"},
      {"a wide row", s + header(1 << 20, 1) + row + kEnd, "1048576 x 1 pixels cannot come out of"},
      {"many rows", s + header(1, 1 << 20) + row + kEnd, "1 x 1048576 pixels cannot come out of"},
      {"7 bits", s + header(1, 1, 7) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"4 bits of RGB", s + header(1, 1, 4, 2) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"16 bits", s + header(1, 1, 16) + pixels(std::string("\0ab", 3)) + kEnd, "png: 16 bits per channel, 8 are read"},
      {"colour type 1", s + header(1, 1, 8, 1) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"unknown compression", s + header(1, 1, 8, 0, 0x10000) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"unknown filters", s + header(1, 1, 8, 0, 0x100) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"unknown interlacing", s + header(1, 1, 8, 0, 2) + row + kEnd, "png: 'Invalid IHDR data'"},
      {"no palette", s + header(1, 1, 8, 3) + row + kEnd, "Missing PLTE before IDAT'"},
      {"a palette of 2 bytes", s + header(1, 1, 8, 3) + chunk("PLTE", "ab") + row + kEnd, "png: 'PLTE: invalid'"},
      {"a colour outside the palette is none of ours, but two palettes are",
       s + header(1, 1, 8, 3) + chunk("PLTE", "abc") + chunk("PLTE", "abc") + row + kEnd, "png: 'PLTE: duplicate'"},
      {"no pixels", s + header(1, 1) + kEnd, "png: "},
      {"an empty pixel chunk", s + header(1, 1) + chunk("IDAT", "") + kEnd, "png: 'Not enough image data'"},
      {"pixels that are not packed", s + header(1, 1) + chunk("IDAT", "abcdef") + kEnd, "png: 'IDAT: "},
      {"too few pixels", s + header(1, 2) + row + kEnd, "png: "},
      {"too many pixels", s + header(1, 1) + pixels(std::string("\0a\0b\0c", 6)) + kEnd, "png: "},
      {"an unknown filter",
       s + header(1, 1) +
           pixels("\x05"
                  "a") +
           kEnd,
       "png: 'bad adaptive filter value'"},
      {"a wrong checksum of the pixels", s + header(1, 1) + row.substr(0, row.size() - 1) + "x" + kEnd,
       "png: 'IDAT: CRC error'"},
      {"a wrong checksum inside the pixels",
       s + header(1, 1) + chunk("IDAT", deflated(std::string("\0a", 2)).substr(0, 9) + "x") + kEnd, "png: 'IDAT: "},
      {"a wrong checksum of a text", s + header(1, 1) + chunk("tEXt", "a").substr(0, 12) + "x" + row + kEnd,
       "CRC error"},
      {"a text of 2 GB", s + header(1, 1) + "\x7f\xff\xff\xff" + "tEXt", "png: 'tEXt: chunk data is too large'"},
      {"pixels of 2 GB", s + header(1, 1) + "\x7f\xff\xff\xff" + "IDAT" + row, "png: 'IDAT: chunk data is too large'"},
      {"a chunk longer than allowed", s + header(1, 1) + "\xff\xff\xff\xff" + "tEXt", "png: "},
      {"a chunk without a name", s + header(1, 1) + chunk(std::string(4, '\0'), "a") + row, "png: "},
      {"an unknown critical chunk", s + header(1, 1) + chunk("ABCD", "a") + row + kEnd, "png: "},
      {"no end", s + header(1, 1) + row, "png: 'the file is cut short'"},
  };
  for (size_t size = 1; size < good.size(); ++size) {
    files.push_back({fmt::format("cut to {} bytes", size), good.substr(0, size),
                     size < 8 ? "it does not begin as a PNG image" : "png: 'the file is cut short'"});
  }
  expect_refused(files, [](Bytes bytes, std::string_view file) { parse_png(bytes, file); });
}

}  // namespace
}  // namespace bochner
