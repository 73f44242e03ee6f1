// The states between the tiles in causal kernel attention in bf16, S_c or R_c of causal_tiles.h. A block walks the
// tiles of a segment with its rows of the state in registers. If a slab has several segments, their sums are computed
// first, and a scan over them gives the state with which each segment begins.
#pragma once

#include "engine/cuda/attention/kernel/causal_sides.h"

namespace bochner::cuda {

/// The tiles of a slab in the order in which they are walked: forward for S, backward for R.
struct Walk {
  Slab slab;
  bool backward;
  int64_t each, segments;  ///< tiles of a segment; segments of the slab
  int64_t jobs, tiles;     ///< tiles: of all slabs, in each job
  const float* r;          ///< (jobs, tiles + 1): the shift at each border

  /// The tile in the slab at a given step of the walk.
  BOCHNER_DEVICE int64_t tile(int64_t step) const { return backward ? slab.count - 1 - step : step; }
  BOCHNER_DEVICE int64_t end(int64_t segment) const {
    return (segment + 1) * each < slab.count ? (segment + 1) * each : slab.count;
  }
  /// The factor by which a state decays over steps first ... end - 1.
  BOCHNER_DEVICE float decay(int64_t job, int64_t first, int64_t end) const {
    const float* border = r + job * (tiles + 1) + slab.first;
    const int64_t one = tile(first);
    const int64_t other = tile(end - 1);
    return math::exp(border[one < other ? one : other] - border[(one < other ? other : one) + 1]);
  }
};

/// States in f32, each (features, D + 1) with z as the last column, and totals (D + 1); the states of a job are
/// `stride` apart.
struct SavedStates {
  float* data;
  int64_t of_job, stride;  ///< of_job: between the first states of two jobs
  BOCHNER_DEVICE float* at(int64_t job, int64_t index) const { return data + job * of_job + index * stride; }
};

/// Writes the state before each tile (R: after it) in bf16, as PackedSums of the slab's tiles, with the totals T or t,
/// and the state after the last segment; or, if `sums`, only what each segment adds. One block per kRows frequencies of
/// a segment; the block of the first frequencies also computes the totals.
template <int D, Form form>
struct WalkStates {
  static constexpr int kParts = Phi<form>::kParts;
  static constexpr int kGroups = 1;  ///< groups of 16 rows per warp: many small warps hide each other's latencies
  static constexpr int kRows = 16 * kGroups * kWarps;
  static constexpr int kResident = kParts == 1 ? 4 : 2;
  static constexpr int kStride = D + kGap;
  static constexpr int kStep = 16;    ///< tokens after which a warp switches from one product to the next
  static constexpr int kTotals = 16;  ///< columns of the totals that a warp computes
  static constexpr size_t kBuffer =
      sizeof(bfloat16) * 2 * kTile * kStride + CarriedScales::kBytes + sizeof(float) * kTile;
  static constexpr size_t kShared = 2 * kBuffer;
  Phi<form> phi;
  PackedFrequencies omega;
  CausalSide own;
  Walk walk;
  bool sums;
  int64_t totals_at;   ///< where the totals begin in a state in f32
  SavedStates starts;  ///< of each segment in the order of the walk: read, null for 0, or, if `sums`, written
  SavedStates ends;    ///< one state: after the last segment; or null
  SavedStates saved;   ///< before every `every`-th tile of all; null for none
  int64_t every;
  bfloat16* rows;
  float *z, *totals;  ///< totals (tiles of the slab, D + 1), or null
  const float* w;     ///< (jobs, padded): weights of the totals, or null for 1

  struct Rows {
    Left<D / 16> omega[kGroups];
    Sum<D / 8> sum[kParts][kGroups];
    RowValues z[kParts][kGroups];  ///< each lane has its part
    Sum<kTotals / 8> total[1];     ///< the same in every row
    RowValues last;                ///< of the totals
  };
  struct Buffer {
    bfloat16 *x, *y;
    CarriedScales scales;
    float* w;
    BOCHNER_DEVICE explicit Buffer(unsigned char* memory)
        : x(reinterpret_cast<bfloat16*>(memory)),
          y(x + kTile * kStride),
          scales(reinterpret_cast<float*>(y + kTile * kStride)),
          w(scales.carry + kTile) {}
  };

