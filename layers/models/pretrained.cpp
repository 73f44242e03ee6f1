#include "layers/models/pretrained.h"

#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "layers/mixed_precision.h"

namespace bochner {

Variable PretrainedModel::pool(const Variable& x) const {
  const Variable first = as_computed(select(x, 1, 0));
  if (bundle_ != nullptr) return bundle_->features(first);
  if (snnk_pooler_ != nullptr) return snnk_pooler_->pooled(first);
  if (pooler_ != nullptr) return tanh(pooler_->forward(first));
  if (needs_pooler()) fail("{}: this model has no pooler", type());
  return first;
}

Variable PretrainedModel::class_scores(const Variable& pooled, Context& context) const {
  const Variable x = classifier_dropout_ == nullptr ? pooled : classifier_dropout_->forward(pooled, context);
  if (bundle_ != nullptr) return bundle_->scores(x);
  if (snnk_pooler_ != nullptr) return snnk_pooler_->scores(x);
  if (classifier_ == nullptr) fail("{}: this model has no classifier", type());
  return classifier_->forward(x);
}

std::vector<Parameter*> PretrainedModel::trunk_parameters() {
  std::vector<Parameter*> trunk = parameters();
  for (Module* head :
       std::initializer_list<Module*>{pooler_.get(), classifier_.get(), snnk_pooler_.get(), bundle_.get()}) {
    if (head == nullptr) continue;
    for (Parameter* parameter : head->parameters()) std::erase(trunk, parameter);
  }
  return trunk;
}

void PretrainedModel::replace_pooler(const SnnkOptions& options, Generator& init) {
  if (pooler_ == nullptr || classifier_ == nullptr) fail("{}: there is no pooler with a classifier to replace", type());
  snnk_pooler_ = std::make_unique<SnnkPooler>(sub("snnk_pooler"), *pooler_, *classifier_, options, init);
  pooler_.reset();
  classifier_.reset();
}

bool PretrainedModel::bundle() {
  bool any = false;
  for (TransformerBlock& block : blocks()) any = block.bundle_feed_forward() || any;
  if (snnk_pooler_ == nullptr) return any;
  bundle_.reset(new Bundle(snnk_pooler_->bundle(sub("bundle"))));
  snnk_pooler_.reset();
  return true;
}

}  // namespace bochner
