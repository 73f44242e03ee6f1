#include "experiments/learners/rows/mnist.h"

#include <cmath>
#include <filesystem>

#include "engine/io/idx.h"
#include "engine/ops/index.h"

namespace bochner::mnist {
namespace {

constexpr double kValidShare = 0.25;
constexpr int64_t kClasses = 10;

/// The file in `folder`, plain or .gz.
std::filesystem::path found(const std::filesystem::path& folder, const std::string& name, const std::string& how) {
  for (const char* end : {"", ".gz"}) {
    if (std::filesystem::is_regular_file(folder / (name + end))) return folder / (name + end);
  }
  fail("mnist: {} is missing, plain or .gz; {}", (folder / name).string(), how);
}

TableSplit read_split(const std::filesystem::path& folder, const std::string& name, const std::string& how) {
  const std::filesystem::path images_file = found(folder, name + "-images-idx3-ubyte", how);
  const std::filesystem::path labels_file = found(folder, name + "-labels-idx1-ubyte", how);
  const Tensor images = read_idx(images_file);
  const Tensor labels = read_idx(labels_file);
  if (images.rank() != 3 || labels.rank() != 1 || images.size(0) != labels.size(0) || images.size() == 0 ||
      images.dtype() != DType::u8 || labels.dtype() != DType::u8) {
    fail("{}: images {} and labels {} of {}; they must be bytes (n, height, width) and (n)", images_file.string(),
         images.str(), labels.str(), labels_file.string());
  }
  TableSplit split;
  split.features = images.reshape({images.size(0), images.size(1) * images.size(2)}).cast(DType::f32);
  split.labels = labels.cast(DType::i64);
  for (int64_t i = 0; i < split.rows(); ++i) {
    const int64_t label = split.labels.data<int64_t>()[i];
    if (label >= kClasses) {
      fail("{}: label {}, counted from 0, is {}; there are 0 to {}", labels_file.string(), i, label, kClasses - 1);
    }
  }
  return split;
}

TableSplit chosen(const TableSplit& from, const std::vector<int64_t>& rows) {
  const Tensor index = Tensor::from(rows, {static_cast<int64_t>(rows.size())});
  TableSplit split;
  split.features = take(from.features, index);
  split.labels = take(from.labels, index);
  return split;
}

TableSplits load(const RunOptions& run) {
  const std::filesystem::path below = std::filesystem::path(run.data) / run.task;
  const std::filesystem::path folder = std::filesystem::is_directory(below) ? below : std::filesystem::path(run.data);
  const std::string how = run.task == "fashion-mnist"
                              ? "./run data make fashion-mnist --data DIR fetches Fashion-MNIST into DIR/fashion-mnist"
                              : "name the folder of the four IDX files with --data";
  const TableSplit all = read_split(folder, "train", how);
  TableSplits splits;
  splits.test = read_split(folder, "t10k", how);
  if (splits.test.features.size(1) != all.features.size(1)) {
    fail("{}: test images have {} pixels, training images {}", folder.string(), splits.test.features.size(1),
         all.features.size(1));
  }
  splits.classes = kClasses;
  std::vector<int64_t> seen(kClasses);
  std::vector<int64_t> train;
  std::vector<int64_t> valid;
  for (int64_t i = 0; i < all.rows(); ++i) {
    const int64_t label = all.labels.data<int64_t>()[i];
    const auto n = static_cast<double>(seen[static_cast<size_t>(label)]++);
    const bool validates = std::floor((n + 1) * kValidShare) > std::floor(n * kValidShare);  // every fourth of a class
    (validates ? valid : train).push_back(i);
  }
  if (train.empty() || valid.empty()) fail("{}: {} training images are too few", folder.string(), all.rows());
  splits.train = chosen(all, train);
  splits.valid = chosen(all, valid);
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
