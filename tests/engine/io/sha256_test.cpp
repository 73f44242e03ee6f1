#include "engine/io/sha256.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/error.h"
#include "tests/files.h"

namespace bochner {
namespace {

std::string hash_of(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

// FIPS 180-4's examples, and the empty message.
TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, CutsDoNotMatterNorDoesReadingInBetween) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (size_t length = 0; length <= text.size(); ++length) {
    const std::string_view whole = std::string_view(text).substr(0, length);
    for (const size_t step : {size_t{1}, size_t{3}, size_t{55}, size_t{64}, size_t{65}}) {
      Sha256 hash;
      for (size_t at = 0; at < length; at += step) {
        hash.update(std::as_bytes(std::span(whole.substr(at, step))));
        EXPECT_EQ(hash.hex().size(), 64U);
      }
      ASSERT_EQ(hash.hex(), hash_of(whole)) << length << " bytes in steps of " << step;
    }
  }
}

TEST(Sha256, InstructionsAgreeWithPlainCode) {
  std::vector<std::byte> bytes(64 * 33);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 3 & 0xff);
  std::array<uint32_t, 8> fast = {1, 2, 3, 4, 5, 6, 7, 0xffffffffU};
  std::array<uint32_t, 8> plain = fast;
  sha256_blocks(fast, bytes.data(), 33);
  sha256_blocks_portable(plain, bytes.data(), 33);
  EXPECT_EQ(fast, plain);
}

TEST(Sha256, AFileHasTheHashOfItsBytes) {
  const std::string text(3'000'001, 'x');
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.put("file", text);
  EXPECT_EQ(sha256_of_file(path), hash_of(text));
  std::filesystem::remove(path);
  EXPECT_THROW(sha256_of_file(path), Error);
}

}  // namespace
}  // namespace bochner
