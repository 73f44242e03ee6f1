#include "experiments/efficiency/benches.h"

#include <fmt/format.h>

#include <memory>

#include "autograd/fused/cross_entropy.h"
#include "engine/error.h"
#include "layers/models/encoder.h"

namespace bochner::efficiency {
namespace {

MechanismOptions options_at(const Method& method, int64_t length) {
  return MechanismOptions(method.mechanism).set_default_length(length);
}

/// One mechanism on Q, K, V (batch, heads, length, head).
Bench attention_bench(const Config& config, const Method& method, int64_t length) {
  struct State {
    Generator generator;
    std::unique_ptr<Mechanism> mechanism;
    Tensor Q, K, V, dO;
    Mask mask;
  };
  const Device device = Device::named(config.run.device);
  const int64_t head = config.head_size();
  const auto state = std::make_shared<State>();
  state->generator = Generator(config.run.seed);
  state->mechanism = make_mechanism({}, config.heads, head, options_at(method, length), state->generator);
  state->mechanism->to(device, DType::f32);
  for (Tensor* tensor : {&state->Q, &state->K, &state->V, &state->dO}) {
    *tensor = normal({config.run.batch, config.heads, length, head}, state->generator).to(device);
  }
  state->mask = Mask{{}, config.causal};
  return {[state] {
            Context context{state->generator, true};
            state->mechanism->forward(state->Q, state->K, state->V, state->mask, context);
          },
          [state] {
            Context context{state->generator, true};
            Tape tape;
            const Variable q = tape.watch(state->Q), k = tape.watch(state->K), v = tape.watch(state->V);
            tape.gradients({state->mechanism->forward(q, k, v, state->mask, context)}, {state->dO}, {q, k, v});
          }};
}

/// A training step of a classifier without its optimizer.
Bench model_bench(const Config& config, const Method& method, int64_t length) {
  struct State {
    Generator generator;
    std::unique_ptr<SequenceClassifier> model;
    std::vector<Parameter*> parameters;
    Tensor ids, labels;
  };
  const Device device = Device::named(config.run.device);
  const auto state = std::make_shared<State>();
  state->generator = Generator(config.run.seed);
  state->model =
      std::make_unique<SequenceClassifier>(EncoderOptions{.vocabulary = config.vocabulary,
                                                          .length = length,
                                                          .classes = 2,
                                                          .layers = method.layers,
                                                          .dim = config.dim,
                                                          .hidden = config.hidden,
                                                          .attention = {.mechanism = options_at(method, length),
                                                                        .heads = config.heads,
                                                                        .head_dim = config.head_size()}},
                                           state->generator);
  state->model->to(device, DType::f32);
  state->parameters = state->model->parameters();
  state->ids = integers({config.run.batch, length}, 0, config.vocabulary, state->generator).to(device);
  state->labels = integers({config.run.batch}, 0, 2, state->generator).to(device);
  return {[state] {
            Context context{state->generator, true};
            state->model->forward(state->ids, {}, context);
          },
          [state] {
            Context context{state->generator, true};
            {
              Tape tape;
              tape.backward(cross_entropy(state->model->forward(state->ids, {}, context), state->labels));
            }
            for (Parameter* parameter : state->parameters) parameter->grad = Tensor();
          }};
}

}  // namespace

Bench bench_at(const Config& config, const Method& method, int64_t value) {
  Config here = config;
  Method sized = method;
  if (config.against == "head-dim") {
    here.head_dim = value;
  } else if (config.against != "length") {
    sized.mechanism.set_known({{config.against, value}});
  }
  const int64_t length = config.against == "length" ? value : config.lengths.front();
  return config.is_model() ? model_bench(here, sized, length) : attention_bench(here, sized, length);
}

std::vector<Method> methods_of(const Config& config) {
  if (!config.features.empty() && config.features.size() != config.methods.size()) {
    fail("efficiency: {} --features for {} --methods; give one for each, or none", config.features.size(),
         config.methods.size());
  }
  std::vector<Method> methods;
  for (const int64_t layers : config.is_model() ? config.layers : std::vector<int64_t>{0}) {
    for (size_t i = 0; i < config.methods.size(); ++i) {
      Method method{config.mechanism.chosen(config.methods[i]), layers, config.methods[i]};
      if (!config.features.empty() && config.features[i] > 0) {
        method.mechanism.set_known({{"features", config.features[i]}});
        method.label += fmt::format(" {}", config.features[i]);
      }
      if (config.is_model() && config.layers.size() > 1) method.label += fmt::format(", {} layers", layers);
      methods.push_back(method);
    }
  }
  return methods;
}

}  // namespace bochner::efficiency
