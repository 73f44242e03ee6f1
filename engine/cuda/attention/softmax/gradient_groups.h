// The gradients of softmax attention by products of four warps: this does what gradient_tiles.h does with mma.sync. A
// group of four warps has 64 rows, and S and dP of a tile of 64 columns. On its turn, it starts their products, and the
// products of P and dS of the previous tile.
#pragma once

#include "engine/cuda/attention/softmax/gradient_tiles.h"
#include "engine/cuda/attention/softmax/groups.h"

namespace bochner::cuda::softmax_tiles {

/// dQ; for each group, a block has 64 queries of a head.
template <int D, bool drops>
struct GroupQueryGradients {
  using Size = Groups<D == 64 ? 2 : 3>;
  using Keys = GroupKeyTiles<D, Size::kBlockThreads>;
  static constexpr size_t kShared = Keys::kBytes;

  Gradients of;
  StoredTokens dQ;
  float factor;

  struct Rows {
    Left<D / 16> q, g;
    Sum<D / 8> dq;
    RowValues lse, less;
    Left<kTile / 16> ds;  ///< of the previous tile; 0 before the first
    GroupTile<D> k;       ///< the keys of that tile, if their product is not yet in dq
  };
  using Turns = Turn<Size::kGroups>;

  /// Adds the product of dS of the last tile.
  BOCHNER_DEVICE void finish(Rows& own) const {
    if (!own.k.exists()) return;
    before_products(own.dq);
    begin_columns_product(own.dq, own.ds, own.k);
    end_products();
    wait_for_products<0>(own.dq);
    own.k = {};
  }

  template <class Announce>
  BOCHNER_DEVICE void add_tile(Rows& own, const typename Keys::Tile& tile, const Job& job, int query, int key,
                               const Turns& turn, const Announce& announce) const {
    const Attention& a = of.a;
    Words kept{};
    if constexpr (drops) {
      kept = Words::of([&](int i) { return a.kept(job, query + i % 16, key + i / 16 * 32); });
    }
    Sum<kTile / 8> p[1];
    Sum<kTile / 8> ds;
    turn.take();
    before_products(own.dq);
    begin_rows_product<true>(p[0], own.q, tile.k);
    end_products();
    begin_rows_product<true>(ds, own.g, tile.v);
    begin_columns_product(own.dq, own.ds, own.k.or_else(tile.k));
    end_products();
    turn.pass();
    announce();
    wait_for_products<1>(p[0]);
    if (tile.real != ~uint64_t{0} || (a.causal && key + kTile > query)) hide(p, tile.real, a.causal, query, key);
    p[0].each(own.lse, [&](int, int, float& x, float lse) { x = of.probability(x, lse); });
    wait_for_products<0>(ds, own.dq);
    if constexpr (drops) {
      const float scale = a.drop_scale;
      each_with_bit(ds, kept, [scale](float& x, bool is_kept) { x = is_kept ? scale * x : 0.0f; });
    }
    ds.each(own.less, [](int, int, float& x, float less) { x -= less; });
    ds.with(p[0], [](float& x, float probability) { x *= probability; });
    own.ds = Left<kTile / 16>::of(ds);
    own.k = tile.k;
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Attention& a = of.a;
    const int tiles = static_cast<int>(ceil_div(a.queries, Size::kBlockRows));
    const Job job = a.job(team.index() / tiles);
    const int first = a.first_query(static_cast<int>(team.index() % tiles), tiles, Size::kBlockRows);
    const Keys keys(a, job);
    Rows rows[Size::kBlockShare];
    for (int w = 0; w < Size::kBlockShare; ++w) {
      const int query = first + 16 * warp_of(team, w);
      rows[w].q = load_left<D / 16>(job.of(a.q), a.q.stride, query, a.queries);
      rows[w].g = load_left<D / 16>(job.of(of.g), of.g.stride, query, a.queries);
      rows[w].dq.clear();
      rows[w].ds = no_factor();
      const auto load = [&](RowValues& to, const float* from) {
        to.each([&](int row, float& x) { x = query + row < a.queries ? from[query + row] : 0.0f; });
      };
      load(rows[w].lse, of.lse + job.index * a.queries);
      load(rows[w].less, of.less + job.index * a.queries);
    }
    walk_in_turns(*this, a, team, keys, job, first, rows);
    const StoredTokens::Head to = job.of(dQ);
    for (int w = 0; w < Size::kBlockShare; ++w) {
      finish(rows[w]);
      put_rows(to, first + 16 * warp_of(team, w), a.queries, rows[w].dq, RowValues::filled(factor));
    }
  }
};

/// dK and dV; for each group, a block has 64 keys of a head; scores are transposed.
template <int D, bool drops>
struct GroupKeyGradients {
  using Size = Groups<2>;
  using Pairs = TilePairs<D>;
  static constexpr size_t kShared = Pairs::kBytes + Pairs::kSlots * 2 * sizeof(float) * kTile;

