#include "engine/io/libarchive.h"

#include <archive.h>

#include <algorithm>
#include <cerrno>

namespace bochner {

LibarchiveInput::LibarchiveInput(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)), archive_(archive_read_new()) {
  if (archive_ == nullptr) fail("{}: no memory to unpack it", name());
}

LibarchiveInput::~LibarchiveInput() { archive_read_free(archive_); }

void LibarchiveInput::open() {
  if (archive_read_open(archive_, this, nullptr, take, nullptr) != ARCHIVE_OK) {
    refuse("", "it cannot be unpacked");
  }
}

size_t LibarchiveInput::take_piece() {
  const size_t count = source_->read(piece_);
  const auto end = std::make_reverse_iterator(piece_.begin());
  const auto last = std::make_reverse_iterator(piece_.begin() + static_cast<std::ptrdiff_t>(count));
  const auto zeros = std::find_if(last, end, [](std::byte b) { return b != std::byte{0}; }) - last;
  zeros_ = static_cast<size_t>(zeros) == count ? zeros_ + zeros : zeros;
  return count;
}

long LibarchiveInput::take(archive* a, void* self, const void** piece) {  // NOLINT(google-runtime-int)
  auto& input = *static_cast<LibarchiveInput*>(self);
  try {
    *piece = input.piece_.data();
    return static_cast<long>(input.take_piece());  // NOLINT(google-runtime-int)
  } catch (...) {
    input.failure_ = std::current_exception();
    archive_set_error(a, EIO, "its bytes could not be read");
    return ARCHIVE_FATAL;
  }
}

void LibarchiveInput::drain() {
  while (take_piece() > 0) continue;
}

void LibarchiveInput::refuse(const std::string& place, const char* otherwise) {
  if (failure_ != nullptr) {
    try {
      std::rethrow_exception(failure_);
    } catch (const Error& error) {
      if (place.empty()) throw;
      fail("{}; {}", error.what(), place);
    }
  }
  const char* const told = archive_error_string(archive_);
  fail("{}: {}{}{}; the file is damaged: fetch it again", name(), place, place.empty() ? "" : ": ",
       shown(told == nullptr ? otherwise : told));
}

}  // namespace bochner
