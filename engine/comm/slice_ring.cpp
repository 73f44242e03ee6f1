#include "engine/comm/slice_ring.h"

#include "engine/comm/messages.h"
#include "engine/ops/binary.h"

namespace bochner {
namespace {

std::vector<int> slices_of(const SliceTour& tour, int count) {
  std::vector<int> all{tour.first};
  while (all.back() != tour.last) all.push_back((all.back() + 1) % count);
  return all;
}

}  // namespace

std::vector<Tensor> hand_round(Communicator& comm, const ShardTree& tree, const SliceTour& tour,
                               const std::vector<Tensor>& given, const Shape& shape) {
  const std::vector<int> slices = slices_of(tour, tree.shards());
  const int begin = tree.leaves_of(comm.rank()).begin;
  const int owner = tree.holder_of(tour.first);
  const auto place = [&](int slice) { return static_cast<size_t>(slice - begin); };
  std::vector<Tensor> found(given.size());
  Tensor x;
  if (owner == comm.rank()) x = given[place(tour.first)].contiguous();
  for (size_t i = 0; i < slices.size(); ++i) {
    if (tree.holder_of(slices[i]) != comm.rank()) continue;
    if (!x.defined()) {
      x = Tensor::empty(shape, given.front().dtype());
      receive_from(comm, tree.holder_of(slices[i - 1]), x);
    }
    found[place(slices[i])] = x;
    const int next = i + 1 < slices.size() ? tree.holder_of(slices[i + 1]) : owner;
    if (next != comm.rank() && next != owner) send_to(comm, next, x);
  }
  return found;
}

std::vector<Tensor> sum_round(Communicator& comm, const ShardTree& tree, const SliceTour& tour,
                              const std::vector<Tensor>& given) {
  std::vector<int> slices = slices_of(tour, tree.shards());
  slices.erase(slices.begin());
  slices.push_back(tour.first);
  const int begin = tree.leaves_of(comm.rank()).begin;
  const auto place = [&](int slice) { return static_cast<size_t>(slice - begin); };
  std::vector<Tensor> found(given.size());
  Tensor sum;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (tree.holder_of(slices[i]) != comm.rank()) continue;
    const Tensor& own = given[place(slices[i])];
    const int before = tree.holder_of(slices[i > 0 ? i - 1 : i]);
    if (before != comm.rank()) {
      sum = Tensor::empty(own.shape(), own.dtype());
      receive_from(comm, before, sum);
    }
    if (i == 0) {
      sum = own.clone();
    } else {
      add_(sum, own);
    }
    const int next = tree.holder_of(slices[i + 1 < slices.size() ? i + 1 : i]);
    if (next != comm.rank()) send_to(comm, next, sum);
  }
  const int owner = tree.holder_of(tour.first);
  if (owner == comm.rank()) found[place(tour.first)] = sum;
  return found;
}

}  // namespace bochner
