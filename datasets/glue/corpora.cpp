#include <algorithm>

#include "datasets/glue/tables.h"
#include "engine/error.h"
#include "engine/nearest.h"

namespace bochner::glue {
namespace {

const std::vector<std::string> kYesNo = {"0", "1"};
const std::vector<std::string> kEntailment = {"entailment", "not_entailment"};
const std::vector<std::string> kThreeWay = {"entailment", "neutral", "contradiction"};

FileLayout labelled(std::string name, int64_t rows, std::vector<std::string> sentences, std::string label = "label") {
  return {.name = std::move(name), .rows = rows, .sentences = std::move(sentences), .label = std::move(label)};
}

TestSet test_of(std::string submission, int64_t rows, std::vector<std::string> sentences, std::string index = "index",
                std::string name = "test") {
  return {.file = {.name = std::move(name), .rows = rows, .sentences = std::move(sentences), .index = std::move(index)},
          .submission = std::move(submission)};
}

/// Training and development set alike.
Corpus corpus(std::string name, std::string folder, std::vector<std::string> classes,
              const std::vector<std::string>& sentences, const std::string& label, int64_t train, int64_t dev,
              int64_t test) {
  return {.name = std::move(name),
          .folder = folder,
          .classes = std::move(classes),
          .train = labelled("train", train, sentences, label),
          .dev = {labelled("dev", dev, sentences, label)},
          .test = {test_of(folder + ".tsv", test, sentences)}};
}

Corpus cola() {
  Corpus cola = corpus("cola", "CoLA", kYesNo, {"sentence"}, "label", 8551, 1043, 1063);
  for (FileLayout* file : {&cola.train, &cola.dev[0]}) file->unnamed = {"source", "label", "star", "sentence"};
  return cola;
}

Corpus qqp() {
  const std::vector<std::string> questions = {"question1", "question2"};
  Corpus qqp = corpus("qqp", "QQP", kYesNo, questions, "is_duplicate", 363846, 40430, 390965);
  qqp.test[0].file.index = "id";
  for (FileLayout* file : {&qqp.train, &qqp.dev[0]}) file->leaves_out_broken_rows = true;
  return qqp;
}

Corpus mnli() {
  const std::vector<std::string> pair = {"sentence1", "sentence2"};
  return {
      .name = "mnli",
      .folder = "MNLI",
      .classes = kThreeWay,
      .train = labelled("train", 392702, pair, "gold_label"),
      .dev = {labelled("dev_matched", 9815, pair, "gold_label"), labelled("dev_mismatched", 9832, pair, "gold_label")},
      .test = {test_of("MNLI-m.tsv", 9796, pair, "index", "test_matched"),
               test_of("MNLI-mm.tsv", 9847, pair, "index", "test_mismatched")}};
}

Corpus diagnostic() {
  return {.name = "ax",
          .folder = "diagnostic",
          .classes = kThreeWay,
          .test = {test_of("AX.tsv", 1104, {"sentence1", "sentence2"}, "index", "diagnostic")}};
}

}  // namespace

const std::vector<Corpus>& corpora() {
  const std::vector<std::string> pair = {"sentence1", "sentence2"};
  static const std::vector<Corpus> all = {
      cola(),
      corpus("sst-2", "SST-2", kYesNo, {"sentence"}, "label", 67349, 872, 1821),
      corpus("mrpc", "MRPC", kYesNo, {"#1 String", "#2 String"}, "Quality", 3668, 408, 1725),
      qqp(),
      corpus("sts-b", "STS-B", {}, pair, "score", 5749, 1500, 1379),
      mnli(),
      corpus("qnli", "QNLI", kEntailment, {"question", "sentence"}, "label", 104743, 5463, 5463),
      corpus("rte", "RTE", kEntailment, pair, "label", 2490, 277, 3000),
      corpus("wnli", "WNLI", kYesNo, pair, "label", 635, 71, 146),
      diagnostic(),
  };
  return all;
}

const Corpus& corpus_named(std::string_view name) {
  const auto found =
      std::find_if(corpora().begin(), corpora().end(), [&](const Corpus& corpus) { return corpus.name == name; });
  if (found != corpora().end()) return *found;
  std::vector<std::string> names;
  for (const Corpus& corpus : corpora()) names.push_back(corpus.name);
  fail("glue: '{}' is none of {}", name, listed(names));
}

}  // namespace bochner::glue
