#include "engine/io/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "engine/io/file.h"

#if defined(__SHA__) && defined(__SSE4_1__)
#include <immintrin.h>
#endif

namespace bochner {
namespace {

constexpr size_t kBlock = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98U, 0x71374491U, 0xb5c0fbcfU, 0xe9b5dba5U, 0x3956c25bU, 0x59f111f1U, 0x923f82a4U, 0xab1c5ed5U,
    0xd807aa98U, 0x12835b01U, 0x243185beU, 0x550c7dc3U, 0x72be5d74U, 0x80deb1feU, 0x9bdc06a7U, 0xc19bf174U,
    0xe49b69c1U, 0xefbe4786U, 0x0fc19dc6U, 0x240ca1ccU, 0x2de92c6fU, 0x4a7484aaU, 0x5cb0a9dcU, 0x76f988daU,
    0x983e5152U, 0xa831c66dU, 0xb00327c8U, 0xbf597fc7U, 0xc6e00bf3U, 0xd5a79147U, 0x06ca6351U, 0x14292967U,
    0x27b70a85U, 0x2e1b2138U, 0x4d2c6dfcU, 0x53380d13U, 0x650a7354U, 0x766a0abbU, 0x81c2c92eU, 0x92722c85U,
    0xa2bfe8a1U, 0xa81a664bU, 0xc24b8b70U, 0xc76c51a3U, 0xd192e819U, 0xd6990624U, 0xf40e3585U, 0x106aa070U,
    0x19a4c116U, 0x1e376c08U, 0x2748774cU, 0x34b0bcb5U, 0x391c0cb3U, 0x4ed8aa4aU, 0x5b9cca4fU, 0x682e6ff3U,
    0x748f82eeU, 0x78a5636fU, 0x84c87814U, 0x8cc70208U, 0x90befffaU, 0xa4506cebU, 0xbef9a3f7U, 0xc67178f2U};

uint32_t big_word(const std::byte* bytes) {
  return std::to_integer<uint32_t>(bytes[0]) << 24 | std::to_integer<uint32_t>(bytes[1]) << 16 |
         std::to_integer<uint32_t>(bytes[2]) << 8 | std::to_integer<uint32_t>(bytes[3]);
}

}  // namespace

void sha256_blocks_portable(std::array<uint32_t, 8>& state, const std::byte* blocks, size_t count) {
  for (; count > 0; --count, blocks += kBlock) {
    std::array<uint32_t, 64> w{};
    for (size_t t = 0; t < 16; ++t) w[t] = big_word(blocks + 4 * t);
    for (size_t t = 16; t < 64; ++t) {
      const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
      const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t t = 0; t < 64; ++t) {
      const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const std::array<uint32_t, 8> change = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += change[i];
  }
}

#if defined(__SHA__) && defined(__SSE4_1__)

// The instructions keep the state as (a, b, e, f) and (c, d, g, h), and do four rounds with four words of the schedule.
void sha256_blocks(std::array<uint32_t, 8>& state, const std::byte* blocks, size_t count) {
  const auto order = [](const uint32_t* s, size_t i, size_t j, size_t k, size_t l) {
    return _mm_set_epi32(static_cast<int>(s[i]), static_cast<int>(s[j]), static_cast<int>(s[k]),
                         static_cast<int>(s[l]));
  };
  __m128i abef = order(state.data(), 0, 1, 4, 5);
  __m128i cdgh = order(state.data(), 2, 3, 6, 7);
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);  // words are big-endian
  for (; count > 0; --count, blocks += kBlock) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];  // words 4 q ... 4 q + 3 of the schedule at w[q % 4]
    for (size_t q = 0; q < 16; ++q) {
      __m128i& words = w[q % 4];
      if (q < 4) {
        words = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks + 16 * q)), swap);
      } else {
        // w[t] = w[t - 16] + s0(w[t - 15]) + w[t - 7] + s1(w[t - 2])
        const __m128i seven_back = _mm_alignr_epi8(w[(q + 3) % 4], w[(q + 2) % 4], 4);
        words = _mm_add_epi32(_mm_sha256msg1_epu32(words, w[(q + 1) % 4]), seven_back);
        words = _mm_sha256msg2_epu32(words, w[(q + 3) % 4]);
      }
      const __m128i sum = _mm_add_epi32(words, _mm_load_si128(reinterpret_cast<const __m128i*>(kRound.data() + 4 * q)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) std::array<uint32_t, 4> feba{};
  alignas(16) std::array<uint32_t, 4> hgdc{};
  _mm_store_si128(reinterpret_cast<__m128i*>(feba.data()), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(hgdc.data()), cdgh);
  state = {feba[3], feba[2], hgdc[3], hgdc[2], feba[1], feba[0], hgdc[1], hgdc[0]};
}

#else

void sha256_blocks(std::array<uint32_t, 8>& state, const std::byte* blocks, size_t count) {
  sha256_blocks_portable(state, blocks, count);
}

#endif

void Sha256::update(std::span<const std::byte> bytes) {
  const auto waiting = static_cast<size_t>(total_ % kBlock);
  total_ += bytes.size();
  if (waiting > 0) {
    const size_t taken = std::min(kBlock - waiting, bytes.size());
    std::copy_n(bytes.begin(), taken, block_.begin() + static_cast<ptrdiff_t>(waiting));
    if (waiting + taken < kBlock) return;
    sha256_blocks(state_, block_.data(), 1);
    bytes = bytes.subspan(taken);
  }
  const size_t whole = bytes.size() / kBlock;
  sha256_blocks(state_, bytes.data(), whole);
  bytes = bytes.subspan(whole * kBlock);
  std::copy(bytes.begin(), bytes.end(), block_.begin());
}

std::string Sha256::hex() const {
  // A one bit, zeros up to 8 bytes before the end of a block, and the number of bits, big-endian.
  std::array<std::byte, 2 * kBlock> tail{};
  const auto waiting = static_cast<size_t>(total_ % kBlock);
  std::copy_n(block_.begin(), waiting, tail.begin());
  tail[waiting] = std::byte{0x80};
  const size_t size = waiting + 9 <= kBlock ? kBlock : 2 * kBlock;
  const uint64_t bits = 8 * total_;
  for (size_t i = 0; i < 8; ++i) tail[size - 1 - i] = static_cast<std::byte>(bits >> (8 * i) & 0xffU);
  std::array<uint32_t, 8> state = state_;
  sha256_blocks(state, tail.data(), size / kBlock);
  std::string digits;
  for (const uint32_t word : state) digits += fmt::format("{:08x}", word);
  return digits;
}

std::string sha256_of_file(const std::filesystem::path& path) {
  InputFile file(path);
  Sha256 hash;
  std::vector<std::byte> piece(size_t{1} << 20);
  while (const size_t count = file.read(piece)) hash.update(std::span(piece).first(count));
  return hash.hex();
}

}  // namespace bochner
