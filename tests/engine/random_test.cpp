#include "engine/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <set>

#include "engine/parallel.h"
#include "engine/philox.h"

namespace bochner {
namespace {

// Known answers of Random123 (tests/kat_vectors, `philox4x32 10`).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t f = 0xffffffff;
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

constexpr uint64_t kSeed = 0x123456789abcdef0;

// Words from cuRAND, curand_init(kSeed, subsequence = 0, offset), compiled for the host from its headers.
TEST(Philox, StreamIsThatOfCurand) {
  struct Case {
    uint64_t offset;
    std::array<uint32_t, 6> words;
  };
  const Case cases[] = {
      {0, {0x092c9b44, 0x78384bc0, 0xc9fb80be, 0x2b3be4dd, 0x389d999a, 0x609cf517}},
      {1, {0x78384bc0, 0xc9fb80be, 0x2b3be4dd, 0x389d999a, 0x609cf517, 0x0570bb00}},
      {7, {0x99b16edc, 0x85099817, 0x3153794f, 0xa4aec973, 0x55c92771, 0xf708969c}},
      {1000003, {0x03cb1752, 0xedbc0d1d, 0x013ef259, 0x776b6a08, 0x3f388a4e, 0xa83dbcc7}},
      {(uint64_t{1} << 34) + 5, {0x89f08fa8, 0xadd06b30, 0xf9f9adeb, 0xd75cfe3e, 0xf25b6e4b, 0xfd77eff2}},
  };
  for (const Case& c : cases) {
    Generator generator(kSeed, c.offset);
    for (const uint32_t word : c.words) EXPECT_EQ(generator.next(), word) << c.offset;
    PhiloxWindow window;
    const uint32_t* words = window.draw(kSeed, c.offset, 6);
    EXPECT_TRUE(std::equal(c.words.begin(), c.words.end(), words)) << c.offset;
  }
}

TEST(Philox, WindowsAgreeWithSingleWordsAcrossTheCarryOfTheCounter) {
  const uint64_t place = (uint64_t{1} << 34) - 4 * 13 + 3;  // block 2^32 begins within
  PhiloxWindow window;
  const uint32_t* words = window.draw(kSeed, place, PhiloxWindow::kWords);
  for (int64_t i = 0; i < PhiloxWindow::kWords; ++i) {
    ASSERT_EQ(words[i], philox_word(kSeed, place + static_cast<uint64_t>(i))) << i;
  }
}

TEST(Philox, WindowsOfAnySizeAgreeWithSingleWords) {
  PhiloxWindow window;
  for (uint64_t place = 0; place < 4; ++place) {
    for (int64_t count = 0; count <= 300; count += count % 32 < 30 && count % 32 > 3 ? 5 : 1) {
      const uint32_t* words = window.draw(kSeed, place, count);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(words[i], philox_word(kSeed, place + static_cast<uint64_t>(i))) << count << " from " << place;
    }
  }
}

// curand_uniform, curand_normal and their doubles (curand_uniform2_double, curand_normal2_double) from the same
// headers.
TEST(Random, NumbersAreThoseOfCurand) {
  Generator generator(kSeed);
  const auto u = uniform({4}, generator).to_vector<float>();
  const std::vector<float> u_expected{0.0358368903F, 0.469609022F, 0.788993895F, 0.168882653F};
  EXPECT_EQ(u, u_expected);
  generator.set_offset(0);
  const auto z = normal({8}, generator).to_vector<double>();
  const std::vector<double> z_expected{0.489710093, -2.53332567, 0.600969017, 0.335901171,
                                       1.20974696,  -1.24671459, -1.63644683, -2.24158621};
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(z[i], z_expected[i], 1e-6);
  generator.set_offset(0);
  const auto ud = uniform({4}, generator, 0, 1, DType::f64).to_vector<double>();
  const std::vector<double> ud_expected{0.4696089945253808, 0.1688825233977907, 0.37739496396970945,
                                        0.60036366980588696};
  EXPECT_EQ(ud, ud_expected);
  generator.set_offset(0);
  const auto zd = normal({4}, generator, 0, 1, DType::f64).to_vector<double>();
  const std::vector<double> zd_expected{1.073247711861965, 0.59987420607029773, -0.82314995017388293,
                                        -1.1275416355181878};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(zd[i], zd_expected[i], 1e-14);
}

// The largest angle error of Box and Muller in f32 against f64, over words that include the ends of the range.
TEST(Random, NormalInSingleIsAccurateToRoundingAndFinite) {
  Generator words(3);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const uint32_t x = i == 0 ? 0 : i == 1 ? 0xffffffff : words.next();
    const uint32_t y = i % 8 == 2 ? 0x1fffffffU + static_cast<uint32_t>(i % 3) : words.next();
    const NormalPair<float> pair = normal_pair(x, y);
    ASSERT_TRUE(std::isfinite(pair.first) && std::isfinite(pair.second));
    const double u = static_cast<double>(uniform_from(x));
    const double radius = std::sqrt(-2 * std::log(u));
    const double angle = 2 * std::numbers::pi * (y + 0.5) / 4294967296.0;
    worst = std::max(worst, std::abs(pair.first - radius * std::sin(angle)));
    worst = std::max(worst, std::abs(pair.second - radius * std::cos(angle)));
  }
  EXPECT_LT(worst, 1e-6);
  EXPECT_LT(normal_pair(0U, 0x40000000U).first, 6.8F);  // sqrt(-2 ln 2^-33): no draw lies farther out
}

std::vector<Tensor> draws(int64_t count, uint64_t offset) {
  std::vector<Tensor> all;
  Generator generator(kSeed, offset);
  const auto restart = [&]() -> Generator& {
    generator.set_offset(offset);
    return generator;
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    all.push_back(uniform({count}, restart(), -3, 5, dtype));
    all.push_back(normal({count}, restart(), 2, 0.5, dtype));
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::u8, DType::boolean}) {
    all.push_back(bernoulli({count}, 0.3, restart(), dtype));
  }
  all.push_back(integers({count}, -7, 1000, restart()));
  return all;
}

