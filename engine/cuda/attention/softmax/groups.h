// Softmax attention by products of four warps (warp_group.h): this does what tiles.h does with mma.sync. A group of
// four warps has 64 rows of queries, 16 per warp, and all scores of a tile of 64 keys; while it computes exponentials,
// the tensor cores multiply for other groups.
#pragma once

#include "engine/cuda/attention/softmax/tiles.h"
#include "engine/cuda/parts/warp_group.h"

namespace bochner::cuda::softmax_tiles {

/// Pairs of tiles of 64 rows in shared memory. Two pairs are a stage: one stage is in use, one is being loaded, and
/// some groups may still be using a third, the previous one.
template <int D>
struct TilePairs {
  static constexpr int kElements = kTile * D;
  static constexpr int kStages = 3;
  static constexpr int kSlots = 2 * kStages;
  static constexpr size_t kBytes = kSlots * 2 * sizeof(bfloat16) * kElements;

  /// load(cursor, memory of a pair, slot) starts to load the tiles at the cursor, and f(cursor, first tile of the pair,
  /// slot, announce) uses them; then the cursor moves on, as long as it is there(). There are kSlots slots. When f has
  /// started its products, it calls announce(); whatever it starts with a tile must be done when its next call ends.
  template <int groups, class Cursor, class Load, class F>
  BOCHNER_DEVICE static void walk(const Meeting<groups>& meeting, Cursor now, bfloat16* memory, const Load& load,
                                  const F& f) {
    if (!now.there()) return;
    Cursor next = now;
    const auto begin_load = [&](int stage) {
      int slot = stage % kStages * 2;
      for (int i = 0; i < 2 && next.there(); ++i, next.go_on(), ++slot) load(next, memory + slot * 2 * kElements, slot);
    };
    const auto announce = [&] {
      wait_for_tiles();
      meeting.announce();
    };
    begin_load(0);
    announce();
    const GroupTile<D> first(memory);
    for (int stage = 0; now.there(); ++stage) {
      meeting.wait();  // all threads have loaded their part of this stage, and are done with the one before the last
      const bool goes_on = next.there();
      begin_load(stage + 1);
      int slot = stage % kStages * 2;
      for (int i = 0; i < 2 && now.there(); ++i, now.go_on(), ++slot) {
        f(now, first.after(slot * 2 * kTile), slot, [&] {
          if (goes_on && i == 1) announce();
        });
      }
    }
  }
};

/// 64 keys and their values; hidden keys are 0.
template <int D, int threads>
struct GroupKeyTiles {
  using Pairs = TilePairs<D>;
  static constexpr size_t kBytes = Pairs::kBytes;

  const Attention& a;
  const RealKeys real_keys;
  const bfloat16 *keys, *values;

  struct Tile {
    GroupTile<D> k, v;
    uint64_t real;  ///< one bit per key
  };

  BOCHNER_DEVICE GroupKeyTiles(const Attention& attention, const Job& job)
      : a(attention), real_keys(a.real_keys(job)), keys(job.of(a.k)), values(job.of(a.v)) {}

  /// Moves over the tiles before `visible` that have a real key.
  struct Cursor {
    const RealKeys& real_keys;
    int visible;
    int key = -kTile;
    uint64_t real = 0;
    BOCHNER_DEVICE Cursor(const RealKeys& of, int before) : real_keys(of), visible(before) { go_on(); }
    BOCHNER_DEVICE bool there() const { return key < visible; }
    BOCHNER_DEVICE void go_on() {
      do {
        key += kTile;
        real = there() ? real_keys.of_tile(key) : 0;
      } while (there() && real == 0);
    }
  };

