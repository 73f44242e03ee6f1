#include "engine/io/data_log.h"

#include <gtest/gtest.h>

#include "engine/io/csv.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/io/sha256.h"
#include "engine/io/xxh3.h"
#include "tests/files.h"

namespace bochner {
namespace {

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(bytes_of(text));
  return hash.hex();
}

TEST(DataLog, HoldsWhatWasReadWithItsHash) {
  const test::TemporaryFolder folder;
  const std::filesystem::path plain = folder / "data_log.csv";
  const std::filesystem::path packed = folder / "data_log.gz";
  const std::string text = "a,b\n1,2\n" + std::string(100000, '3') + ",4\n";
  write_file_atomically(plain, text);
  write_file_atomically(packed, format_gzip(bytes_of(text)));
  { CsvReader(plain).next(); }  // before there is a log
  const DataLog log;
  EXPECT_TRUE(DataLog::is_active());
  EXPECT_TRUE(log.reads().empty());

  { EXPECT_TRUE(CsvReader(plain).next()); }  // read only in part
  ASSERT_EQ(log.reads().size(), 1U);
  EXPECT_FALSE(log.reads()[0].whole);
  for (const auto& path : {plain, packed, plain}) read_all(*open_unpacked(path), 1 << 20);
  const auto bytes = static_cast<int64_t>(text.size());
  const std::vector<DataRead> wanted = {{plain.string(), bytes, sha256(text)}, {packed.string(), bytes, sha256(text)}};
  const auto by_name = [&] {
    std::vector<DataRead> reads = log.reads();
    std::sort(reads.begin(), reads.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return reads;
  };
  EXPECT_EQ(by_name(), wanted);
  {
    const DataLog inner;
    log_generated("numbers", {bytes_of("12"), bytes_of("3")});
    ASSERT_EQ(inner.reads().size(), 1U);
    EXPECT_EQ(inner.reads()[0], (DataRead{"numbers", 3, sha256("123"), true}));
  }
  EXPECT_EQ(by_name(), wanted) << "the innermost log has it alone";
  // A file that changed while the program ran is listed twice.
  write_file_atomically(plain, text + "5,6\n");
  read_all(*open_unpacked(plain), 1 << 20);
  EXPECT_EQ(log.reads().size(), 3U);
}

// From the documentation of xxHash: XXH3_128bits of no bytes; and of three bytes as `xxhsum -H2` prints it.
TEST(Xxh3, IsThatOfXxhsumHoweverCut) {
  EXPECT_EQ(xxh3_of({}), "99aa06d3014798d86001c324468d497f");
  const std::string text = "The hash of bytes that come piece by piece.";
  Xxh3 hash;
  for (const char& c : text) hash.update(bytes_of(std::string_view(&c, 1)));
  EXPECT_EQ(hash.hex(), xxh3_of(bytes_of(text)));
  EXPECT_EQ(xxh3_of(bytes_of("abc")), "06b05ab6733a618578af5f94892f3950");
}

}  // namespace
}  // namespace bochner
