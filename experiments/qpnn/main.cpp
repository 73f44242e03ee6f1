// Potentials of quantum systems from their wavefunctions (SNNK G.1.1, Fig. 3; Sehanobish et al., 2021): a network V(x)
// is trained until Schrodinger's equation holds with one energy everywhere.
#include <cmath>

#include "engine/io/data_log.h"
#include "engine/io/elements.h"
#include "engine/io/png.h"
#include "engine/ops/binary.h"
#include "engine/ops/join.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/common/report/image.h"
#include "experiments/learners/coordinates/field.h"
#include "experiments/learners/coordinates/quantum.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header
using namespace qpnn;     // NOLINT

constexpr int64_t kPicture = 96;  // pixels a side
constexpr int kContours = 12;

struct Config {
  RunOptions run;
  int states = 1;
  int64_t points = 10000;
  double box = 2.5;
  double spring = 1;
  coordinates::ModelConfig model;
  SnnkOptimConfig optim;

  Config() {
    run.task = "two-body";
    run.tasks = {"harmonic", "two-body"};
    run.attentions = coordinates::layer_names();
    run.attention = "snnk-cos";
    run.steps = 5000;
    run.batch = 512;
    model.width = 128;
    model.hidden = 1;
    model.omega = 1;
    model.features = 32;
    optim.optimizer = "adam";
    optim.weight_decay = 0;
  }
  void fields(Fields& f) {
    run.fields(f);
    f.at("attention").means("kind of the hidden layers; A,B,... runs with each and compares them");
    f("states", states, "how many of the lowest states are observed, 1 to 4").at_least(1);
    f("points", points, "training points at which they are observed; a fifth as many validate and test").at_least(10);
    f("box", box, "points are drawn from [-box, box]^2").above(0);
    f("spring", spring, "strength of the spring between the particles")
        .at_least(0)
        .only("with --task=two-body", [this] { return run.task == "two-body"; });
    f.group("model", model);
    f.group("optim", optim);
  }
  System system() const {
    if (states > System::kStates) fail("qpnn: --states={}; there are 1 to {}", states, System::kStates);
    return System::named(run.task, spring);
  }
};

struct Data {
  Observations train, valid, test;
};

Data observed(const Config& config) {
  Generator generator = stream_of(config.run.seed, Stream::order);  // the batches' order needs no other stream
  const auto at = [&](int64_t points) {
    return observe(config.system(), config.states, points, config.box, generator);
  };
  const int64_t part = std::max<int64_t>(10, config.points / 5);
  Data data;
  data.train = at(config.points);
  data.valid = at(part);
  data.test = at(part);
  for (const auto& [name, seen] : {std::pair{"train", &data.train}, {"valid", &data.valid}, {"test", &data.test}}) {
    log_generated(fmt::format("{} {}", config.run.task, name),
                  {bytes_of(seen->points), bytes_of(seen->psi), bytes_of(seen->kinetic)});
  }
  return data;
}

/// The density of the particles: the sum of the states' densities, each with mean 1.  (n)
Tensor density(const Tensor& psi) {
  const Tensor square_psi = psi * psi;
  return sum(square_psi / mean(square_psi, {0}), {1});
}

Examples examples_of(const Observations& seen) {
  return coordinates::points({{"points", seen.points}, {"psi", seen.psi}, {"kinetic", seen.kinetic}});
}

/// Schrodinger's equation at the points of a batch: its energies are means over them, so a batch cannot be divided.
class Residual final : public Regression {
 public:
  Variable loss(const Outputs& outputs, const Examples& examples) const override {
    return schrodinger_residual(outputs[0], examples.at("psi"), examples.at("kinetic"));
  }
  Tensor terms(const Examples&) const override { return {}; }
  void collect(const Outputs& outputs, const Examples&, Answers& to) const override {
    for (const double value : outputs[0].value().to_vector<double>()) to.values.push_back(value);
  }
};

/// Metrics: loss, and error, that of the potential, weighted by the particles' density, relative to its variation.
Problem problem_of(const Config& config, const Data& data) {
  const auto model = coordinates::siren_of(
      config.run, coordinates::siren_options(config.model, config.run.attention, SirenOptions::Activation::tanh, 2));
  Problem problem = coordinates::of_field(config.run, model, config.optim, examples_of(data.train));
  problem.objective = std::make_shared<Residual>();
  problem.split = [data](Split split) {
    const Observations& seen = split == Split::valid ? data.valid : data.test;
    return std::make_unique<coordinates::PointsInOrder>(examples_of(seen), seen.points.size(0));
  };
  problem.metrics = metrics_named({"loss"});
  problem.further = [data, system = config.system()](Split split, const Answers& answers, Metrics& metrics) {
    const Observations& seen = split == Split::valid ? data.valid : data.test;
    const Tensor V = Tensor::from(answers.values, {seen.points.size(0)});
    const Tensor truth = system.potential(seen.points.cast(DType::f64));
    metrics.emplace_back("error", potential_error(V, truth, density(seen.psi)).relative);
  };
  return problem;
}

/// The true potential, the learnt one and the particles' density, as PNG files and for the report.
ReportFigure drawn(const Config& config, const RunRecord& record) {
  const auto model = coordinates::siren_of(
      config.run, coordinates::siren_options(config.model, config.run.attention, SirenOptions::Activation::tanh, 2));
  load_module(*model, State::load(record.folder / kCheckpointBest));
  const System system = config.system();
  Tensor x = Tensor::empty({kPicture * kPicture, 2}, DType::f64);
  for (int64_t i = 0; i < x.size(0); ++i) {
    const auto place = [&](int64_t pixel) {
      return config.box * (2 * static_cast<double>(pixel) / (kPicture - 1) - 1);
    };
    x.data<double>()[2 * i] = place(i / kPicture);
    x.data<double>()[2 * i + 1] = place(i % kPicture);
  }
  std::vector<Tensor> psi;
  for (int state = 0; state < config.states; ++state) {
    psi.push_back(system.wavefunction(state, x).value().reshape({x.size(0)}));
  }
  const Tensor rho = density(stack(psi, 1));
  const Tensor truth = system.potential(x);
  const Tensor V = coordinates::values(*model, x.cast(DType::f32)).cast(DType::f64);
  const double shift = potential_error(V, truth, rho).shift;
  const auto [low, high] = range_of(truth);
  std::string html;
  const auto add = [&](const std::string& file, const std::string& caption, const Tensor& image) {
    write_png(record.folder / file, image);
    html += image_html(image, caption);
  };
  const auto square_of = [](const Tensor& field) { return field.reshape({kPicture, kPicture}); };
  add("potential-true.png", "true potential", heat_image(square_of(truth), low, high, kContours));
  add("potential.png", record.attention + ": learned potential",
      heat_image(square_of(V - shift), low, high, kContours));
  add("density.png", "where the particles are", heat_image(square_of(rho), 0, range_of(rho).second));
  return {fmt::format("Potential over [-{0}, {0}]^2, lines at equal steps of energy", config.box), html};
}

void run(Config& config, Session& session) {
  config.system();
  session.after_run = [&](const RunRecord& record) { return std::vector{drawn(config, record)}; };
  train_runs(session, plan_by(metrics_named({"loss"})[0], config.run, config.optim),
             [&] { return std::make_unique<Learner>(config.run, config.optim, problem_of(config, observed(config))); });
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<Config>({.name = "qpnn",
                                   .summary = "Potentials of quantum systems, learned from their wavefunctions",
                                   .resources = bochner::embedded_resources(),
                                   .refused = {"sequence-shards", "accumulate", "shards"}},
                                  argc, argv, run);
}
