#include "datasets/tokenizers/piece_trie.h"

#include <bit>

#include "engine/error.h"

namespace bochner {

PieceTrie::PieceTrie(size_t bytes) {
  constexpr size_t kMost = size_t{1} << 24U;  // a node and a byte are 32 bits
  if (bytes >= kMost - 2) fail("a vocabulary of {} bytes; at most {} can be used", bytes, kMost - 3);
  edges_.resize(std::bit_ceil(2 * bytes + 2));
  mask_ = edges_.size() - 1;
}

void PieceTrie::add(int tree, std::string_view piece, int32_t id) {
  auto node = static_cast<uint32_t>(tree);
  for (const char byte : piece) {
    const uint32_t key = key_of(node, byte);
    size_t at = slot_of(key);
    while (edges_[at].key != key && edges_[at].node != 0) at = (at + 1) & mask_;
    if (edges_[at].node == 0) {
      edges_[at] = {key, static_cast<uint32_t>(ids_.size())};
      ids_.push_back(-1);
    }
    node = edges_[at].node;
  }
  ids_[node] = id;
}

}  // namespace bochner
