// Image fitting (SNNK G.1.2, Fig. 3): a SIREN, and one with SNNK layers in place of its hidden layers, learn a picture,
// so that their first and second derivatives approximate those of the picture.
#include <filesystem>

#include "engine/io/png.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/common/report/image.h"
#include "experiments/learners/coordinates/field.h"
#include "experiments/learners/coordinates/picture.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header
using siren::Picture;
using siren::psnr;

constexpr double kPeak = 2;  // of pixels in [-1, 1]
constexpr int64_t kPixelsAtOnce = 8192;

const Metric kPsnr{.name = "psnr", .of = [](const Answers& a) { return psnr(a.values, a.truths, kPeak); }};

struct Config {
  RunOptions run;
  int64_t size = 256;
  coordinates::ModelConfig model;
  SnnkOptimConfig optim;

  Config() {
    run.task = "image";
    run.tasks = {"image"};
    run.attentions = coordinates::layer_names();
    run.attention = "snnk-sin";
    run.steps = 500;
    run.batch = 65536;
    run.data = "still-life";
    optim.optimizer = "adam";
    optim.rate = 1e-4;
    optim.weight_decay = 0;
    optim.evaluate_every = 100;
  }
  void fields(Fields& f) {
    run.fields(f);
    f.at("data").means("the picture: a PNG, or still-life or dead-leaves, which are generated");
    f.at("attention").means("kind of the hidden layers; A,B,... runs with each and compares them");
    f("size", size, "pixels on each side of a generated picture")
        .at_least(3)
        .only("with --data=still-life or dead-leaves", [this] { return is_generated(); });
    f.group("model", model);
    f.group("optim", optim);
  }
  bool is_generated() const { return run.data == "still-life" || run.data == "dead-leaves"; }
  Picture picture() const {
    if (run.data == "still-life") return siren::still_life(size);
    if (run.data == "dead-leaves") return siren::dead_leaves(size);
    if (!std::filesystem::exists(run.data))
      fail("--data={}: there is no such file; name a PNG, or say still-life or dead-leaves", run.data);
    return siren::read_picture(run.data);
  }
};

Shape with_channels(const Shape& shape, int64_t channels) { return {shape[0], shape[1], channels}; }

/// psnr of the picture; on the test set, which is the same picture, also psnr of gradient and Laplacian.
Problem problem_of(const Config& config, const Picture& picture) {
  const auto model = coordinates::siren_of(
      config.run, coordinates::siren_options(config.model, config.run.attention, SirenOptions::Activation::sin, 2));
  const Examples pixels = coordinates::points(
      {{"points", picture.coordinates()}, {"values", picture.values.reshape({picture.pixels(), 1})}});
  Problem problem = coordinates::of_field(config.run, model, config.optim, pixels);
  problem.objective = std::make_shared<Regression>();
  problem.split = [pixels](Split) { return std::make_unique<coordinates::PointsInOrder>(pixels, kPixelsAtOnce); };
  problem.only_set = "picture";
  problem.metrics = {kPsnr};
  problem.further = [model, &picture, device = Device::named(config.run.device)](Split split, const Answers&,
                                                                                 Metrics& metrics) {
    if (split == Split::valid) return;
    const FieldDerivatives found = coordinates::derivatives(*model, picture.coordinates().to(device));
    const auto add = [&](const char* name, const Tensor& own, const Tensor& field) {
      const auto [low, high] = range_of(field);
      if (high > low)
        metrics.emplace_back(name, psnr(own.to(Device::cpu()).reshape(field.shape()), field, high - low, 1));
    };
    add("psnr-gradient", found.gradient, picture.gradient);  // undefined for a constant picture
    add("psnr-laplacian", found.laplacian, picture.laplacian);
  };
  return problem;
}

/// Lengths of gradients: (height, width)
Tensor lengths(const Tensor& gradient) { return sqrt(sum(gradient * gradient, {2})); }

/// The best model's picture and derivatives next to the true ones, as PNG files and for the report.
ReportFigure drawn(const Config& config, const Picture& picture, const RunRecord& record) {
  const auto model = coordinates::siren_of(
      config.run, coordinates::siren_options(config.model, config.run.attention, SirenOptions::Activation::sin, 2));
  load_module(*model, State::load(record.folder / kCheckpointBest));
  const Shape shape = picture.values.shape();
  const FieldDerivatives found = coordinates::derivatives(*model, picture.coordinates());
  const Tensor slopes = lengths(picture.gradient);
  const double steepest = std::max(1e-12, range_of(slopes).second);
  const auto [low, high] = range_of(picture.laplacian);
  const double bend = std::max({1e-12, -low, high}) / 2;
  std::string html;
  const auto add = [&](const std::string& file, const std::string& caption, const Tensor& image) {
    write_png(record.folder / file, image);
    html += image_html(image, caption);
  };
  add("image-true.png", "image", grey_image(picture.values, -1, 1));
  add("gradient-true.png", "length of its gradient", grey_image(slopes, 0, steepest));
  add("laplacian-true.png", "its Laplacian", grey_image(picture.laplacian, -bend, bend));
  html += "<br>";
  add("image.png", record.attention + ": image", grey_image(found.value.reshape(shape), -1, 1));
  add("gradient.png", "length of its gradient",
      grey_image(lengths(found.gradient.reshape(with_channels(shape, 2))), 0, steepest));
  add("laplacian.png", "its Laplacian", grey_image(found.laplacian.reshape(shape), -bend, bend));
  return {"Image, gradient and Laplacian: the true ones above, those of the network below", html};
}

void run(Config& config, Session& session) {
  require_places(session);
  const Picture picture = config.picture();
  session.log.info("{}: {} x {} pixels", config.run.data, picture.height(), picture.width());
  session.after_run = [&](const RunRecord& record) { return std::vector{drawn(config, picture, record)}; };
  train_runs(session, plan_by(kPsnr, config.run, config.optim),
             [&] { return std::make_unique<Learner>(config.run, config.optim, problem_of(config, picture)); });
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<Config>(
      {"siren", "Image fitting: a SIREN, and the same network with SNNK in its hidden layers",
       bochner::embedded_resources()},
      argc, argv, run);
}
