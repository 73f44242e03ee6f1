// The Transformer block (attention and a feed-forward network with their norms and residuals) and stacks of such
// blocks, which Encoder, Bert and Vit share.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/ops/bias_activation.h"
#include "layers/attention/multi_head.h"
#include "layers/norm.h"
#include "layers/snnk/blocks.h"

namespace bochner {

struct BlockOptions {
  enum class Order : unsigned char {
    pre_norm,    ///< s = x + attend(LN x), then s + FFN(LN s)  (Xiong et al., 2020)
    post_norm,   ///< s = LN(x + attend(x)), then LN(s + FFN(s))  (Vaswani et al., 2017; BERT)
    kl_released  ///< the residual is taken from the normalised input: n = LN x, s = n + attend(n), s + FFN(LN s)
  };

  int64_t dim = 64;
  int64_t hidden = 128;  ///< of the feed-forward network
  Order order = Order::pre_norm;
  MultiHeadOptions attention = {};
  Activation activation = Activation::gelu;
  LinearOptions linear = {};  ///< initial values of the feed-forward network
  double dropout = 0.1;       ///< after attention, and after the second product of the feed-forward network
  double hidden_dropout = 0;  ///< after the activation
  double norm_eps = 1e-5;
};

/// The numbers of the blocks in a text such as `8-11` or `0,2,5-7`, in order, each once. An Error names what is not a
/// number, or not the number of one of `count` blocks.
std::vector<int64_t> block_numbers(std::string_view text, int64_t count);
/// `count` blocks like `block`. If `with` is not empty, only the blocks in it have this attention, and the others have
/// `other`.
std::vector<BlockOptions> blocks_like(const BlockOptions& block, int64_t count, const std::vector<int64_t>& with = {},
                                      const MechanismOptions& other = "softmax");

/// x + W2 act(W1 LayerNorm(x)), with dropout after the activation and after the second product; without norm,
/// x + W2 act(W1 x).
class FeedForward : public Module {
 public:
  FeedForward(Slot slot, const BlockOptions& options, Generator& init);
  /// (..., dim) -> (..., dim); `norm` null: none. Without `residual`, x is not added.
  Variable forward(const Variable& x, const LayerNorm* norm, Context& context, bool residual = true) const;

  const Linear& in() const { return in_; }
  const Linear& out() const { return out_; }
  Linear& in() { return in_; }
  Linear& out() { return out_; }

 private:
  bool takes_whole_products(const Variable& x) const;
  bool keeps_product(const Variable& x) const;

  Activation activation_;
  double dropout_;
  double hidden_dropout_;
  Linear in_;
  Linear out_;
};

class TransformerBlock : public Module {
 public:
  TransformerBlock(Slot slot, const BlockOptions& options, Generator& init);
  /// (batch, length, dim) -> the same
  Variable forward(const Variable& x, const Mask& mask, Context& context) const;

  // Changes to a pretrained block, to be made before an optimizer holds its parameters.

  using MakeAdapter = std::function<std::unique_ptr<Adapter>(Slot)>;
  /// x + adapter(half(x)) instead of x + half(x).
  void adapt_attention(const MakeAdapter& make) { attention_adapter_ = make(sub("attention_adapter")); }
  void adapt_feed_forward(const MakeAdapter& make) { feed_forward_adapter_ = make(sub("feed_forward_adapter")); }
  MultiHeadAttention& attention() { return attention_; }
  /// Null if an SNNK layer has replaced it.
  FeedForward* feed_forward() { return feed_forward_.get(); }
  /// Replaces the feed-forward network's first product and activation by an SNNK layer (SNNK Appendix J.4).
  void replace_feed_forward(const SnnkOptions& options, Generator& init);
  /// Bundles that layer and the product after it into one matrix (SNNK 3.3), which is exact. False if there is no such
  /// layer.
  bool bundle_feed_forward();

 private:
  /// residual + attend(LN x); without norm residual + attend(x).
  Variable attend(const Variable& x, const LayerNorm* norm, const Variable& residual, const Mask& mask,
                  Context& context) const;
  /// x + FFN(LN x); without norm x + FFN(x).
  Variable feed(const Variable& x, const LayerNorm* norm, Context& context) const;

  BlockOptions::Order order_;
  double dropout_;
  LayerNorm norm1_;
  MultiHeadAttention attention_;
  LayerNorm norm2_;
  std::unique_ptr<FeedForward> feed_forward_;  ///< null if snnk_ or bundle_ has replaced it
  std::unique_ptr<SnnkFeedForward> snnk_;
  std::unique_ptr<Bundle> bundle_;  ///< replaces snnk_
  std::unique_ptr<Adapter> attention_adapter_, feed_forward_adapter_;
};

/// A stack of blocks, named 0, 1, ...
class TransformerBlocks : public Module {
 public:
  /// One block for each of `options`. `recompute`: each runs again in backward instead of keeping its activations.
  TransformerBlocks(Slot slot, const std::vector<BlockOptions>& options, bool recompute, Generator& init);
  /// (batch, length, dim) -> the same. `states`, if given, receives x and then the output of each block.
  Variable forward(const Variable& x, const Mask& mask, Context& context,
                   std::vector<Variable>* states = nullptr) const;
  std::deque<TransformerBlock>& all() { return blocks_; }

 private:
  bool recompute_;
  std::deque<TransformerBlock> blocks_;
};

}  // namespace bochner
