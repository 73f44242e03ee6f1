// What the user may have meant by an option that does not exist: it may be mistyped, or be the name that other software
// uses.
#pragma once

#include <string>
#include <string_view>

#include "experiments/common/config/fields.h"

namespace bochner {

/// The end of `--lr: there is no such option`: `; did you mean --optim.rate?` or, if nothing is similar, where all
/// options are listed. `name` has no dashes and no value; `mark` is put before or around the names of options.
std::string suggestion(std::string_view name, const Fields& fields, std::string_view mark = "--");

/// The same for a word on the command line that is not an option: `-steps`, `steps=3`.
std::string suggestion_for_word(std::string_view word, const Fields& fields);

}  // namespace bochner