  /// f(tile, its first key, announce), as described at TilePairs.
  template <int groups, class Team, class F>
  BOCHNER_DEVICE void walk(const Team& team, const Meeting<groups>& meeting, int visible, const F& f) const {
    const auto load = [&](const Cursor& at, bfloat16* to, int) {
      const uint64_t real = at.real;
      const auto wanted = [real](int row) { return (real >> row & 1) != 0; };
      begin_copy_tile<threads, kTile, D>(team, keys + at.key * a.k.stride, a.k.stride, to, wanted);
      begin_copy_tile<threads, kTile, D>(team, values + at.key * a.v.stride, a.v.stride, to + Pairs::kElements, wanted);
    };
    Pairs::walk(meeting, Cursor(real_keys, visible), tile_memory(team), load,
                [&](const Cursor& at, GroupTile<D> tile, int, const auto& announce) {
                  f(Tile{tile, tile.after(kTile), at.real}, at.key, announce);
                });
  }
};

/// Common to kernels with this number of groups of four warps.
template <int groups>
struct Groups {
  static constexpr int kGroups = groups;
  static constexpr int kBlockWarps = kGroupWarps * groups;
  static constexpr int kBlockThreads = 32 * kBlockWarps;
  static constexpr int kBlockRows = kGroupRows * groups;
  static constexpr int kBlockShare = kWarpShare<kBlockWarps>;
};

/// 0: the factor in the first turn, when there is no previous tile.
BOCHNER_DEVICE inline Left<kTile / 16> no_factor() {
  Sum<kTile / 8> none;
  none.clear();
  return Left<kTile / 16>::of(none);
}

/// Walks the tiles of keys that some of a block's queries see. On its turn, a warp processes those that its group sees;
/// it passes at the others, and finishes what it has started.
template <class Kernel, class Team>
BOCHNER_DEVICE void walk_in_turns(const Kernel& kernel, const Attention& a, const Team& team,
                                  const typename Kernel::Keys& keys, const Job& job, int first,
                                  typename Kernel::Rows (&rows)[Kernel::Size::kBlockShare]) {
  using Size = typename Kernel::Size;
  const typename Kernel::Turns turn(warp_of(team, 0));
  keys.walk(team, Meeting<Size::kGroups>(warp_of(team, 0)), a.visible(first, Size::kBlockRows),
            [&](const typename Kernel::Keys::Tile& tile, int key, const auto& announce) {
              for (int w = 0; w < Size::kBlockShare; ++w) {
                const int warp = warp_of(team, w);
                const int group = first + warp / kGroupWarps * kGroupRows;
                if (group >= a.queries || (a.causal && key >= group + kGroupRows)) {
                  turn.take();
                  turn.pass();
                  kernel.finish(rows[w]);
                  announce();
                } else {
                  kernel.add_tile(rows[w], tile, job, first + 16 * warp, key, turn, announce);
                }
              }
            });
  turn.end();
}

/// O and lse; for each group, a block has 64 queries of a head.
template <int D, bool drops>
struct GroupForward {
  using Size = Groups<D == 64 ? 4 : 2>;
  using Keys = GroupKeyTiles<D, Size::kBlockThreads>;
  static constexpr int kResident = D == 64 ? 1 : 2;
  static constexpr size_t kShared = Keys::kBytes;
  static constexpr float kSlack = Forward<D, drops>::kSlack;
  static constexpr float kLimit = Forward<D, drops>::kLimit;

  Attention a;
  StoredTokens O;
  float* logsumexp;

  struct Rows {
    Left<D / 16> q;
    Sum<D / 8> o;
    RowValues top, sum;
    Left<kTile / 16> p;  ///< of the previous tile; 0 before the first
    GroupTile<D> v;      ///< the values of that tile, if not yet in o
  };
  using Turns = Turn<Size::kGroups>;
  using Scores = Sum<kTile / 8>;

