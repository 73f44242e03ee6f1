#include "engine/io/stream.h"

#include <algorithm>

#include "engine/io/data_log.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/io/zstd.h"

namespace bochner {
namespace {

/// `first`, then the rest of a source.
class PrefixedSource final : public ByteSource {
 public:
  PrefixedSource(std::vector<std::byte> first, std::unique_ptr<ByteSource> rest)
      : first_(std::move(first)), rest_(std::move(rest)) {}

  size_t read(std::span<std::byte> to) override {
    if (used_ == first_.size()) return rest_->read(to);
    const size_t count = std::min(to.size(), first_.size() - used_);
    std::copy_n(first_.begin() + static_cast<std::ptrdiff_t>(used_), count, to.begin());
    used_ += count;
    return count;
  }
  const std::string& name() const override { return rest_->name(); }

 private:
  std::vector<std::byte> first_;
  size_t used_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

}  // namespace

size_t MemorySource::read(std::span<std::byte> to) {
  const size_t count = std::min(to.size(), bytes_.size());
  std::copy_n(bytes_.begin(), count, to.begin());
  bytes_ = bytes_.subspan(count);
  return count;
}

std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> source) {
  constexpr std::string_view kGzip = "\x1f\x8b";
  constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";
  std::vector<std::byte> first = read_up_to(*source, std::ssize(kZstd));
  const bool gzip = text_of(first).starts_with(kGzip);
  const bool zstd = text_of(first) == kZstd;
  auto whole = std::make_unique<PrefixedSource>(std::move(first), std::move(source));
  if (gzip) return std::make_unique<GzipSource>(std::move(whole));
  if (zstd) return std::make_unique<ZstdSource>(std::move(whole));
  return whole;
}

std::unique_ptr<ByteSource> open_unpacked(const std::filesystem::path& path) {
  std::unique_ptr<ByteSource> source = unpacked(std::make_unique<InputFile>(path));
  return DataLog::is_active() ? logged(std::move(source), path) : std::move(source);
}

std::vector<std::byte> read_up_to(ByteSource& source, int64_t count) {
  constexpr size_t kPiece = size_t{1} << 16;
  const auto wanted = static_cast<size_t>(count);
  std::vector<std::byte> bytes;
  size_t there = 0;
  while (there < wanted) {
    if (there == bytes.size()) bytes.resize(std::min(wanted, std::max(kPiece, 2 * there)));
    const size_t more = source.read(std::span(bytes).subspan(there));
    if (more == 0) break;
    there += more;
  }
  bytes.resize(there);
  return bytes;
}

std::vector<std::byte> read_all(ByteSource& source, int64_t limit) {
  std::vector<std::byte> bytes = read_up_to(source, limit);
  std::byte next{};
  if (static_cast<int64_t>(bytes.size()) == limit && source.read({&next, 1}) != 0) {
    fail("{}: holds more than the {} bytes that are allowed here; is it the right file?", source.name(), limit);
  }
  return bytes;
}

}  // namespace bochner
