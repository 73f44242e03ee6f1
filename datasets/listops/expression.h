// ListOps expressions in their official written form, and their values (Nangia and Bowman, "ListOps: A Diagnostic
// Dataset for Latent Tree Learning", NAACL SRW 2018).
//
//   evaluate("( ( ( [MAX 1 ) 2 ) ] )")  ->  2
//
// An expression is a digit, or an operator with one or more expressions. It is written as a binary tree: the operator
// takes its arguments one by one, each inside another pair of parentheses, and `]` last, so an operator with n
// arguments follows n + 1 opening parentheses. Tokens are separated by one blank.
//
//   MIN, MAX   smallest, largest argument
//   MED        median; for an even number of arguments the mean of the middle two, truncated
//   SM         sum modulo 10
//
// This file is the reference for checking labels; the generator has its own arithmetic.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/error.h"

namespace bochner::listops {

/// The place of a text, for messages: `basic_val.tsv: row 17 column 1`, counted from 1; without a row the name alone.
struct Place {
  std::string_view file = "listops";
  int64_t row = 0;
  int column = 0;

  std::string str() const;
  /// Throws the Error `PLACE: character N: message` about the character at `offset` of the text.
  template <class... Args>
  [[noreturn]] void fail_at(size_t offset, fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}: character {}: {}", str(), offset + 1, fmt::format(format, std::forward<Args>(args)...));
  }
};

/// The value, 0 ... 9, of an expression. Anything but exactly one expression is an Error with the first wrong
/// character. Memory is proportional to the text, and there is no recursion.
int evaluate(std::string_view text, const Place& place = {});

}  // namespace bochner::listops
