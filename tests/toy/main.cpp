// The smallest experiment there is, for the tests of everything around an experiment: walks down a quadratic bowl by
// noisy gradients with momentum. Its state is a vector, a momentum and a generator.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "experiments/common/program/run.h"

namespace bochner {
namespace {

struct ModelConfig {
  int dim = 3;
  double rate = 0.1;
  int64_t nan_at = -1;
  int64_t spoil_at = -1;
  int pause_ms = 0;
  int evaluation_ms = 0;
  int64_t save_every = 3;

  void fields(Fields& f) {
    f("dim", dim, "number of unknowns").at_least(1);
    f("rate", rate, "learning rate").above(0);
    f("nan-at", nan_at, "the step whose loss is to be NaN; -1: none");
    f("spoil-at", spoil_at, "the step that leaves a NaN behind, with a good loss; -1: none");
    f("pause-ms", pause_ms, "milliseconds to sleep in each step").at_least(0).free_on_resume();
    f("evaluation-ms", evaluation_ms, "milliseconds to sleep for each unknown that is evaluated")
        .at_least(0)
        .free_on_resume();
    f("save-every", save_every, "steps between checkpoints; 0: only where it evaluates").at_least(0).free_on_resume();
  }
};

struct Config {
  RunOptions run{.task = "bowl",
                 .attention = "softmax",
                 .steps = 20,
                 .tasks = {"bowl", "valley"},
                 .attentions = {"softmax", "linear-elu", "performer"}};
  ModelConfig model;
  int64_t evaluate_every = 5;

  void fields(Fields& f) {
    run.fields(f);
    f("evaluate-every", evaluate_every, "steps between evaluations; 0: at each tenth").at_least(0);
    f.group("model", model);
  }
};

class Bowl final : public Trainable {
 public:
  explicit Bowl(const Config& config)
      : config_(config.model),
        noise_(config.run.seed),
        place_(Tensor::full({config.model.dim}, 4, DType::f64)),
        momentum_(Tensor::zeros({config.model.dim}, DType::f64)) {}

  StepResult step(int64_t step) override {
    if (config_.pause_ms >= 10000) std::ofstream("asleep") << "in a step\n";   // tests wait for it
    std::this_thread::sleep_for(std::chrono::milliseconds(config_.pause_ms));  // to its end, whatever signals come
    batch_ = {step * 2, step * 2 + 1};
    if (step == config_.nan_at) return {.loss = scalar(std::numeric_limits<double>::quiet_NaN())};
    auto* const x = place_.data<double>();
    auto* const m = momentum_.data<double>();
    double loss = 0;
    int right = 0;
    for (int i = 0; i < config_.dim; ++i) {
      loss += 0.5 * x[i] * x[i];
      right += std::abs(x[i]) < 0.5 ? 1 : 0;
      m[i] = 0.5 * m[i] + x[i] + 0.3 * (noise_.uniform() - 0.5);
      x[i] -= config_.rate * m[i];
    }
    if (step == config_.spoil_at) x[0] = std::numeric_limits<double>::quiet_NaN();
    return {scalar(loss), scalar(right), config_.dim, config_.dim};
  }
  Metrics evaluate(Split split) override {
    const auto* const x = place_.data<double>();
    double loss = split == Split::test ? 1 : 0;
    int right = 0;
    for (int i = 0; i < config_.dim; ++i) {
      if (config_.evaluation_ms > 0) usleep(static_cast<useconds_t>(config_.evaluation_ms) * 1000);
      loss += 0.5 * x[i] * x[i];
      right += std::abs(x[i]) < 0.5 ? 1 : 0;
      evaluated(i + 1, config_.dim);
    }
    return {{"loss", loss}, {"accuracy", static_cast<double>(right) / config_.dim}};
  }
  void save_model(State& state) override { state.tensors["place"] = place_; }
  void load_model(const State& state) override { state.copy_to("place", place_); }
  void save_training(State& state) override {
    state.tensors["momentum"] = momentum_;
    state.set("noise", noise_);
  }
  void load_training(const State& state) override {
    state.copy_to("momentum", momentum_);
    noise_ = state.generator("noise");
  }
  int64_t parameters() override { return config_.dim; }
  Blame blame(int64_t) override { return {"bowl.rim", batch_}; }

 private:
  static Tensor scalar(double x) { return Tensor::scalar(x, DType::f64); }

  ModelConfig config_;
  Generator noise_;
  Tensor place_;
  Tensor momentum_;
  std::vector<int64_t> batch_;
};

void train(Config& config, Session& session) {
  const TrainPlan plan{.steps = config.run.steps,
                       .log_every = 2,
                       .evaluate_every = config.evaluate_every,
                       .checkpoint_every = config.model.save_every,
                       .best_by = "loss"};
  train_runs(session, plan, [&] { return std::make_unique<Bowl>(config); });
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>({"toy", "A quadratic bowl, for tests", bochner::embedded_resources()}, argc,
                                           argv, bochner::train);
}
