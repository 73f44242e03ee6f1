// Converts a pretrained model's softmax attention to another mechanism: the mechanism's parameters are fitted, block by
// block, so that its weights or its outputs follow those of softmax on unlabelled text (Zhang et al., "The Hedgehog &
// the Porcupine", ICLR 2024, section 4.2).
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

#include "engine/option.h"
#include "experiments/common/run/state.h"
#include "experiments/learners/learner.h"
#include "layers/models/hugging_face.h"

namespace bochner::convert {

/// What is fitted to that of softmax attention.
enum class Match {
  weights,  ///< the weights of values, which must be positive, as in Zhang et al.
  outputs,  ///< the outputs of attention, which every mechanism has
  states  ///< outputs first, then those behind each block of the whole model, where errors of earlier ones arrive, too
};

inline const EnumTexts<Match> kMatches{
    {"outputs", Match::outputs}, {"weights", Match::weights}, {"states", Match::states}};

class Distillation {
 public:
  /// The softmax BERT in `folder`, and the same model with `mechanism` in the blocks that `blocks` names
  /// (block_numbers; empty: all). Match::states fits outputs in the steps before `states_from`. An Error if the model
  /// there has no softmax attention, or if the mechanism is softmax.
  Distillation(const std::filesystem::path& folder, const MechanismOptions& mechanism, const std::string& blocks,
               Device device, uint64_t seed, Match match = Match::outputs, int64_t states_from = 0);

  /// What a Learner, which must not outlive this object, learns from batches with `ids` and optionally `mask` and
  /// `types`. The loss is a mean over the blocks b, of e_b, k_b or d_b:
  ///   e_b = |S_b(x_b) - T_b(x_b)|^2 / |T_b(x_b)|^2    outputs
  ///   k_b = mean_i sum_j t_ij log(t_ij / s_ij)        weights, over examples, heads and queries i
  ///   d_b = |y_b - x_b+1|^2 / |x_b+1|^2               states, from the first converted block on
  /// over the real tokens of the batch. x_b (batch, length, dim) is the input of block b in the softmax model, T_b its
  /// attention with projections, t its weights, and S_b and s are the same with the mechanism; y_b is the output of
  /// block b of the converted model, which has no dropout here, for the same text. One pass through the softmax model
  /// serves all blocks; for outputs and weights, no block sees what another has learnt. An Error if a weight s is
  /// negative. It reads numbers on the host, so steps cannot be recorded (--graphs).
  ///
  /// Validation and test use the batches `held_out`. Their metrics are `error-of-states`, the last number of apart(),
  /// and `error-of-outputs`, sqrt(mean_b e_b); the baseline has those before the first step.
  Problem problem(std::unique_ptr<Feed> train, std::vector<Examples> held_out);

  /// sqrt(e_b) over all batches together, for each block of blocks(); the last number is the distance of the two
  /// models' last states, in the same measure.
  std::vector<double> apart(const std::vector<Examples>& batches);
  /// apart() of the held-out batches, before the first step.
  const std::vector<double>& before() const { return before_; }
  /// Takes the converted model from a run's checkpoint.
  void take(const State& checkpoint);

  const std::vector<int64_t>& blocks() const { return blocks_; }
  /// Which tensors the converted model has from the folder, and which were made new.
  const LoadedTensors& tensors() const { return tensors_; }
  /// The number of trained parameters; 0 for a mechanism that learns nothing.
  int64_t learnt() const;
  Bert& student() { return *student_; }
  /// The converted model, with the dropout of the softmax model.
  std::unique_ptr<Bert> converted() const;
  const BertOptions& options() const { return teacher_->options(); }

 private:
  /// T_b(x_b) and S_b(x_b) for each block, 0 at padding.
  struct Outputs {
    std::vector<Tensor> teacher;
    std::vector<Variable> student;
    Tensor last;  ///< state of the softmax model
  };
  Outputs outputs(const Bert::Input& batch, Context& context);
  /// |S_b(x_b) - T_b(x_b)|^2 for each block, then |y - x|^2 for the last states; in a second row, |T_b(x_b)|^2 and
  /// |x|^2.  (2, blocks + 1), f64, on the CPU
  Tensor squares(const Bert::Input& batch, Context& context);
  /// One pass through the softmax model: returns its last state; x gets x_b for each of its blocks.
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
  Problem::Base base_;  ///< the part of the converted model that stays as it is in the folder
};

}  // namespace bochner::convert
