#include "experiments/learners/coordinates/field.h"

#include <algorithm>
#include <numeric>

#include "engine/ops/index.h"
#include "engine/ops/join.h"

namespace bochner::coordinates {
namespace {

constexpr int64_t kRowsAtOnce = 8192;

/// Calls f(begin, end) for one piece of rows after the other.
template <class F>
void for_pieces(int64_t rows, const F& f) {
  for (int64_t begin = 0; begin < rows; begin += kRowsAtOnce) f(begin, std::min(rows, begin + kRowsAtOnce));
}

}  // namespace

PointFeed::PointFeed(Examples all, int64_t count, const Generator& draws)
    : all_(std::move(all)), count_(count), first_(draws), draws_(draws) {}

Examples PointFeed::next() {
  if (count_ >= all_.size()) return all_;
  const Tensor rows = integers({count_}, 0, all_.size(), draws_);
  Examples some;
  for (const auto& [name, tensor] : all_.tensors) some.tensors.emplace_back(name, take(tensor, rows));
  some.numbers = rows.to_vector<int64_t>();
  return some;
}

void PointFeed::go_to(int64_t step) {
  draws_ = first_;
  next();  // every draw takes the same number of random numbers
  const uint64_t each = draws_.offset() - first_.offset();
  draws_ = Generator(first_.seed(), first_.offset() + static_cast<uint64_t>(step) * each);
}

PointsInOrder::PointsInOrder(Examples all, int64_t piece) : all_(std::move(all)), piece_(piece) {}

Examples PointsInOrder::next() {
  const int64_t begin = step_++ % steps_per_epoch() * piece_;
  const int64_t end = std::min(all_.size(), begin + piece_);
  Examples some;
  for (const auto& [name, tensor] : all_.tensors) some.tensors.emplace_back(name, tensor.slice(0, begin, end));
  some.numbers.assign(all_.numbers.begin() + begin, all_.numbers.begin() + end);
  return some;
}

Examples points(std::vector<std::pair<std::string, Tensor>> tensors) {
  Examples all;
  all.tensors = std::move(tensors);
  all.numbers.resize(static_cast<size_t>(all.tensors.front().second.size(0)));
  std::iota(all.numbers.begin(), all.numbers.end(), int64_t{0});
  return all;
}

Problem of_field(const RunOptions& run, std::shared_ptr<Siren> model, const SnnkOptimConfig& optim, Examples train) {
  Problem problem;
  problem.model = model;
  problem.groups = optim.rules(model->snnk_weights());
  problem.forward = [model](const Examples& examples, Context&) -> Outputs {
    return {model->forward(examples.at("points"))};
  };
  // This is also the Learner's own stream, which is harmless as long as these models draw nothing in training.
  problem.train = std::make_unique<PointFeed>(std::move(train), run.batch, stream_of(run.seed, Stream::noise));
  return problem;
}

std::shared_ptr<Siren> siren_of(const RunOptions& run, const SirenOptions& options) {
  Generator init = stream_of(run.seed, Stream::init);
  return std::make_shared<Siren>(Slot{}, options, init);
}

Tensor values(const Siren& model, const Tensor& x) {
  std::vector<Tensor> parts;
  for_pieces(x.size(0),
             [&](int64_t begin, int64_t end) { parts.push_back(model.forward(x.slice(0, begin, end)).value()); });
  return concat(parts, 0).reshape({x.size(0)});
}

FieldDerivatives derivatives(const Siren& model, const Tensor& x) {
  std::vector<Tensor> values;
  std::vector<Tensor> gradients;
  std::vector<Tensor> laplacians;
  for_pieces(x.size(0), [&](int64_t begin, int64_t end) {
    const FieldDerivatives found =
        field_derivatives([&](const Variable& at) { return model.forward(at); }, x.slice(0, begin, end).contiguous());
    values.push_back(found.value);
    gradients.push_back(found.gradient);
    laplacians.push_back(found.laplacian);
  });
  return {concat(values, 0), concat(gradients, 0), concat(laplacians, 0)};
}

}  // namespace bochner::coordinates
