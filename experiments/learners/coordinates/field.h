// A field over coordinates, learnt at a fixed set of points, as the parts of a Problem for the Learner.
#pragma once

#include "experiments/learners/coordinates/config.h"
#include "experiments/learners/learner.h"

namespace bochner::coordinates {

/// Points and the values at each: tensors by name, the first of which is `points` (n, inputs). A batch is `count` of
/// the points, drawn anew in each step, or all of them if there are no more than that.
class PointFeed final : public Feed {
 public:
  PointFeed(Examples all, int64_t count, const Generator& draws);
  Examples next() override;
  void go_to(int64_t step) override;
  int64_t steps_per_epoch() const override { return 1; }
  int64_t examples() const override { return all_.size(); }

 private:
  Examples all_;
  int64_t count_;
  Generator first_;
  Generator draws_;
};

/// All points in order, in pieces of that many.
class PointsInOrder final : public Feed {
 public:
  PointsInOrder(Examples all, int64_t piece);
  Examples next() override;
  void go_to(int64_t step) override { step_ = step; }
  int64_t steps_per_epoch() const override { return ceil_div(all_.size(), piece_); }
  int64_t examples() const override { return all_.size(); }

 private:
  Examples all_;
  int64_t piece_;
  int64_t step_ = 0;
};

/// Examples of tensors with equal numbers of rows.
Examples points(std::vector<std::pair<std::string, Tensor>> tensors);

/// A Problem with the model, its optimizer and its training points; the caller sets objective, split and metrics.
Problem of_field(const RunOptions& run, std::shared_ptr<Siren> model, const SnnkOptimConfig& optim, Examples train);

/// The network of a run, before training.
std::shared_ptr<Siren> siren_of(const RunOptions& run, const SirenOptions& options);

/// The field at x (n, inputs), and the field with its derivatives, computed in pieces of rows. On the model's device.
Tensor values(const Siren& model, const Tensor& x);
FieldDerivatives derivatives(const Siren& model, const Tensor& x);

}  // namespace bochner::coordinates
