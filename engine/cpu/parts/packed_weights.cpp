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

struct Table {
  int scopes = 0;
  std::vector<Kept> storages;
};
thread_local Table table;

}  // namespace

KeepPackedWeights::KeepPackedWeights() { ++table.scopes; }
KeepPackedWeights::~KeepPackedWeights() {
  if (--table.scopes == 0) table.storages.clear();
}

namespace cpu {

Tensor packed_or_kept(const Tensor& W, const WeightLayout& layout, const std::function<Tensor()>& pack) {
  if (table.scopes == 0) return pack();
  auto kept = std::find_if(table.storages.begin(), table.storages.end(),
                           [&](const Kept& one) { return one.W.shares_storage(W); });
  if (kept == table.storages.end()) {
    // What only this table still refers to was made for one call, such as weights with an adapter's product added.
    std::erase_if(table.storages, [](const Kept& one) { return one.W.is_alone(); });
    kept = table.storages.insert(table.storages.end(), Kept{W, W.version(), {}});
  }
  if (kept->version != W.version()) *kept = {W, W.version(), {}};
  Tensor& packed = kept->packed[{W.raw(), layout}];
  if (!packed.defined()) packed = pack();
  return packed;
}

int64_t kept_packed_weights() {
  int64_t count = 0;
  for (const Kept& one : table.storages) count += static_cast<int64_t>(one.packed.size());
  return count;
}

}  // namespace cpu
}  // namespace bochner
