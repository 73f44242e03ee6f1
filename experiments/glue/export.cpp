#include "experiments/glue/export.h"

#include "experiments/common/run/answer.h"
#include "experiments/learners/adaptation/adapted.h"
#include "layers/models/hugging_face.h"

namespace bochner::glue {

void export_run(const Config& config, const Say& say) {
  const std::filesystem::path pretrained = config.text->pretrained;
  const std::filesystem::path to = config.folder();
  const Corpus& corpus = corpus_named(config.run.task);
  const auto classes = static_cast<int64_t>(corpus.classes.size());
  Adapted adapted;
  const std::shared_ptr<Bert> bert = make_bert(config, corpus.is_regression() ? 1 : classes, say, adapted);
  load_module(*bert, best_of(config.exported), adapted.base);
  merge_adapter(*bert);
  save_pretrained(*bert, to, pretrained);
  write_tokenizer_config(to, read_pretrained_vocabulary(pretrained).options, bert->options().length);
  fmt::print("{}\n", config.to);
}

}  // namespace bochner::glue
