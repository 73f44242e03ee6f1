#include "experiments/sparsity/config.h"

#include <fmt/format.h>

#include <string>

#include "engine/error.h"

namespace bochner::sparsity {

void PairsConfig::fields(Fields& f) {
  f("relevant", relevant, "share p of positions that count, which is then the task; 0: that of --task")
      .at_least(0)
      .below(1);
  f("length", of.length, "number of pairs in a sequence").at_least(1);
  f("train-examples", of.train, "sequences for training").at_least(1);
  f("valid-examples", of.valid, "sequences for validation, for the curves and the best checkpoint").at_least(1);
  f("test-examples", of.test, "sequences for the test result").at_least(1);
  f("data-seed", of.seed, "seed of the generator of sequences");
}

void GradientConfig::fields(Fields& f) {
  f("examples", examples, "how many of the first validation examples to use").at_least(1);
  f("repetitions", repetitions, "how often each example is run, each time with new random features").at_least(1);
}

Config::Config() {
  run.task = "0.5";
  run.tasks = {"0.1", "0.5", "0.9"};
  run.attentions = attention_names();
  run.attention = "gmm-rks";
  run.steps = 5000;
  run.batch = 400;
  optim.rate = 1e-4;
  model.layers = 3;
  model.heads = 4;
  model.hidden = 64;
  model.classifier = 64;
  model.pooling = EncoderOptions::Pooling::first;
  model.init = LinearOptions::Init::xavier;
  model.mechanism.set({"features", 64}).set({"redraw-in-evaluation", true});
}

void Config::fields(Fields& f) {
  run.fields(f);
  f.at("task").above(0).below(1);
  f.then([this](const Fields& fields) { name_task(fields.find("task")->was_given()); });
  f.group("pairs", pairs);
  f.group("model", model);
  f.group("optim", optim);
  f.group("gradients", gradients);
}

void Config::name_task(bool given) {
  if (pairs.relevant == 0) return;
  if (given && std::stod(run.task) != pairs.relevant) {
    fail("--pairs.relevant={}: --task={} is another share; leave out one of them", pairs.relevant, run.task);
  }
  run.task = fmt::format("{}", pairs.relevant);
}

GeneratorOptions Config::generator() const {
  GeneratorOptions options = pairs.of;
  options.relevant = std::stod(run.task);
  return options;
}

EncoderOptions Config::encoder() const {
  EncoderOptions options = encoder_options(model, run.attention, task(generator()));
  options.codes = codes();
  return options;
}

}  // namespace bochner::sparsity
