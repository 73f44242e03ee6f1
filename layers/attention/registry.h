// Adds attention mechanisms of another project to those of this one.
//
//   void describe_cauchy(Mechanisms& list) { list.push_back({.name = "cauchy", ...}); }   // as in docs/5_mechanism.md
//   int main() {
//     add_mechanisms(describe_cauchy);
//     MultiHeadAttention attention({}, 64, {.mechanism = "cauchy", .heads = 4}, init);
#pragma once

#include "layers/attention/mechanism.h"

namespace bochner {

/// Adds the mechanisms that `describe` appends to a list, after all others. Call it at the start of the program:
/// mechanisms that were looked up before may move. An Error if a name is taken.
void add_mechanisms(const std::function<void(Mechanisms&)>& describe);

}  // namespace bochner
