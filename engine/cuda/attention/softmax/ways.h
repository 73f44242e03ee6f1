// Which way softmax attention takes on a card where there are several that compute the same. For tests: each way must
// be right whatever the card has, and small inputs must reach what only large ones need.
#pragma once

#include <cstdint>

namespace bochner::cuda {

struct SoftmaxWays {
  /// In bf16, by products of four warps together where the card has them; else warp by warp, as other cards do.
  bool by_groups = true;
  /// In f32, for how many pairs of a query and a key dS is in memory at once; at least for 64 queries of a head. With
  /// fewer, a launch would have too few blocks.
  int64_t pairs_in_memory = int64_t{1} << 27;
};

/// Those of all calls. Not to be changed while another thread attends.
inline SoftmaxWays softmax_ways;

/// Other ways, until this ends.
class WithSoftmaxWays {
 public:
  explicit WithSoftmaxWays(const SoftmaxWays& ways) : before_(softmax_ways) { softmax_ways = ways; }
  ~WithSoftmaxWays() { softmax_ways = before_; }
  WithSoftmaxWays(const WithSoftmaxWays&) = delete;
  WithSoftmaxWays& operator=(const WithSoftmaxWays&) = delete;

 private:
  SoftmaxWays before_;
};

}  // namespace bochner::cuda
