#include "layers/models/bert.h"

#include "autograd/fused/bias_activation.h"
#include "autograd/fused/embedding.h"
#include "autograd/fused/linear.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "layers/mixed_precision.h"
#include "layers/models/pretrained_blocks.h"

namespace bochner {
namespace {

const BertOptions& checked(const BertOptions& options) {
  if (options.vocabulary < 1 || options.length < 1 || options.types < 1 || options.layers < 0 || options.dim < 1 ||
      options.hidden < 1 || options.classes < 0) {
    fail(
        "bert: vocabulary {}, length {}, types {}, layers {}, dim {}, hidden {}, classes {}: layers and classes must "
        "be at least 0, the others at least 1",
        options.vocabulary, options.length, options.types, options.layers, options.dim, options.hidden,
        options.classes);
  }
  if (!options.pooler && (options.next_sentence || options.classes > 0))
    fail("bert: the head of {} reads what the pooler gives; set pooler",
         options.classes > 0 ? "classes" : "the next sentence");
  return options;
}

}  // namespace

MaskedTokenHead::MaskedTokenHead(Slot slot, const BertOptions& options, Generator& init)
    : Module(std::move(slot)),
      activation_(options.activation),
      dense_(sub("dense"), options.dim, options.dim, init, normal_weights(options)),
      norm_(sub("norm"), options.dim, options.norm_eps),
      bias_(parameter("bias", Tensor::zeros({options.vocabulary}))) {}

Variable MaskedTokenHead::forward(const Variable& x, const Variable& embeddings) const {
  const Scope scope(name());
  const Variable u = linear(x, {dense_.weight});
  const Variable h = norm_.forward(bias_activation(u, dense_.bias_or_none(), activation_));
  return linear(h, {embeddings, bias_});
}

Bert::Bert(Slot slot, const BertOptions& options, Generator& init)
    : PretrainedModel(std::move(slot)),
      options_(checked(options)),
      tokens_(sub("embeddings.tokens"), options.vocabulary, options.dim, options.deviation, init),
      positions_(sub("embeddings.positions"), options.length, options.dim, options.deviation, init),
      types_(sub("embeddings.types"), options.types, options.dim, options.deviation, init),
      norm_(sub("embeddings.norm"), options.dim, options.norm_eps),
      dropout_(sub("embeddings.dropout"), options.dropout),
      blocks_(sub("blocks"), pretrained_blocks(options, BlockOptions::Order::post_norm, options.length),
              options.recompute, init) {
  if (options.padding >= options.vocabulary)
    fail("bert: the padding token {} is none of {} tokens", options.padding, options.vocabulary);
  if (options.positions == BertOptions::Positions::sinusoidal) {
    positions_.weight.value.copy_(sinusoidal_positions(options.length, options.dim) * options.deviation);
    positions_.set_trainable(false);
  }
  if (options.padding >= 0) tokens_.weight.value.slice(0, options.padding, options.padding + 1).fill_(0);
  const auto linear_of = [&](const char* name, int64_t outputs) {
    return std::make_unique<Linear>(sub(name), options.dim, outputs, init, normal_weights(options));
  };
  if (options.pooler) pooler_ = linear_of("pooler", options.dim);
  if (options.masked_tokens) masked_tokens_ = std::make_unique<MaskedTokenHead>(sub("masked_tokens"), options, init);
  if (options.next_sentence) next_sentence_ = linear_of("next_sentence", 2);
  classifier_dropout_ = std::make_unique<DropoutLayer>(sub("classifier_dropout"), options.classifier_dropout);
  if (options.classes > 0) classifier_ = linear_of("classifier", options.classes);
}

Variable Bert::forward(const Input& input, Context& context, std::vector<Variable>* states) const {
  const Scope scope(name());
  const Tensor& ids = input.ids;
  if (ids.rank() != 2) fail("bert: ids must be (batch, length), got {}", ids.shape().str());
  if (ids.size(1) > options_.length) {
    fail("bert: a sequence of {} tokens is longer than the model's {}; cut it", ids.size(1), options_.length);
  }
  for (const auto& [name, tensor] : {std::pair("mask", input.mask), std::pair("types", input.types)}) {
    if (tensor.defined() && !(tensor.shape() == ids.shape()))
      fail("bert: {} must be {} as ids are, got {}", name, ids.shape().str(), tensor.shape().str());
  }
  const Variable words = embedding_at(tokens_.weight, ids, positions_.weight, options_.padding,
                                      stored_type(tokens_.weight));  // (B, L, dim)
  const Variable types =
      input.types.defined() ? types_.forward(input.types) : as_stored(slice(Variable(types_.weight), 0, 0, 1));
  const Variable x = dropout_.forward(norm_.forward(words + types), context);
  return blocks_.forward(x, {input.mask, false}, context, states);
}

Variable Bert::token_scores(const Variable& x) const {
  if (masked_tokens_ == nullptr) fail("bert: this model has no head for masked tokens");
  return masked_tokens_->forward(as_computed(x), tokens_.weight);
}

Variable Bert::next_sentence_scores(const Variable& pooled) const {
  if (next_sentence_ == nullptr) fail("bert: this model has no head for the next sentence");
  return next_sentence_->forward(pooled);
}

}  // namespace bochner
