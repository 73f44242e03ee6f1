// The compiler copies constants correctly: gcc 12 with AVX-512 does not unless told to move 16 bytes at a time
// (CMake/Toolchain.cmake).
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace bochner {
namespace {

constexpr int64_t kFour[] = {-5, -5, -5, -1};
constexpr int64_t kEight[] = {-7, -7, -7, -7, -7, -7, -7, -1};

void copy_four(void* to) { std::memcpy(to, kFour, sizeof kFour); }
void copy_eight(void* to) { std::memcpy(to, kEight, sizeof kEight); }

// Volatile, so that the compiler knows neither the callee nor the result.
void (*volatile four_copied)(void*) = copy_four;
void (*volatile eight_copied)(void*) = copy_eight;

TEST(Constants, AreCopiedAsTheyAre) {
  int64_t words[8];
  four_copied(words);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(words[i], i < 3 ? -5 : -1) << i;
  eight_copied(words);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(words[i], i < 7 ? -7 : -1) << i;
}

}  // namespace
}  // namespace bochner
