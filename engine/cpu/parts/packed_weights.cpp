#include "engine/cpu/parts/packed_weights.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace bochner {
namespace {

/// The copies of the weights in one storage. They keep it alive, so that no other tensor can occupy the same memory.
struct Kept {
  Tensor W;
  uint64_t version;
  std::map<std::pair<const void*, cpu::WeightLayout>, Tensor> packed;  ///< by the weight's address and how it is read
};

}  // namespace

struct KeepPackedWeights::Copies {
  std::vector<Kept> storages;
};

namespace {
thread_local std::shared_ptr<KeepPackedWeights::Copies> copies;
}  // namespace

KeepPackedWeights::KeepPackedWeights() : KeepPackedWeights(copies ? copies : std::make_shared<Copies>()) {}
KeepPackedWeights::KeepPackedWeights(std::shared_ptr<Copies> others)
    : outer_(std::exchange(copies, std::move(others))) {}
KeepPackedWeights::~KeepPackedWeights() { copies = std::move(outer_); }

std::shared_ptr<KeepPackedWeights::Copies> KeepPackedWeights::here() { return copies; }

namespace cpu {

Tensor packed_or_kept(const Tensor& W, const WeightLayout& layout, const std::function<Tensor()>& pack) {
  if (!copies) return pack();
  std::vector<Kept>& storages = copies->storages;
  auto kept = std::find_if(storages.begin(), storages.end(), [&](const Kept& one) { return one.W.shares_storage(W); });
  if (kept == storages.end()) {
    // What only this table still refers to was made for one call, such as weights with an adapter's product added.
    std::erase_if(storages, [](const Kept& one) { return one.W.is_alone(); });
    kept = storages.insert(storages.end(), Kept{W, W.version(), {}});
  }
  if (kept->version != W.version()) *kept = {W, W.version(), {}};
  Tensor& packed = kept->packed[{W.raw(), layout}];
  if (!packed.defined()) packed = pack();
  return packed;
}

int64_t kept_packed_weights() {
  if (!copies) return 0;
  int64_t count = 0;
  for (const Kept& one : copies->storages) count += static_cast<int64_t>(one.packed.size());
  return count;
}

}  // namespace cpu
}  // namespace bochner
