// Any bytes as each file of GLUE.
#include "datasets/glue/tables.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

namespace {

void parse(Bytes bytes, const glue::Corpus& corpus, const glue::FileLayout& layout) {
  fuzz::may_refuse([&] {
    const glue::Table table = glue::parse(bytes, "fuzz", corpus, layout);
    const auto rows = static_cast<size_t>(table.size());
    fuzz::must(rows > 0, "a table has rows");
    fuzz::must(table.labels.size() == (corpus.is_regression() ? 0 : rows), "each row has a label");
    fuzz::must(table.scores.size() == (corpus.is_regression() ? rows : 0), "each row has a score");
    int64_t empty = 0;
    for (int64_t row = 0; row < table.size(); ++row) {
      for (int s = 0; s < table.sentences; ++s) {
        const std::string_view sentence = table.sentence(row, s);
        fuzz::must(sentence.find_first_of("\t\n") == sentence.npos, "a sentence is one field");
        empty += sentence.empty() ? 1 : 0;
      }
    }
    fuzz::must(table.empty == empty, "empty sentences are counted");
    for (const int32_t label : table.labels) {
      const bool is_class = label >= 0 && label < static_cast<int32_t>(corpus.classes.size());
      fuzz::must(layout.label.empty() ? label == glue::kUnlabelled : is_class, "a label is a class");
    }
    for (const float score : table.scores) fuzz::must(score >= 0 && score <= 5, "a score is between 0 and 5");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes = fuzz::input(data, size);
  for (const glue::Corpus& corpus : glue::corpora()) {
    if (!corpus.train.name.empty()) parse(bytes, corpus, corpus.train);
    for (const glue::TestSet& test : corpus.test) parse(bytes, corpus, test.file);
  }
  return 0;
}
