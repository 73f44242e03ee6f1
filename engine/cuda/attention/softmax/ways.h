// Which implementation softmax attention uses on a card when there are several that compute the same. For tests: each
// must be right whatever the card, and small inputs must reach what otherwise only large ones need.
#pragma once

#include <cstdint>

namespace bochner::cuda {

struct SoftmaxWays {
  /// In bf16: four warps multiply together if the card supports it; otherwise warp by warp, as on other cards.
  bool by_groups = true;
  /// In f32: for how many pairs of a query and a key dS is in memory at once; at least for 64 queries of a head. With
  /// fewer, a launch would have too few blocks.
  int64_t pairs_in_memory = int64_t{1} << 27;
};

/// The settings for all calls. Not to be changed while another thread attends.
inline SoftmaxWays softmax_ways;

/// Other settings, for the lifetime of this object.
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
