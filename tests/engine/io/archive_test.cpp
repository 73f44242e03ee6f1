#include "engine/io/archive.h"

#include "engine/io/data_log.h"
#include "engine/io/gzip.h"
#include "engine/io/sha256.h"
#include "engine/io/zstd.h"
#include "tests/engine/io/io_test.h"
#include "tests/files.h"

namespace bochner {
namespace {

using test::BadFile;
using test::expect_refused;
using test::golden;
using test::message_of;
using test::text;
using Files = std::vector<std::pair<std::string, std::string>>;

Files all_of(ArchiveReader& archive) {
  Files files;
  while (archive.next()) {
    const std::string name = archive.name();
    files.emplace_back(name, text(archive.read(1 << 20)));
  }
  return files;
}

Files files_in(Bytes bytes, std::string_view name = "a.tar") {
  ArchiveReader archive(std::make_unique<MemorySource>(bytes, name));
  return all_of(archive);
}

/// What golden/make.py packed.
Files expected() {
  std::string long_text;
  for (int i = 0; i < 3000; ++i) long_text += fmt::format("line {}\n", i);
  return {{"set/a.txt", "hello\n"},
          {"set/empty", ""},
          {"set/long.txt", long_text},
          {"set/" + std::string(120, 'n') + ".txt", "a long name"},
          {"set/gr\xc3\xb6\xc3\x9f"
           "e.txt",
           "bytes \xff\xfe are bytes"}};
}

TEST(Archive, ReadsWhatOthersPacked) {
  for (const char* name : {"files.tar", "files.gnu.tar", "files.tar.gz", "files.tar.zst", "files.zip"}) {
    ArchiveReader archive(golden(name));
    EXPECT_EQ(all_of(archive), expected()) << name;
    EXPECT_FALSE(archive.next()) << name;
  }
}

TEST(Archive, FilesAreCopiedPieceByPiece) {
  for (const char* name : {"files.tar", "files.zip"}) {
    ArchiveReader archive(golden(name));
    for (const auto& [file, bytes] : expected()) {
      ASSERT_TRUE(archive.next()) << name;
      MemorySink sink;
      EXPECT_EQ(archive.copy_to(sink), std::ssize(bytes)) << file;
      EXPECT_EQ(text(sink.take()), bytes) << file;
    }
  }
}

TEST(Archive, SizesAreToldBeforeAndKept) {
  ArchiveReader archive(golden("files.tar"));
  ASSERT_TRUE(archive.next());
  EXPECT_EQ(archive.size(), 6);
  EXPECT_EQ(message_of([&] { archive.read(5); }),
            golden("files.tar").string() +
                ": 'set/a.txt': holds more than the 5 bytes that are allowed here; is it the right archive?");
}

TEST(Archive, FilesMayBePassedOver) {
  ArchiveReader archive(golden("files.zip"));
  std::vector<std::string> names;
  while (archive.next()) names.push_back(archive.name());
  ASSERT_EQ(names.size(), expected().size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], expected()[i].first);
}

TEST(Archive, TheLogHasTheHashOfAllThatIsUnpacked) {
  const std::string hash = sha256_of_file(golden("files.tar"));
  for (const char* name : {"files.tar", "files.tar.gz", "files.tar.zst"}) {
    const DataLog log;
    {
      ArchiveReader archive(golden(name));
      while (archive.next()) continue;
    }
    ASSERT_EQ(log.reads().size(), 1U) << name;
    EXPECT_EQ(log.reads()[0].sha256, hash) << name;
    EXPECT_TRUE(log.reads()[0].whole) << name;
  }
}

TEST(Archive, TwoThatWerePutTogetherAreReadAsOne) {
  const std::string one = text(read_file(golden("files.tar")));
  EXPECT_EQ(files_in(bytes_of(one + one)).size(), 2 * expected().size());
}

// At each length: an Error or, if cut after the last file, within the zeros that end the archive, never fewer files.
TEST(Archive, ACutArchiveIsNeverTakenForAWholeOne) {
  for (const char* name : {"files.tar", "files.gnu.tar", "files.tar.gz", "files.tar.zst", "files.zip"}) {
    const std::string whole = text(read_file(golden(name)));
    int refused = 0;
    const size_t step = whole.size() > 20000 ? 256 : 37;
    for (size_t size = 0; size < whole.size(); size += step) {
      const std::string message = message_of([&] {
        EXPECT_EQ(files_in(bytes_of(std::string_view(whole).substr(0, size)), "cut"), expected()) << name << size;
      });
      EXPECT_TRUE(message == "no error" || message.starts_with("cut: ")) << message;
      refused += message == "no error" ? 0 : 1;
    }
    EXPECT_GT(refused, 90) << name;
  }
  const std::string packed = text(read_file(golden("files.tar.gz")));
  const std::string message =
      message_of([&] { files_in(bytes_of(std::string_view(packed).substr(0, packed.size() / 2)), "cut.tar.gz"); });
  EXPECT_NE(message.find("the gzip file is cut short"), std::string::npos) << message;
  EXPECT_NE(message.find("in or behind 'set/long.txt'"), std::string::npos) << message;
}

TEST(Archive, RefusesBadFiles) {
  const std::string tar = text(read_file(golden("files.gnu.tar")));
  const std::string zip = text(read_file(golden("files.zip")));
  const auto changed = [](std::string bytes, size_t place, char value) {
    bytes[place] = value;
    return bytes;
  };
  const size_t content = zip.find("bytes \xff");
  ASSERT_NE(content, std::string::npos);
  std::vector<BadFile> files = {
      {"text", "hello, this is no archive at all", "bad.file"},
      {"an empty file", "", "bad.file"},
      {"a name of which a byte is wrong", changed(tar, 512, 'S'), "bad.file"},
      {"a size that is no number", changed(tar, 512 + 124, 'x'), "bad.file"},
      {"the file cut in its content", tar.substr(0, 512 * 6), "'set/long.txt'"},
      {"the file cut behind a file", tar.substr(0, 512 * 4), "cut short"},
      {"no zeros at the end", tar.substr(0, tar.find_last_not_of('\0') + 1), "bad.file"},
      {"bytes behind the end", tar + std::string(512, 'x'), "bad.file"},
      {"a zip file with another content", changed(zip, content, 'B'), "CRC"},
      {"a zip file cut behind its first file", zip.substr(0, zip.find("PK\x03\x04", 4)), "bad.file"},
      {"gzip within which is text", text(format_gzip(bytes_of("hello"))), "bad.file"},
      {"the magic number of Zstandard alone", "\x28\xb5\x2f\xfd", "bad.file"},
  };
  for (size_t i = 1; i <= 10; ++i) {
    files.push_back({"a zip file cut short", zip.substr(0, zip.size() * i / 12), "bad.file"});
  }
  expect_refused(files, [](Bytes bytes, std::string_view file) { files_in(bytes, file); });
}

TEST(FindPacked, TakesThePlainFileBeforePackedOnes) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "train.tsv";
  EXPECT_FALSE(find_packed(path));
  for (const char* packing : {".zst", ".gz", ""}) {
    test::put(path.string() + packing, "");
    EXPECT_EQ(find_packed(path).value().string(), path.string() + packing);
    EXPECT_EQ(unpacked_name(std::string("train.tsv") + packing), "train.tsv");
  }
  EXPECT_EQ(unpacked_name("gz"), "gz");
}

