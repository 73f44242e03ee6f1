#include "engine/io/safetensors.h"

#include <algorithm>
#include <memory>

#include "engine/io/file.h"
#include "engine/io/safetensors_header.h"
#include "engine/io/xxh3.h"

namespace bochner {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLargestHeader = 100'000'000;  // as in the reference implementation
/// So begins what Git LFS puts in the place of a file that it has not fetched.
constexpr std::string_view kPointer = "version https://git-lfs";
constexpr size_t kDigits = 32;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kHashKey = "bochner.hash";
constexpr std::string_view kHashKind = "xxh3_128";
constexpr std::string_view kHeaderKey = "bochner.hash.header";
constexpr std::string_view kTensorKey = "bochner.hash.tensor.";
/// The key as the header text has it. It cannot be part of a JSON string, where its quotes would have backslashes.
constexpr std::string_view kHeaderKeyText = "\"bochner.hash.header\":\"";

std::string tensor_key(const std::string& name) { return std::string(kTensorKey) + name; }

std::string little_text(uint64_t value) { return std::string(text_of(little_bytes(value))); }

/// The position of the digits of the header's hash in the header text, or npos.
size_t header_digits(std::string_view header) {
  const size_t key = header.find(kHeaderKeyText);
  if (key == std::string_view::npos) return key;
  const size_t digits = key + kHeaderKeyText.size();
  return digits + kDigits < header.size() && header[digits + kDigits] == '"' ? digits : std::string_view::npos;
}

/// The hash of everything before the elements, with the digits at `digits` read as '0'.
std::string header_hash(std::string header, size_t digits) {
  header.replace(digits, kDigits, kDigits, '0');
  return xxh3_of(bytes_of(little_text(header.size()) + header));
}

// ---- writing

/// Tensors in the order of the file.
using Ordered = std::vector<std::pair<std::string, Tensor>>;

Ordered ordered(const TensorMap& tensors) {
  Ordered result;
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadata) fail("safetensors: the tensor name '__metadata__' is taken; rename the tensor");
    if (!tensor.defined()) fail("safetensors: {} is no tensor; only defined tensors can be saved", shown(name));
    result.emplace_back(name, tensor);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return size_of(a.second.dtype()) > size_of(b.second.dtype()); });
  return result;
}

Tensor flat(const Tensor& tensor) { return tensor.to(Device::cpu()).contiguous(); }

std::string header_text(const Ordered& tensors, const Metadata& metadata) {
  SafetensorsHeader header;
  for (const auto& [key, value] : metadata) {
    if (key.starts_with(kHashKey)) fail("safetensors: the metadata key {} is taken; rename it", shown(key));
    header.metadata[key] = value;
  }
  header.metadata[std::string(kHashKey)] = kHashKind;
  header.metadata[std::string(kHeaderKey)] = std::string(kDigits, '0');
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const Tensor elements = flat(tensor);
    const Bytes bytes = bytes_of(elements);
    header.metadata[tensor_key(name)] = xxh3_of(bytes);
    const auto end = offset + static_cast<int64_t>(bytes.size());
    const std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
    header.items.push_back(
        {name, std::string(safetensors_name(file_type_of(tensor.dtype()))), shape, {offset, end}, 0});
    offset = end;
  }
  std::string text = format_safetensors_header(header);
  if (static_cast<int64_t>(text.size()) > kLargestHeader) {
    fail("safetensors: names, shapes and metadata take {} bytes, at most {} are allowed; save fewer or shorter ones",
         text.size(), kLargestHeader);
  }
  const size_t digits = header_digits(text);
  BOCHNER_ASSERT(digits != std::string::npos);
  return text.replace(digits, kDigits, header_hash(text, digits));
}

void encode(ByteSink& sink, const TensorMap& tensors, const Metadata& metadata) {
  const Ordered items = ordered(tensors);
  const std::string header = header_text(items, metadata);
  sink.write(little_text(header.size()));
  sink.write(header);
  for (const auto& [name, tensor] : items) {
    const Tensor elements = flat(tensor);
    sink.write(bytes_of(elements));
  }
}

// ---- reading

