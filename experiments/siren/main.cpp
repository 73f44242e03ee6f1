// Image fitting (SNNK G.1.2, Fig. 3): a SIREN, and the same with SNNK in place of its hidden layers, learn a picture;
// their first and second derivatives are then those of the picture, too.
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "engine/io/png.h"
#include "engine/ops/index.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "experiments/common/program/program.h"
#include "experiments/common/report/image.h"
#include "experiments/common/run/run.h"
#include "experiments/learners/coordinates/learner.h"
#include "experiments/learners/coordinates/picture.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header
using siren::Picture;
using siren::psnr;

constexpr double kPeak = 2;  // of pixels in [-1, 1]

struct Config {
  RunOptions run;
  int64_t size = 256;
  fields::ModelConfig model;
  classifier::OptimConfig optim;

  Config() {
    run.task = "image";
    run.tasks = {"image"};
    run.attentions = fields::layer_names();
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
    f("size", size, "--data=still-life or dead-leaves: pixels a side of the generated picture").at_least(3);
    f.group("model", model);
    f.group("optim", optim);
  }
  Picture picture() const {
    if (run.data == "still-life") return siren::still_life(size);
    return run.data == "dead-leaves" ? siren::dead_leaves(size) : siren::read_picture(run.data);
  }
};

class Learner final : public fields::FieldLearner {
 public:
  Learner(const Config& config, const Picture& picture)
      : FieldLearner(config.run, fields::siren_options(config.model, config.run.attention, "sin", 2), config.optim,
                     picture.coordinates()),
        picture_(picture),
        points_(picture.coordinates()),
        pixels_(picture.values.reshape({picture.pixels(), 1})) {}

  /// psnr of the picture; of the test, which is the same picture, also those of gradient and Laplacian.
  Metrics evaluate(Split split) override {
    const Shape shape = picture_.values.shape();
    if (split == Split::valid) return {{"psnr", psnr(values(points_).reshape(shape), picture_.values, kPeak)}};
    const FieldDerivatives found = derivatives(points_);
    const auto peak = [](const Tensor& field) {
      const auto [low, high] = range_of(field);
      return std::max(1e-12, high - low);
    };
    return {{"psnr", psnr(found.value.reshape(shape), picture_.values, kPeak)},
            {"psnr-gradient",
             psnr(found.gradient.reshape({shape[0], shape[1], 2}), picture_.gradient, peak(picture_.gradient), 1)},
            {"psnr-laplacian", psnr(found.laplacian.reshape(shape), picture_.laplacian, peak(picture_.laplacian), 1)}};
  }

 protected:
  Variable loss(const Variable& y, const Tensor& rows) const override {
    const bool all = rows.size() == pixels_.size();
    return mean(square(y - Variable(all ? pixels_ : take(pixels_, rows))));
  }

 private:
  const Picture& picture_;
  Tensor points_;
  Tensor pixels_;  ///< (n, 1)
};

/// Lengths of gradients: (height, width)
Tensor lengths(const Tensor& gradient) { return sqrt(sum(gradient * gradient, {2})); }

/// The best model's picture and derivatives beside the true ones, as PNG files and for the report.
ReportFigure drawn(const Config& config, const Picture& picture, const RunRecord& record) {
  Learner learner(config, picture);
  learner.load_model(State::load(record.folder / "checkpoint-best"));
  const Shape shape = picture.values.shape();
  const FieldDerivatives found = learner.derivatives(picture.coordinates());
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
      grey_image(lengths(found.gradient.reshape({shape[0], shape[1], 2})), 0, steepest));
  add("laplacian.png", "its Laplacian", grey_image(found.laplacian.reshape(shape), -bend, bend));
  return {"Image, gradient and Laplacian: the true ones above, those of the network below", html};
}

void run(Config& config, Session& session) {
  const Picture picture = config.picture();
  session.log.info("{}: {} x {} pixels", config.run.data, picture.height(), picture.width());
  TrainPlan plan{.steps = config.run.steps, .evaluate_every = config.optim.evaluate_every};
  plan.best_by = "psnr";
  session.draw = [&](const RunRecord& record) { return std::vector{drawn(config, picture, record)}; };
  train_runs(session, plan, [&] { return std::make_unique<Learner>(config, picture); });
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<Config>({"siren", "Image fitting: a SIREN against the same with SNNK in its hidden layers",
                                   bochner::embedded_resources()},
                                  argc, argv, run);
}
