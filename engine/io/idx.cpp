#include "engine/io/idx.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "engine/io/elements.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"

namespace bochner {
namespace {

constexpr std::array<std::pair<int, FileType>, 6> kIdxTypes = {{{0x08, FileType::u8},
                                                                {0x09, FileType::i8},
                                                                {0x0b, FileType::i16},
                                                                {0x0c, FileType::i32},
                                                                {0x0d, FileType::f32},
                                                                {0x0e, FileType::f64}}};

constexpr int64_t kLargestArray = int64_t{1} << 32;  ///< bytes; a small packed file can unpack to very many

std::optional<FileType> type_with(int code) {
  for (const auto& [known, type] : kIdxTypes) {
    if (known == code) return type;
  }
  return std::nullopt;
}

Tensor read(ByteSource& source) {
  const std::string& file = source.name();
  std::vector<std::byte> bytes = read_up_to(source, 4);
  ByteReader start(bytes, file);
  const auto magic = start.big<uint32_t>("the magic number of an IDX file");
  const int rank = static_cast<int>(magic & 0xffU);
  const std::optional<FileType> type = type_with(static_cast<int>(magic >> 8));  // two zero bytes before the type
  if (!type) {
    start.fail_before(
        4, "the magic number {:08x} is not 0000TTRR with a type TT of 08, 09, 0b to 0e; is it an IDX file?", magic);
  }
  bytes = read_up_to(source, 4 * rank);
  ByteReader reader(bytes, file);
  std::vector<int64_t> sizes;
  for (int i = 0; i < rank; ++i) {
    if (reader.remaining() < 4)
      fail_at(file, 4 + reader.offset(), "the file ends within its {} sizes; fetch it again", rank);
    sizes.push_back(reader.big<uint32_t>("a size"));
  }
  const int64_t data = 4 + 4 * rank;
  const Layout layout(*type, sizes, "the array", file, 4);

  if (layout.bytes() > kLargestArray) {
    fail_at(file, 4, "the array {} takes {} bytes, more than the {} that are read; is it an IDX file?",
            layout.shape().str(), layout.bytes(), kLargestArray);
  }
  // The size of a packed file is known only at its end, so memory grows with the bytes that are really there.
  bytes = read_up_to(source, layout.bytes());
  if (static_cast<int64_t>(bytes.size()) < layout.bytes()) {
    fail_at(file, data, "the array {} takes {} bytes, only {} follow; the file is cut short: fetch it again",
            layout.shape().str(), layout.bytes(), bytes.size());
  }
  std::byte next{};
  if (source.read({&next, 1}) != 0) {
    fail_at(file, data + layout.bytes(), "bytes follow the last element of the array {}; the file is damaged",
            layout.shape().str());
  }
  const auto fill = [&](std::span<std::byte> to) { std::copy(bytes.begin(), bytes.end(), to.begin()); };
  return read_elements(layout, std::endian::big, fill, "the array", file, data);
}

void encode(ByteSink& sink, const Tensor& tensor) {
  if (!tensor.defined()) fail("idx: no tensor to write; only defined tensors can be saved");
  uint32_t magic = 0;
  for (const auto& [code, type] : kIdxTypes) {
    if (type == file_type_of(tensor.dtype())) magic = static_cast<uint32_t>(code) << 8;
  }
  if (magic == 0) fail("idx: the format has no type {}; cast the tensor first", name_of(tensor.dtype()));
  sink.write(Bytes(big_bytes(magic + static_cast<uint32_t>(tensor.rank()))));
  for (const int64_t size : tensor.shape()) {
    if (size > UINT32_MAX) fail("idx: {} has a size above 32 bits, which the format has not", tensor.shape().str());
    sink.write(Bytes(big_bytes(static_cast<uint32_t>(size))));
  }
  const Tensor flat = tensor.to(Device::cpu()).contiguous();
  const Bytes bytes = bytes_of(flat);
  std::vector<std::byte> swapped(bytes.begin(), bytes.end());
  const size_t size = size_of(tensor.dtype());
  for (size_t i = 0; i < swapped.size(); i += size) {
    std::reverse(swapped.begin() + static_cast<std::ptrdiff_t>(i),
                 swapped.begin() + static_cast<std::ptrdiff_t>(i + size));
  }
  sink.write(Bytes(swapped));
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path) { return read(*open_unpacked(path)); }

Tensor parse_idx(Bytes bytes, std::string_view file) {
  return read(*unpacked(std::make_unique<MemorySource>(bytes, file)));
}

void write_idx(const std::filesystem::path& path, const Tensor& tensor) {
  AtomicFile file(path);
  if (path.extension() == ".gz") {
    GzipSink packed(file);
    encode(packed, tensor);
    packed.finish();
  } else {
    encode(file, tensor);
  }
  file.commit();
}

std::vector<std::byte> format_idx(const Tensor& tensor) {
  MemorySink sink;
  encode(sink, tensor);
  return sink.take();
}

}  // namespace bochner
