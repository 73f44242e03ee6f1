#include "experiments/learners/sharded_step.h"

#include <algorithm>
#include <utility>

#include "engine/error.h"
#include "engine/io/elements.h"
#include "engine/io/xxh3.h"
#include "engine/ops/binary.h"
#include "engine/packed_weights.h"
#include "experiments/common/process/processes.h"

namespace bochner {
namespace {

/// Adds x to `to`. A missing gradient counts as 0.
void add_gradient(Tensor& to, const Tensor& x) {
  if (!to.defined()) {
    to = x;
  } else if (x.defined()) {
    add_(to, x);
  }
}

}  // namespace

ShardedStep::ShardedStep(Module& model, Communicator& comm, int shards, int slices, bool fast, int64_t bucket)
    : model_(model),
      parameters_(model.parameters()),
      comm_(comm),
      tree_(shards * slices, comm.size()),
      slices_(slices),
      fast_(fast),
      bucket_(bucket) {
  for (size_t p = 0; p < parameters_.size(); ++p) numbers_[parameters_[p]] = p;
}

std::vector<Tensor> ShardedStep::take_gradients() {
  std::vector<Tensor> gradients;
  for (Parameter* parameter : parameters_) gradients.push_back(std::exchange(parameter->grad, Tensor()));
  return gradients;
}

void ShardedStep::compare_buffers(int64_t i) {
  std::map<std::string, std::string> left;
  for (const auto& [name, tensor] : buffers_of(model_)) {
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
  set_buffers(model_, before_);
  Sums sums;
  const bool is_last = i + 1 == tree_.leaves_of(comm_.rank()).end;
  sums.numbers = part(i, nullptr, is_last ? completed_ : nullptr);
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

/// Runs the slices of a shard that this process holds, in turns, each with its own gradients and buffers.
void ShardedStep::run_slices(const Part& part, int64_t shard, int64_t length) {
  struct Own {
    Sums sums;
    Buffers buffers;
  };
  std::map<int, Own> own;
  const ShardTree holders = holders_of(static_cast<int>(shard));
  SequenceSlices slices(comm_, holders);
  const SequenceSlices::Turns turns{.begin =
                                        [&](int number) {
                                          const auto [place, is_new] = own.try_emplace(number);
                                          set_buffers(model_, is_new ? before_ : place->second.buffers);
                                          const std::vector<Tensor>& gradients = place->second.sums.gradients;
                                          for (size_t p = 0; p < gradients.size(); ++p)
                                            parameters_[p]->grad = gradients[p];
                                        },
                                    .end =
                                        [&](int number) {
                                          own[number].sums.gradients = take_gradients();
                                          own[number].buffers = copied_buffers(model_);
                                        }};
  slices.run(
      length,
      [&, packed = KeepPackedWeights::here()](SequenceSlice& slice) {
        const KeepPackedWeights keep(packed);  // the slices take turns
        const int64_t leaf = shard * slices_ + slice.number();
        const Tensor numbers = part(leaf, &slice, nullptr);
        if (compares_) compare_buffers(leaf);
        own[slice.number()].sums.numbers = numbers;
      },
      turns);
  for (auto& [number, one] : own) done_[shard * slices_ + number] = std::move(one.sums);
}

ShardedStep::Sums ShardedStep::sum_of(ShardTree::Node node, const Part& part, int64_t length) {
  if (node.is_leaf() && slices_ == 1) return run_part(part, node.begin);
  if (node.is_leaf()) {  // leaves come in order: all slices of a shard run with its first one
    if (!done_.contains(node.begin)) run_slices(part, node.begin / slices_, length);
    Sums sums = std::move(done_.at(node.begin));
    done_.erase(node.begin);
    return sums;
  }
  Sums sums = sum_of(node.left(), part, length);
  waiting_.push_back(&sums);
  const Sums right = sum_of(node.right(), part, length);
  waiting_.pop_back();
  for (size_t p = 0; p < parameters_.size(); ++p) add_gradient(sums.gradients[p], right.gradients[p]);
  add_(sums.numbers, right.numbers);
  return sums;
}

/// The last shard here has the gradient of a parameter, so all subtrees here have theirs.
void ShardedStep::set_out(Parameter& parameter, const std::vector<Sums>& held, GradientSums& sums) {
  const auto number = numbers_.find(&parameter);
  if (number == numbers_.end()) return;  // not a parameter of this model
  const size_t p = number->second;
  Tensor sum = std::exchange(parameter.grad, Tensor());
  for (size_t i = waiting_.size(); i-- > 0;) {
    Tensor left = std::exchange(waiting_[i]->gradients[p], Tensor());  // so that nothing is added later
    add_gradient(left, sum);
    sum = left;
  }
  std::vector<Tensor> of_subtrees;
  for (const Sums& one : held) of_subtrees.push_back(one.gradients[p]);
  of_subtrees.push_back(sum);
  sums.put(p, std::move(of_subtrees));
  has_set_out_[p] = true;
}

Tensor ShardedStep::run(const Part& part, int64_t length) {
  before_ = copied_buffers(model_);
  const bool on_cpu = std::all_of(parameters_.begin(), parameters_.end(),
                                  [](const Parameter* parameter) { return parameter->value.device().is_cpu(); });
  const bool by_card = !on_cpu && comm_.for_cards() != nullptr;
  GradientSums sums(parameters_, by_card ? *comm_.for_cards() : comm_,
                    by_card ? parameters_.front()->value.device() : Device::cpu(), tree_, fast_, bucket_);
  const std::vector<ShardTree::Node> nodes = tree_.held_by(comm_.rank());
  std::vector<Sums> held;
  waiting_.clear();
  has_set_out_.assign(parameters_.size(), false);
  if (comm_.size() > 1 && slices_ == 1 && on_cpu) {
    completed_ = [&](Parameter& parameter) { set_out(parameter, held, sums); };
  }
  for (const ShardTree::Node& node : nodes) held.push_back(sum_of(node, part, length));
  completed_ = nullptr;
  if (std::exchange(compares_, false)) {
    std::string text;
    for (const auto& [name, hash] : left_) text += name + " " + hash + "\n";
    require_alike(comm_, "what a step leaves in the model's buffers", text);
  }
  std::vector<Tensor> numbers;
  for (const Sums& one : held) numbers.push_back(one.numbers);
  if (comm_.size() == 1) {
    for (size_t p = 0; p < parameters_.size(); ++p) parameters_[p]->grad = held.front().gradients[p];
    return held.front().numbers;
  }
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (has_set_out_[p]) continue;
    std::vector<Tensor> of_subtrees;
    for (const Sums& one : held) of_subtrees.push_back(one.gradients[p]);
    sums.put(p, std::move(of_subtrees));
  }
  const std::vector<Tensor> gradients = sums.wait();
  for (size_t p = 0; p < parameters_.size(); ++p) parameters_[p]->grad = gradients[p];
  return tree_.sum(comm_, numbers);
}

}  // namespace bochner