  Gradients of;
  StoredTokens dK, dV;
  float factor;  ///< of dK

  struct Rows {
    Left<D / 16> k, v;
    Sum<D / 8> dk, dv;
    int begin;               ///< no query in tiles before this one sees any of the group's keys
    Left<kTile / 16> p, ds;  ///< of the previous tile; 0 before the first
    GroupTile<D> q;          ///< the queries of that tile, if not yet in dk and dv
  };
  using Turns = Turn<Size::kGroups>;
  BOCHNER_DEVICE static void begin_outputs(Rows& own, GroupTile<D> q) {
    begin_columns_product(own.dv, own.p, q.after(kTile));
    begin_columns_product(own.dk, own.ds, q);
    end_products();
  }
  /// 64 queries, followed by their dO, and their numbers.
  struct Tile {
    GroupTile<D> q;
    const float *lse, *less;
  };
  struct Cursor {
    int query, queries;
    BOCHNER_DEVICE bool there() const { return query < queries; }
    BOCHNER_DEVICE void go_on() { query += kTile; }
  };

  template <class Announce>
  BOCHNER_DEVICE void add_tile(Rows& own, const Tile& tile, const Job& job, int query, int key, const Turns& turn,
                               const Announce& announce) const {
    const Attention& a = of.a;
    Words kept{};
    if constexpr (drops) {
      kept = Words::of([&](int i) {
        return (a.kept<16>(job, query + i, key) & 0xFFFFU) | a.kept<16>(job, query + 32 + i, key) << 16;
      });
    }
    Sum<kTile / 8> p;
    Sum<kTile / 8> ds;
    turn.take();
    before_products(own.dk, own.dv);
    begin_rows_product<true>(p, own.k, tile.q);
    end_products();
    begin_rows_product<true>(ds, own.v, tile.q.after(kTile));
    begin_outputs(own, own.q.or_else(tile.q));
    turn.pass();
    announce();
    wait_for_products<1>(p);
    if (a.causal && key + 16 > query) {
      const int first = key - query;
      p.each([&](int row, int column, float& x) {
        if (first + row > column) x = kNothing;
      });
    }
    each_of_column(p, tile.lse, [&](float& x, float lse) { x = of.probability(x, lse); });
    Sum<kTile / 8> kept_p = p;
    if constexpr (drops) {
      each_with_column_bit(kept_p, kept, [](float& x, bool is_kept) { x = is_kept ? x : 0.0f; });
    }
    wait_for_products<0>(ds, own.dk, own.dv);
    own.p = Left<kTile / 16>::of(kept_p);
    if constexpr (drops) {
      const float scale = a.drop_scale;
      each_with_column_bit(ds, kept, [scale](float& x, bool is_kept) { x = is_kept ? scale * x : 0.0f; });
    }
    each_of_column(ds, tile.less, [](float& x, float less) { x -= less; });
    ds.with(p, [](float& x, float probability) { x *= probability; });
    own.ds = Left<kTile / 16>::of(ds);
    own.q = tile.q;
  }

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const Attention& a = of.a;
    const int tiles = static_cast<int>(ceil_div(a.keys, Size::kBlockRows));
    const Job job = a.job(team.index() / tiles);
    const int key = static_cast<int>(team.index() % tiles) * Size::kBlockRows;
    bfloat16* const memory = tile_memory(team);
    auto* const numbers = reinterpret_cast<float*>(memory + Pairs::kBytes / sizeof(bfloat16));
    const RealKeys keys = a.real_keys(job);
    const auto real_of_group = [&](int first) { return first < a.keys ? keys.of_tile(first) : 0; };
    uint64_t real = 0;
    for (int first = key; first < key + Size::kBlockRows; first += kGroupRows) real |= real_of_group(first);
    Rows rows[Size::kBlockShare];
    for (int w = 0; w < Size::kBlockShare; ++w) {
      // Hidden keys are loaded too: each affects only its own row of dK and dV, which is not stored.
      rows[w].k = load_left<D / 16>(job.of(a.k), a.k.stride, key + 16 * warp_of(team, w), a.keys);
      rows[w].v = load_left<D / 16>(job.of(a.v), a.v.stride, key + 16 * warp_of(team, w), a.keys);
      rows[w].dk.clear();
      rows[w].dv.clear();
      rows[w].p = rows[w].ds = no_factor();
      const int group = key + warp_of(team, w) / kGroupWarps * kGroupRows;
      rows[w].begin = real_of_group(group) == 0 ? a.queries : a.causal ? group - kTile + 1 : 0;
    }
    const auto load = [&](const Cursor& at, bfloat16* to, int slot) {
      const auto there = [&](int row) { return at.query + row < a.queries; };
      begin_copy_tile<Size::kBlockThreads, kTile, D>(team, job.of(a.q) + at.query * a.q.stride, a.q.stride, to, there);
      begin_copy_tile<Size::kBlockThreads, kTile, D>(team, job.of(of.g) + at.query * of.g.stride, of.g.stride,
                                                     to + Pairs::kElements, there);
      const int64_t place = job.index * a.queries + at.query;
      float* const lse = numbers + slot * 2 * kTile;
      begin_copy_floats<Size::kBlockThreads, kTile>(team, of.lse + place, a.queries - at.query, lse);
      begin_copy_floats<Size::kBlockThreads, kTile>(team, of.less + place, a.queries - at.query, lse + kTile);
    };
    // Earlier queries see none of these keys, and hidden ones are seen by none.
    const Cursor begin{real == 0 ? a.queries : a.causal ? key : 0, a.queries};
    const Turns turn(warp_of(team, 0));
    Pairs::walk(
        Meeting<Size::kGroups>(warp_of(team, 0)), begin, memory, load,
        [&](const Cursor& at, GroupTile<D> tile, int slot, const auto& announce) {
          const float* const lse = numbers + slot * 2 * kTile;
          for (int w = 0; w < Size::kBlockShare; ++w) {
            if (at.query < rows[w].begin) {
              turn.take();
              turn.pass();
              announce();
            } else {
              add_tile(rows[w], {tile, lse, lse + kTile}, job, at.query, key + 16 * warp_of(team, w), turn, announce);
            }
          }
        });
    turn.end();
    const StoredTokens::Head to_k = job.of(dK);
    const StoredTokens::Head to_v = job.of(dV);
    for (int w = 0; w < Size::kBlockShare; ++w) {
      const int warp = warp_of(team, w);
      const uint64_t of_group = real_of_group(key + warp / kGroupWarps * kGroupRows);
      RowValues of_key = RowValues::filled(factor);
      RowValues of_value = RowValues::filled(drops ? a.drop_scale : 1.0f);
      const auto hide = [&](int row, float& x) {
        x = (of_group >> (warp % kGroupWarps * 16 + row) & 1) != 0 ? x : 0.0f;
      };
      of_key.each(hide);
      of_value.each(hide);
      if (rows[w].q.exists()) {
        before_products(rows[w].dk, rows[w].dv);
        begin_outputs(rows[w], rows[w].q);
        wait_for_products<0>(rows[w].dk, rows[w].dv);
      }
      put_rows(to_k, key + 16 * warp, a.keys, rows[w].dk, of_key);
      put_rows(to_v, key + 16 * warp, a.keys, rows[w].dv, of_value);
    }
  }
};

}  // namespace bochner::cuda::softmax_tiles
