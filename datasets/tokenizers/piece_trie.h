// All pieces of a vocabulary as a trie of bytes, in which one walk finds the longest piece at the start of a word.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace bochner {

/// Edges are in one hash table, by node and byte; memory is at most about 16 bytes for each byte of the vocabulary.
class PieceTrie {
 public:
  /// `bytes`: an upper bound of the length of all pieces together.
  explicit PieceTrie(size_t bytes);

  /// Pieces of `tree` 0 begin words, those of tree 1 continue them.
  void add(int tree, std::string_view piece, int32_t id);
  /// The id and the length of the longest piece that `word` begins with; length 0 if there is none.
  std::pair<int32_t, size_t> longest(int tree, std::string_view word) const {
    std::pair<int32_t, size_t> best{-1, 0};
    uint32_t node = static_cast<uint32_t>(tree);
    for (size_t i = 0; i < word.size(); ++i) {
      const uint32_t key = key_of(node, word[i]);
      size_t at = slot_of(key);
      while (edges_[at].key != key && edges_[at].node != 0) at = (at + 1) & mask_;
      node = edges_[at].node;
      if (node == 0) break;
      if (ids_[node] >= 0) best = {ids_[node], i + 1};
    }
    return best;
  }

 private:
  struct Edge {
    uint32_t key = 0;
    uint32_t node = 0;  ///< 0: none
  };

  static uint32_t key_of(uint32_t node, char byte) { return (node << 8U) | static_cast<uint8_t>(byte); }
  size_t slot_of(uint32_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15U) >> 32U) & mask_; }

  std::vector<Edge> edges_;  ///< twice as many as there can be, a power of two
  size_t mask_ = 0;
  std::vector<int32_t> ids_ = {-1, -1};  ///< of nodes; -1: no piece ends here
};

}  // namespace bochner
