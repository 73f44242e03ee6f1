#include "layers/models/encoder.h"

#include <limits>

#include "autograd/fused/dropout.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/slices.h"
#include "autograd/ops/view.h"
#include "engine/ops/reduce.h"
#include "layers/attention/mechanism.h"
#include "layers/init.h"
#include "layers/mixed_precision.h"

namespace bochner {
namespace {

constexpr double kPositionDeviation = 0.02;  ///< of learnt positions at first

Variable drop(const Variable& x, double p, Context& context) {
  return context.training ? dropout(x, p, context.generator) : x;
}

bool turns(const EncoderOptions& options) {
  return options.positions == EncoderOptions::Positions::rotary ||
         options.positions == EncoderOptions::Positions::rotary_2d;
}

const EncoderOptions& checked(const EncoderOptions& options) {
  if (options.vocabulary < 1 || options.length < 1 || options.layers < 0 || options.dim < 1) {
    fail("encoder: vocabulary {}, length {}, layers {}, dim {}: all but the layers must be at least 1",
         options.vocabulary, options.length, options.layers, options.dim);
  }
  using Pooling = EncoderOptions::Pooling;
  if (options.causal && (options.pooling == Pooling::cls || options.pooling == Pooling::first)) {
    fail("encoder: causal, the first vector sees no other one, but the pooling reads it alone; choose a mean");
  }
  const std::string mechanism = options.attention.mechanism.name();
  if (options.causal && !mechanism_named(mechanism).causal) fail_causal(mechanism);
  if (options.positions == EncoderOptions::Positions::rotary_2d &&
      (options.width < 1 || options.pooling == Pooling::cls)) {
    fail("encoder: positions in two dimensions are those of pixels, but {}",
         options.width < 1 ? "these sequences are no images" : "the learned vector in front (pooling cls) is none");
  }
  if (options.attention.convolution > 0 && (options.causal || (options.width > 0 && options.pooling == Pooling::cls))) {
    fail("encoder: a convolution of values {}",
         options.causal ? "reads later tokens, too, but the model is causal"
                        : "is one of pixels, but the learned vector in front (pooling cls) is none");
  }
  if (options.codes.defined() && (options.codes.rank() != 2 || options.codes.size(0) != options.vocabulary)) {
    fail("encoder: codes must be (vocabulary {}, any), got {}", options.vocabulary, options.codes.shape().str());
  }
  return options;
}

}  // namespace

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
      norm_(sub("norm"), options.dim, options.norm_eps),
      pooled_norm_(options.pooled_batch_norm
                       ? std::make_unique<BatchNorm1d>(sub("pooled_norm"), options.dim,
                                                       BatchNormOptions{.eps = options.norm_eps, .affine = false})
                       : nullptr) {}

void Encoder::add_the_rest(Generator& init) {
  const int64_t places = options_.length + (cls_ != nullptr ? 1 : 0);
  if (options_.positions == EncoderOptions::Positions::learned) {
    learned_positions_ =
        &parameter("positions", bochner::init::gaussian({places, options_.dim}, kPositionDeviation, init));
  } else if (options_.positions == EncoderOptions::Positions::sinusoidal) {
    sinusoids_ = sinusoidal_positions(places, options_.dim);
  }
  BlockOptions block{.dim = options_.dim,
                     .hidden = options_.hidden,
                     .order = options_.block,
                     .attention = options_.attention,
                     .activation = options_.activation,
                     .linear = options_.linear,
                     .dropout = options_.dropout,
                     .hidden_dropout = options_.dropout,
                     .norm_eps = options_.norm_eps};
  block.attention.mechanism.set_default_length(places);
  block.attention.rotary = turns(options_) ? places : 0;
  if (options_.attention.convolution > 0) block.attention.columns = options_.width;
  block.attention.rotary_width = options_.positions == EncoderOptions::Positions::rotary_2d ? options_.width : 0;
  blocks_ =
      std::make_unique<TransformerBlocks>(sub("blocks"), blocks_like(block, options_.layers), options_.recompute, init);
}

Encoder::States Encoder::forward(const Tensor& ids, const Tensor& keys, Context& context) const {
  const Scope scope(name());
  if (ids.rank() != 2) fail("encoder: ids must be (batch, length), got {}", ids.shape().str());
  const SequenceSlice* const part = context.slice;
  const int64_t length = part == nullptr ? ids.size(1) : part->length();
  if (length > options_.length) {
    fail("encoder: a sequence of {} tokens is longer than the model's {}", length, options_.length);
  }
  int64_t first = part == nullptr ? 0 : part->begin();  // place of the first vector
  const bool has_cls = cls_ != nullptr && (part == nullptr || part->is_first());
  const int64_t first_token = first + (cls_ != nullptr ? 1 : 0);
  Variable x = tokens_.forward(ids, positions(first_token, ids.size(1)), options_.codes);  // (B, L, dim)
  Tensor mask = keys;
  if (has_cls) {
    const Variable place = positions(first, 1);
    const Variable cls = place.defined() ? *cls_ + place : Variable(*cls_);
    x = concat({as_type_of(x, expand(cls, {ids.size(0), 1, options_.dim})), x}, 1);  // (B, 1 + L, dim)
    if (keys.defined()) {
      const Variable real = Tensor::full({ids.size(0), 1}, 1, DType::boolean, ids.device());
      mask = concat({real, keys}, 1).value();
    }
  } else {
    first = first_token;
  }
  x = drop(x, options_.dropout, context);
  x = blocks_->forward(x, {mask, options_.causal, first}, context);
  return {norm_.forward(x), mask};
}

/// Those of `count` places from `first` on: (count, dim). Undefined if attention turns its queries and keys instead.
Variable Encoder::positions(int64_t first, int64_t count) const {
  if (turns(options_)) return {};
  if (learned_positions_ != nullptr) return slice(*learned_positions_, 0, first, first + count);
  const Tensor& tokens = tokens_.weight.value;
  if (!placed_sinusoids_.defined() || placed_sinusoids_.dtype() != tokens.dtype() ||
      placed_sinusoids_.device() != tokens.device())
    placed_sinusoids_ = sinusoids_.cast(tokens.dtype()).to(tokens.device());
  return placed_sinusoids_.slice(0, first, first + count);
}

/// The sum over slices, if there are any.
Variable Encoder::over_slices(const Variable& x, Context& context) const {
  return context.slice == nullptr ? x : sum_over_slices(x, *context.slice);
}

Variable Encoder::pool(const States& states, Context& context) const {
  const Variable pooled = pool_states(states, context);
  return pooled_norm_ == nullptr ? pooled : pooled_norm_->forward(pooled, context);
}

Variable Encoder::pool_states(const States& states, Context& context) const {
  const Variable& x = states.x;
  const bool of_one =
      options_.pooling == EncoderOptions::Pooling::cls || options_.pooling == EncoderOptions::Pooling::first;
  if (of_one) {
    const bool here = context.slice == nullptr || context.slice->is_first();
    // 0 in other slices, but still dependent on x: their tokens get gradients through attention.
    return over_slices(here ? as_computed(select(x, 1, 0)) : as_computed(sum(x, {1})) * 0, context);
  }
  if (options_.pooling == EncoderOptions::Pooling::max) {
    if (context.slice != nullptr)
      fail("--sequence-shards: the largest of all tokens needs whole sequences; choose pooling by a mean");
    if (!states.mask.defined()) return as_computed(amax(x, {1}));
    return as_computed(amax(where(states.mask.unsqueeze(2), x, -std::numeric_limits<double>::infinity()), {1}));
  }
  Variable real;  // (B, L, 1)
  if (states.mask.defined()) real = states.mask.cast(x.dtype()).unsqueeze(2);
  const Variable total = over_slices(as_computed(sum(states.mask.defined() ? x * real : x, {1})), context);  // (B, dim)
  if (options_.pooling == EncoderOptions::Pooling::mean_padded) return total / static_cast<double>(options_.length);
  if (states.mask.defined()) return total / over_slices(sum(as_computed(real), {1}), context);
  const int64_t places = context.slice == nullptr ? x.size(1) : context.slice->length() + (cls_ != nullptr ? 1 : 0);
  return total * (1 / static_cast<double>(places));
}

int64_t require_classes(int64_t classes) {
  if (classes < 1) fail("classifier: {} classes; at least 1", classes);
  return classes;
}

ClassifierHead::ClassifierHead(Slot slot, int64_t inputs, int64_t hidden, int64_t classes, const LinearOptions& linear,
                               Generator& init)
    : Module(std::move(slot)),
      hidden_(hidden > 0 ? std::make_unique<Linear>(sub("hidden"), inputs, hidden, init, linear) : nullptr),
      classes_(sub("classes"), hidden > 0 ? hidden : inputs, require_classes(classes), init, linear) {}

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
  return head_.units(trunk_.pool(trunk_.forward(ids, mask, context), context));
}

}  // namespace bochner
