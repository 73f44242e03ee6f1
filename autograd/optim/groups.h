// Groups of parameters that an optimizer treats alike, and rules that assign parameters to groups by name.
//
//   // BERT: no decay of biases and norms, the embeddings stay as they were pretrained, the head learns faster
//   AdamW optimizer(parameter_groups(model.parameters(), {{.pattern = "embeddings.*", .frozen = true},
//                                                         {.pattern = "*.bias", .weight_decay = 0},
//                                                         {.pattern = "*norm*", .weight_decay = 0},
//                                                         {.pattern = "classifier.*", .rate = 10}}),
//                   {.weight_decay = 0.01});
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/tape.h"

namespace bochner {

struct ParameterGroup {
  std::vector<Parameter*> parameters;
  double rate = 1;                          ///< factor of the step's learning rate
  std::optional<double> weight_decay = {};  ///< in place of the optimizer's
};

/// A rule for all parameters whose name matches a pattern, in which `*` matches any text, including none.
struct GroupRule {
  std::string pattern;
  double rate = 1;                          ///< factor of the step's learning rate; at least 0
  std::optional<double> weight_decay = {};  ///< in place of the optimizer's; at least 0
  bool frozen = false;                      ///< gets no gradient and no optimizer state
};

bool fits(std::string_view name, std::string_view pattern);

/// The groups for an optimizer. A parameter follows the first rule that matches it. Parameters without a rule are the
/// first group, and those whose rules have the same settings share a group. Parameters of frozen rules are in no group
/// and are no longer trainable. A rule that no parameter follows, such as a misspelt one, or one with a negative number
/// is an Error.
std::vector<ParameterGroup> parameter_groups(const std::vector<Parameter*>& parameters,
                                             const std::vector<GroupRule>& rules);

/// All in one group.
std::vector<ParameterGroup> one_group(std::vector<Parameter*> parameters);

}  // namespace bochner
