#include "engine/io/gzip.h"

#include "tests/engine/io/io_test.h"

namespace bochner {
namespace {

using test::BadFile;
using test::expect_refused;
using test::golden;
using test::largest_allocation;
using test::message_of;
using test::TemporaryFolder;
using test::text;

std::vector<std::byte> unpack(Bytes bytes, std::string_view file = "f.gz", int64_t limit = 1 << 20) {
  return parse_gzip(bytes, file, limit);
}

/// Delivers one byte at a time.
class SlowSource final : public ByteSource {
 public:
  explicit SlowSource(Bytes bytes) : memory_(bytes, "slow") {}
  size_t read(std::span<std::byte> to) override { return memory_.read(to.first(std::min<size_t>(to.size(), 1))); }
  const std::string& name() const override { return memory_.name(); }

 private:
  MemorySource memory_;
};

std::string noise(size_t size) {
  std::string result;
  uint32_t state = 1;
  for (size_t i = 0; i < size; ++i) result += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return result;
}

TEST(Gzip, GivesBackWhatWasPacked) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{32767}, size_t{32768}, size_t{300000}}) {
    for (const std::string& bytes : {std::string(size, 'a'), noise(size)}) {
      const std::vector<std::byte> packed = format_gzip(bytes_of(bytes));
      EXPECT_EQ(text(unpack(packed)), bytes);
      EXPECT_EQ(packed, format_gzip(bytes_of(bytes)));
    }
  }
  EXPECT_LT(format_gzip(bytes_of(std::string(100000, 'a')), 9).size(), 200U);
  EXPECT_THROW(format_gzip({}, 10), Error);
}

TEST(Gzip, SmallPiecesMakeNoDifference) {
  const std::string bytes = noise(70000) + std::string(70000, 'x');
  MemorySink packed;
  GzipSink sink(packed);
  for (size_t i = 0; i < bytes.size(); i += 7) sink.write(std::string_view(bytes).substr(i, 7));
  sink.finish();
  const std::vector<std::byte> all = packed.take();
  GzipSource source(std::make_unique<SlowSource>(all));
  EXPECT_EQ(text(read_all(source, 1 << 20)), bytes);
}

TEST(Gzip, ReadsAllMembersAndZeroPadding) {
  EXPECT_EQ(text(unpack(read_file(golden("two_members.gz")))), "hello, world\n");
  EXPECT_EQ(text(unpack(bytes_of(text(read_file(golden("two_members.gz"))) + std::string(100, '\0')))),
            "hello, world\n");
}

TEST(Gzip, FilesAreUnpackedWhateverTheirName) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "packed", format_gzip(bytes_of("text")));
  write_file_atomically(folder / "plain.gz", "text");
  write_file_atomically(folder / "short", "\x1f");
  write_file_atomically(folder / "empty", "");
  const auto content = [&](const char* name) { return text(read_all(*open_unpacked(folder / name), 100)); };
  EXPECT_EQ(content("packed"), "text");
  EXPECT_EQ(content("plain.gz"), "text");
  EXPECT_EQ(content("short"), "\x1f");
  EXPECT_EQ(content("empty"), "");
}

TEST(Gzip, UnpackingStopsAtTheLimit) {
  const std::vector<std::byte> bomb = format_gzip(bytes_of(std::string(50 << 20, '\0')), 9);
  std::string message;
  EXPECT_LE(largest_allocation([&] { message = message_of([&] { unpack(bomb, "bomb.gz", 1000); }); }), 1 << 18);
  EXPECT_EQ(message, "bomb.gz: holds more than the 1000 bytes that are allowed here; is it the right file?");
}

TEST(Gzip, NoFlippedBitGivesOtherBytes) {
  const std::string packed = text(format_gzip(bytes_of("the quick brown fox jumps over the lazy dog " + noise(300))));
  const std::string plain = text(unpack(bytes_of(packed)));
  int unnoticed = 0;  // bits without meaning, such as those of the time
  for (size_t i = 0; i < packed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = packed;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const std::string message = message_of([&] { EXPECT_EQ(text(unpack(bytes_of(bad))), plain); });
      unnoticed += message == "no error" ? 1 : 0;
    }
  }
  EXPECT_LE(unnoticed, 8 * 8);
}

TEST(Gzip, RefusesBadFiles) {
  const std::string good = text(format_gzip(bytes_of("hello, hello, hello, hello, world")));
  const auto with = [&](size_t place, char value) {
    std::string bytes = good;
    bytes[place] = value;
    return bytes;
  };
  std::vector<BadFile> files = {
      {"an empty file", "", "the gzip file is empty"},
      {"text", "hello", "no gzip magic number"},
      {"zlib instead", "\x78\x9c\x03\x00\x00\x00\x00\x01", "no gzip magic number"},
      {"zip instead", "PK\x03\x04", "no gzip magic number"},
      {"zeros only", std::string(20, '\0'), "no gzip magic number"},
      {"first byte of the magic number only", "\x1f", "cut short"},
      {"wrong second byte", with(1, '\x8c'), "no gzip magic number"},
      {"unknown method", with(2, 7), "unknown compression method"},
      {"reserved flags", with(3, '\xe0'), "unknown header flags set"},
      {"a header checksum that is not there", with(3, 2), "offset"},
      {"a name without end", with(3, 8).substr(0, 20), "cut short"},
      {"an extra field longer than the file", good.substr(0, 3) + "\x04" + good.substr(4, 6) + "\xff\xff", "cut short"},
      {"a block of unknown kind", with(10, 0x07), "invalid block type"},
      {"a stored block whose lengths differ", good.substr(0, 10) + std::string("\x01\x05\x00\x00\x00", 5),
       "invalid stored block lengths"},
      {"wrong checksum", with(good.size() - 8, static_cast<char>(good[good.size() - 8] ^ 1)),
       "wrong checksum (CRC-32)"},
      {"wrong length", with(good.size() - 4, 1), "wrong length in the trailer"},
      {"garbage behind", good + "garbage", "bytes that are not gzip follow the last member"},
      {"garbage behind zeros", good + std::string(5, '\0') + "x", "bytes that are not gzip follow the last member"},
      {"a second member cut short", good + good.substr(0, good.size() - 1), "cut short after 66 unpacked bytes"},
      {"a second member with a bad magic number", good + "\x1f\x8c", "no gzip magic number"},
      {"too far a distance", good.substr(0, 10) + std::string("\x03\x02\x00", 3), "invalid distance"},
  };
  for (size_t size = 2; size < good.size(); ++size) {
    files.push_back({fmt::format("cut to {} bytes", size), good.substr(0, size), "cut short"});
  }
  expect_refused(files, [](Bytes bytes, std::string_view file) { unpack(bytes, file); });
}

}  // namespace
}  // namespace bochner
