// safetensors: named tensors and strings in one file, the format of Hugging Face models and of Bochner's checkpoints.
//
//   write_safetensors("model.safetensors", {{"weight", w}, {"bias", b}}, {{"config", text}});
//   const Safetensors file = read_safetensors("model.safetensors");
//   layer.load(file.tensors.at("weight"));
//
// Layout (https://huggingface.co/docs/safetensors): 8 bytes, the length N of the header, least significant byte first;
// N bytes of JSON, `{"__metadata__": {string: string}, NAME: {"dtype", "shape", "data_offsets": [begin, end]}, ...}`,
// padded with spaces; then the row-major elements of the tensors, in any order and without gaps.
//
// Files written here also carry hashes in their metadata, which other readers see as strings and may ignore:
//   bochner.hash                  xxh3_128
//   bochner.hash.header           hash of everything before the elements, with the 32 digits of this value read as '0'
//   bochner.hash.tensor.NAME      hash of the bytes of tensor NAME
// each 32 hexadecimal digits, as `xxhsum -H2` prints them. Reading verifies them, so any changed byte of such a file is
// detected, and a damaged tensor is named. Files of other programs have no hashes and are read without this check. A
// program that rewrites a file must drop or renew these keys.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/io/elements.h"
#include "engine/io/stream.h"

namespace bochner {

class InputFile;

using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

/// The contents of a file; the metadata are without the hashes.
struct Safetensors {
  TensorMap tensors;
  Metadata metadata;
};

/// Reads all tensors to the CPU. F16 becomes f32; I8, I16, U16 become i32; U32 becomes i64; other types that Bochner
/// does not have are refused by name.
Safetensors read_safetensors(const std::filesystem::path& path);
Safetensors parse_safetensors(Bytes bytes, std::string_view file);

/// Writes atomically (file.h), from any device. Names and strings must be UTF-8; the name `__metadata__` and metadata
/// beginning with `bochner.hash` are reserved. Tensors are ordered by element size, largest first, then by name, so
/// that each is aligned.
void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors, const Metadata& metadata = {});
void write_safetensors(ByteSink& sink, const TensorMap& tensors, const Metadata& metadata = {});
std::vector<std::byte> format_safetensors(const TensorMap& tensors, const Metadata& metadata = {});

/// A file whose tensors are read one by one, for callers that need only some of them or move each one elsewhere.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  /// The metadata without the hashes.
  const Metadata& metadata() const { return metadata_; }
  /// Sorted by name.
  std::vector<std::string> tensor_names() const;
  bool contains(const std::string& tensor) const { return entries_.contains(tensor); }
  const Shape& shape(const std::string& tensor) const { return entry(tensor).layout.shape(); }
  /// The type that the tensor is read as.
  DType dtype(const std::string& tensor) const { return dtype_for(entry(tensor).layout.type()); }
  /// Reads and verifies one tensor. An Error names the nearest names if there is no such tensor.
  Tensor read(const std::string& tensor) const;

 private:
  friend Safetensors parse_safetensors(Bytes bytes, std::string_view file);
  struct Entry {
    Layout layout;
    int64_t offset;    ///< of its first byte in the file
    std::string hash;  ///< empty if the file has none
  };

  explicit SafetensorsFile(const std::shared_ptr<const InputFile>& file);
  SafetensorsFile(std::string name, int64_t size, ReadAt read_at);
  const Entry& entry(const std::string& tensor) const;

  std::string name_;
  ReadAt read_at_;
  Metadata metadata_;
  std::map<std::string, Entry> entries_;
};

}  // namespace bochner
