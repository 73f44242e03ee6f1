// Time and memory of attention, and of a whole Transformer, against the length of sequences.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

#include "autograd/fused/cross_entropy.h"
#include "engine/allocator.h"
#include "experiments/attention/mechanism_config.h"
#include "experiments/common/figures.h"
#include "experiments/common/interrupt.h"
#include "experiments/common/table.h"
#include "layers/models/encoder.h"

namespace bochner {
namespace {

struct Config {
  RunOptions run;
  std::vector<int64_t> lengths = {256, 512, 1024, 2048, 4096};
  std::vector<std::string> methods = {"softmax", "performer", "performer-relu", "gmm-prf", "fastfood-prf", "none"};
  int64_t layers = 6;
  int64_t dim = 64;
  int64_t heads = 1;
  int64_t hidden = 64;
  int64_t vocabulary = 256;
  int64_t repeats = 3;
  double limit_seconds = 20;
  bool causal = false;
  MechanismConfig mechanism;

  Config() {
    run.tasks = {"attention", "model"};
    run.task = "attention";
    run.batch = 1;
  }
  void fields(Fields& f) {
    run.fields(f);
    f("lengths", lengths, "tokens of a sequence").at_least(1);
    f("methods", methods, "mechanisms to compare; none returns V, the line X of PERF").one_of(attention_names());
    f("layers", layers, "encoder blocks of the model").at_least(1);
    f("dim", dim, "size of the residual stream; a head has dim / heads").at_least(1);
    f("heads", heads, "attention heads").at_least(1);
    f("hidden", hidden, "hidden units of the model's feed-forward blocks").at_least(1);
    f("vocabulary", vocabulary, "tokens of the model").at_least(1);
    f("repeats", repeats, "measurements, of which the shortest counts").at_least(1);
    f("limit-seconds", limit_seconds, "a mechanism goes no further behind a pass that took longer").above(0);
    f("causal", causal, "of attention: token i sees tokens 0 to i");
    f.group("mechanism", mechanism);
  }
};

struct Cost {
  double seconds = 0;
  double mebibytes = 0;  ///< the most that was held at once beyond what was there before
};

struct Costs {
  Cost forward, both;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The shortest of some calls, after one that does not count but where it is beyond the limit.
Cost cost_of(const Config& config, const std::function<void()>& call) {
  Allocator& allocator = Allocator::of(Device::named(config.run.device));
  Cost cost{.seconds = std::numeric_limits<double>::infinity()};
  for (int64_t i = 0; i <= config.repeats; ++i) {
    const int64_t before = allocator.stats().current_bytes;
    allocator.reset_peak();
    const double start = now();
    call();
    const double seconds = now() - start;
    cost.mebibytes = static_cast<double>(allocator.stats().peak_bytes - before) / (1 << 20);
    if (i > 0 || seconds > config.limit_seconds) cost.seconds = std::min(cost.seconds, seconds);
    if (seconds > config.limit_seconds) break;
  }
  return cost;
}

/// Forward alone without a tape, and forward with backward.
template <class Forward, class Both>
Costs costs_of(const Config& config, const Forward& forward, const Both& both) {
  return {cost_of(config, forward), cost_of(config, both)};
}

/// Of one mechanism on Q, K, V (batch, heads, length, dim / heads).
Costs attention_costs(const Config& config, const std::string& name, int64_t length) {
  const Device device = Device::named(config.run.device);
  Generator generator(config.run.seed);
  const int64_t head = config.dim / config.heads;
  const auto mechanism = mechanism_named(name).make({}, config.heads, head, config.mechanism.chosen(length), generator);
  mechanism->to(device, DType::f32);
  const auto random = [&] { return normal({config.run.batch, config.heads, length, head}, generator).to(device); };
  const Tensor Q = random(), K = random(), V = random(), dO = random();
  Context context{generator, true};
  const Mask mask{{}, config.causal};
  return costs_of(
      config, [&] { mechanism->forward(Q, K, V, mask, context); },
      [&] {
        Tape tape;
        const Variable q = tape.watch(Q), k = tape.watch(K), v = tape.watch(V);
        tape.gradients({mechanism->forward(q, k, v, mask, context)}, {dO}, {q, k, v});
      });
}

/// Of a training step of a classifier but for its optimizer.
Costs model_costs(const Config& config, const std::string& name, int64_t length) {
  const Device device = Device::named(config.run.device);
  Generator generator(config.run.seed);
  SequenceClassifier model(
      {.vocabulary = config.vocabulary,
       .length = length,
       .classes = 2,
       .layers = config.layers,
       .dim = config.dim,
       .hidden = config.hidden,
       .attention = {.attention = name, .heads = config.heads, .mechanism = config.mechanism.chosen(length)}},
      generator);
  model.to(device, DType::f32);
  const Tensor ids = integers({config.run.batch, length}, 0, config.vocabulary, generator).to(device);
  const Tensor labels = integers({config.run.batch}, 0, 2, generator).to(device);
  Context context{generator, true};
  const std::vector<Parameter*> parameters = model.parameters();
  return costs_of(
      config, [&] { model.forward(ids, {}, context); },
      [&] {
        {
          Tape tape;
          const Variable loss = cross_entropy(model.forward(ids, {}, context), labels);
          tape.backward(loss);
        }
        for (Parameter* parameter : parameters) parameter->grad = Tensor();
      });
}

void run(Config& config, Session& session) {
  if (config.dim % config.heads != 0) fail("efficiency: {} heads do not divide {}", config.heads, config.dim);
  if (config.causal && config.run.task != "attention") fail("efficiency: --causal is of --task attention");
  const std::string sizes =
      fmt::format("Batch {}, {} heads of {}, {} features{}. The shortest of {}.", config.run.batch, config.heads,
                  config.dim / config.heads, config.mechanism.options.features,
                  config.run.task == "model" ? fmt::format(", {} layers, {} hidden units", config.layers, config.hidden)
                  : config.causal            ? ", causal"
                                             : "",
                  config.repeats);
  const std::string x = "log2 of the length";
  std::vector<Figure> figures = {{"Time of forward", x, "log10 of seconds", {}, sizes},
                                 {"Time of forward and backward", x, "log10 of seconds", {}, sizes},
                                 {"Peak memory of forward", x, "log10 of MiB", {}, sizes},
                                 {"Peak memory of forward and backward", x, "log10 of MiB", {}, sizes}};
  Table table{{"mechanism", "length", "forward ms", "both ms", "forward MiB", "both MiB"}, {}};
  for (const std::string& name : config.methods) {
    for (Figure& figure : figures) figure.curves.push_back({name, 0, name == "none", {}});
    for (const int64_t length : config.lengths) {
      if (interrupted()) throw Interrupted("stopped; nothing is kept of a measurement that did not end");
      const Costs costs =
          config.run.task == "model" ? model_costs(config, name, length) : attention_costs(config, name, length);
      const double log_length = std::log2(static_cast<double>(length));
      const double values[] = {costs.forward.seconds, costs.both.seconds, costs.forward.mebibytes,
                               costs.both.mebibytes};
      for (size_t i = 0; i < figures.size(); ++i) {
        if (values[i] > 0) figures[i].curves.back().points.emplace_back(log_length, std::log10(values[i]));
      }
      table.rows.push_back({name, std::to_string(length), fmt::format("{:.3f}", 1e3 * values[0]),
                            fmt::format("{:.3f}", 1e3 * values[1]), fmt::format("{:.2f}", values[2]),
                            fmt::format("{:.2f}", values[3])});
      session.log.info("{:<20} L = {:<7} {:.3f} ms forward, {:.3f} ms with backward, {:.2f} MiB", name, length,
                       1e3 * values[0], 1e3 * values[1], values[3]);
      if (costs.both.seconds > config.limit_seconds) {
        session.log.info("{:<20} goes no further: more than {} s (--limit-seconds)", name, config.limit_seconds);
        break;
      }
    }
  }
  fmt::print("{}", table.text());
  write_figures(session, figures);
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>(
      {"efficiency", "Time and memory of attention against the length", bochner::embedded_resources()}, argc, argv,
      bochner::run);
}
