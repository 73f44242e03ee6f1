#include "experiments/learners/gradient_sums.h"

#include <utility>

#include "engine/error.h"
#include "engine/ops/binary.h"

namespace bochner {
namespace {

/// For the tree's sums; channels 0 and 1 are for transfers that are not in progress during backward.
constexpr int kChannel = 2;

}  // namespace

GradientSums::GradientSums(const std::vector<Parameter*>& parameters, Communicator& comm, Device device,
                           const ShardTree& tree, bool fast, int64_t bucket)
    : parameters_(parameters),
      comm_(comm),
      device_(device),
      tree_(tree),
      fast_(fast),
      bucket_of_(parameters.size()),
      given_(parameters.size()) {
  for (size_t p = parameters.size(); p-- > 0;) {
    if (!parameters[p]->trainable) continue;
    if (buckets_.empty() || buckets_.back().size >= bucket) buckets_.emplace_back();
    buckets_.back().parameters.push_back(p);
    buckets_.back().size += parameters[p]->value.size();
    ++buckets_.back().missing;
    bucket_of_[p] = buckets_.size() - 1;
  }
}

void GradientSums::put(size_t p, std::vector<Tensor> held) {
  if (!parameters_[p]->trainable) return;
  BOCHNER_ASSERT(given_[p].empty() && !held.empty());
  given_[p] = std::move(held);
  --buckets_[bucket_of_[p]].missing;
  go_on();
}

void GradientSums::go_on() {
  for (; sent_ < buckets_.size() && buckets_[sent_].missing == 0; ++sent_) set_out(buckets_[sent_]);
  for (size_t b = 0; b < sent_; ++b) {
    Bucket& bucket = buckets_[b];
    if (!(bucket.sum ? bucket.sum->test() : bucket.fast_sum->test())) return;
  }
}

void GradientSums::set_out(Bucket& bucket) {
  const auto count = static_cast<int64_t>(bucket.parameters.size());
  const size_t subtrees = given_[bucket.parameters.front()].size();
  for (size_t i = 0; i < subtrees; ++i) {
    const Tensor row = Tensor::empty({bucket.size + count}, DType::f32, device_);
    std::vector<float> there;
    int64_t begin = 0;
    for (size_t k = 0; k < bucket.parameters.size(); ++k) {
      const Parameter& parameter = *parameters_[bucket.parameters[k]];
      const Tensor& gradient = given_[bucket.parameters[k]].at(i);
      const Tensor place = row.slice(0, begin, begin + parameter.value.size()).view(parameter.shape());
      begin += parameter.value.size();
      there.push_back(gradient.defined() ? 1 : 0);
      if (gradient.defined()) {
        BOCHNER_ASSERT(gradient.dtype() == DType::f32);
        place.copy_(gradient);
      } else {
        place.fill_(-0.0);  // x + -0 is x, bit for bit
      }
    }
    row.slice(0, bucket.size, bucket.size + count).copy_(Tensor::from(there, {count}));
    bucket.rows.push_back(row);
  }
  for (const size_t p : bucket.parameters) given_[p] = {Tensor()};  // put, and copied
  if (fast_) {
    const Tensor& row = bucket.rows.front();
    for (size_t i = 1; i < subtrees; ++i) add_(row, bucket.rows[i]);
    bucket.fast_sum = comm_.begin_sum_in_any_order({row.data<float>(), static_cast<size_t>(row.size())});
  } else {
    bucket.sum = tree_.begin_sum(comm_, bucket.rows, kChannel);
  }
}

void GradientSums::take(Bucket& bucket, std::vector<Tensor>& sums) {
  if (bucket.fast_sum) bucket.fast_sum->wait();
  const Tensor row = bucket.sum ? bucket.sum->wait() : bucket.rows.front();
  const auto count = static_cast<int64_t>(bucket.parameters.size());
  const std::vector<float> there = row.slice(0, bucket.size, bucket.size + count).to_vector<float>();
  int64_t begin = 0;
  for (size_t k = 0; k < bucket.parameters.size(); ++k) {
    const Parameter& parameter = *parameters_[bucket.parameters[k]];
    const Tensor sum = row.slice(0, begin, begin + parameter.value.size()).view(parameter.shape());
    begin += parameter.value.size();
    if (there[k] > 0) sums[bucket.parameters[k]] = sum.to(parameter.value.device());
  }
}

std::vector<Tensor> GradientSums::wait() {
  BOCHNER_ASSERT(sent_ == buckets_.size());
  std::vector<Tensor> sums(parameters_.size());
  for (Bucket& bucket : buckets_) take(bucket, sums);
  return sums;
}

}  // namespace bochner