/// The JSON text, whose length has been compared with the size of the file.
std::string read_header(std::string_view file, int64_t size, const ReadAt& read_at) {
  std::array<std::byte, kPointer.size()> start{};
  const auto there = static_cast<size_t>(std::min(size, std::ssize(start)));
  read_at(0, std::span(start).first(there));
  const Bytes first = Bytes(start).first(there);
  if (text_of(first) == kPointer) {
    fail_at(file, 0, "this is no tensor file but a pointer of Git LFS to one; fetch it with `git lfs pull`");
  }
  const auto length =
      ByteReader(first.first(std::min<size_t>(there, kLengthBytes)), file).little<uint64_t>("the length of the header");
  if (length > static_cast<uint64_t>(kLargestHeader)) {
    fail_at(file, 0, "the header length {} is above {}; is it a safetensors file?", length, kLargestHeader);
  }
  if (static_cast<int64_t>(length) > size - kLengthBytes) {
    fail_at(file, 0, "the header should take {} bytes, only {} follow; the file is cut short or no safetensors file",
            length, size - kLengthBytes);
  }
  std::string header(static_cast<size_t>(length), '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(header)));
  if (header.empty() || header[0] != '{') {
    fail_at(file, kLengthBytes, "the header does not begin with '{{'; is it a safetensors file?");
  }
  return header;
}

/// Verifies the hash of the header, if it has one, before the header is parsed. Returns whether it has one.
bool verify_header(std::string_view file, const std::string& header) {
  const size_t digits = header_digits(header);
  if (digits == std::string::npos) return false;
  if (header.compare(digits, kDigits, header_hash(header, digits)) != 0) {
    fail_at(file, 0,
            "the header does not match its hash (bochner.hash.header); the file is damaged: use another copy, or drop "
            "the bochner.hash keys if another program rewrote it");
  }
  return true;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string name, int64_t size, ReadAt read_at)
    : name_(std::move(name)), read_at_(std::move(read_at)) {
  const std::string text = read_header(name_, size, read_at_);
  const int64_t start = kLengthBytes + static_cast<int64_t>(text.size());
  const bool verified = verify_header(name_, text);
  SafetensorsHeader header = parse_safetensors_header(text, name_);

  Metadata hashes;
  for (auto& [key, value] : header.metadata) (key.starts_with(kHashKey) ? hashes : metadata_)[key] = std::move(value);
  if (verified != !hashes.empty() || (verified && hashes[std::string(kHashKey)] != kHashKind)) {
    fail_at(name_, kLengthBytes,
            "the metadata hold bochner.hash keys, but not as Bochner writes them; the file is damaged: use another "
            "copy, or drop these keys if another program rewrote it");
  }

  // Tensors must fill the file: no gaps, no overlaps, and nothing after the last one.
  std::sort(header.items.begin(), header.items.end(),
            [](const auto& a, const auto& b) { return a.data_offsets < b.data_offsets; });
  int64_t end = 0;
  const std::string* previous = nullptr;
  for (const SafetensorsHeader::Item& item : header.items) {
    const std::string what = fmt::format("tensor {}", shown(item.name));
    const FileType type = safetensors_type(item.dtype, item.name, name_, item.place);
    const Layout layout(type, item.shape, what, name_, item.place);
    const int64_t first = item.data_offsets[0];
    const int64_t last = item.data_offsets[1];
    if (first > last || last - first != layout.bytes()) {
      fail_at(name_, item.place, "{}, {} {}, takes {} bytes, but its data_offsets are [{}, {}]; the file is damaged",
              what, item.dtype, layout.shape().str(), layout.bytes(), first, last);
    }
    if (first != end) {
      fail_at(name_, item.place, "{} begins at byte {} of the data, but {} {}; the file is damaged", what, first,
              previous == nullptr ? "the data begin" : shown(*previous) + " ends",
              previous == nullptr ? "at 0" : fmt::format("at {}", end));
    }
    if (last > size - start) {
      fail_at(name_, size,
              "the file ends here, inside {}, which should end at {}; it is cut short: fetch or write it again", what,
              try_add(start, last).value_or(last));
    }
    const auto hash = hashes.find(tensor_key(item.name));
    if (verified && hash == hashes.end()) {
      fail_at(name_, item.place, "{} has no hash though the header has one; the file was not written by Bochner", what);
    }
    entries_.emplace(item.name, Entry{layout, start + first, verified ? hash->second : ""});
    previous = &item.name;
    end = last;
  }
  if (end != size - start) {
    fail_at(name_, start + end, "{} bytes follow the last tensor; the file is damaged", size - start - end);
  }
}

SafetensorsFile::SafetensorsFile(const std::shared_ptr<const InputFile>& file)
    : SafetensorsFile(file->name(), file->size(),
                      [file](int64_t offset, std::span<std::byte> to) { file->read_at(offset, to); }) {}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : SafetensorsFile(std::make_shared<const InputFile>(path)) {}

std::vector<std::string> SafetensorsFile::tensor_names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& tensor) const {
  const auto found = entries_.find(tensor);
  if (found != entries_.end()) return found->second;
  const auto next = entries_.lower_bound(tensor);
  std::string near;
  if (next != entries_.begin()) near += " " + shown(std::prev(next)->first);
  if (next != entries_.end()) near += " " + shown(next->first);
  fail("{}: holds no tensor {}; of its {} tensors the nearest in order are{}", name_, shown(tensor), entries_.size(),
       near.empty() ? " none" : near);
}

Tensor SafetensorsFile::read(const std::string& tensor) const {
  const Entry& item = entry(tensor);
  const auto fill = [&](std::span<std::byte> to) {
    read_at_(item.offset, to);
    if (!item.hash.empty() && xxh3_of(to) != item.hash) {
      fail_at(name_, item.offset,
              "the {} bytes of tensor {} do not match their hash; the file is damaged: use another copy or an earlier "
              "checkpoint",
              to.size(), shown(tensor));
    }
  };
  return read_elements(item.layout, std::endian::little, fill, fmt::format("tensor {}", shown(tensor)), name_,
                       item.offset);
}

namespace {

Safetensors read_everything(const SafetensorsFile& file) {
  Safetensors result;
  for (const std::string& name : file.tensor_names()) result.tensors.emplace(name, file.read(name));
  result.metadata = file.metadata();
  return result;
}

}  // namespace

Safetensors read_safetensors(const std::filesystem::path& path) { return read_everything(SafetensorsFile(path)); }

Safetensors parse_safetensors(Bytes bytes, std::string_view file) {
  return read_everything(SafetensorsFile(std::string(file), static_cast<int64_t>(bytes.size()), reader_of(bytes)));
}

void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors, const Metadata& metadata) {
  AtomicFile file(path);
  encode(file, tensors, metadata);
  file.commit();
}

void write_safetensors(ByteSink& sink, const TensorMap& tensors, const Metadata& metadata) {
  encode(sink, tensors, metadata);
}

std::vector<std::byte> format_safetensors(const TensorMap& tensors, const Metadata& metadata) {
  MemorySink sink;
  encode(sink, tensors, metadata);
  return sink.take();
}

}  // namespace bochner