TEST(Zstd, UnpacksWhatOthersPacked) {
  std::string plain;
  for (int i = 0; i < 50000; ++i) plain += static_cast<char>('a' + i % 7 + i % 11);
  const std::vector<std::byte> packed = read_file(golden("letters.zst"));
  EXPECT_EQ(text(parse_zstd(packed, "f.zst", 1 << 20)), plain);
  EXPECT_EQ(text(read_all(*open_unpacked(golden("letters.zst")), 1 << 20)), plain);
  const std::string twice = text(packed) + text(packed);
  EXPECT_EQ(text(parse_zstd(bytes_of(twice), "f.zst", 1 << 20)), plain + plain);
  EXPECT_EQ(message_of([&] { parse_zstd(packed, "f.zst", 1000); }),
            "f.zst: holds more than the 1000 bytes that are allowed here; is it the right file?");
  EXPECT_EQ(text(parse_zstd(read_file(golden("nothing.zst")), "f.zst", 100)), "");
}

TEST(Zstd, NoFlippedBitGivesOtherBytes) {
  const std::string packed = text(read_file(golden("letters.zst")));
  const std::string plain = text(parse_zstd(bytes_of(packed), "f.zst", 1 << 20));
  for (size_t i = 0; i < packed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = packed;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      message_of([&] { EXPECT_EQ(text(parse_zstd(bytes_of(bad), "f.zst", 1 << 20)), plain) << i; });
    }
  }
}

TEST(Zstd, RefusesBadFiles) {
  const std::string good = text(read_file(golden("letters.zst")));
  std::vector<BadFile> files = {
      {"an empty file", "", "no Zstandard magic number"},
      {"text", "hello", "no Zstandard magic number"},
      {"gzip", "\x1f\x8b\x08", "no Zstandard magic number"},
      {"garbage behind", good + "garbage", "bad.file"},
      {"wrong checksum", good.substr(0, good.size() - 1) + static_cast<char>(good.back() ^ 1), "bad.file"},
  };
  for (size_t size = 4; size < good.size(); ++size) {
    files.push_back({fmt::format("cut to {} bytes", size), good.substr(0, size), "bad.file"});
  }
  expect_refused(files, [](Bytes bytes, std::string_view file) { parse_zstd(bytes, file, 1 << 20); });
}

}  // namespace
}  // namespace bochner