  int64_t blocks() const { return ceil_div(omega.padded, int64_t{kRows}) * walk.jobs; }  ///< of a segment
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t blocks = ceil_div(omega.padded, int64_t{kRows});
    const int64_t m = team.index() % blocks * kRows;
    const int64_t job = team.index() / blocks % walk.jobs;
    const int64_t segment = team.index() / blocks / walk.jobs;
    const int64_t end = walk.end(segment);
    auto* memory = team.template shared<unsigned char>();
    Rows mine[kTokenShare];
    for (int s = 0; s < kTokenShare; ++s) {
      begin(job, segment, m + 16 * kGroups * warp_of(team, s), mine[s]);
      if (m == 0 && totals != nullptr) begin_totals(job, segment, warp_of(team, s), mine[s]);
    }
    begin_tile_of(team, job, walk.tile(segment * walk.each), Buffer(memory));
    int buffer = 0;
    for (int64_t step = segment * walk.each; step < end; ++step, buffer = 1 - buffer) {
      const int64_t tile = walk.tile(step);
      wait_for_copies();
      team.sync();
      if (step + 1 < end) begin_tile_of(team, job, walk.tile(step + 1), Buffer(memory + (1 - buffer) * kBuffer));
      join_lanes();
      const Buffer from(memory + buffer * kBuffer);
      const float decay = walk.decay(job, step, step + 1);
      for (int s = 0; s < kTokenShare; ++s) {
        const int64_t first = m + 16 * kGroups * warp_of(team, s);
        if (m == 0 && totals != nullptr) add_totals(from, job * walk.slab.count + tile, warp_of(team, s), mine[s]);
        if (first >= omega.padded) continue;
        if (!sums) put(job, tile, first, mine[s]);
        fade(decay, mine[s]);
#pragma unroll 2
        for (int t = 0; t < kTile; t += kStep) add(from, t, first, mine[s]);
      }
    }
    for (int s = 0; s < kTokenShare; ++s) {
      float* const to = sums                                             ? starts.at(job, segment)
                        : end == walk.slab.count && ends.data != nullptr ? ends.at(job, 0)
                                                                         : nullptr;
      if (to == nullptr) continue;
      write(m + 16 * kGroups * warp_of(team, s), mine[s], to);
      if (m == 0 && totals != nullptr) write_totals(warp_of(team, s), mine[s], to + totals_at);
    }
  }

