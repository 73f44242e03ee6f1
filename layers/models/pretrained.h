// What BERT and ViT have in common besides their blocks: a pooler and a classifier, which read the state of the first
// token, and changes to these and to the blocks for fine-tuning on another task (SNNK 4.3, 4.4).
//
//   const Variable logits = model.class_scores(model.pool(states), context);
#pragma once

#include <memory>
#include <string_view>

#include "layers/dropout.h"
#include "layers/models/block.h"

namespace bochner {

class PretrainedModel : public Module {
 public:
  using Module::Module;

  /// `bert` or `vit`: the model_type of config.json.
  virtual std::string_view type() const = 0;
  /// Size of a token's state.
  virtual int64_t dim() const = 0;
  /// Whether there are heads, that is, outputs for a task: in files, the names of the trunk then have a prefix.
  virtual bool has_heads() const = 0;
  /// Outputs of the classifier; 0: there is none.
  virtual int64_t classes() const = 0;
  /// The names of the classes; empty: none.
  virtual const std::vector<std::string>& labels() const = 0;
  /// For each class, its row in the folder that load_pretrained read; adapters (peft.h) use the folder's order, too.
  /// Empty: the same order.
  const std::vector<int64_t>& rows_in_folder() const { return rows_in_folder_; }
  void set_rows_in_folder(std::vector<int64_t> rows) { rows_in_folder_ = std::move(rows); }

  /// The input of the classifier: tanh(W x_0 + b), from the state x_0 of the first token, in f32.
  /// (batch, length, dim) -> (batch, dim)
  /// If pooler and classifier are bundled, Phi(x_0).  (batch, length, dim) -> (batch, features)
  /// A ViT without a pooler returns x_0; for BERT that is an Error.
  Variable pool(const Variable& x) const;
  /// (batch, dim) -> (batch, classes). An Error if there is no classifier.
  Variable class_scores(const Variable& pooled, Context& context) const;

  // Changes to a pretrained model, to be made before an optimizer holds its parameters.

  virtual std::deque<TransformerBlock>& blocks() = 0;
  Linear* pooler() { return pooler_.get(); }          ///< null if there is none
  Linear* classifier() { return classifier_.get(); }  ///< likewise
  /// All parameters except those of pooler and classifier, or of what replaced them.
  std::vector<Parameter*> trunk_parameters();
  /// Replaces the pooler by an SNNK layer (SNNK §4.3.1). It starts from the weights of pooler and classifier.
  void replace_pooler(const SnnkOptions& options, Generator& init);
  /// Bundles every SNNK layer and the product after it, for the pooler the classifier, into one matrix (SNNK 3.3),
  /// which is exact: the scores stay the same, up to rounding. False if there is no such layer.
  bool bundle();
  /// W and b of the bundled pooler and classifier; null if they are not bundled.
  Bundle* bundled_pooler() { return bundle_.get(); }

 protected:
  /// Whether a classifier may read the state of the first token as it is.
  virtual bool needs_pooler() const = 0;

  std::unique_ptr<Linear> pooler_;
  std::unique_ptr<DropoutLayer> classifier_dropout_;  ///< null: none
  std::unique_ptr<Linear> classifier_;

 private:
  std::unique_ptr<SnnkPooler> snnk_pooler_;
  std::unique_ptr<Bundle> bundle_;  ///< replaces snnk_pooler_
  std::vector<int64_t> rows_in_folder_;
};

}  // namespace bochner
