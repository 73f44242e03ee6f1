#include "experiments/learners/rows/mnist.h"

#include <cmath>

#include "datasets/images/images.h"

namespace bochner::mnist {
namespace {

constexpr double kValidShare = 0.25;

TableSplit rows_of(const images::Images& images) {
  const int64_t count = images.count();
  TableSplit split;
  split.features = Tensor::from(images.pixels, {count, images.bytes_of_one()}).cast(DType::f32);
  split.labels = Tensor::from(images.labels, {count}).cast(DType::i64);
  return split;
}

TableSplits load(const RunOptions& run) {
  const images::ImageSets sets = images::hold_out(images::read_mnist(run.data, run.task), kValidShare);
  TableSplits splits;
  splits.train = rows_of(sets.train);
  splits.valid = rows_of(sets.valid);
  splits.test = rows_of(sets.test);
  splits.classes = std::ssize(sets.classes);
  splits.rule = "official test; every fourth training image of a class validates";
  double mean = 0;
  double square = 0;
  const float* const pixels = splits.train.features.data<float>();
  const int64_t count = splits.train.features.size();
  for (int64_t i = 0; i < count; ++i) {
    mean += pixels[i];
    square += static_cast<double>(pixels[i]) * pixels[i];
  }
  mean /= static_cast<double>(count);
  const double deviation = std::sqrt(std::max(1e-12, square / static_cast<double>(count) - mean * mean));
  for (const TableSplit* split : {&splits.train, &splits.valid, &splits.test}) {
    float* const values = split->features.data<float>();
    for (int64_t i = 0; i < split->features.size(); ++i) {
      values[i] = static_cast<float>((values[i] - mean) / deviation);
    }
  }
  return splits;
}

rows::RowTask task(const std::string& name) {
  rows::RowTask entry;
  entry.name = name;
  entry.load = [](const RunOptions& run, const Messages&) { return load(run); };
  return entry;
}

}  // namespace

Config::Config() {
  tasks = {task("mnist"), task("fashion-mnist")};
  run.tasks = names_of(tasks);
  run.task = run.tasks.front();
  run.attentions = rows::layer_names();
  run.attention = "snnk-relu";
  run.steps = 35150;  // 25 epochs of 45,000 images
  run.batch = 32;
  run.data = "data";
  model.dropout = 0.2;
  optim.optimizer = "adam";
  optim.weight_decay = 0;
  optim.evaluate_every = 1406;
}

}  // namespace bochner::mnist
