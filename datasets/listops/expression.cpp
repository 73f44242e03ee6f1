#include "datasets/listops/expression.h"

#include <algorithm>
#include <vector>

#include "engine/io/bytes.h"

namespace bochner::listops {
namespace {

/// How often each digit occurs.
struct Counts {
  int64_t of[10] = {};
  int64_t total = 0;

  void add(int digit) {
    ++of[digit];
    ++total;
  }
  /// The digit at place `k`, from 0, in ascending order.
  int ranked(int64_t k) const {
    int digit = 0;
    while (k >= of[digit]) k -= of[digit++];
    return digit;
  }
};

/// An operator whose arguments are being read.
struct Open {
  char name;  ///< the last letter: miN, maX, meD, sM
  int64_t missing;
  Counts counts;
};

int value_of(const Open& open) {
  const Counts& counts = open.counts;
  const int64_t n = counts.total;
  switch (open.name) {
    case 'N':
      return counts.ranked(0);
    case 'X':
      return counts.ranked(n - 1);
    case 'D':
      return (counts.ranked((n - 1) / 2) + counts.ranked(n / 2)) / 2;
    default: {
      int64_t sum = 0;
      for (int digit = 0; digit < 10; ++digit) sum = (sum + counts.of[digit] * digit) % 10;
      return static_cast<int>(sum);
    }
  }
}

class Parser {
 public:
  Parser(std::string_view text, const Place& place) : text_(text), place_(place) {}

  int run() {
    for (;;) {
      const size_t begin = at_;
      int64_t parentheses = 0;
      while (accept("( ")) ++parentheses;
      if (parentheses > 0) {
        open_.push_back({operator_name(), parentheses - 1, {}});
        if (parentheses == 1) place_.fail_at(begin, "an operator with one '(' before it has no arguments");
        continue;
      }
      if (at_ == text_.size() || text_[at_] < '0' || text_[at_] > '9') refuse("a digit or '( '");
      const int digit = text_[at_++] - '0';
      if (finish(digit)) return result_;
    }
  }

 private:
  /// Gives a value to the operator that waits for it, and continues upwards while operators are complete. True at the
  /// end of the expression.
  bool finish(int value) {
    for (;;) {
      if (open_.empty()) {
        if (at_ != text_.size()) refuse("the end of the text");
        result_ = value;
        return true;
      }
      expect(" )");
      Open& open = open_.back();
      open.counts.add(value);
      if (--open.missing > 0) {
        expect(" ");
        return false;
      }
      expect(" ] )");
      value = value_of(open);
      open_.pop_back();
    }
  }

  char operator_name() {
    for (const std::string_view name : {"[MIN ", "[MAX ", "[MED ", "[SM "}) {
      if (accept(name)) return name[name.size() - 2];
    }
    refuse("'( ', '[MIN ', '[MAX ', '[MED ' or '[SM '");
  }

  bool accept(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) refuse(fmt::format("'{}'", token));
  }

  [[noreturn]] void refuse(std::string_view wanted) const {
    place_.fail_at(at_, "{} should stand here, not {}", wanted,
                   at_ == text_.size() ? "the end of the text" : shown(text_.substr(at_, 8)));
  }

  std::string_view text_;
  const Place& place_;
  size_t at_ = 0;
  std::vector<Open> open_;
  int result_ = 0;
};

}  // namespace

std::string Place::str() const {
  return row == 0 ? std::string(file) : fmt::format("{}: row {} column {}", file, row, column);
}

int evaluate(std::string_view text, const Place& place) { return Parser(text, place).run(); }

}  // namespace bochner::listops
