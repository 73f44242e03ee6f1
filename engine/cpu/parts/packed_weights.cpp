#include "engine/cpu/parts/packed_weights.h"

#include <map>

namespace bochner {
namespace {

/// The copies of a weight. They share its storage, so that no other tensor can come to lie where it does.
struct Kept {
  Tensor W;
  uint64_t version;
  std::map<cpu::WeightLayout, Tensor> packed;
};

struct Table {
  int scopes = 0;
  std::map<const void*, Kept> of;  ///< by where W lies
};
thread_local Table table;

}  // namespace

KeepPackedWeights::KeepPackedWeights() { ++table.scopes; }
KeepPackedWeights::~KeepPackedWeights() {
  if (--table.scopes == 0) table.of.clear();
}

namespace cpu {

Tensor packed_or_kept(const Tensor& W, const WeightLayout& layout, const std::function<Tensor()>& pack) {
  if (table.scopes == 0) return pack();
  auto kept = table.of.find(W.raw());
  if (kept == table.of.end()) {
    // What nobody but this table has any more was made for one call, such as weights with an adapter's product added.
    std::erase_if(table.of, [](const auto& entry) { return entry.second.W.is_alone(); });
    kept = table.of.emplace(W.raw(), Kept{W, W.version(), {}}).first;
  }
  Kept& own = kept->second;
  if (own.version != W.version()) own = {W, W.version(), {}};
  Tensor& packed = own.packed[layout];
  if (!packed.defined()) packed = pack();
  return packed;
}

int64_t kept_packed_weights() {
  int64_t count = 0;
  for (const auto& [place, kept] : table.of) count += static_cast<int64_t>(kept.packed.size());
  return count;
}

}  // namespace cpu
}  // namespace bochner
