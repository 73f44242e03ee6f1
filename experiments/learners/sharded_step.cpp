#include "experiments/learners/sharded_step.h"

#include <algorithm>
#include <utility>

#include "engine/error.h"
#include "engine/io/elements.h"
#include "engine/io/xxh3.h"
#include "engine/ops/binary.h"
#include "experiments/common/program/processes.h"

namespace bochner {
namespace {

/// Adds where both are there. A gradient that is missing counts as nothing.
void add_gradient(Tensor& to, const Tensor& x) {
  if (!to.defined()) {
    to = x;
  } else if (x.defined()) {
    add_(to, x);
  }
}

}  // namespace

ShardedStep::ShardedStep(Module& model, Communicator& comm, int shards, int slices, bool fast)
    : model_(model),
      parameters_(model.parameters()),
      comm_(comm),
      tree_(shards * slices, comm.size()),
      slices_(slices),
      fast_(fast) {}

ShardedStep::State ShardedStep::buffers() {
  State all = model_.state();
  for (const Parameter* parameter : parameters_) all.erase(parameter->name);
  return all;
}

ShardedStep::State ShardedStep::copied_buffers() {
  State copies;
  for (const auto& [name, tensor] : buffers()) copies[name] = tensor.clone();
  return copies;
}

void ShardedStep::set_buffers(const State& state) {
  for (const auto& [name, tensor] : buffers()) tensor.copy_(state.at(name));
}

std::vector<Tensor> ShardedStep::take_gradients() {
  std::vector<Tensor> gradients;
  for (Parameter* parameter : parameters_) gradients.push_back(std::exchange(parameter->grad, Tensor()));
  return gradients;
}

void ShardedStep::compare_buffers(int64_t i) {
  std::map<std::string, std::string> left;
  for (const auto& [name, tensor] : buffers()) {
    const Tensor values = tensor.contiguous().to(Device::cpu());
    left[name] = xxh3_of(bytes_of(values));
  }
  if (left_.empty()) left_ = left;
  for (const auto& [name, hash] : left) {
    if (left_.at(name) == hash) continue;
    fail(
        "{}: shard {} leaves it other than the shards before it, so it depends on the examples of a shard; train this "
        "model in one process, without --shards",
        name, i);
  }
}

ShardedStep::Sums ShardedStep::run_part(const Part& part, int64_t i) {
  set_buffers(before_);
  Sums sums;
  sums.numbers = part(i, nullptr);
  if (compares_) compare_buffers(i);
  sums.gradients = take_gradients();
  return sums;
}

/// Which processes hold which slices of a shard.
ShardTree ShardedStep::holders_of(int shard) const {
  const int begin = shard * slices_;
  const int first = tree_.holder_of(begin);
  std::vector<int> begins;
  for (int r = first; r <= tree_.holder_of(begin + slices_ - 1); ++r) {
    begins.push_back(std::max(tree_.leaves_of(r).begin - begin, 0));
  }
  begins.push_back(slices_);
  return {begins, first};
}

/// The slices of a shard that this process holds, in turns: each with its own gradients and buffers.
void ShardedStep::run_slices(const Part& part, int64_t shard, int64_t length) {
  struct Own {
    Sums sums;
    State buffers;
  };
  std::map<int, Own> own;
  const ShardTree holders = holders_of(static_cast<int>(shard));
  SequenceSlices slices(comm_, holders);
  const SequenceSlices::Turns turns{.begin =
                                        [&](int number) {
                                          const auto [place, is_new] = own.try_emplace(number);
                                          set_buffers(is_new ? before_ : place->second.buffers);
                                          const std::vector<Tensor>& gradients = place->second.sums.gradients;
                                          for (size_t p = 0; p < gradients.size(); ++p)
                                            parameters_[p]->grad = gradients[p];
                                        },
                                    .end =
                                        [&](int number) {
                                          own[number].sums.gradients = take_gradients();
                                          own[number].buffers = copied_buffers();
                                        }};
  slices.run(
      length,
      [&](SequenceSlice& slice) {
        const int64_t leaf = shard * slices_ + slice.number();
        const Tensor numbers = part(leaf, &slice);
        if (compares_) compare_buffers(leaf);
        own[slice.number()].sums.numbers = numbers;
      },
      turns);
  for (auto& [number, one] : own) done_[shard * slices_ + number] = std::move(one.sums);
}

ShardedStep::Sums ShardedStep::sum_of(ShardTree::Node node, const Part& part, int64_t length) {
  if (node.is_leaf() && slices_ == 1) return run_part(part, node.begin);
  if (node.is_leaf()) {  // leaves come in order: with the first one of a shard all of its slices run
    if (!done_.contains(node.begin)) run_slices(part, node.begin / slices_, length);
    Sums sums = std::move(done_.at(node.begin));
    done_.erase(node.begin);
    return sums;
  }
  Sums sums = sum_of(node.left(), part, length);
  const Sums right = sum_of(node.right(), part, length);
  for (size_t p = 0; p < parameters_.size(); ++p) add_gradient(sums.gradients[p], right.gradients[p]);
  add_(sums.numbers, right.numbers);
  return sums;
}

ShardedStep::Sums ShardedStep::over_processes(std::vector<Sums> held) {
  // One row of numbers: the gradients of all parameters, then for each of them whether there is one.
  int64_t size = 0;
  for (const Parameter* parameter : parameters_) size += parameter->trainable ? parameter->value.size() : 0;
  const auto count = static_cast<int64_t>(parameters_.size());
  std::vector<Tensor> rows;
  std::vector<Tensor> numbers;
  for (const Sums& sums : held) {
    rows.push_back(Tensor::empty({size + count}, DType::f32));
    auto* const there = rows.back().slice(0, size, size + count).data<float>();
    for (int64_t p = 0, begin = 0; p < count; ++p) {
      const Parameter& parameter = *parameters_[static_cast<size_t>(p)];
      const Tensor& gradient = sums.gradients[static_cast<size_t>(p)];
      there[p] = gradient.defined() ? 1 : 0;
      if (!parameter.trainable) continue;
      const Tensor place = rows.back().slice(0, begin, begin + parameter.value.size()).view(parameter.shape());
      begin += parameter.value.size();
      if (gradient.defined()) {
        BOCHNER_ASSERT(gradient.dtype() == DType::f32);
        place.copy_(gradient);
      } else {
        place.fill_(-0.0);  // x + -0 is x, bit for bit
      }
    }
    numbers.push_back(sums.numbers);
  }
  Tensor row;
  if (fast_) {
    for (size_t i = 1; i < rows.size(); ++i) add_(rows[0], rows[i]);
    row = rows[0];
    comm_.sum_in_any_order({row.data<float>(), static_cast<size_t>(row.size())});
  } else {
    row = tree_.sum(comm_, rows);
  }
  Sums total;
  total.numbers = tree_.sum(comm_, numbers);
  const auto* const there = row.slice(0, size, size + count).data<float>();
  for (int64_t p = 0, begin = 0; p < count; ++p) {
    const Parameter& parameter = *parameters_[static_cast<size_t>(p)];
    total.gradients.emplace_back();
    if (!parameter.trainable) continue;
    if (there[p] > 0) {
      total.gradients.back() =
          row.slice(0, begin, begin + parameter.value.size()).view(parameter.shape()).to(parameter.value.device());
    }
    begin += parameter.value.size();
  }
  return total;
}

Tensor ShardedStep::run(const Part& part, int64_t length) {
  before_ = copied_buffers();
  std::vector<Sums> held;
  for (const ShardTree::Node& node : tree_.held_by(comm_.rank())) held.push_back(sum_of(node, part, length));
  if (std::exchange(compares_, false)) {
    std::string text;
    for (const auto& [name, hash] : left_) text += name + " " + hash + "\n";
    require_alike(comm_, "what a step leaves in the model's buffers", text);
  }
  const Sums total = comm_.size() > 1 ? over_processes(std::move(held)) : held.front();
  for (size_t p = 0; p < parameters_.size(); ++p) parameters_[p]->grad = total.gradients[p];
  return total.numbers;
}

}  // namespace bochner
