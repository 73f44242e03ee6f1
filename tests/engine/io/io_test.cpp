#include "tests/engine/io/io_test.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/allocator.h"
#include "engine/sanitizer.h"
#include "tests/shared_data.h"

namespace {
std::atomic<size_t> largest_new = 0;
}  // namespace

#if !BOCHNER_ADDRESS_SANITIZER
[[gnu::noinline]] void* operator new(size_t bytes) {
  size_t seen = largest_new;
  while (seen < bytes && !largest_new.compare_exchange_weak(seen, bytes)) {
  }
  if (void* place = std::malloc(std::max<size_t>(bytes, 1))) return place;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* place) noexcept { std::free(place); }
[[gnu::noinline]] void operator delete(void* place, size_t) noexcept { std::free(place); }
#endif

namespace bochner::test {

std::filesystem::path golden(const std::string& name) { return source_folder() / "tests/engine/io/golden" / name; }

int64_t largest_allocation(const std::function<void()>& f) {
  Allocator& allocator = Allocator::of(Device::cpu());
  allocator.reset_peak();
  const int64_t before = allocator.stats().peak_bytes;
  largest_new = 0;
  f();
  const auto by_new = static_cast<int64_t>(largest_new.load());
  return std::max(by_new, allocator.stats().peak_bytes - before);
}

void expect_refused(const std::vector<BadFile>& files, const std::function<void(Bytes, std::string_view)>& parse) {
  std::set<std::string> distinct;
  for (const BadFile& file : files) {
    SCOPED_TRACE(file.what);
    EXPECT_TRUE(distinct.insert(file.bytes).second) << "the same bytes stand in the list twice";
    // In its own memory, so that AddressSanitizer sees a step outside it.
    const std::vector<char> copy(file.bytes.begin(), file.bytes.end());
    std::string message;
    const int64_t largest =
        largest_allocation([&] { message = message_of([&] { parse(std::as_bytes(std::span(copy)), "bad.file"); }); });
    EXPECT_TRUE(message.starts_with("bad.file: ")) << message;
    EXPECT_NE(message.find(file.telling), std::string::npos) << message << "\nlacks: " << file.telling;
    EXPECT_LE(message.size(), 500U) << message;
    EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) { return c >= 0x20 && c < 0x7f; })) << message;
    EXPECT_LE(largest, (int64_t{1} << 17) + 64 * static_cast<int64_t>(file.bytes.size())) << "bytes at once";
  }
  EXPECT_GE(distinct.size(), 20U) << "distinct bad files";
}

}  // namespace bochner::test
