#include "layers/models/pair_classifier.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"

namespace bochner {

PairHead::PairHead(Slot slot, const EncoderOptions& options, Generator& init)
    : Module(std::move(slot)), pair_(options.pair) {
  const bool arena = pair_ == EncoderOptions::Pair::arena;
  int64_t inputs = (arena ? 2 : 4) * options.dim;
  const auto layer = [&](const char* name, int64_t outputs) {
    auto made = std::make_unique<Linear>(sub(name), inputs, outputs, init, options.linear);
    inputs = outputs;
    return made;
  };
  if (arena && options.classifier == 1) fail("pair head: one hidden unit has no half; take 0 or at least 2");
  if (options.classifier > 0) hidden_ = layer("hidden", options.classifier);
  if (options.classifier > 0 && arena) narrow_ = layer("narrow", options.classifier / 2);
  classes_ = layer("classes", require_classes(options.classes));
}

Variable PairHead::forward(const Variable& u, const Variable& v) const {
  const Scope scope(name());
  Variable x = pair_ == EncoderOptions::Pair::arena ? concat({u, v}, 1)                 // (B, 2 dim)
                                                    : concat({u, v, u * v, u - v}, 1);  // (B, 4 dim)
  if (hidden_ != nullptr) x = relu(hidden_->forward(x));
  if (narrow_ != nullptr) x = relu(narrow_->forward(x));
  return classes_->forward(x);
}

PairClassifier::PairClassifier(const EncoderOptions& options, Generator& init)
    : trunk_(sub(""), options, init), head_(sub("classifier"), options, init) {}

Encoder::States PairClassifier::states(const Tensor& ids, const Tensor& mask, Context& context) const {
  if (ids.rank() != 3 || ids.size(1) != 2) {
    fail("pair classifier: ids must be (batch, 2, length), got {}", ids.shape().str());
  }
  const Shape both{2 * ids.size(0), ids.size(2)};
  return trunk_.forward(ids.reshape(both), mask.defined() ? mask.reshape(both) : mask, context);
}

Variable PairClassifier::forward(const Tensor& ids, const Tensor& mask, Context& context) const {
  const Variable pooled = trunk_.pool(states(ids, mask, context), context);  // (2 B, dim)
  const Variable pairs = reshape(pooled, {ids.size(0), 2, trunk_.options().dim});
  return head_.forward(select(pairs, 1, 0), select(pairs, 1, 1));
}

}  // namespace bochner
