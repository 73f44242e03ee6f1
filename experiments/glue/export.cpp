#include "experiments/glue/export.h"

#include <nlohmann/json.hpp>

#include "engine/io/file.h"
#include "experiments/common/run/answer.h"
#include "experiments/learners/adaptation/adapted.h"
#include "layers/models/hugging_face.h"

namespace bochner::glue {
namespace {

namespace fs = std::filesystem;

/// Without it transformers has to guess whether text is made lower-case.
void write_tokenizer_config(const fs::path& pretrained, const fs::path& to, int64_t length) {
  if (fs::exists(to / "tokenizer_config.json")) return;
  const WordpieceOptions options = read_pretrained_vocabulary(pretrained).options;
  nlohmann::ordered_json config;
  config["tokenizer_class"] = "BertTokenizer";
  config["model_max_length"] = length;
  config["do_lower_case"] = options.lower_case;
  config["strip_accents"] = options.strip_accents ? nlohmann::ordered_json(*options.strip_accents) : nullptr;
  config["tokenize_chinese_chars"] = options.split_chinese;
  write_file_atomically(to / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace

void export_run(const Config& config, const Say& say) {
  const fs::path pretrained = config.text->pretrained;
  const fs::path to = config.folder();
  const Corpus& corpus = corpus_named(config.run.task);
  const auto classes = static_cast<int64_t>(corpus.classes.size());
  Problem::Base base;
  const std::shared_ptr<Bert> bert = make_bert(config, corpus.is_regression() ? 1 : classes, say, base);
  load_module(*bert, best_of(config.exported), base);
  merge_adapter(*bert);
  save_pretrained(*bert, to, pretrained);
  write_tokenizer_config(pretrained, to, bert->options().length);
  fmt::print("{}\n", config.to);
}

}  // namespace bochner::glue
