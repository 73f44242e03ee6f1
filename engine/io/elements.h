// Elements as files store them, and the tensors that they become: common to safetensors, npy and IDX.
#pragma once

#include <bit>
#include <functional>
#include <span>
#include <string_view>

#include "engine/io/bytes.h"
#include "engine/tensor.h"

namespace bochner {

/// An element type of a file. The types after `boolean` are not types of Bochner: they are read into the smallest one
/// that holds all their values (f16 -> f32; i8, i16, u16 -> i32; u32 -> i64) and never written.
enum class FileType : uint8_t { f32, f64, bf16, i32, i64, u8, boolean, f16, i8, i16, u16, u32 };

int64_t size_of(FileType type);
/// The type of the tensor that elements of this type are read into.
DType dtype_for(FileType type);
FileType file_type_of(DType dtype);

/// Fills the whole span with the next bytes of a file, or throws.
using FillBytes = std::function<void(std::span<std::byte> to)>;

/// Fills the whole span with the bytes of a file from an offset on, or throws.
using ReadAt = std::function<void(int64_t offset, std::span<std::byte> to)>;
/// The same for bytes in memory, which must outlive it; reading beyond them is an internal error.
ReadAt reader_of(Bytes bytes);

/// What a file says about a tensor, checked: at most 8 sizes, none negative, and a number of bytes that fits into 63
/// bits (even if a size of 0 would hide an overflow of the others). `what` names the tensor in messages.
class Layout {
 public:
  Layout(FileType type, std::span<const int64_t> sizes, std::string_view what, std::string_view file, int64_t offset);

  FileType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t bytes() const { return bytes_; }

 private:
  FileType type_;
  Shape shape_;
  int64_t bytes_ = 0;
};

/// A contiguous CPU tensor of the elements that `fill` delivers. The caller must have compared layout.bytes() with the
/// size of the file, since this allocates that much. A bool other than 0 and 1 is an Error at `offset`.
Tensor read_elements(const Layout& layout, std::endian order, const FillBytes& fill, std::string_view what,
                     std::string_view file, int64_t offset);

/// The bytes of a contiguous CPU tensor, which must outlive them.
Bytes bytes_of(const Tensor& tensor);
Bytes bytes_of(Tensor&& tensor) = delete;

}  // namespace bochner
