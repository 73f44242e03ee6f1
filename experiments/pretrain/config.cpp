#include "experiments/pretrain/config.h"

#include <algorithm>
#include <cmath>

#include "experiments/learners/pretrained.h"
#include "layers/models/hugging_face.h"

namespace bochner::pretrain {

void ModelConfig::fields(Fields& f) {
  const size_t before = f.all().size();
  f("layers", layers, "blocks").at_least(1);
  f("dim", dim, "size of a token's state").at_least(1);
  f("heads", heads, "attention heads").at_least(1);
  f("head-dim", head_dim, "size of a head; 0: dim / heads. transformers reads no other").at_least(0);
  f("hidden", hidden, "hidden units of the feed-forward networks").at_least(1);
  f("deviation", deviation, "standard deviation of initial weights").above(0);
  f("positions", positions,
    {{"learned", BertOptions::Positions::learned}, {"sinusoidal", BertOptions::Positions::sinusoidal}},
    "sinusoidal ones are not trained");
  f.only_behind(before, "without --pretrained", [&folder = f.at("pretrained")] { return folder.text().empty(); });
  f("dropout", dropout, "everywhere in the model").at_least(0).below(1);
  attention_blocks_field(f, attention_blocks);
  f.group("mechanism", mechanism);
}

Config::Config() {
  run.task = "masked-tokens";
  run.tasks = {"masked-tokens"};
  run.attentions = attention_names();
  run.attention = "softmax";
  run.batch = 64;
  optim.schedule = "linear";
  optim.rate = 1e-3;
  optim.warmup = 200;
  optim.weight_decay = 0.01;
}

void Config::fields(Fields& f) {
  run.fields(f);
  f("text", text, "files, folders and archives of text to learn from, with commas between them");
  f("valid-text", valid_text, "texts for validation; none: of each twenty documents of --text the last but one");
  f("test-text", test_text, "texts for the test; none: of each twenty documents of --text the last one");
  f("vocab", vocab,
    "a vocab.txt, or a folder with the files of a tokenizer; without it and --pretrained a vocabulary is made from the "
    "texts for training");
  f("pretrained", pretrained, "folder of a BERT whose vocabulary, sizes and weights to begin with");
  f("vocabulary-size", vocabulary_size, "tokens of a vocabulary that is made, at most")
      .at_least(6)
      .at_most(2e6)
      .only("without --vocab and --pretrained", [this] { return vocab.empty() && pretrained.empty(); });
  f("lower-case", lower_case, "A is a; otherwise as the tokenizer in a folder says")
      .only("without --pretrained or a folder as --vocab", [this] { return tokenizer_folder().empty(); });
  f("cache", cache, "folder where texts are kept as tokens; empty: tokens, in --data");
  f("max-length", max_length, "tokens of an example, [CLS] and [SEP] among them").at_least(8).at_most(1 << 20);
  f("next-sentence", next_sentence, "also learn whether the second half of an example follows the first");
  f("share", share, "how large a part of the tokens is hidden").above(0).at_most(1);
  f("epochs", epochs, "how often the texts are gone through")
      .above(0)
      .at_most(1e6)
      .only("without --steps", [steps = &f.at("steps")] { return !steps->was_given(); });
  ExportConfig::fields(f, "the tokenizer");
  f.computed_unless_given({"steps", "optim.evaluate-every"});
  f.group("model", model);
  f.group("optim", optim);
  f.then([this](Fields& fields) {
    take_attention_of(pretrained, fields, "model.mechanism", run.attention, model.mechanism);
    const std::filesystem::path folder = pretrained;
    if (!pretrained.empty() && std::filesystem::exists(folder / "config.json"))
      model.take_sizes_of(pretrained_bert(folder));
  });
}

void ModelConfig::take_sizes_of(const BertOptions& options) {
  layers = options.layers;
  dim = options.dim;
  heads = options.attention.heads;
  head_dim = options.attention.head_dim;
  hidden = options.hidden;
  deviation = options.deviation;
  positions = options.positions;
}

std::string Config::tokenizer_folder() const {
  if (!pretrained.empty()) return pretrained;
  return std::filesystem::is_directory(vocab) ? vocab : "";
}

text::TokenCacheOptions Config::texts() const {
  if (text.empty()) fail("--text: name files, folders or archives of text");
  if (!vocab.empty() && !pretrained.empty()) fail("--vocab and --pretrained: name one of the two");
  return {.texts = text,
          .valid = valid_text,
          .test = test_text,
          .vocabulary = vocab.empty() ? pretrained : vocab,
          .vocabulary_size = vocabulary_size,
          .lower_case = lower_case};
}

void Config::settle(const Fields& fields, int64_t examples) {
  const auto given = [&](const char* name) { return fields.find(name)->was_given(); };
  const int64_t per_epoch = std::max<int64_t>(1, examples / run.batch);
  if (!given("steps")) run.steps = std::max<int64_t>(1, std::llround(epochs * static_cast<double>(per_epoch)));
  if (!given("optim.evaluate-every")) optim.evaluate_every = 0;
}

BertOptions Config::bert_options(int64_t vocabulary, int64_t padding) const {
  BertOptions options;
  if (!pretrained.empty()) {
    options = pretrained_bert(pretrained);
    require_tokens(options, vocabulary, pretrained);
    require_positions(options, max_length);
    options.classes = 0;
    set_attention(options, pretrained, model.mechanism.chosen(run.attention), model.attention_blocks);
  } else {
    options.vocabulary = vocabulary;
    options.padding = padding;
    options.length = max_length;
    options.positions = model.positions;
    options.layers = model.layers;
    options.dim = model.dim;
    options.hidden = model.hidden;
    options.deviation = model.deviation;
    options.attention.heads = model.heads;
    options.attention.head_dim = model.head_dim;
    set_attention(options, {}, model.mechanism.chosen(run.attention), model.attention_blocks);
  }
  options.dropout = model.dropout;
  options.attention_dropout = model.dropout;
  options.masked_tokens = true;
  options.next_sentence = next_sentence;
  options.pooler = next_sentence;
  return options;
}

}  // namespace bochner::pretrain
