// Optimizers: one step moves every trainable parameter against its gradient. The state is kept under the parameters'
// names, so that it can be saved.
//
//   AdamW optimizer(model.parameters(), {.weight_decay = 0.1});
//   optimizer.step(1e-3);                  // the learning rate of this step, from a schedule
//   optimizer.clear_gradients();
//
// Groups of parameters can have their own rates and decays: groups.h.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autograd/optim/groups.h"
#include "engine/ops/optimizer_step.h"

namespace bochner {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Moves the parameters that have a gradient, all in one pass. `rate` is the learning rate. Gradients are clipped in
  /// the same pass.
  void step(double rate, const GradientClip& clip = {});
  /// The two halves of step(): prepare() counts the step and copies its rate to the device, and apply() moves the
  /// parameters by the numbers that it finds there. A recorded step (engine/step_graph.h) holds only the second half.
  void prepare(double rate);
  void apply(const GradientClip& clip = {});
  void clear_gradients();
  /// Moments by `name.moment`, and the number of steps.
  std::map<std::string, Tensor> state() const;
  void load_state(const std::map<std::string, Tensor>& state);
  int64_t steps() const { return steps_; }

 protected:
  /// `moments` names the tensors that are kept for each parameter, zeros at first. A parameter in two groups is an
  /// Error.
  Optimizer(std::vector<ParameterGroup> groups, std::vector<std::string> moments);
  /// A parameter that moves, and its moments in the order of the constructor.
  struct Slot {
    const Parameter* parameter;
    const std::vector<Tensor>* moments;
  };
  /// The numbers for the update of a group, from its rate, its own weight decay if it has one, and the step count,
  /// which begins with 1: f64, on the CPU.
  virtual Tensor numbers(double rate, std::optional<double> weight_decay, int64_t steps) const = 0;
  /// One update of a group by those numbers, on the parameters' device.
  virtual void update(const std::vector<Slot>& slots, const Tensor& numbers, const GradientClip& clip) = 0;

 private:
  /// A group with the moments of each of its parameters.
  struct GroupState {
    ParameterGroup group;
    std::vector<std::vector<Tensor>> moments;
    Tensor numbers;  ///< of the prepared step, always at the same place on the device
  };
  std::vector<GroupState> groups_;
  std::vector<std::string> names_;
  int64_t steps_ = 0;
};

/// Hyper-parameters of Adam; PyTorch's defaults.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

/// Adam (Kingma & Ba, 2015); weight decay is added to the gradient:
///   g += wd p,  m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   p -= rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
/// where t counts the optimizer's steps, including those in which a parameter had no gradient (PyTorch counts
/// separately for each parameter).
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<ParameterGroup> groups, AdamOptions options = {});
  explicit Adam(std::vector<Parameter*> parameters, AdamOptions options = {})
      : Adam(one_group(std::move(parameters)), options) {}
  Adam(std::initializer_list<Parameter*> parameters, AdamOptions options = {})
      : Adam(std::vector(parameters), options) {}
  void set_beta1(double beta1) { options_.beta1 = beta1; }

 protected:
  Tensor numbers(double rate, std::optional<double> weight_decay, int64_t steps) const override;
  void update(const std::vector<Slot>& slots, const Tensor& numbers, const GradientClip& clip) override;

  AdamOptions options_;
  bool decoupled_ = false;
};

/// AdamW (Loshchilov & Hutter, 2019): the decay is applied to the parameter instead, p -= rate wd p.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<ParameterGroup> groups, AdamOptions options = {.weight_decay = 0.01});
  explicit AdamW(std::vector<Parameter*> parameters, AdamOptions options = {.weight_decay = 0.01})
      : AdamW(one_group(std::move(parameters)), options) {}
  AdamW(std::initializer_list<Parameter*> parameters, AdamOptions options = {.weight_decay = 0.01})
      : AdamW(std::vector(parameters), options) {}
};

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// g += wd p,  u = momentum u + g,  p -= rate u  (nesterov: p -= rate (g + momentum u))
class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<ParameterGroup> groups, SgdOptions options = {});
  explicit Sgd(std::vector<Parameter*> parameters, SgdOptions options = {})
      : Sgd(one_group(std::move(parameters)), options) {}
  Sgd(std::initializer_list<Parameter*> parameters, SgdOptions options = {}) : Sgd(std::vector(parameters), options) {}

 protected:
  Tensor numbers(double rate, std::optional<double> weight_decay, int64_t steps) const override;
  void update(const std::vector<Slot>& slots, const Tensor& numbers, const GradientClip& clip) override;

 private:
  SgdOptions options_;
};

/// The Euclidean norm of all gradients together, summed in a fixed order and read by the host.
double gradient_norm(const std::vector<Parameter*>& parameters);
/// The clip for step() that scales all gradients by min(1, limit / norm); computed and kept on their device.
GradientClip clip_by_norm(const std::vector<Parameter*>& parameters, double limit);

}  // namespace bochner
