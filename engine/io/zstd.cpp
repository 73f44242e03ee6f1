#include "engine/io/zstd.h"

#include <archive.h>
#include <archive_entry.h>

#include "engine/io/libarchive.h"

namespace bochner {

ZstdSource::ZstdSource(std::unique_ptr<ByteSource> packed)
    : input_(std::make_unique<LibarchiveInput>(std::move(packed))) {
  archive* const a = input_->handle();
  archive_read_support_filter_zstd(a);
  archive_read_support_format_raw(a);
  archive_read_support_format_empty(a);
  input_->open();
  if (archive_filter_code(a, 0) != ARCHIVE_FILTER_ZSTD) {
    fail("{}: no Zstandard magic number (28 b5 2f fd); the file is damaged: fetch it again", name());
  }
  archive_entry* entry = nullptr;
  const int status = archive_read_next_header(a, &entry);
  if (status == ARCHIVE_EOF && archive_error_string(a) == nullptr) {  // a cut file is not an empty one
    ended_ = true;
  } else if (status != ARCHIVE_OK) {
    refuse();
  }
}

ZstdSource::~ZstdSource() = default;

const std::string& ZstdSource::name() const { return input_->name(); }

void ZstdSource::refuse() const {
  input_->refuse(fmt::format("after {} unpacked bytes", unpacked_bytes_), "the Zstandard file cannot be unpacked");
}

size_t ZstdSource::read(std::span<std::byte> to) {
  if (to.empty() || ended_) return 0;
  const auto count = archive_read_data(input_->handle(), to.data(), to.size());
  if (count < 0) refuse();
  if (count == 0) {
    ended_ = true;
    input_->drain();
  }
  unpacked_bytes_ += count;
  return static_cast<size_t>(count);
}

std::vector<std::byte> parse_zstd(Bytes packed, std::string_view file, int64_t limit) {
  ZstdSource source(std::make_unique<MemorySource>(packed, file));
  return read_all(source, limit);
}

}  // namespace bochner
