// A pretrained model's softmax attention handed over to another mechanism: what the mechanism learns is fitted, block
// by block, so that its weights or its outputs follow those of softmax on unlabelled text (Zhang et al., "The Hedgehog
// & the Porcupine", ICLR 2024, section 4.2).
//
//   Distillation distillation(folder, mechanism, "", device, seed);
//   Learner learner(run, optim, distillation.problem(std::move(texts), held_out));
//   ...
//   const std::vector<double> after = distillation.apart(held_out);   // of each block
//   save_pretrained(*distillation.converted(), to, folder, Reader::own);
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/common/run/state.h"
#include "experiments/learners/learner.h"
#include "layers/models/hugging_face.h"

namespace bochner::convert {

/// What of a mechanism follows softmax.
enum class Match {
  weights,  ///< those of values, which must be positive, as Zhang et al. have it
  outputs,  ///< of attention, which every mechanism has
  states  ///< outputs first, then those behind each block of the whole model, where errors of earlier ones arrive, too
};

class Distillation {
 public:
  /// The softmax BERT in `folder`, and the same with `mechanism` in the blocks that `blocks` names (block_numbers;
  /// empty: all). Match::states fits outputs in the steps before `states_from`. An Error if the model there has no
  /// softmax attention, or the mechanism is softmax.
  Distillation(const std::filesystem::path& folder, const MechanismOptions& mechanism, const std::string& blocks,
               Device device, uint64_t seed, Match match = Match::outputs, int64_t states_from = 0);

  /// What is learnt from batches with `ids` and, where they have them, `mask` and `types`, by a Learner that must not
  /// outlive this object. The loss is a mean over the blocks b, of e_b, k_b or d_b:
  ///   e_b = |S_b(x_b) - T_b(x_b)|^2 / |T_b(x_b)|^2    outputs
  ///   k_b = mean_i sum_j t_ij log(t_ij / s_ij)        weights, over examples, heads and queries i
  ///   d_b = |y_b - x_b+1|^2 / |x_b+1|^2               states, from the first converted block on
  /// over the real tokens of the batch, where x_b (batch, length, dim) is what block b gets in the softmax model, T_b
  /// is its attention with projections, t its weights, and S_b and s are the same with the mechanism; y_b is what block
  /// b of the converted model, which has no dropout here, makes of the same text. One pass through the softmax model
  /// serves all blocks; of outputs and weights, no block sees what another has learnt. An Error if a weight s is
  /// negative. It reads numbers on the host, so steps cannot be recorded (--graphs).
  ///
  /// Validation and test are the batches `held_out`. Their metrics are `error-of-states`, the last number of apart(),
  /// and `error-of-outputs`, sqrt(mean_b e_b); the baseline has those before the first step.
  Problem problem(std::unique_ptr<Feed> train, std::vector<Examples> held_out);

  /// sqrt(e_b) over all batches together, for each block of blocks(); last, in the same measure, how far the two
  /// models' last states are from each other.
  std::vector<double> apart(const std::vector<Examples>& batches);
  /// apart() of the batches that were held out, before the first step.
  const std::vector<double>& before() const { return before_; }
  /// The converted model as a run's checkpoint has it.
  void take(const State& checkpoint);

  const std::vector<int64_t>& blocks() const { return blocks_; }
  /// What the converted model had from the folder, and what was made new.
  const LoadedTensors& tensors() const { return tensors_; }
  /// Values that are trained; 0 for a mechanism that learns nothing.
  int64_t learnt() const;
  Bert& student() { return *student_; }
  /// The converted model, with the dropout of the softmax model.
  std::unique_ptr<Bert> converted() const;
  const BertOptions& options() const { return teacher_->options(); }

 private:
  /// T_b(x_b) and S_b(x_b) of each block, 0 at padding.
  struct Outputs {
    std::vector<Tensor> teacher;
    std::vector<Variable> student;
    Tensor last;  ///< state of the softmax model
  };
  Outputs outputs(const Bert::Input& batch, Context& context);
  /// |S_b(x_b) - T_b(x_b)|^2 of each block and then |y - x|^2 of the last states, and in a second row |T_b(x_b)|^2 and
  /// |x|^2.  (2, blocks + 1), f64, on the CPU
  Tensor squares(const Bert::Input& batch, Context& context);
  /// One pass through the softmax model: its last state; x gets x_b of each of its blocks.
  Tensor pass(const Bert::Input& batch, std::vector<Variable>& x);
  Variable loss(const Bert::Input& batch, Context& context);
  Variable loss_of_outputs(const Bert::Input& batch, Context& context);
  Variable loss_of_weights(const Bert::Input& batch, Context& context);
  Variable loss_of_states(const Bert::Input& batch, Context& context);

  std::filesystem::path folder_;
  Match match_;
  int64_t states_from_;
  Device device_;
  uint64_t seed_;
  BertOptions converted_;  ///< options of the converted model
  std::unique_ptr<Bert> teacher_;
  std::shared_ptr<Bert> student_;
  std::vector<int64_t> blocks_;
  std::vector<Parameter*> trained_;
  LoadedTensors tensors_;
  std::vector<double> before_;
  Problem::Base base_;  ///< what of the converted model stays as it is in the folder
};

}  // namespace bochner::convert