void expect_equal_bits(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.to_vector<double>(), b.to_vector<double>()) << a.str();
}

TEST(Random, BitsDoNotDependOnThreads) {
  set_threads(1);
  const auto one = draws(100003, 5);
  set_threads(3);
  const auto three = draws(100003, 5);
  set_threads(0);
  for (size_t i = 0; i < one.size(); ++i) expect_equal_bits(one[i], three[i]);
}

// A position determines its value, whether it falls into the vector body or the tail of a loop.
TEST(Random, ShorterDrawsAreTheBeginningOfLongerOnes) {
  const auto all = draws(3000, 6);
  for (const int64_t count : {1, 2, 3, 15, 16, 17, 1023, 1024, 1025, 2999}) {
    const auto some = draws(count, 6);
    for (size_t i = 0; i < all.size(); ++i) expect_equal_bits(some[i], all[i].slice(0, 0, count));
  }
}

TEST(Random, TwoDrawsContinueAsOneWhereTheFirstFillsItsBlocks) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Generator once(9);
    Generator twice(9);
    const Tensor whole = normal({1000 + 77}, once, 0, 1, dtype);
    const Tensor first = normal({1000}, twice, 0, 1, dtype);
    const Tensor second = normal({77}, twice, 0, 1, dtype);
    expect_equal_bits(whole.slice(0, 0, 1000), first);
    expect_equal_bits(whole.slice(0, 1000, 1077), second);
    EXPECT_EQ(once, twice);
  }
  Generator generator(9);
  uniform({5}, generator);
  EXPECT_EQ(generator.offset(), 8U);
  uniform({5}, generator, 0, 1, DType::f64);
  EXPECT_EQ(generator.offset(), 20U);
  uniform({0}, generator);
  EXPECT_EQ(generator.offset(), 20U);
}

