// Training steps in a form that another implementation can repeat: a safetensors file with the initial weights, and the
// batch, the noise and the loss of each step. tests/golden/arena_steps.py repeats them in PyTorch.
#pragma once

#include "engine/io/safetensors.h"
#include "experiments/learners/learner.h"

namespace bochner {

/// Makes steps 0 ... `steps` - 1 with a new learner of `model` and returns
///
///   weights.NAME    the parameters and buffers of the model before the first step
///   step.I.NAME     the tensors of the batch of step I
///   losses          f64 (steps): the loss of each step, before the step moves the weights
///   noise           i64 (steps, 2): seed and offset, as bits, of the generator that each step draws from
///
/// `again` is a second feed of the batches that the learner will see. A step that draws nothing (no dropout, no new
/// random features) can be repeated without `noise`.
TensorMap recorded_steps(Learner& learner, Module& model, Feed& again, int64_t steps);

}  // namespace bochner