  /// P of this lane's scores, and its sums. If a row has no maximum yet, `missing` is used.
  BOCHNER_DEVICE Left<kTile / 16> weigh(Scores score, const RowValues& top, float missing, RowValues& sum,
                                        [[maybe_unused]] const Words& kept) const {
    const float scale = a.scale;
    const RowValues less =
        RowValues::of(top, top, [scale, missing](float x, float) { return x == kNothing ? missing : -scale * x; });
    score.each(less, [scale](int, int, float& x, float by) { x = fast_exp2(math::fma(x, scale, by)); });
    sum = sums_of_lane(score);
    if constexpr (drops) each_with_bit(score, kept, [](float& x, bool is_kept) { x = is_kept ? x : 0.0f; });
    return Left<kTile / 16>::of(score);
  }
  /// Raises the maxima of rows whose scores exceed them too far.
  BOCHNER_DEVICE void raise(Rows& own, const Scores& score) const {
    const float scale = a.scale;
    const RowValues top = RowValues::of(own.top, score.rows(Maximum{}), [scale](float before, float now) {
      return scale * (now - before) > kSlack ? now : before;
    });
    const RowValues factor = RowValues::of(own.top, top, [scale](float before, float now) {
      return before == now ? 1.0f : fast_exp2(scale * (before - now));
    });
    own.o.each(factor, [](int, int, float& x, float by) { x *= by; });
    own.sum = RowValues::of(own.sum, factor, [](float x, float by) { return x * by; });
    own.top = top;
  }

  /// Adds the product of P of the last tile.
  BOCHNER_DEVICE void finish(Rows& own) const {
    if (!own.v.exists()) return;
    before_products(own.o);
    begin_columns_product(own.o, own.p, own.v);
    end_products();
    wait_for_products<0>(own.o);
    own.v = {};
  }

  template <class Announce>
  BOCHNER_DEVICE void add_tile(Rows& own, const typename Keys::Tile& tile, const Job& job, int query, int key,
                               const Turns& turn, const Announce& announce) const {
    Words kept{};
    if constexpr (drops) {
      kept = Words::of([&](int i) { return a.kept(job, query + i % 16, key + i / 16 * 32); });
    }
    Scores score[1];
    turn.take();
    before_products(own.o);
    begin_rows_product<true>(score[0], own.q, tile.k);
    begin_columns_product(own.o, own.p, own.v.or_else(tile.v));
    end_products();
    turn.pass();
    announce();
    wait_for_products<0>(score[0], own.o);
    if (tile.real != ~uint64_t{0} || (a.causal && key + kTile > query)) hide(score, tile.real, a.causal, query, key);
    RowValues sum[1];
    own.p = weigh(score[0], own.top, -kNothing, sum[0], kept);
    if (any_above(sum, kLimit)) {  // new maxima are looked for only here
      raise(own, score[0]);
      own.p = weigh(score[0], own.top, 0, sum[0], kept);
    }
    own.sum = RowValues::of(own.sum, sum[0], Plus{});
    own.v = tile.v;
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int tiles = static_cast<int>(ceil_div(a.queries, Size::kBlockRows));
    const Job job = a.job(team.index() / tiles);
    const int first = a.first_query(static_cast<int>(team.index() % tiles), tiles, Size::kBlockRows);
    const Keys keys(a, job);
    Rows rows[Size::kBlockShare];
    for (int w = 0; w < Size::kBlockShare; ++w) {
      rows[w].q = load_left<D / 16>(job.of(a.q), a.q.stride, first + 16 * warp_of(team, w), a.queries);
      rows[w].o.clear();
      rows[w].p = no_factor();
      rows[w].top = RowValues::filled(kNothing);
      rows[w].sum = RowValues::filled(0);
    }
    walk_in_turns(*this, a, team, keys, job, first, rows);
    // Dropout's scale is applied outside P, so that kept elements are rounded as without dropout.
    const float scale = drops ? a.drop_scale : 1.0f;
    const StoredTokens::Head to = job.of(O);
    for (int w = 0; w < Size::kBlockShare; ++w) {
      const int query = first + 16 * warp_of(team, w);
      finish(rows[w]);
      const RowValues sum = total_of_lanes(rows[w].sum);
      put_rows(to, query, a.queries, rows[w].o,
               RowValues::of(sum, sum, [scale](float x, float) { return x == 0 ? 0.0f : scale / x; }));
      RowValues lse = RowValues::of(rows[w].top, sum, [&](float top, float of_row) {
        return of_row == 0 ? kNothing : top * a.scale * kLn2 + math::log(of_row);
      });
      lse.each([&](int row, float& x) {
        if (RowValues::first() && query + row < a.queries) logsumexp[job.index * a.queries + query + row] = x;
      });
    }
  }
};

}  // namespace bochner::cuda::softmax_tiles
