#include "experiments/glue/tasks.h"

#include <filesystem>

#include "engine/error.h"

namespace bochner::glue {
namespace {

std::filesystem::path folder_of(const RunOptions& run) { return std::filesystem::path(run.data) / "glue"; }

/// Splits off the last tenth of a training set whose development set is missing.
std::pair<Table, Table> held_out(const Table& train) {
  const int64_t kept = train.size() - train.size() / 10;
  return {train.part(0, kept), train.part(kept, train.size())};
}

/// Loads what is learnt from and what is measured on.
void load_labelled(const TextConfig& config, const RunOptions& run, const Messages& messages, Texts& texts) {
  const std::filesystem::path folder = folder_of(run);
  const Corpus& corpus = *texts.corpus;
  const ReadOptions options{.partial = config.partial};
  const auto encoded = [&](const Table& table) {
    return encode(table, *texts.tokenizer, config.max_length, messages.say);
  };
  Table train = read(folder, corpus, corpus.train, options, messages.say);
  if (train.size() < corpus.train.rows) {
    texts.remarks.push_back(fmt::format("learnt from {} of the {} published rows", train.size(), corpus.train.rows));
  }
  if (config.partial.taken && !is_there(folder, corpus, corpus.dev[0], options)) {
    auto [kept, dev] = held_out(train);
    train = std::move(kept);
    texts.dev.push_back(encoded(dev));
    texts.remarks.push_back(
        fmt::format("tested on the last {} rows of the training set, in the place of a development set", dev.size()));
  } else {
    texts.remarks.emplace_back("tested on the development set, which also chose the model: the test set has no labels");
    for (const FileLayout& dev : corpus.dev) {
      texts.dev.push_back(encoded(read(folder, corpus, dev, options, messages.say)));
    }
  }
  texts.train = encoded(train);
}

Texts load(const Corpus& corpus, const TextConfig& config, const RunOptions& run, const Messages& messages) {
  Texts texts;
  texts.corpus = &corpus;
  texts.tokenizer =
      std::make_shared<const Wordpiece>(read_pretrained_vocabulary(config.pretrained), config.special_in_text);
  if (reads_labelled(run)) load_labelled(config, run, messages, texts);
  return texts;
}

GlueTask task_of(const Corpus& corpus, const std::shared_ptr<const TextConfig>& config,
                 std::vector<std::string> metrics) {
  GlueTask task;
  task.name = corpus.name;
  task.load = [&corpus, config](const RunOptions& run, const Messages& messages) {
    return load(corpus, *config, run, messages);
  };
  task.best_by = metrics.front();
  metrics.insert(metrics.begin(), "loss");
  task.metrics = std::move(metrics);
  return task;
}

}  // namespace

void TextConfig::fields(Fields& f) {
  f("pretrained", pretrained,
    "folder of the pretrained model: config.json, model.safetensors, and vocab.txt or tokenizer.json");
  f("max-length", max_length, "tokens of a text or a pair; of longer pairs the longer text is cut first").at_least(3);
  f("special-in-text", special_in_text, "[MASK] within a text is that token; false: a bracket, a word, a bracket");
  partial.field(
      f,
      "take files of fewer rows than the published ones, TRAIN.part*.tsv for TRAIN.tsv, and where there is no "
      "development set the last tenth of the training set");
}

std::vector<GlueTask> glue_tasks(const std::shared_ptr<const TextConfig>& config) {
  // The first metric is the one in SNNK's tables; it also chooses the best model.
  const auto entry = [&](const char* name, std::vector<std::string> metrics) {
    return task_of(corpus_named(name), config, std::move(metrics));
  };
  return {
      entry("cola", {"mcc", "accuracy"}),
      entry("sst-2", {"accuracy"}),
      entry("mrpc", {"f1", "accuracy"}),
      entry("qqp", {"f1", "accuracy"}),
      entry("sts-b", {"spearman", "pearson"}),
      entry("mnli", {"accuracy"}),
      entry("qnli", {"accuracy"}),
      entry("rte", {"accuracy"}),
      entry("wnli", {"accuracy"}),
  };
}

bool reads_labelled(const RunOptions& run) { return run.predict.empty(); }

std::vector<TestSet> test_sets(const RunOptions& run, const TextConfig& config, const Corpus& corpus) {
  std::vector<TestSet> tests = corpus.test;
  const Corpus& diagnostic = corpus_named("ax");
  const bool is_asked = corpus.classes == diagnostic.classes;
  for (const TestSet& test : diagnostic.test) {
    if (is_asked && is_there(folder_of(run), diagnostic, test.file, {config.partial})) tests.push_back(test);
  }
  return tests;
}

Encoded encode_test(const RunOptions& run, const TextConfig& config, const Texts& texts, const TestSet& test,
                    const Say& say) {
  const Corpus& diagnostic = corpus_named("ax");
  const Corpus& corpus = test.submission == diagnostic.test[0].submission ? diagnostic : *texts.corpus;
  const Table table = read(folder_of(run), corpus, test.file, {config.partial}, say);
  return encode(table, *texts.tokenizer, config.max_length, say);
}

}  // namespace bochner::glue
