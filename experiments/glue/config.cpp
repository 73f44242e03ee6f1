#include "experiments/glue/config.h"

#include "experiments/learners/pretrained.h"

namespace bochner::glue {

constexpr int64_t kLargeRows = 50000;  // SST-2, QNLI, QQP and MNLI have more, the others far fewer

Config::Config() {
  run.tasks = names_of(tasks);
  run.task = "mrpc";
  run.attentions = attention_names();
  run.attention = "softmax";
  run.batch = 32;
  optim.schedule = "linear";
  optim.rate = 2e-5;
}

void Config::fields(Fields& f) {
  run.fields(f);
  f.at("task").instead("ax", "has no training set; train with --task=mnli, and --predict of that run answers ax, too");
  run.length_fields(f);
  text->fields(f);
  FittingConfig::fields(f, "the tokenizer");
  f("large-epochs", large_epochs, "epochs of training sets of more than 50,000 rows; 0: as others")
      .at_least(0)
      .at_most(1e6)
      .only("without --steps", [steps = &f.at("steps")] { return !steps->was_given(); });
  f.group("model", model);
  f.group("optim", optim);
  f.then([this](Fields& fields) {
    take_attention_of(text->pretrained, fields, "model.mechanism", run.attention, model.mechanism);
  });
}

void Config::settle(const Fields& fields, int64_t train_rows) {
  const bool large = large_epochs > 0 && train_rows > kLargeRows;
  settle_length(fields, run, optim, train_rows, large ? large_epochs : epochs);
}

}  // namespace bochner::glue