TEST(Random, BernoulliFollowsTheWords) {
  Generator generator(4);
  const auto mask = bernoulli({1000}, 0.25, generator, DType::u8).to_vector<int64_t>();
  for (size_t i = 0; i < mask.size(); ++i) EXPECT_EQ(mask[i], philox_word(4, i) < 0x40000000U ? 1 : 0);
  EXPECT_EQ(bernoulli({100}, 0, generator).to_vector<float>(), std::vector<float>(100, 0.F));
  EXPECT_EQ(bernoulli({100}, 1, generator).to_vector<float>(), std::vector<float>(100, 1.F));
}

/// The largest distance between the distribution function and that of the sample, times sqrt(n).
double kolmogorov_smirnov(std::vector<double> sample, const std::function<double(double)>& distribution) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double worst = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double p = distribution(sample[i]);
    const auto rank = static_cast<double>(i);
    worst = std::max({worst, p - rank / n, (rank + 1) / n - p});
  }
  return worst * std::sqrt(n);
}

constexpr double kKolmogorov = 1.95;  // exceeded with probability 0.001

TEST(Random, UniformAndNormalFollowTheirDistributions) {
  Generator generator(2024);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto u = uniform({200000}, generator, -1, 3, dtype).to_vector<double>();
    EXPECT_LT(kolmogorov_smirnov(u, [](double x) { return (x + 1) / 4; }), kKolmogorov);
    EXPECT_GT(*std::min_element(u.begin(), u.end()), -1);
    EXPECT_LE(*std::max_element(u.begin(), u.end()), 3);
    const auto z = normal({200000}, generator, 1, 2, dtype).to_vector<double>();
    EXPECT_LT(kolmogorov_smirnov(z, [](double x) { return 0.5 * std::erfc(-(x - 1) / (2 * std::numbers::sqrt2)); }),
              kKolmogorov);
  }
}

TEST(Random, MomentsOfTheNormal) {
  Generator generator(11);
  const auto z = normal({1000000}, generator).to_vector<double>();
  double mean = 0, square = 0, cube = 0, fourth = 0, neighbours = 0, pairs = 0;
  const auto n = static_cast<double>(z.size());
  for (size_t i = 0; i < z.size(); ++i) {
    mean += z[i] / n;
    square += z[i] * z[i] / n;
    cube += std::pow(z[i], 3) / n;
    fourth += std::pow(z[i], 4) / n;
    if (i > 0) neighbours += z[i] * z[i - 1] / n;
    if (i % 2 == 1) pairs += z[i] * z[i] * z[i - 1] * z[i - 1] / (n / 2);
  }
  // Four standard errors each.
  EXPECT_NEAR(mean, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(square, 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(cube, 0, 4 * std::sqrt(15 / n));
  EXPECT_NEAR(fourth, 3, 4 * std::sqrt(96 / n));
  EXPECT_NEAR(neighbours, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(pairs, 1, 4 * std::sqrt(8 / (n / 2)));  // sine and cosine of one pair are independent
}

TEST(Random, IntegersCoverTheirRangeEvenly) {
  Generator generator(5);
  std::vector<double> counts(7);
  const int n = 70000;
  for (const int64_t value : integers({n}, -3, 4, generator).to_vector<int64_t>()) {
    ASSERT_TRUE(value >= -3 && value < 4);
    ++counts[static_cast<size_t>(value + 3)];
  }
  double chi_square = 0;
  for (const double count : counts) chi_square += (count - n / 7) * (count - n / 7) / (n / 7);
  EXPECT_LT(chi_square, 22.5);  // 6 degrees of freedom: exceeded with probability 0.001
  const auto wide = integers({1000}, INT64_MIN, INT64_MAX, generator).to_vector<int64_t>();
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](int64_t x) { return x < INT64_MIN / 2; }));
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](int64_t x) { return x > INT64_MAX / 2; }));
  EXPECT_EQ(integers({3}, 8, 9, generator).to_vector<int64_t>(), (std::vector<int64_t>{8, 8, 8}));
}

