// ListOps expressions as token ids, in the two ways that published results used. The names are those of
// `--listops.tokenisation`; results with one cannot be compared with results with the other.
//
//   text      ( ( ( [MAX 4 ) ( ( ( [SM 7 ) 5 ) ] ) ) ] )
//   fixed     [MAX 4 [SM 7 5 ] ]          12 5 14 8 6 15 15
//   released  MAX 4 SM 7 5                12 5 14 8 6
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/listops/expression.h"
#include "engine/option.h"

namespace bochner::listops {

enum class Tokenisation {
  /// Parentheses are dropped, `]` is kept: 15 tokens. Nothing is lost, since `]` still ends each operator. This is the
  /// Long Range Arena since March 2021, the KL-Transformer and the state-space models. (The Long Range Arena wrote `X`
  /// for `]`, numbered tokens anew in each run, and had a 17th id for unknown tokens, which never occur.)
  fixed,
  /// Parentheses and all brackets are dropped: 14 tokens, digits and the bare words MAX, MED, MIN, SM. The end of an
  /// operator is lost, so one sequence stands for expressions of different values, and no model can solve the task:
  /// `MAX 4 SM 7 5` above is 4 or 5 according to where SM ends. This is the Long Range Arena's first release,
  /// Nystroemformer and Skyformer; their published accuracies near 37 to 39 % are for this task.
  released,
};

inline const EnumTexts<Tokenisation> kTokenisations{{"fixed", Tokenisation::fixed},
                                                    {"released", Tokenisation::released}};

/// Number of ids with padding: 16 or 15. Ids are the same in both and never change: 0 padding, 1 ... 10 the digits 0
/// ... 9, 11 MAX... see token(). (Published models made their tables larger than needed: 17, 18 or, in Skyformer, 32
/// rows.)
int64_t vocabulary_size(Tokenisation tokenisation);

/// How an id is written: `4`, `[MAX` or `MAX`, `]`; `<pad>` for 0.
std::string_view token(int64_t id, Tokenisation tokenisation);

/// Appends the first `max_length` ids of an expression to `ids`. Anything that is not a token of ListOps is an Error,
/// even beyond max_length; evaluate() checks whether parentheses match.
void encode(std::string_view text, Tokenisation tokenisation, int64_t max_length, std::vector<uint8_t>& ids,
            const Place& place = {});

}  // namespace bochner::listops
