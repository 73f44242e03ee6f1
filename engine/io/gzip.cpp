#include "engine/io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

namespace bochner {
namespace {

constexpr size_t kGzipPiece = size_t{1} << 15;
constexpr int kGzipOnly = 16 + MAX_WBITS;  // tells zlib to expect a gzip header and trailer

uInt limited(size_t size) { return static_cast<uInt>(std::min<size_t>(size, std::numeric_limits<uInt>::max())); }

}  // namespace

struct GzipSource::State {
  z_stream zlib{};
  std::array<std::byte, kGzipPiece> packed{};
  int64_t packed_bytes = 0;    ///< read from the packed source so far
  int64_t unpacked_bytes = 0;  ///< returned so far
  bool inside = false;         ///< of a member
  bool ended = false;

  int64_t offset() const { return packed_bytes - static_cast<int64_t>(zlib.avail_in); }
};

GzipSource::GzipSource(std::unique_ptr<ByteSource> packed)
    : packed_(std::move(packed)), state_(std::make_unique<State>()) {
  if (inflateInit2(&state_->zlib, kGzipOnly) != Z_OK) fail("{}: no memory to unpack it", name());
}

GzipSource::~GzipSource() { inflateEnd(&state_->zlib); }

void GzipSource::refuse(const char* message) const {
  fail_at(name(), state_->offset(), "{} after {} unpacked bytes; the file is damaged: fetch it again", message,
          state_->unpacked_bytes);
}

bool GzipSource::refill() {
  const size_t count = packed_->read(state_->packed);
  state_->packed_bytes += static_cast<int64_t>(count);
  state_->zlib.next_in = reinterpret_cast<Bytef*>(state_->packed.data());
  state_->zlib.avail_in = static_cast<uInt>(count);
  return count > 0;
}

/// Begins the next member; false at the end of the file, which may be padded with zeros, as on tapes.
bool GzipSource::begin_member() {
  const bool first = state_->offset() == 0;
  for (;;) {
    if (state_->zlib.avail_in == 0 && !refill()) {
      if (first) refuse("the gzip file is empty");
      return false;
    }
    if (first || *state_->zlib.next_in != 0) break;
    ++state_->zlib.next_in;
    --state_->zlib.avail_in;
  }
  if (*state_->zlib.next_in != 0x1f) {
    refuse(first ? "no gzip magic number (1f 8b)" : "bytes that are not gzip follow the last member");
  }
  if (inflateReset(&state_->zlib) != Z_OK) refuse("zlib could not begin");
  return true;
}

size_t GzipSource::read(std::span<std::byte> to) {
  State& state = *state_;
  z_stream& zlib = state.zlib;
  while (!to.empty() && !state.ended) {
    if (!state.inside) {
      state.inside = begin_member();
      state.ended = !state.inside;
      continue;
    }
    if (zlib.avail_in == 0 && !refill()) refuse("the gzip file is cut short");
    zlib.next_out = reinterpret_cast<Bytef*>(to.data());
    zlib.avail_out = limited(to.size());
    const uInt room = zlib.avail_out;
    const int status = inflate(&zlib, Z_NO_FLUSH);
    const size_t count = room - zlib.avail_out;
    state.unpacked_bytes += static_cast<int64_t>(count);
    if (status == Z_STREAM_END) {
      state.inside = false;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      const std::string_view message = zlib.msg == nullptr ? "data error" : zlib.msg;
      if (message == "incorrect data check") refuse("wrong checksum (CRC-32)");
      if (message == "incorrect length check") refuse("wrong length in the trailer");
      if (message == "incorrect header check") refuse("no gzip magic number (1f 8b)");
      refuse(fmt::format("gzip: {}", message).c_str());
    }
    if (count > 0) return count;
  }
  return 0;
}

struct GzipSink::State {
  z_stream zlib{};
  std::array<std::byte, kGzipPiece> packed{};
};

GzipSink::GzipSink(ByteSink& packed, int level) : packed_(packed), state_(std::make_unique<State>()) {
  if (level < 1 || level > 9) fail("gzip: level {} is not between 1 and 9", level);
  if (deflateInit2(&state_->zlib, level, Z_DEFLATED, kGzipOnly, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    fail("gzip: no memory to pack");
  }
}

GzipSink::~GzipSink() { deflateEnd(&state_->zlib); }

/// Runs zlib until it has taken all input (with Z_FINISH: until it has ended), and passes its output on.
void GzipSink::drive(int flush) {
  z_stream& zlib = state_->zlib;
  do {
    zlib.next_out = reinterpret_cast<Bytef*>(state_->packed.data());
    zlib.avail_out = kGzipPiece;
    const int status = deflate(&zlib, flush);
    BOCHNER_ASSERT(status != Z_STREAM_ERROR);
    packed_.write(Bytes(state_->packed).first(kGzipPiece - zlib.avail_out));
  } while (zlib.avail_out == 0);
}

void GzipSink::write(Bytes bytes) {
  while (!bytes.empty()) {
    const uInt count = limited(bytes.size());
    state_->zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));  // zlib does not write to it
    state_->zlib.avail_in = count;
    drive(Z_NO_FLUSH);
    bytes = bytes.subspan(count);
  }
}

void GzipSink::finish() { drive(Z_FINISH); }

std::vector<std::byte> parse_gzip(Bytes packed, std::string_view file, int64_t limit) {
  GzipSource source(std::make_unique<MemorySource>(packed, file));
  return read_all(source, limit);
}

std::vector<std::byte> format_gzip(Bytes bytes, int level) {
  MemorySink packed;
  GzipSink sink(packed, level);
  sink.write(bytes);
  sink.finish();
  return packed.take();
}

}  // namespace bochner