 private:
  template <class Team>
  BOCHNER_DEVICE void begin_tile_of(const Team& team, int64_t job, int64_t tile, const Buffer& to) const {
    const int64_t token = (walk.slab.first + tile) * kTile;
    begin_rows<D>(team, own.tokens.x, job, token, to.x);
    begin_rows<D>(team, own.tokens.y, job, token, to.y);
    to.scales.begin(team, own, job * own.tokens.padded + token);
    if (w != nullptr) begin_numbers<kTile, kThreads>(team, w + job * own.tokens.padded + token, to.w);
  }
  /// f(part, group) for a warp's rows.
  template <class F>
  static BOCHNER_DEVICE void each(const F& f) {
    each_part<kParts>([&](auto part) {
#pragma unroll
      for (int r = 0; r < kGroups; ++r) f(part(), r);
    });
  }
  BOCHNER_DEVICE void begin(int64_t job, int64_t segment, int64_t first, Rows& mine) const {
#pragma unroll
    for (int r = 0; r < kGroups; ++r) {
      mine.omega[r] =
          load_left<D / 16>(omega.rows + omega.place(job) * D, D, first + static_cast<int64_t>(16 * r), omega.padded);
    }
    each([&](int part, int r) {
      mine.sum[part][r].clear();
      mine.z[part][r] = RowValues::filled(0);
      if (sums || starts.data == nullptr) return;
      const int64_t row_of_group = first + static_cast<int64_t>(16 * r);
      const float* from = starts.at(job, segment) + (part * omega.count + row_of_group) * (D + 1);
      const int64_t left = omega.count - row_of_group;
      mine.sum[part][r].each([&](int row, int column, float& value) {
        if (row < left) value = from[row * (D + 1) + column];
      });
      mine.z[part][r].each([&](int row, float& value) {
        if (RowValues::first() && row < left) value = from[row * (D + 1) + D];
      });
    });
  }
  BOCHNER_DEVICE void put(int64_t job, int64_t tile, int64_t first, Rows& mine) const {
    const int64_t number = walk.slab.first + tile;
    if (saved.data != nullptr && number % every == 0) write(first, mine, saved.at(job, number / every));
    each([&](int part, int r) {
      const int64_t to = ((job * walk.slab.count + tile) * kParts + part) * omega.padded + first + 16 * r;
      write_rows(mine.sum[part][r], rows + to * D, D);
      RowValues last = joined(mine.z[part][r], Plus{});
      last.each([&](int row, float& value) {
        if (RowValues::first()) z[to + row] = value;
      });
    });
  }
  BOCHNER_DEVICE void fade(float decay, Rows& mine) const {
    if (decay == 1) return;
    each([&](int part, int r) {
      mine.sum[part][r].each([&](int, int, float& value) { value *= decay; });
      mine.z[part][r].each([&](int, float& value) { value *= decay; });
    });
  }
  BOCHNER_DEVICE void add(const Buffer& from, int t, int64_t first, Rows& mine) const {
    Sum<kStep / 8> u[kGroups];
#pragma unroll
    for (int r = 0; r < kGroups; ++r) u[r].clear();
    multiply_rows(u, mine.omega, from.x + t * kStride, kStride);
    each_part<kParts>([&](auto part) {
      Left<kStep / 16> features[kGroups];
#pragma unroll
      for (int r = 0; r < kGroups; ++r) {
        Sum<kStep / 8> f = u[r];
        f.each([&](int, int column, float& value) {
          const auto feature =
              phi.template at<part()>(value, from.scales.less[t + column], from.scales.weight[t + column]);
          value = (feature.value + own.eps) * from.scales.carry[t + column];
        });
        if (first + 16 * kGroups > omega.count) {  // rows beyond the last frequency stay 0
          const int64_t left = omega.count - first - 16 * r;
          f.each([&](int row, int, float& value) { value = row < left ? value : 0.0f; });
        }
        features[r] = rounded<kStep / 16>(f);
        f.zip([&](Place at, float value) { mine.z[part()][r].at(at) += value * from.scales.last[t + at.column]; });
      }
      multiply_columns(mine.sum[part()], features, from.y + t * kStride, kStride);
    });
  }
  BOCHNER_DEVICE void begin_totals(int64_t job, int64_t segment, int warp, Rows& mine) const {
    mine.total[0].clear();
    mine.last = RowValues::filled(0);
    if (sums || starts.data == nullptr || kTotals * warp >= D) return;
    const float* from = starts.at(job, segment) + totals_at;
    mine.total[0].each([&](int, int column, float& value) { value = from[kTotals * warp + column]; });
    mine.last.each([&](int, float& value) {
      if (RowValues::first()) value = from[D];
    });
  }
  /// Writes the totals of a tile, and adds to them.
  BOCHNER_DEVICE void add_totals(const Buffer& from, int64_t index, int warp, Rows& mine) const {
    if (kTotals * warp >= D) return;
    if (!sums) {
      write_totals(warp, mine, totals + index * (D + 1));
      const int64_t number = walk.slab.first + index % walk.slab.count;
      if (saved.data != nullptr && number % every == 0) {
        write_totals(warp, mine, saved.at(index / walk.slab.count, number / every) + totals_at);
      }
    }
    for (int t = 0; t < kTile; t += kStep) {
      Sum<kStep / 8> weights;
      weights.clear();
      weights.each([&](int, int column, float& value) { value = w == nullptr ? 1.0f : from.w[t + column]; });
      const Left<kStep / 16> left[1] = {rounded<kStep / 16>(weights)};
      weights.zip([&](Place at, float value) { mine.last.at(at) += value * from.scales.last[t + at.column]; });
      multiply_columns(mine.total, left, from.y + t * kStride + kTotals * warp, kStride);
    }
  }
  BOCHNER_DEVICE void write_totals(int warp, Rows& mine, float* to) const {
    if (kTotals * warp >= D) return;
    mine.total[0].each([&](int row, int column, float& value) {
      if (row == 0) to[kTotals * warp + column] = value;
    });
    RowValues last = joined(mine.last, Plus{});
    last.each([&](int row, float& value) {
      if (warp == 0 && row == 0 && RowValues::first()) to[D] = value;
    });
  }
  BOCHNER_DEVICE void write(int64_t first, Rows& mine, float* to) const {
    each([&](int part, int r) {
      RowValues last = joined(mine.z[part][r], Plus{});
      write_sums<D>(mine.sum[part][r], last, first + 16 * r, omega.count, to + part * omega.count * (D + 1));
    });
  }
};

/// Replaces what each segment adds, in place, by the state with which it begins, `carried` being that of the first
/// segment. One thread per element of a state.
struct ScanSegments {
  Walk walk;
  int64_t sums, totals;  ///< the number of elements of a state that are shifted, and where its totals begin
  int64_t size;          ///< both together
  SavedStates carried;   ///< or null for 0
  SavedStates starts;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / size;
    const bool fades = i % size < sums;
    const int64_t element = fades ? i % size : totals + i % size - sums;
    float value = carried.data == nullptr ? 0.0f : carried.at(job, 0)[element];
    for (int64_t segment = 0; segment < walk.segments; ++segment) {
      float* place = starts.at(job, segment) + element;
      const bool is_last = segment + 1 == walk.segments;  // for which nothing was summed
      const float added = is_last ? 0.0f : *place;
      *place = value;
      if (is_last) break;
      value = (fades ? walk.decay(job, segment * walk.each, walk.end(segment)) : 1.0f) * value + added;
    }
  }
};

}  // namespace bochner::cuda
