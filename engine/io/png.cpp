#include "engine/io/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <exception>

#include "engine/io/elements.h"
#include "engine/io/file.h"

// libpng reports an error by longjmp. No C++ object may live in a function that is jumped over, so all state is in a
// plain struct, the functions that call setjmp have no local variables with destructors, and objects with one (tensor,
// row pointers, the owner of the struct) live in their callers.

namespace bochner {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
constexpr png_uint_32 kLargestSide = 1U << 20;
constexpr int64_t kLargestImage = int64_t{1} << 30;  ///< bytes
constexpr int64_t kBestRatio = 1032;                 ///< deflate packs 258 bytes into 2 bits at best

/// What reading and writing share: libpng's own state, and the target of its longjmp.
struct Png {
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool writing = false;
  std::array<char, 200> message{};
  std::jmp_buf back{};

  ~Png() {
    if (writing) {
      png_destroy_write_struct(&png, &info);
    } else {
      png_destroy_read_struct(&png, &info, nullptr);
    }
  }
};

struct PngReader : Png {
  Bytes bytes;
  size_t offset = 0;
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  size_t row_bytes = 0;
  int channels = 0;
};

struct PngWriter : Png {
  ByteSink* sink = nullptr;
  std::exception_ptr failure;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* state = static_cast<Png*>(png_get_error_ptr(png));
  std::snprintf(state->message.data(), state->message.size(), "%s", message);
  std::longjmp(state->back, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t count) {
  auto* state = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > state->bytes.size() - state->offset) {
    state->offset = state->bytes.size();
    png_error(png, "the file is cut short");
  }
  std::memcpy(to, state->bytes.data() + state->offset, count);
  state->offset += count;
}

void on_write(png_structp png, png_bytep bytes, size_t count) {
  auto* state = static_cast<PngWriter*>(png_get_io_ptr(png));
  bool failed = false;
  try {
    state->sink->write(Bytes(reinterpret_cast<const std::byte*>(bytes), count));
  } catch (...) {
    state->failure = std::current_exception();
    failed = true;
  }
  if (failed) png_error(png, "writing failed");
}

void on_flush(png_structp) {}

/// Reads up to the pixels; false if libpng reports an error.
bool read_start(PngReader& state) {
  if (setjmp(state.back) != 0) return false;
  state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<Png*>(&state), on_error, on_warning);
  if (state.png == nullptr) return false;
  state.info = png_create_info_struct(state.png);
  if (state.info == nullptr) return false;
  png_set_read_fn(state.png, &state, on_read);
  png_set_user_limits(state.png, kLargestSide, kLargestSide);
  png_set_chunk_malloc_max(state.png, png_alloc_size_t{1} << 20);
  png_set_crc_action(state.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_benign_errors(state.png, 0);
  // Of chunks that do not change pixels only the checksums are read.
  png_set_keep_unknown_chunks(state.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(state.png, state.info);
  state.width = png_get_image_width(state.png, state.info);
  state.height = png_get_image_height(state.png, state.info);
  state.row_bytes = png_get_rowbytes(state.png, state.info);
  return true;
}

/// Converts all forms of pixels to 8 bits of grey, RGB or RGBA; false if libpng reports an error.
bool choose_form(PngReader& state) {
  if (setjmp(state.back) != 0) return false;
  const int type = png_get_color_type(state.png, state.info);
  const bool transparent = png_get_valid(state.png, state.info, PNG_INFO_tRNS) != 0;
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(state.png);
  if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(state.png);
  if (transparent) png_set_tRNS_to_alpha(state.png);
  if (type == PNG_COLOR_TYPE_GRAY_ALPHA || (type == PNG_COLOR_TYPE_GRAY && transparent)) png_set_gray_to_rgb(state.png);
  png_set_interlace_handling(state.png);
  png_read_update_info(state.png, state.info);
  state.channels = png_get_channels(state.png, state.info);
  state.row_bytes = png_get_rowbytes(state.png, state.info);
  return true;
}

bool read_pixels(PngReader& state, png_bytepp rows) {
  if (setjmp(state.back) != 0) return false;
  png_read_image(state.png, rows);
  png_read_end(state.png, nullptr);
  return true;
}

bool write_all(PngWriter& state, png_uint_32 width, png_uint_32 height, int color_type, png_bytepp rows) {
  if (setjmp(state.back) != 0) return false;
  state.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, static_cast<Png*>(&state), on_error, on_warning);
  if (state.png == nullptr) return false;
  state.info = png_create_info_struct(state.png);
  if (state.info == nullptr) return false;
  png_set_write_fn(state.png, &state, on_write, on_flush);
  png_set_user_limits(state.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_IHDR(state.png, state.info, width, height, 8, color_type, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(state.png, state.info);
  png_write_image(state.png, rows);
  png_write_end(state.png, nullptr);
  return true;
}

std::vector<png_bytep> rows_of(const Tensor& image, int64_t height, int64_t row_bytes) {
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  for (int64_t i = 0; i < height; ++i) rows[static_cast<size_t>(i)] = image.data<uint8_t>() + i * row_bytes;
  return rows;
}

void encode_png(ByteSink& sink, const Tensor& image) {
  if (!image.defined()) fail("png: no image to write; only defined tensors can be saved");
  const Shape& shape = image.shape();
  const int64_t channels = shape.rank() == 3 ? shape[2] : 1;
  if (image.dtype() != DType::u8 || shape.rank() < 2 || shape.rank() > 3 ||
      (channels != 1 && channels != 3 && channels != 4)) {
    fail("png: {} is no image; needs u8 (height, width) or (height, width, channels) with 1, 3 or 4 channels",
         image.str());
  }
  if (shape[0] < 1 || shape[1] < 1 || shape[0] > PNG_UINT_31_MAX || shape[1] > PNG_UINT_31_MAX / channels) {
    fail("png: {} is empty or too large for an image", shape.str());
  }
  const Tensor flat = image.to(Device::cpu()).contiguous();
  std::vector<png_bytep> rows = rows_of(flat, shape[0], shape[1] * channels);
  const int color_type = channels == 1   ? PNG_COLOR_TYPE_GRAY
                         : channels == 3 ? PNG_COLOR_TYPE_RGB
                                         : PNG_COLOR_TYPE_RGB_ALPHA;
  PngWriter state;
  state.writing = true;
  state.sink = &sink;
  if (!write_all(state, static_cast<png_uint_32>(shape[1]), static_cast<png_uint_32>(shape[0]), color_type,
                 rows.data())) {
    if (state.failure) std::rethrow_exception(state.failure);
    fail("png: {} cannot be written: {}", shape.str(), shown(state.message.data()));
  }
}

}  // namespace

Tensor parse_png(Bytes bytes, std::string_view file, int64_t most_pixels) {
  if (bytes.empty()) fail("{}: the file is empty, no PNG image; fetch it again or leave it out", file);
  if (!text_of(bytes).starts_with(kSignature)) {
    fail_at(file, 0, "it does not begin as a PNG image does (89 50 4e 47 0d 0a 1a 0a); is it a PNG file?");
  }
  PngReader state;
  state.bytes = bytes;
  const auto refuse = [&]() {
    fail_at(file, static_cast<int64_t>(state.offset), "png: {}; the file is damaged: fetch or write it again",
            state.message[0] == '\0' ? "no memory" : shown(state.message.data()));
  };
  if (!read_start(state)) refuse();
  const int64_t raw = static_cast<int64_t>(state.row_bytes) * state.height;  // below 2^23 * 2^20
  if (raw > kBestRatio * static_cast<int64_t>(bytes.size())) {
    fail_at(file, 16, "png: {} x {} pixels cannot come out of {} bytes; the file is damaged or cut short", state.width,
            state.height, bytes.size());
  }
  if (int64_t{state.width} * state.height > most_pixels) {
    fail_at(file, 16, "png: {} x {} pixels are more than the {} of an image here", state.width, state.height,
            most_pixels);
  }
  if (png_get_bit_depth(state.png, state.info) == 16) {
    fail_at(file, 24, "png: 16 bits per channel, 8 are read; convert the image to 8 bits");
  }
  if (!choose_form(state)) refuse();
  const int64_t row_bytes = int64_t{state.width} * state.channels;
  if (row_bytes * state.height > kLargestImage) {
    fail_at(file, 16, "png: {} x {} pixels take more than {} bytes; scale the image down", state.width, state.height,
            kLargestImage);
  }
  BOCHNER_ASSERT(static_cast<int64_t>(state.row_bytes) == row_bytes);
  Tensor image = Tensor::empty({state.height, state.width, state.channels}, DType::u8);
  std::vector<png_bytep> rows = rows_of(image, state.height, row_bytes);
  if (!read_pixels(state, rows.data())) refuse();
  return image;
}

Tensor read_png(const std::filesystem::path& path) {
  const std::unique_ptr<ByteSource> file = open_unpacked(path);
  std::vector<std::byte> bytes = read_up_to(*file, std::ssize(kSignature));
  if (!text_of(bytes).starts_with(kSignature)) return parse_png(bytes, path.string());  // an Error
  const std::vector<std::byte> rest = read_all(*file, 2 * kLargestImage);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return parse_png(bytes, path.string());
}

void write_png(const std::filesystem::path& path, const Tensor& image) {
  AtomicFile file(path);
  encode_png(file, image);
  file.commit();
}

std::vector<std::byte> format_png(const Tensor& image) {
  MemorySink sink;
  encode_png(sink, image);
  return sink.take();
}

}  // namespace bochner
