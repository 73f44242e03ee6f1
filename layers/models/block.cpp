#include "layers/models/block.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>

#include "autograd/fused/bias_activation.h"
#include "autograd/fused/dropout.h"
#include "autograd/fused/feed_forward.h"
#include "autograd/fused/linear.h"
#include "autograd/ops/binary.h"
#include "autograd/recompute.h"

namespace bochner {

std::vector<int64_t> block_numbers(std::string_view text, int64_t count) {
  std::set<int64_t> numbers;
  const auto number = [&](std::string_view part) {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size())
      fail("blocks '{}': '{}' is no number; write for example 8-11 or 0,2,5-7", text, part);
    if (value < 0 || value >= count)
      fail("blocks '{}': there is no block {}; they are 0 to {}", text, value, count - 1);
    return value;
  };
  for (std::string_view rest = text;;) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const size_t dash = part.find('-');
    const int64_t first = number(part.substr(0, dash));
    const int64_t last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (first > last) fail("blocks '{}': {} comes behind {}", text, first, last);
    for (int64_t i = first; i <= last; ++i) numbers.insert(i);
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  return {numbers.begin(), numbers.end()};
}

std::vector<BlockOptions> blocks_like(const BlockOptions& block, int64_t count, const std::vector<int64_t>& with,
                                      const MechanismOptions& other) {
  std::vector<BlockOptions> blocks(static_cast<size_t>(count), block);
  for (const int64_t i : with) {
    if (i < 0 || i >= count)
      fail("attention '{}': there is no block {} of {}", block.attention.mechanism.name(), i, count);
  }
  for (int64_t i = 0; i < count; ++i) {
    const bool listed = with.empty() || std::find(with.begin(), with.end(), i) != with.end();
    if (!listed) blocks[static_cast<size_t>(i)].attention.mechanism = other;
  }
  return blocks;
}

FeedForward::FeedForward(Slot slot, const BlockOptions& options, Generator& init)
    : Module(std::move(slot)),
      activation_(options.activation),
      dropout_(options.dropout),
      hidden_dropout_(options.hidden_dropout),
      in_(sub("in"), options.dim, options.hidden, init, options.linear),
      out_(sub("out"), options.hidden, options.dim, init, options.linear) {}

// The fused op reads all weights once for each tile of rows, and recomputes the hidden units in backward. If weights
// are wide, one product after the other is faster on a CPU (BERT-base, 8 texts of 128 tokens: 1.3 times; MiniLM, 32
// texts: 1.16 times), though it keeps rows x hidden numbers and needs as many again temporarily. So it is used if these
// are few: no more than the weights and their gradients, or, from a width of 257, 2^25 (128 MiB in f32).
bool FeedForward::takes_whole_products(const Variable& x) const {
  constexpr int64_t kWide = 256;
  constexpr int64_t kMostKept = int64_t{1} << 25;
  const int64_t rows = x.size() / in_.inputs();
  if (!x.device().is_cpu()) return false;
  return rows <= 2 * in_.inputs() || (in_.inputs() > kWide && 2 * rows * in_.outputs() <= kMostKept);
}

// Otherwise, on a CPU, the product with the first weights is kept if it is worth the memory: from a width of 129.
bool FeedForward::keeps_product(const Variable& x) const {
  constexpr int64_t kNarrow = 128;
  return x.device().is_cpu() && in_.inputs() > kNarrow;
}

Variable FeedForward::forward(const Variable& x, const LayerNorm* norm, Context& context, bool residual) const {
  const Scope scope(name());
  FeedForwardVariables weights{in_.weight, in_.bias_or_none(), out_.weight, out_.bias_or_none()};
  FeedForwardOptions options{.activation = activation_, .residual = residual, .keep_hidden = keeps_product(x)};
  if (norm != nullptr) {
    weights.gamma = norm->weight;
    weights.beta = norm->bias;
    options.eps = norm->eps();
  }
  if (context.training) {
    options.inner = Dropout::draw(hidden_dropout_, x.size() / in_.inputs() * in_.outputs(), context.generator);
    options.outer = Dropout::draw(dropout_, x.size(), context.generator);
  }
  const bool updated = in_.has_updates() || out_.has_updates();
  if (!updated && !takes_whole_products(x)) return feed_forward(x, weights, options);
  Variable u = linear(x, {.w = weights.w1, .gamma = weights.gamma, .beta = weights.beta}, {}, {.eps = options.eps});
  if (in_.has_updates()) u = in_.with_updates(norm == nullptr ? x : norm->forward(x), u);
  if (!out_.has_updates()) return feed_forward_from(u, residual ? x : Variable(), weights, options);
  const Variable h = dropout_at(bias_activation(u, weights.b1, activation_), options.inner);
  const Variable y = dropout_at(out_.with_updates(h, linear(h, {weights.w2, weights.b2})), options.outer);
  return residual ? x + y : y;
}

