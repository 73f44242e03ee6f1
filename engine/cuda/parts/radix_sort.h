// A stable radix sort of 64-bit entries by some of their bits, from the lowest digit up. A pass is two kernels: the
// first counts how many entries of each tile have each digit, the second moves the entries. A block has a tile, and
// each of its warps a stretch of it, processed in order; so equal digits keep their order, and the result and the
// number of passes depend on nothing else.
#pragma once

#include <algorithm>
#include <type_traits>

#include "engine/cuda/parts/launch.h"
#include "engine/tensor.h"

namespace bochner::cuda {

inline constexpr int kDigits = 256;  ///< values of a digit
inline constexpr int kStretches = 16;
/// The least size of a tile, with which 2^17 entries occupy half of a large card's multiprocessors. There are no more
/// tiles, since each block reads the counts of all.
inline constexpr int64_t kLeastTile = 2048;
inline constexpr int64_t kMostTiles = 256;

#if defined(__CUDACC__)
inline constexpr int kLanes = 32;
/// The lanes of a warp hold entries in order, if `there`: each gets counts[digit] plus the number of earlier lanes with
/// its digit, and is counted.
__device__ inline uint32_t take_number(uint32_t* counts, uint32_t digit, bool there) {
  const uint32_t same = __match_any_sync(0xFFFFFFFFU, there ? digit : ~0U);
  const uint32_t earlier = same & ((1U << (threadIdx.x % 32)) - 1);
  const uint32_t first = there ? counts[digit] : 0;
  __syncwarp();
  if (there && earlier == 0) counts[digit] = first + __popc(same);
  __syncwarp();
  return first + __popc(earlier);
}
#else
inline constexpr int kLanes = 1;
inline uint32_t take_number(uint32_t* counts, uint32_t digit, bool there) { return there ? counts[digit]++ : 0; }
#endif

/// Entries in memory; the first pass may compute them instead.
struct EntriesInMemory {
  const uint64_t* entries;
  BOCHNER_DEVICE uint64_t operator()(int64_t i) const { return entries[i]; }
};

/// A digit of entries that are read from `from`, and how the entries are split.
template <class From>
struct RadixPass {
  From from;
  int64_t count, tile, tiles;
  int shift, bits;

  BOCHNER_DEVICE uint32_t digit(uint64_t entry) const {
    return static_cast<uint32_t>(entry >> shift) & ((1U << bits) - 1);
  }
  /// Goes through a tile: each(entry, its number), numbered on from counts (kStretches, kDigits) in shared memory.
  template <class Team, class Each>
  BOCHNER_DEVICE void walk(const Team& team, uint32_t* counts, const Each& each) const {
    constexpr int kHeld = 4;  // reads in flight at once
    const int64_t stretch = tile / kStretches;
    const int lane = team.rank() % kLanes;
    for (int s = team.rank() / kLanes; s < kStretches; s += team.size() / kLanes) {
      const int64_t begin = team.index() * tile + s * stretch;
      const int64_t end = begin + stretch < count ? begin + stretch : count;
      for (int64_t first = begin; first < end; first += kHeld * kLanes) {
        uint64_t held[kHeld];
#pragma unroll
        for (int j = 0; j < kHeld; ++j) {
          const int64_t i = first + j * kLanes + lane;
          held[j] = i < end ? from(i) : 0;
        }
#pragma unroll
        for (int j = 0; j < kHeld; ++j) {
          const bool there = first + j * kLanes + lane < end;
          const uint32_t number = take_number(counts + s * kDigits, digit(held[j]), there);
          if (there) each(held[j], number);
        }
      }
    }
  }
  /// Stores in counts how many entries of each stretch of the tile have each digit.
  template <class Team>
  BOCHNER_DEVICE void count_stretches(const Team& team, uint32_t* counts) const {
    for (int i = team.rank(); i < kStretches * kDigits; i += team.size()) counts[i] = 0;
    team.sync();
    walk(team, counts, [](uint64_t, uint32_t) {});
    team.sync();
  }
  BOCHNER_DEVICE static uint32_t of_all_stretches(const uint32_t* counts, int digit) {
    uint32_t sum = 0;
    for (int s = 0; s < kStretches; ++s) sum += counts[s * kDigits + digit];
    return sum;
  }
};

template <class From>
struct CountDigits {
  RadixPass<From> pass;
  uint32_t* tile_counts;  ///< (tiles, kDigits)

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    auto* counts = team.template shared<uint32_t>();
    pass.count_stretches(team, counts);
    for (int d = team.rank(); d < kDigits; d += team.size()) {
      tile_counts[team.index() * kDigits + d] = pass.of_all_stretches(counts, d);
    }
  }
};