TEST(Generator, BelowIsUniformWithoutBias) {
  // 3 * 2^30 of 2^32 words: with a plain remainder the lower third would occur twice as often as each other third, and
  // with a plain product each third number twice as often as the others.
  Generator generator(6);
  for (const int bits : {30, 61}) {
    std::array<double, 3> thirds{}, rests{};
    for (int i = 0; i < 30000; ++i) {
      const int64_t drawn = generator.below(int64_t{3} << bits);
      ++thirds[static_cast<size_t>(drawn >> bits)];
      ++rests[static_cast<size_t>(drawn % 3)];
    }
    for (const auto& counts : {thirds, rests}) {
      for (const double count : counts) EXPECT_NEAR(count, 10000, 4 * std::sqrt(30000 * 2. / 9)) << bits;
    }
  }
  EXPECT_EQ(generator.below(1), 0);
  EXPECT_THROW(generator.below(0), Error);
  EXPECT_THROW(generator.below(-5), Error);
}

TEST(Generator, UniformLiesInTheHalfOpenInterval) {
  Generator generator(8);
  std::vector<double> sample;
  for (int i = 0; i < 20000; ++i) sample.push_back(generator.uniform());
  EXPECT_GT(*std::min_element(sample.begin(), sample.end()), 0);
  EXPECT_LE(*std::max_element(sample.begin(), sample.end()), 1);
  EXPECT_LT(kolmogorov_smirnov(sample, [](double x) { return x; }), kKolmogorov);
  EXPECT_EQ(uniform_from(0x001fffffU, 0xffffffffU), 1.0);
  EXPECT_GT(uniform_from(0U, 0U), 0.0);
  EXPECT_EQ(uniform_from(0xffffffffU), 1.0F);
  EXPECT_GT(uniform_from(0U), 0.0F);
}

TEST(Generator, ForksAreDistinctAndRepeatable) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Generator generator(seed, 12);
    for (uint64_t stream = 0; stream < 30; ++stream) {
      const Generator fork = generator.fork(stream);
      EXPECT_EQ(fork, Generator(seed).fork(stream));  // the offset does not matter
      EXPECT_EQ(fork.offset(), 0U);
      seeds.insert(fork.seed());
    }
  }
  EXPECT_EQ(seeds.size(), 900U);
}

TEST(Generator, ForksDifferInEachBitOfSeedAndStream) {
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t other = 5 ^ (uint64_t{1} << bit);
    EXPECT_NE(Generator(5).fork(5), Generator(5).fork(other)) << bit;
    EXPECT_NE(Generator(5).fork(5), Generator(other).fork(5)) << bit;
  }
}

TEST(Random, PermutationHoldsEachIndexOnceAndReachesEveryOrder) {
  Generator generator(1);
  auto order = permutation(1000, generator).to_vector<int64_t>();
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, Tensor::arange(1000).to_vector<int64_t>());
  std::map<std::vector<int64_t>, double> counts;
  for (int i = 0; i < 24000; ++i) ++counts[permutation(4, generator).to_vector<int64_t>()];
  EXPECT_EQ(counts.size(), 24U);
  double chi_square = 0;
  for (const auto& [o, count] : counts) chi_square += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi_square, 49.8);  // 23 degrees of freedom: exceeded with probability 0.001
  EXPECT_EQ(permutation(0, generator).size(), 0);
  EXPECT_EQ(permutation(1, generator).to_vector<int64_t>(), std::vector<int64_t>{0});
}

TEST(Random, MistakesAreRefused) {
  Generator generator;
  EXPECT_THROW(uniform({2}, generator, 1, 0), Error);
  EXPECT_THROW(uniform({2}, generator, 0, INFINITY), Error);
  EXPECT_THROW(uniform({2}, generator, 0, 1, DType::i64), Error);
  EXPECT_THROW(normal({2}, generator, 0, -1), Error);
  EXPECT_THROW(normal({2}, generator, 0, NAN), Error);
  EXPECT_THROW(bernoulli({2}, 1.5, generator), Error);
  EXPECT_THROW(bernoulli({2}, NAN, generator), Error);
  EXPECT_THROW(integers({2}, 4, 4, generator), Error);
  EXPECT_THROW(permutation(-1, generator), Error);
  EXPECT_EQ(generator.offset(), 0U);  // a refused draw consumes nothing
}

}  // namespace
}  // namespace bochner
