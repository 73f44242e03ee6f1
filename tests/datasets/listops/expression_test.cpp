#include "datasets/listops/expression.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "engine/random.h"
#include "tests/message_of.h"

namespace bochner::listops {
namespace {

using test::message_of;

struct Known {
  const char* text;
  int value;
};
std::ostream& operator<<(std::ostream& out, const Known& known) { return out << known.text; }

class ListOpsValue : public ::testing::TestWithParam<Known> {};

TEST_P(ListOpsValue, IsWhatTheDefinitionSays) { EXPECT_EQ(evaluate(GetParam().text), GetParam().value); }

INSTANTIATE_TEST_SUITE_P(
    ByHand, ListOpsValue,
    ::testing::Values(Known{"0", 0}, Known{"9", 9}, Known{"( ( ( [MAX 1 ) 2 ) ] )", 2},
                      Known{"( ( ( [MIN 1 ) 2 ) ] )", 1}, Known{"( ( [SM 7 ) ] )", 7}, Known{"( ( [MED 4 ) ] )", 4},
                      // a median of two is their mean, truncated: (1 + 2) / 2 -> 1, (9 + 8) / 2 -> 8, (0 + 4) / 2 = 2
                      Known{"( ( ( [MED 1 ) 2 ) ] )", 1}, Known{"( ( ( [MED 9 ) 8 ) ] )", 8},
                      Known{"( ( ( [MED 0 ) 4 ) ] )", 2},
                      // unordered, with repetitions: 2 3 3 9 -> 3; 1 2 5 6 -> 3.5 -> 3; 0 7 7 -> 7
                      Known{"( ( ( ( ( [MED 3 ) 9 ) 2 ) 3 ) ] )", 3}, Known{"( ( ( ( ( [MED 6 ) 1 ) 5 ) 2 ) ] )", 3},
                      Known{"( ( ( ( [MED 7 ) 0 ) 7 ) ] )", 7},
                      // sums wrap around: 9 + 9 + 9 = 27, 5 + 5 = 10
                      Known{"( ( ( ( [SM 9 ) 9 ) 9 ) ] )", 7}, Known{"( ( ( [SM 5 ) 5 ) ] )", 0},
                      // MAX(4, SM(7, 5), 1) and SM(MIN(8, MAX(3, 6)), 9) = 6 + 9
                      Known{"( ( ( ( [MAX 4 ) ( ( ( [SM 7 ) 5 ) ] ) ) 1 ) ] )", 4},
                      Known{"( ( ( [SM ( ( ( [MIN 8 ) ( ( ( [MAX 3 ) 6 ) ] ) ) ] ) ) 9 ) ] )", 5}));

struct Malformed {
  const char* text;
  int character;
};
std::ostream& operator<<(std::ostream& out, const Malformed& bad) { return out << bad.text; }

class ListOpsSyntax : public ::testing::TestWithParam<Malformed> {};

TEST_P(ListOpsSyntax, ErrorsNameFileRowColumnAndCharacter) {
  const Place place = {"f.tsv", 17, 1};
  const std::string message = message_of([&] { evaluate(GetParam().text, place); });
  const std::string start = fmt::format("f.tsv: row 17 column 1: character {}: ", GetParam().character);
  EXPECT_EQ(message.substr(0, start.size()), start) << message;
}

INSTANTIATE_TEST_SUITE_P(ByHand, ListOpsSyntax,
                         ::testing::Values(Malformed{"", 1}, Malformed{" 1", 1}, Malformed{"1 ", 2}, Malformed{"10", 2},
                                           Malformed{"1 2", 2}, Malformed{"a", 1}, Malformed{"]", 1}, Malformed{")", 1},
                                           Malformed{"(", 1}, Malformed{"( ", 3}, Malformed{"[MAX 1 2 ]", 1},
                                           Malformed{"( [MAX ] )", 1}, Malformed{"( [MAX 1 ) ] )", 1},
                                           Malformed{"( ( [MUX 1 ) ] )", 5}, Malformed{"( ( [MAX1 ) ] )", 5},
                                           Malformed{"( ( [max 1 ) ] )", 5}, Malformed{"( ( [SM", 5},
                                           Malformed{"( ( [SM ", 9}, Malformed{"( ( [SM 1", 10},
                                           Malformed{"( ( [SM 1 ) ]", 12}, Malformed{"( ( [SM 1 ) ] ) )", 16},
                                           Malformed{"( ( [SM 1 )  ] )", 12}, Malformed{"( ( [SM 1 ) 2 ) ] )", 12},
                                           Malformed{"( ( ( [SM 1 ) ] )", 15}, Malformed{"( ( [SM 1 ) ] ", 12},
                                           Malformed{"((  [SM 1 ) ] )", 1}, Malformed{"( ( [SM 1 ] )", 10},
                                           Malformed{"( ( [SM ( ( [MIN 3 ) ] ) ] )", 25}));

TEST(ListOpsEvaluate, ErrorsWithoutARowNameTheText) {
  EXPECT_EQ(message_of([] { evaluate("( ( [SM x ) ] )"); }),
            "listops: character 9: a digit or '( ' should stand here, not 'x ) ] )'");
  EXPECT_EQ(message_of([] { evaluate("( ( [SM 1"); }),
            "listops: character 10: ' )' should stand here, not the end of the text");
}

TEST(ListOpsEvaluate, DeepNestingNeedsNoStack) {
  constexpr int kDepth = 200'000;
  std::string text;
  for (int i = 0; i < kDepth; ++i) text += "( ( [SM ";
  text += "6";
  for (int i = 0; i < kDepth; ++i) text += " ) ] )";
  EXPECT_EQ(evaluate(text), 6);
  EXPECT_THROW(evaluate(text.substr(0, text.size() - 1)), Error);
  std::string only_open;
  for (int i = 0; i < kDepth; ++i) only_open += "( ";
  EXPECT_THROW(evaluate(only_open), Error);
}

// With single characters of a valid expression changed, removed or doubled: a value or an Error, nothing else.
TEST(ListOpsEvaluate, DamagedExpressionsAreRefusedOrStillExpressions) {
  const std::string right = "( ( ( ( [MAX 4 ) ( ( ( [SM 7 ) 5 ) ] ) ) ( ( ( [MED 1 ) 0 ) ] ) ) ] )";
  const std::string letters = "() []0123456789MAXINEDS\t\r\n\x01\xff";
  ASSERT_EQ(evaluate(right), 4);
  Generator generator(3);
  int values = 0;
  int errors = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = right;
    for (int64_t changes = 1 + generator.below(2); changes > 0; --changes) {
      const auto at = static_cast<size_t>(generator.below(static_cast<int64_t>(text.size())));
      const char letter = letters[static_cast<size_t>(generator.below(static_cast<int64_t>(letters.size())))];
      switch (generator.below(4)) {
        case 0:
          text[at] = letter;
          break;
        case 1:
          text.erase(at, 1);
          break;
        case 2:
          text.insert(at, 1, letter);
          break;
        default:
          text.resize(at);
          if (text.empty()) text = letter;
      }
    }
    try {
      const int value = evaluate(text);
      ASSERT_TRUE(value >= 0 && value <= 9) << text;
      ++values;
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(values, 100);  // a digit for a digit, mostly
  EXPECT_GT(errors, 15'000);
}

}  // namespace
}  // namespace bochner::listops
