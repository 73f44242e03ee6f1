// The sentence at the top of a report: what was reached, what is reached without learning, and which differences exceed
// chance.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/run/results.h"

namespace bochner {

struct Headline {
  std::string result;   ///< `performer 51.7 %, softmax 57.1 %; 14.7 % without learning (majority class)`
  std::string meaning;  ///< what was measured, and what can be said about the order
};

/// One for each task of the runs that were tested. A mechanism is called level with the best if its mean is less than
/// one deviation behind: the larger of the two mechanisms' deviations over their seeds.
std::vector<Headline> headlines(const std::vector<RunRecord>& runs);

}  // namespace bochner
