// What is done with a model's outputs: the loss to minimise, and the answers that evaluations and predictions need.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "experiments/common/run/trainer.h"
#include "experiments/learners/examples.h"
#include "experiments/learners/metrics.h"

namespace bochner {

/// The outputs of one forward pass, in an order on which model and objective agree; most models have one output.
using Outputs = std::vector<Variable>;

/// Tokens and examples with this label are ignored.
inline constexpr int64_t kNoLabel = -100;

class Objective {
 public:
  virtual ~Objective() = default;
  Objective() = default;
  Objective(const Objective&) = delete;
  Objective& operator=(const Objective&) = delete;

  /// One number, the mean over the terms of a batch.
  virtual Variable loss(const Outputs& outputs, const Examples& examples) const = 0;
  /// The number of these terms: one f64 on the examples' device. Undefined if the loss is not a mean over examples, so
  /// a batch cannot be divided into parts.
  virtual Tensor terms(const Examples& examples) const = 0;
  /// Whether answers can be right or wrong. If so, correct() is the number of right answers, one f64 on the outputs'
  /// device, and judged() the number of all that are judged for the same examples, which are then on the CPU.
  virtual bool judges() const { return false; }
  virtual Tensor correct(const Outputs&, const Examples&) const { return {}; }
  virtual int64_t judged(const Examples&) const { return 0; }
  /// Adds the answers to a batch, but neither loss nor terms.
  virtual void collect(const Outputs& outputs, const Examples& examples, Answers& to) const = 0;
  /// The model's answer to each example. The right answers are not read.
  virtual std::vector<Prediction> predictions(const Outputs& outputs, const Examples& examples) const = 0;
};

/// Cross-entropy of scores (n, classes), or (n, length, classes) where each token has a label. `labels`: i64, (n) or
/// (n, length), kNoLabel where there is none.
class Classification : public Objective {
 public:
  /// What predictions say of an example.
  enum class Tells : unsigned char { class_and_chances, class_alone };
  /// `names`: the names of the classes, if given.
  explicit Classification(std::string labels = "labels", std::vector<std::string> names = {},
                          Tells tells = Tells::class_and_chances)
      : labels_(std::move(labels)), names_(std::move(names)), tells_(tells) {}
  Variable loss(const Outputs& outputs, const Examples& examples) const override;
  Tensor terms(const Examples& examples) const override;
  bool judges() const override { return true; }
  Tensor correct(const Outputs& outputs, const Examples& examples) const override;
  int64_t judged(const Examples& examples) const override;
  void collect(const Outputs& outputs, const Examples& examples, Answers& to) const override;
  /// The class, by its name if it has one, and the probability of each class; for tokens, only the classes.
  std::vector<Prediction> predictions(const Outputs& outputs, const Examples& examples) const override;

 private:
  std::string labels_;
  std::vector<std::string> names_;
  Tells tells_;
};

/// Mean squared error of numbers (n, 1) or (n). `values`: floats of the same count.
class Regression : public Objective {
 public:
  explicit Regression(std::string values = "values") : values_(std::move(values)) {}
  Variable loss(const Outputs& outputs, const Examples& examples) const override;
  Tensor terms(const Examples& examples) const override;
  void collect(const Outputs& outputs, const Examples& examples, Answers& to) const override;
  std::vector<Prediction> predictions(const Outputs& outputs, const Examples& examples) const override;

 private:
  std::string values_;
};

}  // namespace bochner
