#include "engine/ops/embedding.h"

#include "tests/engine/ops/oracle.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using namespace oracle;  // NOLINT

Tensor random_ids(const Shape& shape, int64_t entries, uint64_t seed) {
  Generator generator(seed);
  return integers(shape, 0, entries, generator);
}

TEST(Embedding, GathersRowsAndPositions) {
  uint64_t seed = 1;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int64_t dim : {0, 1, 5, 64, 100}) {
      for (const Shape& shape : {Shape{3, 4}, Shape{1, 1}, Shape{0, 5}, Shape{2, 700}}) {
        const Tensor table = strided({9, dim}, dtype, ++seed);
        const Tensor positions = strided({shape[1] + 2, dim}, dtype, ++seed);
        const Tensor ids = random_ids(shape, 9, ++seed);
        const auto rows = table.to_vector<double>();
        const auto places = positions.to_vector<double>();
        const auto id = ids.to_vector<int64_t>();
        Values y, placed;
        for (size_t i = 0; i < id.size(); ++i) {
          for (int64_t j = 0; j < dim; ++j) {
            y.push_back(rows[static_cast<size_t>(id[i] * dim + j)]);
            const int64_t place = static_cast<int64_t>(i) % shape[1];
            placed.push_back(y.back() + places[static_cast<size_t>(place * dim + j)]);
          }
        }
        expect_close(embedding(table, ids), y, 0, "y");
        expect_close(embedding(table, ids.cast(DType::i32)), y, 0, "i32 ids");
        expect_close(embedding_at(table, ids, positions), placed, tolerance_of(dtype), "placed");
      }
    }
  }
}

// Small tables with many positions are summed in private copies, others by sorting; padding in both.
TEST(Embedding, BackwardEqualsPlainLoops) {
  struct Case {
    int64_t entries, dim, count;
  };
  uint64_t seed = 50;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& [entries, dim, count] :
         {Case{3, 5, 1000}, Case{16, 64, 5000}, Case{1, 3, 7000}, Case{500, 7, 900}, Case{5000, 33, 3000},
          Case{4, 300, 30}, Case{2, 64, 9000}, Case{7, 0, 20}, Case{5, 3, 0}}) {
      for (const int64_t padding : {int64_t{-1}, int64_t{0}, entries - 1}) {
        const Tensor g = strided({count, dim}, dtype, ++seed);
        // Uneven: most positions hold one of the first two entries.
        const Tensor all = random_ids({count}, entries, ++seed);
        const Tensor few = random_ids({count}, std::min<int64_t>(2, entries), ++seed);
        const Tensor ids = seed % 2 == 0 ? all : few;
        const auto gs = g.to_vector<double>();
        const auto id = ids.to_vector<int64_t>();
        Values expected(static_cast<size_t>(entries * dim));
        for (size_t i = 0; i < gs.size(); ++i) {
          const auto row = static_cast<int64_t>(i) / dim;
          if (id[static_cast<size_t>(row)] == padding) continue;
          expected[static_cast<size_t>(id[static_cast<size_t>(row)] * dim + static_cast<int64_t>(i) % dim)] += gs[i];
        }
        expect_close(embedding_backward(g, ids, entries, padding), expected, 20 * tolerance_of(dtype), "dtable");
      }
    }
  }
}

TEST(Embedding, PositionsBackwardEqualsPlainLoops) {
  const Tensor g = strided({5, 3, 4}, DType::f64, 1);
  const auto gs = g.to_vector<double>();
  Values expected(6 * 4);
  for (size_t i = 0; i < gs.size(); ++i) expected[4 * (i / 4 % 3) + i % 4] += gs[i];
  expect_close(positions_backward(g, 6), expected, 1e-12, "dpositions");
  expect_close(positions_backward(Tensor::zeros({2, 0, 4}), 3), Values(12), 0, "no places");
}

void expect_equal_tensors(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.dtype(), expected.dtype());
  EXPECT_EQ(found.to_vector<double>(), expected.to_vector<double>());
}

TEST(Embedding, InBf16IsRoundedOnceAndSummedInF32) {
  for (const int64_t dim : {1, 33, 64}) {
    const Tensor table = strided({9, dim}, DType::f32, 1);
    const Tensor positions = strided({70, dim}, DType::f32, 2);
    const Tensor ids = random_ids({6, 70}, 9, 3);
    const Tensor y = embedding_at(table, ids, positions, DType::bf16);
    expect_equal_tensors(y, embedding_at(table, ids, positions).cast(DType::bf16));
    expect_equal_tensors(embedding(table, ids, DType::bf16), embedding(table, ids).cast(DType::bf16));
    const Tensor wide = y.cast(DType::f32);
    for (const int64_t entries : {9, 3000}) {  // in private copies, and sorted
      expect_equal_tensors(embedding_backward(y, ids, entries, 2), embedding_backward(wide, ids, entries, 2));
    }
    expect_equal_tensors(positions_backward(y, 71), positions_backward(wide, 71));
  }
}

TEST(Embedding, PositionsOfASliceHaveTheGradientsOfTheWhole) {
  const Tensor g = values({300, 50, 24}, DType::f32, 1);
  const Tensor whole = positions_backward(g, 50);
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 20}, {20, 50}}) {
    expect_equal_tensors(positions_backward(g.slice(1, begin, end), end - begin), whole.slice(0, begin, end));
  }
}

TEST(Embedding, BytesDoNotDependOnThreads) {
  const Tensor g = values({20000, 40}, DType::f32, 1);
  for (const int64_t entries : {20, 3000, 100000}) {
    const Tensor ids = random_ids({20000}, entries, 2);
    const Tensor table = values({entries, 40}, DType::f32, 3);
    expect_same_bytes([&] { return std::vector<Tensor>{embedding(table, ids), embedding_backward(g, ids, entries)}; });
  }
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  const Tensor table = Tensor::zeros({3, 2});
  EXPECT_EQ(test::message_of([&] {
              embedding(table, Tensor::from<int64_t>({0, 3}, {2}));
            }),
            "embedding: the index at 1 is 3, outside [0, 3)");
  EXPECT_EQ(test::message_of([&] {
              embedding(Tensor::zeros({0, 2}), Tensor::from<int64_t>({0}, {1}));
            }),
            "embedding: the table f32 (0, 2) cpu is empty");
  EXPECT_THROW(embedding(table, Tensor::from<int64_t>({-1}, {1})), Error);
  EXPECT_EQ(test::message_of([&] { embedding(table.cast(DType::f64), Tensor::from<int64_t>({0}, {1}), DType::bf16); }),
            "embedding: bf16 of a table of f64 cannot be stored");
  EXPECT_THROW(embedding(table, Tensor::zeros({1})), Error);
  EXPECT_THROW(embedding(Tensor::zeros({3}), Tensor::from<int64_t>({0}, {1})), Error);
  EXPECT_THROW(embedding_backward(Tensor::zeros({2, 2}), Tensor::from<int64_t>({0, 5}, {2}), 3), Error);
  EXPECT_THROW(embedding_backward(Tensor::zeros({2, 2}), Tensor::from<int64_t>({0}, {1}), 3), Error);
  const Tensor ids = Tensor::zeros({1, 2}, DType::i64);
  EXPECT_THROW(embedding_at(table, ids, Tensor::zeros({1, 2})), Error);
  EXPECT_THROW(embedding_at(table, ids, Tensor::zeros({2, 3})), Error);
  EXPECT_THROW(embedding_at(table, ids.view({2}), Tensor::zeros({2, 2})), Error);
}

}  // namespace
}  // namespace bochner
