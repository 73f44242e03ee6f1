#include "datasets/listops/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "datasets/listops/expression.h"
#include "datasets/listops/tokenizer.h"
#include "engine/parallel.h"
#include "engine/sanitizer.h"
#include "tests/message_of.h"

namespace bochner::listops {
namespace {

using test::message_of;

/// A few short expressions.
GeneratorOptions few() {
  GeneratorOptions options;
  options.min_length = 5;
  options.max_length = 60;
  options.train = 300;
  options.valid = 20;
  options.test = 30;
  return options;
}

/// The exact probability of each length below max_length, computed from the leaves up: a node has length 1, or 2 plus
/// the sum of 2 ... max_args independent lengths one level deeper.
std::vector<double> exact_lengths(const GeneratorOptions& options) {
  const size_t longest = std::max<size_t>(2, static_cast<size_t>(options.max_length));
  std::vector<double> node(longest, 0.0);
  node[1] = 1;
  for (int64_t depth = options.max_depth - 1; depth >= 1; --depth) {
    std::vector<double> sum = node;  // of k nodes
    std::vector<double> next(longest, 0.0);
    next[1] = options.value_probability;
    for (int64_t k = 2; k <= options.max_args; ++k) {
      std::vector<double> more(longest, 0.0);
      for (size_t i = 0; i < longest; ++i) {
        if (sum[i] == 0) continue;
        for (size_t j = 0; i + j < longest; ++j) more[i + j] += sum[i] * node[j];
      }
      sum = more;
      const double share = (1 - options.value_probability) / static_cast<double>(options.max_args - 1);
      for (size_t i = 2; i < longest; ++i) next[i] += share * sum[i - 2];
    }
    node = next;
  }
  return node;
}

struct Moments {
  double accepted = 0, mean = 0, deviation = 0;
};

Moments moments_of(const std::vector<double>& probability, int64_t min_length) {
  Moments result;
  double square = 0;
  for (size_t n = static_cast<size_t>(min_length) + 1; n < probability.size(); ++n) {
    const auto length = static_cast<double>(n);
    result.accepted += probability[n];
    result.mean += probability[n] * length;
    square += probability[n] * length * length;
  }
  result.mean /= result.accepted;
  result.deviation = std::sqrt(square / result.accepted - result.mean * result.mean);
  return result;
}

TEST(ListOpsGenerator, LongRangeArenaKeeps8Point3PercentOfTreesWithMeanLength1035) {
  const Moments exact = moments_of(exact_lengths({}), 500);
  EXPECT_NEAR(exact.accepted, 0.083, 0.0005);
  EXPECT_NEAR(exact.mean, 1041, 10);  // an estimate from a simulation elsewhere; the exact value is 1035.02
  EXPECT_NEAR(exact.mean, 1035.02, 0.01);

  constexpr int kTrees = kAddressSanitizer ? 6'000 : 60'000;
  Sampler sampler({}, Generator(11));
  Expression tree;
  double accepted = 0;
  double lengths = 0;
  for (int i = 0; i < kTrees; ++i) {
    if (!sampler.draw(tree)) continue;
    ASSERT_GT(tree.length(), 500);
    ASSERT_LT(tree.length(), 2000);
    accepted += 1;
    lengths += static_cast<double>(tree.length());
  }
  EXPECT_NEAR(accepted / kTrees, exact.accepted, 4 * std::sqrt(exact.accepted * (1 - exact.accepted) / kTrees));
  EXPECT_NEAR(lengths / accepted, exact.mean, 4 * exact.deviation / std::sqrt(accepted));
}

// Every length separately, with options that make all of them likely, including a root that is a digit, and the bounds.
TEST(ListOpsGenerator, EachLengthComesAsOftenAsItShould) {
  GeneratorOptions options;
  options.max_depth = 3;
  options.max_args = 4;
  options.value_probability = 0.6;
  options.min_length = 0;
  options.max_length = 24;
  const std::vector<double> exact = exact_lengths(options);
  constexpr int kTrees = 200'000;
  std::vector<int> seen(exact.size(), 0);
  Sampler sampler(options, Generator(12));
  Expression tree;
  for (int i = 0; i < kTrees; ++i) {
    if (sampler.draw(tree)) ++seen[static_cast<size_t>(tree.length())];
  }
  for (size_t n = 0; n < exact.size(); ++n) {
    const double sigma = std::sqrt(kTrees * exact[n] * (1 - exact[n]));
    EXPECT_NEAR(seen[n], kTrees * exact[n], 4.5 * sigma) << "length " << n;
  }
  EXPECT_EQ(seen[2] + seen[3], 0);  // an operator has at least two arguments
  EXPECT_GT(seen[1], 0);
  EXPECT_GT(seen[23], 0);
}

TEST(ListOpsGenerator, DigitsOperatorsAndNumbersOfArgumentsAreUniform) {
  GeneratorOptions options;
  options.max_depth = 2;
  options.max_args = 6;
  options.min_length = 1;
  options.max_length = 100;
  std::map<char, int> codes;
  std::map<int64_t, int> arguments;
  Sampler sampler(options, Generator(13));
  Expression tree;
  int operators = 0;
  int digits = 0;
  while (operators < 40'000) {
    if (!sampler.draw(tree)) continue;
    ++operators;
    ++arguments[tree.length() - 2];
    digits += static_cast<int>(tree.length() - 2);
    for (const char c : tree.codes()) ++codes[c];
  }
  const auto expect = [](int seen, int of, double probability) {
    EXPECT_NEAR(seen, of * probability, 4.5 * std::sqrt(of * probability * (1 - probability)));
  };
  for (char digit = 0; digit < 10; ++digit) expect(codes[digit], digits, 0.1);
  for (char op = 10; op < 14; ++op) expect(codes[op], operators, 0.25);
  EXPECT_EQ(codes[14], operators);
  EXPECT_EQ(arguments.size(), 5U);
  for (int64_t n = 2; n <= 6; ++n) expect(arguments[n], operators, 0.2);
}

TEST(ListOpsGenerator, NoTreeIsDeeperThanMaxDepthAndSomeReachIt) {
  GeneratorOptions options = few();
  options.max_depth = 4;
  options.value_probability = 0.5;
  size_t deepest = 0;
  for (const Expression& tree : generate(options)) {
    size_t open = 0;
    for (const char code : tree.codes()) {
      if (code >= 10 && code < 14) ++open;
      if (code == 14) --open;
      deepest = std::max(deepest, open);
    }
  }
  EXPECT_EQ(deepest, 3U);  // operators at depths 1, 2, 3; digits at 4
}

TEST(ListOpsGenerator, OfficialFormHasOneMoreParenthesisThanArguments) {
  EXPECT_EQ(Expression(std::string("\x07")).str(), "7");
  EXPECT_EQ(Expression(std::string("\x0b\x01\x02\x0e")).str(), "( ( ( [MAX 1 ) 2 ) ] )");
  EXPECT_EQ(Expression(std::string("\x0b\x04\x0d\x07\x05\x0e\x01\x0e")).str(),
            "( ( ( ( [MAX 4 ) ( ( ( [SM 7 ) 5 ) ] ) ) 1 ) ] )");
  EXPECT_EQ(Expression(std::string("\x0a\x0c\x07\x05\x0e\x01\x0e")).str(),
            "( ( ( [MIN ( ( ( [MED 7 ) 5 ) ] ) ) 1 ) ] )");
}

// The written form goes through the parser and the tokenizer, which know nothing of the generator.
TEST(ListOpsGenerator, ValuesAndLengthsAgreeWithTheReference) {
  std::set<int> values;
  for (const Expression& tree : generate(few())) {
    const std::string text = tree.str();
    ASSERT_EQ(tree.value(), evaluate(text)) << text;
    std::vector<uint8_t> ids;
    encode(text, Tokenisation::fixed, 10'000, ids);
    ASSERT_EQ(tree.length(), static_cast<int64_t>(ids.size())) << text;
    // With parentheses, a pair for each operator and each argument, an expression is three times as long.
    ASSERT_EQ(1 + std::count(text.begin(), text.end(), ' '), 3 * tree.length() - 2) << text;
    values.insert(tree.value());
  }
  EXPECT_EQ(values.size(), 10U);
  GeneratorOptions long_ones;
  long_ones.train = 100;
  long_ones.valid = long_ones.test = 1;
  for (const Expression& tree : generate(long_ones)) ASSERT_EQ(tree.value(), evaluate(tree.str()));
}

TEST(ListOpsGenerator, ExpressionsAreDifferentAndAsManyAsAskedFor) {
  const GeneratorOptions options = few();
  const std::vector<Expression> trees = generate(options);
  std::set<std::string> texts;
  for (const Expression& tree : trees) texts.insert(tree.str());
  EXPECT_EQ(static_cast<int64_t>(trees.size()), options.total());
  EXPECT_EQ(texts.size(), trees.size());
}

TEST(ListOpsGenerator, ResultDependsOnTheSeedButNotOnThreads) {
  GeneratorOptions options = few();
  options.train = 5'000;
  const int before = threads();
  set_threads(1);
  const std::vector<Expression> one = generate(options);
  set_threads(3);
  const std::vector<Expression> three = generate(options);
  set_threads(before);
  EXPECT_TRUE(one == three);
  options.seed = 1;
  EXPECT_FALSE(generate(options) == one);
}

// If more are requested, the first ones stay the same.
TEST(ListOpsGenerator, FewerExpressionsAreABeginningOfMore) {
  GeneratorOptions options = few();
  const std::vector<Expression> few = generate(options);
  options.train *= 20;
  const std::vector<Expression> many = generate(options);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

TEST(ListOpsGenerator, ChosenOperatorsOnly) {
  GeneratorOptions options = few();
  options.operators = {Operator::med, Operator::sm};
  for (const Expression& tree : generate(options)) {
    const std::string text = tree.str();
    ASSERT_EQ(text.find("[MAX"), std::string::npos);
    ASSERT_EQ(text.find("[MIN"), std::string::npos);
  }
}

TEST(ListOpsGenerator, AllOfAFiniteSetAreFoundAndThenAnErrorSaysSo) {
  GeneratorOptions options;
  options.max_depth = 2;
  options.max_args = 2;
  options.operators = {Operator::max};
  options.min_length = 1;
  options.max_length = 10;  // MAX of two digits: 100 expressions
  options.train = 98;
  options.valid = options.test = 1;
  EXPECT_EQ(generate(options).size(), 100U);
  options.train = 99;
  EXPECT_NE(message_of([&] { generate(options); }).find("100 different expressions were found of 101 asked for"),
            std::string::npos);
}

TEST(ListOpsGenerator, OptionsThatMakeNoSenseAreNamed) {
  const auto refused = [](auto&& change) {
    GeneratorOptions options = few();
    change(options);
    return message_of([&] { generate(options); });
  };
  EXPECT_EQ(refused([](auto& o) { o.max_depth = 0; }), "listops: the depth is 0, outside 1 ... 1000000");
  EXPECT_EQ(refused([](auto& o) { o.max_args = 1; }), "listops: the number of arguments is 1, outside 2 ... 1000000");
  EXPECT_EQ(refused([](auto& o) { o.train = 0; }),
            "listops: the number of training expressions is 0, outside 1 ... 10000000");
  EXPECT_EQ(refused([](auto& o) { o.max_length = 6; }),
            "listops: expressions must be longer than 5 tokens and shorter than 6; no length is");
  EXPECT_EQ(refused([](auto& o) { o.value_probability = NAN; }),
            "listops: the probability nan of a value lies outside [0, 1]");
  EXPECT_EQ(refused([](auto& o) { o.operators.clear(); }), "listops: the list of operators is empty");
}

}  // namespace
}  // namespace bochner::listops
