// The data set of KL §4.2 and Appendix E, as a task: pairs of a score and a relevance, one token per pair. It is made
// in memory from its seed each time; nothing is written to disk.
//
//   const TaskData data = sparsity::load_task({.relevant = 0.1});
#pragma once

#include "datasets/sparsity/generator.h"
#include "datasets/task.h"
#include "engine/tensor.h"

namespace bochner::sparsity {

/// 9 classes, 5 ids: padding and four pairs.
Task task(const GeneratorOptions& options);
TaskData load_task(const GeneratorOptions& options);

/// The tokens as many-hot codes, (v = 1, v = -1, a = 1), as the paper's model gets them.  (5, 3), zeros for padding
Tensor codes();

}  // namespace bochner::sparsity
