#include "engine/io/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>  // NOLINT: POSIX's, with uselocale

#include <algorithm>

#include "engine/io/libarchive.h"

namespace bochner {
namespace {

/// A tar archive ends with so many zeros: two blocks (POSIX, ustar Interchange Format). One without them was cut.
constexpr int64_t kTarEnd = 1024;

constexpr const char* kPackings[] = {".gz", ".zst"};  ///< that open_unpacked() reads

/// While it lives, this thread's locale has UTF-8, whatever the program's is: libarchive does not give names in a zip
/// archive that the locale cannot express.
class WithUtf8 {
 public:
  WithUtf8() : before_(uselocale(utf8())) {}
  ~WithUtf8() { uselocale(before_); }
  WithUtf8(const WithUtf8&) = delete;
  WithUtf8& operator=(const WithUtf8&) = delete;

 private:
  static locale_t utf8() {
    static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return locale;
  }

  locale_t before_;
};

}  // namespace

ArchiveReader::ArchiveReader(const std::filesystem::path& path) : ArchiveReader(open_unpacked(path), Unpacked{}) {}

ArchiveReader::ArchiveReader(std::unique_ptr<ByteSource> source)
    : ArchiveReader(unpacked(std::move(source)), Unpacked{}) {}

ArchiveReader::ArchiveReader(std::unique_ptr<ByteSource> source, Unpacked)
    : input_(std::make_unique<LibarchiveInput>(std::move(source))) {
  archive* const a = input_->handle();
  archive_read_support_format_tar(a);
  archive_read_support_format_zip_streamable(a);
  archive_read_set_options(a,
                           "tar:read_concatenated_archives");  // go on behind the zeros at the end of one
  input_->open();
}

ArchiveReader::~ArchiveReader() = default;

std::string ArchiveReader::place() const {
  return name_.empty() ? "before its first file" : fmt::format("in or behind {}", shown(name_));
}

bool ArchiveReader::next() {
  archive* const a = input_->handle();
  while (!ended_) {
    archive_entry* entry = nullptr;
    const WithUtf8 names;
    const int status = archive_read_next_header(a, &entry);
    if (status == ARCHIVE_EOF) {
      ended_ = true;
      input_->drain();
      const bool tar = (archive_format(a) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
      if (tar && input_->zeros_at_end() < kTarEnd) {
        fail("{}: {}: the archive is cut short; fetch it again", input_->name(), place());
      }
      return false;
    }
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) input_->refuse(place(), "it is no tar or zip archive");
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr) continue;
    const char* const path = archive_entry_pathname(entry);
    if (path == nullptr || *path == '\0') {
      fail("{}: {}: a file without a name; the archive is damaged: fetch it again", input_->name(), place());
    }
    name_ = path;
    // A sparse file holds gaps of any size that take no byte of the archive.
    if (archive_entry_sparse_reset(entry) > 0) {
      fail("{}: {}: is stored as a sparse file, which is not read here; pack it as it is", input_->name(),
           shown(name_));
    }
    size_.reset();
    if (archive_entry_size_is_set(entry) != 0) size_ = archive_entry_size(entry);
    return true;
  }
  return false;
}

std::vector<std::byte> ArchiveReader::read(int64_t limit) {
  constexpr size_t kPiece = size_t{1} << 16;
  const auto refuse_size = [&] {
    fail("{}: {}: holds more than the {} bytes that are allowed here; is it the right archive?", input_->name(),
         shown(name_), limit);
  };
  if (size_ && *size_ > limit) refuse_size();
  std::vector<std::byte> bytes;
  size_t there = 0;
  for (;;) {
    if (there == bytes.size()) {
      const size_t more = std::max(kPiece, 2 * there);
      bytes.resize(size_ && *size_ >= 0 ? std::min(more, static_cast<size_t>(*size_) + 1) : more);
    }
    const size_t count = take(std::span(bytes).subspan(there));
    if (count == 0) break;
    there += count;
    if (static_cast<int64_t>(there) > limit) refuse_size();
  }
  bytes.resize(there);
  check_size(static_cast<int64_t>(there));
  return bytes;
}

int64_t ArchiveReader::copy_to(ByteSink& sink) {
  std::vector<std::byte> piece(size_t{1} << 16);
  int64_t copied = 0;
  while (const size_t count = take(piece)) {
    sink.write(Bytes(piece).first(count));
    copied += static_cast<int64_t>(count);
  }
  check_size(copied);
  return copied;
}

size_t ArchiveReader::take(std::span<std::byte> to) {
  const auto count = archive_read_data(input_->handle(), to.data(), to.size());
  if (count < 0) input_->refuse(place(), "it cannot be unpacked");
  return static_cast<size_t>(count);
}

void ArchiveReader::check_size(int64_t bytes) const {
  if (!size_ || *size_ == bytes) return;
  fail("{}: {}: holds {} of its {} bytes; the archive is damaged: fetch it again", input_->name(), shown(name_), bytes,
       *size_);
}

std::optional<std::filesystem::path> find_archive(const std::filesystem::path& folder, const std::string& name) {
  for (const char* ending : {".tar.gz", ".tar.zst", ".tar", ".zip", ".gz"}) {
    const std::filesystem::path path = folder / (name + ending);
    if (std::filesystem::is_regular_file(path)) return path;
  }
  return std::nullopt;
}

std::optional<std::filesystem::path> find_packed(const std::filesystem::path& path) {
  if (std::filesystem::is_regular_file(path)) return path;
  for (const char* packing : kPackings) {
    const std::filesystem::path packed = path.string() + packing;
    if (std::filesystem::is_regular_file(packed)) return packed;
  }
  return std::nullopt;
}

std::string unpacked_name(const std::string& name) {
  for (const char* packing : kPackings) {
    if (name.ends_with(packing)) return name.substr(0, name.rfind('.'));
  }
  return name;
}

}  // namespace bochner
