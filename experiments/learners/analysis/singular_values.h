// How fast the singular values of attention's output decay (SKY Fig. 4): a measure of how hard a task is.
#pragma once

#include <vector>

#include "engine/tensor.h"

namespace bochner {

struct SingularValues {
  std::vector<double> values;  ///< descending, scaled so that the largest of each sequence is 1; mean over sequences
  double effective_rank = 0;   ///< exp of the entropy of s / sum s (Roy and Vetterli, 2007); mean over sequences
  int64_t sequences = 0;
};

/// For O (batch, heads, length, dim): one matrix (real tokens, heads * dim) for each sequence. mask: bool (batch,
/// length), true at real tokens; undefined: all are real. Sequences whose output is zero are left out; those with fewer
/// tokens than columns have zeros after their last singular value.
SingularValues singular_values(const Tensor& O, const Tensor& mask);

}  // namespace bochner
