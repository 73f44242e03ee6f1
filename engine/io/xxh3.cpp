#include "engine/io/xxh3.h"

#include <xxhash.h>

#include <new>
#include <vector>

#include "engine/io/file.h"

namespace bochner {
namespace {

std::string digits_of(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  std::string digits;
  for (const unsigned byte : bytes.digest) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

}  // namespace

struct Xxh3::State {
  XXH3_state_t* of = XXH3_createState();
  State() {
    if (of == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(of);
  }
  ~State() { XXH3_freeState(of); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::~Xxh3() = default;

void Xxh3::update(Bytes bytes) { XXH3_128bits_update(state_->of, bytes.data(), bytes.size()); }

std::string Xxh3::hex() const { return digits_of(XXH3_128bits_digest(state_->of)); }

std::string xxh3_of(Bytes bytes) { return digits_of(XXH3_128bits(bytes.data(), bytes.size())); }

std::string xxh3_of_file(const std::filesystem::path& path) {
  InputFile file(path);
  Xxh3 hash;
  std::vector<std::byte> piece(size_t{1} << 20);
  while (const size_t count = file.read(piece)) hash.update(std::span(piece).first(count));
  return hash.hex();
}

}  // namespace bochner
