// Groups of parameters that an optimizer moves alike, and rules that say by name which group a parameter belongs to.
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

/// What is said of all parameters whose name fits a pattern, in which `*` stands for any text, also for none.
struct GroupRule {
  std::string pattern;
  double rate = 1;                          ///< factor of the step's learning rate; at least 0
  std::optional<double> weight_decay = {};  ///< in place of the optimizer's; at least 0
  bool frozen = false;                      ///< takes no gradient, and no memory of an optimizer
};

bool fits(std::string_view name, std::string_view pattern);

/// The groups for an optimizer. A parameter follows the first rule that it fits; those that fit none come first, those
/// whose rules say the same are one group. Parameters of frozen rules are in no group, and no longer trainable. An
/// Error where a rule decides nothing, as a misspelt one does, or has a negative number.
std::vector<ParameterGroup> parameter_groups(const std::vector<Parameter*>& parameters,
                                             const std::vector<GroupRule>& rules);

/// All in one group.
std::vector<ParameterGroup> one_group(std::vector<Parameter*> parameters);

}  // namespace bochner
