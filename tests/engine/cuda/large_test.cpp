// Indices beyond 2^31: kernels in every build, on memory that is allocated only where it is used, and whole ops on a
// card that has enough memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "engine/card.h"
#include "engine/cuda/parts/column_sum.h"
#include "engine/cuda/parts/packed.h"
#include "engine/cuda/parts/scatter.h"
#include "engine/cuda/parts/sort_words.h"
#include "engine/ops/attention/kernel_attention.h"
#include "engine/ops/attention/softmax_attention.h"
#include "engine/ops/bias_activation.h"
#include "engine/ops/copy.h"
#include "engine/ops/embedding.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/linear.h"
#include "engine/ops/matmul.h"
#include "engine/ops/norm.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"
#include "engine/random.h"
#include "tests/card.h"

namespace bochner {
namespace {

using testing_card::squared_error;

/// `count` zeros; memory is allocated only for those that are written.
template <class T>
class Sparse {
 public:
  explicit Sparse(int64_t count) : bytes_(static_cast<size_t>(count) * sizeof(T)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~Sparse() {
    if (there()) munmap(memory_, bytes_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  bool there() const { return memory_ != MAP_FAILED; }
  operator T*() const { return static_cast<T*>(memory_); }  // NOLINT: like an array, it is its first element

 private:
  size_t bytes_;
  void* memory_;
};

#define BOCHNER_NEEDS_SPARSE(memory) \
  if (!(memory).there()) GTEST_SKIP() << "no address space of so many bytes"

TEST(CudaTilesBeyondTwoToThe31, TokensArePacked) {
  constexpr int64_t kLength = (int64_t{1} << 25) + 7;
  constexpr int64_t kDim = 64;
  const int64_t padded = cuda::padded_length(kLength);
  const Sparse<float> from(kLength * kDim);
  const Sparse<bfloat16> to(padded * kDim);
  BOCHNER_NEEDS_SPARSE(from);
  BOCHNER_NEEDS_SPARSE(to);
  const Tensor small = Tensor::zeros({1, 1, 1, kDim});
  cuda::StoredTokens x(small);
  x.data = from;
  x.stride = kDim;
  from[(kLength - 1) * kDim + 3] = 1.5F;
  for (const bool transposed : {false, true}) {
    const cuda::Pack pack{1, kLength, padded, kDim, transposed, 2.0F, nullptr, x, cuda::KeyMask(Tensor()), to};
    const int64_t place = transposed ? 3 * padded + kLength - 1 : (kLength - 1) * kDim + 3;
    pack(place);
    EXPECT_EQ(static_cast<float>(to[place]), 3);
    const int64_t behind = transposed ? 63 * padded + kLength : kLength * kDim;
    to[behind] = bfloat16(1.0F);
    pack(behind);
    EXPECT_EQ(static_cast<float>(to[behind]), 0);
  }
}

struct Element {
  int64_t columns;
  const float* x;
  void operator()(int64_t row, int64_t column, cuda::Vector<float, 1> (&sums)[1]) const {
    sums[0].at[0] += x[row * columns + column];
  }
};

TEST(CudaTilesBeyondTwoToThe31, ColumnsAreSummed) {
  constexpr int64_t kRows = (int64_t{1} << 22) + 3;
  constexpr int64_t kColumns = 1024;
  constexpr int64_t kStrips = kColumns / cuda::kStrip;
  constexpr int64_t kPieceRows = 64;
  const int64_t pieces = (kRows + kPieceRows - 1) / kPieceRows;
  const Sparse<float> x(kRows * kColumns);
  const Sparse<float> parts(pieces * kColumns);
  BOCHNER_NEEDS_SPARSE(x);
  BOCHNER_NEEDS_SPARSE(parts);
  for (const int64_t row : {kRows - 1, kRows - 3}) x[row * kColumns + kColumns - 1] = static_cast<float>(kRows - row);
  std::vector<float> shared(cuda::kStrip * cuda::kStripRows);
  const cuda::StripSums<1, float, 1, Element> sums{kRows, kColumns, kStrips, kPieceRows, {kColumns, x}, parts};
  sums(cuda::HostTeam(pieces * kStrips - 1, shared.data()));
  EXPECT_EQ(parts[pieces * kColumns - 1], 4);
}

TEST(CudaTilesBeyondTwoToThe31, RowsAreAddedUpByBin) {
  constexpr int64_t kCount = int64_t{1} << 22;
  constexpr int64_t kBins = kCount + 5;
  constexpr int64_t kWidth = 1024;
  const Sparse<float> source(kCount * kWidth);
  const Sparse<float> y(kBins * kWidth);
  const Sparse<float> aside(kCount / cuda::kRunPiece * 2 * kWidth);
  const Sparse<uint64_t> entries(kCount);
  const Sparse<int64_t> start(kBins + 1);
  BOCHNER_NEEDS_SPARSE(source);
  BOCHNER_NEEDS_SPARSE(y);
  BOCHNER_NEEDS_SPARSE(entries);
  // The last piece: the whole last bin except one position of the bin before it.
  const int64_t begin = kCount - cuda::kRunPiece;
  for (int64_t p = begin; p < kCount; ++p) {
    const int64_t bin = p == begin ? kBins - 2 : kBins - 1;
    entries[p] = static_cast<uint64_t>(bin) << 32 | static_cast<uint64_t>(p);
    source[p * kWidth + kWidth - 1] = 1;
  }
  start[kBins - 2] = begin;
  start[kBins - 1] = begin + 1;
  start[kBins] = kCount;
  using Part = cuda::Vector<float, 1>;
  const int64_t pieces = kCount / cuda::kRunPiece;
  const auto parts = [](float* from) { return reinterpret_cast<Part*>(from); };
  const cuda::Runs<float, 1, float> runs{1,    kCount,  kBins, kWidth, pieces,   32,
                                         true, entries, start, source, parts(y), parts(aside)};
  const int64_t piece_threads = 2 * pieces * kWidth;
  const int64_t bound = kBins * kWidth;
  const cuda::SumRuns<float, 1, float> sum{runs,
                                           piece_threads,
                                           kBins,
                                           false,
                                           cuda::Quotient(kWidth, bound),
                                           cuda::Quotient(2 * pieces, bound),
                                           cuda::Quotient(kBins, bound)};
  for (const int64_t row : {kBins - 2, kBins - 1}) sum(piece_threads + (row + 1) * kWidth - 1);
  EXPECT_EQ(y[(kBins - 1) * kWidth - 1], 1);
  EXPECT_EQ(y[kBins * kWidth - 1], cuda::kRunPiece - 1);
}

TEST(CudaTilesBeyondTwoToThe31, WordsAreSorted) {
  constexpr int64_t kTotal = int64_t{1} << 32;
  const Sparse<uint64_t> words(kTotal);
  BOCHNER_NEEDS_SPARSE(words);
  const int64_t begin = kTotal - cuda::kSortedInBlock;
  for (int64_t i = begin; i < kTotal; ++i) words[i] = static_cast<uint64_t>(i * 7919 % cuda::kSortedInBlock);
  std::vector<uint64_t> shared(cuda::kSortedInBlock);
  const cuda::SortWithinBlocks<uint64_t> sort{kTotal, kTotal, 2, cuda::kSortedInBlock, words};
  sort(cuda::HostTeam(kTotal / cuda::kSortedInBlock - 1, shared.data()));
  for (int64_t i = 0; i < cuda::kSortedInBlock; ++i) {  // the last piece of a bitonic network: descending
    ASSERT_EQ(words[kTotal - 1 - i], static_cast<uint64_t>(i));
  }
}

/// The last rows of a large tensor equal those computed alone, on the CPU.
class LargeTensors : public testing::Test {
 protected:
  static constexpr int64_t kRows = (int64_t{1} << 21) + 5;
  static constexpr int64_t kColumns = 1024;

  void SetUp() override {
    BOCHNER_NEEDS_CARD();
    if (card_description().find("emulated") != std::string::npos) {
      GTEST_SKIP() << "for a card: an emulated one has no more than the CPU's memory, and its speed";
    }
    try {
      Tensor::empty({int64_t{28} << 30}, DType::u8, Device::cuda());
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  static Tensor values(const Shape& shape, uint64_t seed) {
    Generator generator(seed);
    return normal(shape, generator, 0, 1, DType::f32, Device::cuda());
  }
  static Tensor tail(const Tensor& x, int axis = 0) {
    return x.slice(axis, x.size(axis) - 3, x.size(axis)).contiguous().to(Device::cpu());
  }
  static void expect_equal(const Tensor& found, const Tensor& expected, const char* what) {
    ASSERT_EQ(found.shape(), expected.shape()) << what;
    EXPECT_LE(squared_error(found.to_vector<double>(), expected.to_vector<double>()), 1e-10) << what;
  }
};

TEST_F(LargeTensors, Rows) {
  const Tensor x = values({kRows, kColumns}, 1);
  const Tensor gamma = values({kColumns}, 2), beta = values({kColumns}, 3);
  const Tensor own = tail(x);
  expect_equal(tail(softmax(x)), softmax(own), "softmax");
  expect_equal(tail(logsumexp(x)), logsumexp(own), "logsumexp");
  expect_equal(tail(hadamard(x)), hadamard(own), "hadamard");
  expect_equal(tail(layer_norm(x, gamma, beta).y), layer_norm(own, gamma.to(Device::cpu()), beta.to(Device::cpu())).y,
               "layer_norm");
}

TEST_F(LargeTensors, Sums) {
  const Tensor x = values({kRows, kColumns}, 1);
  expect_equal(tail(sum(x, {1})), sum(tail(x), {1}), "sum of rows");
  const Tensor ones = Tensor::full({kRows, kColumns}, 1, DType::f32, Device::cuda());
  for (const Tensor& total : {sum(ones, {0}), column_sum(ones)}) {
    for (const double value : total.to_vector<double>()) ASSERT_EQ(value, kRows);
  }
}

TEST_F(LargeTensors, CopiesAndProducts) {
  const Tensor x = values({kRows, kColumns}, 1);
  expect_equal(tail(x.cast(DType::bf16)).cast(DType::f32), tail(x).cast(DType::bf16).cast(DType::f32), "cast");
  expect_equal(tail(x.transpose(0, 1).contiguous(), 1), tail(x).transpose(0, 1).contiguous(), "transpose");
  const Tensor a = values({kRows, 8}, 2), b = values({8, kColumns}, 3);
  expect_equal(tail(matmul(a, b)), matmul(tail(a), b.to(Device::cpu())), "matmul");
  const Tensor W = values({kColumns, 8}, 4), bias = values({kColumns}, 5);
  expect_equal(tail(linear(a, {W, bias}, {}, LinearSpec{}).y),
               linear(tail(a), {W.to(Device::cpu()), bias.to(Device::cpu())}, {}, LinearSpec{}).y, "linear");
}

TEST_F(LargeTensors, Embedding) {
  const Tensor table = values({kRows, kColumns}, 1);
  const Tensor ids = Tensor::from<int64_t>({kRows - 3, kRows - 2, kRows - 1}, {3}).to(Device::cuda());
  const Tensor rows = tail(table);
  expect_equal(embedding(table, ids).to(Device::cpu()), rows, "embedding");
  expect_equal(tail(embedding_backward(rows.to(Device::cuda()), ids, kRows)), rows, "embedding_backward");
}

TEST_F(LargeTensors, Queries) {
  constexpr int64_t kDim = 64;
  constexpr int64_t kQueries = (int64_t{1} << 25) + 3;
  const Tensor Q = values({1, 1, kQueries, kDim}, 1), K = values({1, 1, 70, kDim}, 2), V = values({1, 1, 70, kDim}, 3);
  const Tensor Omega = values({1, 16, kDim}, 4);
  const Tensor q = tail(Q, 2), k = K.to(Device::cpu()), v = V.to(Device::cpu());
  const SoftmaxAttentionOptions options{0.125, false, Dropout::at(0, Generator(1))};
  expect_equal(tail(softmax_attention(Q, K, V, {}, options).O, 2), softmax_attention(q, k, v, {}, options).O,
               "softmax attention");
  KernelAttentionSpec spec;
  spec.scale = 0.3;
  expect_equal(tail(kernel_attention(spec, Q, K, V, Omega, {}).O, 2),
               kernel_attention(spec, q, k, v, Omega.to(Device::cpu()), {}).O, "kernel attention");
}

}  // namespace
}  // namespace bochner
