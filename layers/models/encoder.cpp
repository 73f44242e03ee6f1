#include "layers/models/encoder.h"

#include "autograd/fused/dropout.h"
#include "autograd/fused/feed_forward.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "autograd/recompute.h"
#include "engine/ops/reduce.h"
#include "layers/init.h"
#include "layers/mixed_precision.h"

namespace bochner {
namespace {

Variable drop(const Variable& x, double p, Context& context) {
  return context.training ? dropout(x, p, context.generator) : x;
}

const EncoderOptions& checked(const EncoderOptions& options) {
  if (options.vocabulary < 1 || options.length < 1 || options.classes < 1 || options.layers < 0 || options.dim < 1) {
    fail("encoder: vocabulary {}, length {}, classes {}, layers {}, dim {}: all but the layers must be at least 1",
         options.vocabulary, options.length, options.classes, options.layers, options.dim);
  }
  if (options.codes.defined() && (options.codes.rank() != 2 || options.codes.size(0) != options.vocabulary)) {
    fail("encoder: codes must be (vocabulary {}, any), got {}", options.vocabulary, options.codes.shape().str());
  }
  return options;
}

}  // namespace

FeedForward::FeedForward(Slot slot, const EncoderOptions& options, Generator& init)
    : Module(std::move(slot)),
      activation_(options.activation),
      dropout_(options.dropout),
      in_(sub("in"), options.dim, options.hidden, init, options.linear),
      out_(sub("out"), options.hidden, options.dim, init, options.linear) {}

Variable FeedForward::forward(const Variable& x, const LayerNormLayer& norm, Context& context) const {
  const Scope scope(name());
  const FeedForwardVariables weights{norm.weight,        norm.bias,   in_.weight,
                                     in_.bias_or_none(), out_.weight, out_.bias_or_none()};
  FeedForwardOptions options{.activation = activation_, .eps = norm.eps()};
  if (context.training) {
    options.inner = Dropout::draw(dropout_, x.size() / in_.inputs() * in_.outputs(), context.generator);
    options.outer = Dropout::draw(dropout_, x.size(), context.generator);
  }
  return feed_forward(x, weights, options);
}

EncoderBlock::EncoderBlock(Slot slot, const EncoderOptions& options, Generator& init)
    : Module(std::move(slot)),
      block_(options.block),
      dropout_(options.dropout),
      norm1_(sub("norm1"), options.dim, options.norm_eps),
      attention_(sub("attention"), options.dim, options.attention, init),
      norm2_(sub("norm2"), options.dim, options.norm_eps),
      feed_forward_(sub("feed_forward"), options, init) {}

Variable EncoderBlock::forward(const Variable& x, const Mask& mask, Context& context) const {
  const Scope scope(name());
  // Norms and residuals are handed to the products before and behind them, which take them along in one pass.
  Variable s;
  if (block_ == EncoderOptions::Block::pre_norm) {  // s = x + dropout(attend(LN x))
    s = attention_.forward(x, mask, context, {.norm = &norm1_, .residual = x, .dropout = dropout_});
  } else {  // n = LN x,  s = n + dropout(attend(n))
    const Variable n = norm1_.forward(x);
    s = attention_.forward(n, mask, context, {.residual = n, .dropout = dropout_});
  }
  return feed_forward_.forward(s, norm2_, context);  // s + dropout(W2 dropout(act(W1 LN s)))
}

Encoder::Encoder(Slot slot, const EncoderOptions& options, Generator& init)
    : Encoder(std::move(slot), options, init, TokensAlone{}) {
  add_the_rest(init);
}

Encoder::Encoder(Slot slot, const EncoderOptions& options, Generator& init, TokensAlone)
    : Module(std::move(slot)),
      options_(checked(options)),
      tokens_(sub("tokens"), options.codes.defined() ? options.codes.size(1) : options.vocabulary, options.dim,
              options.embedding_deviation, init),
      cls_(options.pooling == EncoderOptions::Pooling::cls ? &parameter("cls", Tensor::zeros({1, 1, options.dim}))
                                                           : nullptr),
      learned_positions_(nullptr),
      norm_(sub("norm"), options.dim, options.norm_eps) {}

void Encoder::add_the_rest(Generator& init) {
  const int64_t places = options_.length + (cls_ != nullptr ? 1 : 0);
  if (options_.positions == EncoderOptions::Positions::learned) {
    learned_positions_ =
        &parameter("positions", bochner::init::gaussian({places, options_.dim}, options_.position_deviation, init));
  } else {
    sinusoids_ = sinusoidal_positions(places, options_.dim);
  }
  EncoderOptions of_blocks = options_;
  if (of_blocks.attention.mechanism.length == 0) of_blocks.attention.mechanism.length = places;
  for (int64_t i = 0; i < options_.layers; ++i)
    blocks_.emplace_back(sub("blocks." + std::to_string(i)), of_blocks, init);
}

Encoder::States Encoder::forward(const Tensor& ids, const Tensor& keys, Context& context) const {
  const Scope scope(name());
  if (ids.rank() != 2) fail("encoder: ids must be (batch, length), got {}", ids.shape().str());
  if (ids.size(1) > options_.length) {
    fail("encoder: a sequence of {} tokens is longer than the model's {}", ids.size(1), options_.length);
  }
  Variable x = tokens_.forward(ids, options_.codes);  // (B, L, dim)
  Tensor mask = keys;
  if (cls_ != nullptr) {
    x = concat({expand(*cls_, {ids.size(0), 1, options_.dim}), x}, 1);  // (B, 1 + L, dim)
    if (keys.defined()) {
      const Variable real = Tensor::full({ids.size(0), 1}, 1, DType::boolean, ids.device());
      mask = concat({real, keys}, 1).value();
    }
  }
  const Variable positions = learned_positions_ != nullptr ? Variable(*learned_positions_) : sinusoids_beside(x);
  x = as_stored(drop(x + slice(positions, 0, 0, x.size(1)), options_.dropout, context));
  const Mask attended{mask, false};
  for (const EncoderBlock& block : blocks_) {
    const auto run = [&block, attended, context](const std::vector<Variable>& in) {
      Context here = context;  // backward may come when the caller's is gone
      return block.forward(in[0], attended, here);
    };
    x = options_.recompute ? recompute(run, {x}, context.generator) : run({x});
  }
  return {norm_.forward(x), mask};
}

Variable Encoder::sinusoids_beside(const Variable& x) const {
  if (!placed_sinusoids_.defined() || placed_sinusoids_.dtype() != x.dtype() ||
      placed_sinusoids_.device() != x.device())
    placed_sinusoids_ = sinusoids_.cast(x.dtype()).to(x.device());
  return placed_sinusoids_;
}

Variable Encoder::pool(const States& states) const {
  const Variable& x = states.x;
  const bool of_one =
      options_.pooling == EncoderOptions::Pooling::cls || options_.pooling == EncoderOptions::Pooling::first;
  if (of_one) return as_computed(select(x, 1, 0));
  if (!states.mask.defined()) return as_computed(sum(x, {1})) * (1 / static_cast<double>(x.size(1)));
  const Variable real = states.mask.cast(x.dtype()).unsqueeze(2);  // (B, L, 1)
  const Variable total = as_computed(sum(x * real, {1}));          // (B, dim)
  if (options_.pooling == EncoderOptions::Pooling::mean_padded) return total / static_cast<double>(options_.length);
  return total / sum(as_computed(real), {1});
}

ClassifierHead::ClassifierHead(Slot slot, int64_t inputs, int64_t hidden, int64_t classes, const LinearOptions& linear,
                               Generator& init)
    : Module(std::move(slot)),
      hidden_(hidden > 0 ? std::make_unique<Linear>(sub("hidden"), inputs, hidden, init, linear) : nullptr),
      classes_(sub("classes"), hidden > 0 ? hidden : inputs, classes, init, linear) {}

Variable ClassifierHead::units(const Variable& x) const {
  const Scope scope(name());
  return hidden_ != nullptr ? relu(hidden_->forward(x)) : x;
}

Variable ClassifierHead::scores(const Variable& units) const {
  const Scope scope(name());
  return classes_.forward(units);
}

SequenceClassifier::SequenceClassifier(const EncoderOptions& options, Generator& init)
    : trunk_(sub(""), options, init, Encoder::TokensAlone{}),
      head_(sub("classifier"), options.dim, options.classifier, options.classes, options.linear, init) {
  trunk_.add_the_rest(init);
}

Variable SequenceClassifier::forward(const Tensor& ids, const Tensor& mask, Context& context) const {
  return scores(units(ids, mask, context));
}

Variable SequenceClassifier::units(const Tensor& ids, const Tensor& mask, Context& context) const {
  return head_.units(trunk_.pool(trunk_.forward(ids, mask, context)));
}

}  // namespace bochner