TransformerBlock::TransformerBlock(Slot slot, const BlockOptions& options, Generator& init)
    : Module(std::move(slot)),
      order_(options.order),
      dropout_(options.dropout),
      norm1_(sub("norm1"), options.dim, options.norm_eps),
      attention_(sub("attention"), options.dim, options.attention, init),
      norm2_(sub("norm2"), options.dim, options.norm_eps),
      feed_forward_(std::make_unique<FeedForward>(sub("feed_forward"), options, init)) {}

Variable TransformerBlock::forward(const Variable& x, const Mask& mask, Context& context) const {
  const Scope scope(name());
  // Norms in front and residuals are handed to the adjacent products, which compute them in the same pass.
  if (order_ == BlockOptions::Order::post_norm) {
    const Variable s = attend(x, nullptr, x, mask, context);
    return norm2_.forward(feed(norm1_.forward(s), nullptr, context));
  }
  Variable s;
  if (order_ == BlockOptions::Order::pre_norm) {  // s = x + dropout(attend(LN x))
    s = attend(x, &norm1_, x, mask, context);
  } else {  // n = LN x,  s = n + dropout(attend(n))
    const Variable n = norm1_.forward(x);
    s = attend(n, nullptr, n, mask, context);
  }
  return feed(s, &norm2_, context);  // s + dropout(W2 dropout(act(W1 LN s)))
}

Variable TransformerBlock::attend(const Variable& x, const LayerNorm* norm, const Variable& residual, const Mask& mask,
                                  Context& context) const {
  if (attention_adapter_ == nullptr) {
    return attention_.forward(x, mask, context, {.norm = norm, .residual = residual, .dropout = dropout_});
  }
  const Variable y = attention_.forward(x, mask, context, {.norm = norm, .dropout = dropout_});
  return residual + attention_adapter_->forward(y);
}

Variable TransformerBlock::feed(const Variable& x, const LayerNorm* norm, Context& context) const {
  if (feed_forward_ != nullptr && feed_forward_adapter_ == nullptr) return feed_forward_->forward(x, norm, context);
  Variable y;
  if (feed_forward_ == nullptr) {
    const Variable n = norm == nullptr ? x : norm->forward(x);
    y = bundle_ != nullptr ? bundle_->forward(n) : snnk_->forward(n);
    if (context.training) y = dropout(y, dropout_, context.generator);
  } else {
    y = feed_forward_->forward(x, norm, context, false);
  }
  return x + (feed_forward_adapter_ == nullptr ? y : feed_forward_adapter_->forward(y));
}

void TransformerBlock::replace_feed_forward(const SnnkOptions& options, Generator& init) {
  BOCHNER_ASSERT(feed_forward_ != nullptr);
  snnk_ = std::make_unique<SnnkFeedForward>(sub("snnk_feed_forward"), feed_forward_->in(), feed_forward_->out(),
                                            options, init);
  feed_forward_.reset();
}

bool TransformerBlock::bundle_feed_forward() {
  if (snnk_ == nullptr) return false;
  bundle_.reset(new Bundle(snnk_->bundle(sub("bundle"))));
  snnk_.reset();
  return true;
}

TransformerBlocks::TransformerBlocks(Slot slot, const std::vector<BlockOptions>& options, bool recompute,
                                     Generator& init)
    : Module(std::move(slot)), recompute_(recompute) {
  for (const BlockOptions& each : options) blocks_.emplace_back(sub(std::to_string(blocks_.size())), each, init);
}

Variable TransformerBlocks::forward(const Variable& x, const Mask& mask, Context& context,
                                    std::vector<Variable>* states) const {
  const Scope scope(name());
  Variable y = x;
  if (states != nullptr) states->push_back(y);
  for (const TransformerBlock& block : blocks_) {
    const auto run = [&block, mask, context](const std::vector<Variable>& in) {
      Context here = context;  // the caller's may be gone by the time of backward
      return block.forward(in[0], mask, here);
    };
    y = recompute_ ? recompute(run, {y}, context.generator) : run({y});
    if (states != nullptr) states->push_back(y);
  }
  return y;
}

}  // namespace bochner