template <class From>
struct MoveByDigit {
  static constexpr int kGroups = 2;  ///< of tiles, whose counts are added up in parallel
  static constexpr int kRun = 16;    ///< digits
  static constexpr size_t kShared = (kStretches + 2 * kGroups + 1) * kDigits * sizeof(uint32_t);

  RadixPass<From> pass;
  const uint32_t* tile_counts;  ///< not read if there is one tile
  uint64_t* to;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    auto* counts = team.template shared<uint32_t>();
    uint32_t* all = counts + kStretches * kDigits;  // entries with a digit: (kGroups, kDigits)
    uint32_t* before = all + kGroups * kDigits;     // those of earlier tiles
    uint32_t* runs = before + kGroups * kDigits;    // entries with a digit of each run of digits
    pass.count_stretches(team, counts);
    for (int i = team.rank(); i < kGroups * kDigits; i += team.size()) {
      uint32_t sum = 0;
      uint32_t earlier = 0;
      if (pass.tiles == 1) {
        if (i < kDigits) sum = pass.of_all_stretches(counts, i);
      } else {
        constexpr int kAtOnce = 16;
        const int64_t each = ceil_div(pass.tiles, kGroups);
        const int64_t end = (i / kDigits + 1) * each < pass.tiles ? (i / kDigits + 1) * each : pass.tiles;
        for (int64_t tile = i / kDigits * each; tile < end; tile += kAtOnce) {
          uint32_t held[kAtOnce];
#pragma unroll
          for (int j = 0; j < kAtOnce; ++j) {
            held[j] = tile_counts[(tile + j < end ? tile + j : tile) * kDigits + i % kDigits];
          }
#pragma unroll
          for (int j = 0; j < kAtOnce; ++j) {
            if (tile + j < end) sum += held[j];
            if (tile + j < end && tile + j < team.index()) earlier += held[j];
          }
        }
      }
      all[i] = sum;
      before[i] = earlier;
    }
    team.sync();
    for (int run = team.rank(); run < kDigits / kRun; run += team.size()) {
      uint32_t sum = 0;
      for (int d = run * kRun; d < (run + 1) * kRun; ++d) sum += entries_with(all, d);
      runs[run] = sum;
    }
    team.sync();
    for (int d = team.rank(); d < kDigits; d += team.size()) {
      uint32_t place = entries_with(before, d);
      for (int run = 0; run < d / kRun; ++run) place += runs[run];
      for (int other = d / kRun * kRun; other < d; ++other) place += entries_with(all, other);
      for (int s = 0; s < kStretches; ++s) {  // turn counts into positions
        const uint32_t n = counts[s * kDigits + d];
        counts[s * kDigits + d] = place;
        place += n;
      }
    }
    team.sync();
    pass.walk(team, counts, [this](uint64_t entry, uint32_t place) { to[place] = entry; });
  }

  BOCHNER_DEVICE static uint32_t entries_with(const uint32_t* groups, int digit) {
    uint32_t sum = 0;
    for (int group = 0; group < kGroups; ++group) sum += groups[group * kDigits + digit];
    return sum;
  }
};

/// The entries first(0) ... first(count - 1), fewer than 2^32, sorted by `bits` of their bits from `shift` on.
template <class First>
Tensor sorted_entries(int64_t count, int shift, int bits, const First& first) {
  constexpr int kBits = 8;
  constexpr int kSorters = kStretches * 32;
  const Device device = Device::cuda(platform::current());
  const int64_t tile = std::max(kLeastTile, ceil_div(ceil_div(count, kMostTiles), kSorters) * kSorters);
  const int64_t tiles = ceil_div(count, tile);
  Tensor from;
  Tensor to = Tensor::empty({count}, DType::i64, device);
  const Tensor counts = Tensor::empty({tiles > 1 ? tiles * kDigits : 0}, DType::i32, device);
  auto* tile_counts = static_cast<uint32_t*>(counts.raw());
  const auto run = [&]<class From>(const From& source, int low, int width) {
    const RadixPass<From> pass{source, count, tile, tiles, shift + low, width};
    if (tiles > 1) {
      launch_blocks<kSorters>(tiles, kStretches * kDigits * sizeof(uint32_t), CountDigits<From>{pass, tile_counts});
    }
    launch_blocks<kSorters>(tiles, MoveByDigit<From>::kShared,
                            MoveByDigit<From>{pass, tile_counts, static_cast<uint64_t*>(to.raw())});
  };
  const int passes = static_cast<int>(ceil_div(bits, kBits));
  const int width = static_cast<int>(ceil_div(bits, std::max(passes, 1)));
  run(first, 0, std::min(width, bits));
  for (int low = width; low < bits; low += width) {
    from = to;
    to = Tensor::empty({count}, DType::i64, device);
    run(EntriesInMemory{static_cast<const uint64_t*>(from.raw())}, low, std::min(width, bits - low));
  }
  return to;
}

}  // namespace bochner::cuda
