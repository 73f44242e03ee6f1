// The GLUE tasks, as entries of a list: their metrics, and their sentences as ids of the pretrained model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "datasets/glue/encode.h"
#include "datasets/partial.h"
#include "experiments/learners/task.h"

namespace bochner::glue {

/// The options of texts, which all tasks share.
struct TextConfig {
  std::string pretrained{};
  int64_t max_length = 128;
  bool special_in_text = true;
  Partial partial{};

  void fields(Fields& f);
};

/// The texts of a task, as ids.
struct Texts {
  const Corpus* corpus = nullptr;
  std::shared_ptr<const Wordpiece> tokenizer;
  Encoded train;                     ///< this and dev are empty unless reads_labelled()
  std::vector<Encoded> dev;          ///< MNLI has two
  std::vector<std::string> remarks;  ///< on the data, to accompany every number

  bool is_regression() const { return corpus->is_regression(); }
  /// Outputs of the model: classes, or one number.
  int64_t outputs() const { return is_regression() ? 1 : static_cast<int64_t>(corpus->classes.size()); }
};

using GlueTask = TaskEntry<Texts>;

/// All tasks, in the order of --help.
std::vector<GlueTask> glue_tasks(const std::shared_ptr<const TextConfig>& config);

/// Whether the training and the development set are needed: --predict only answers test sets.
bool reads_labelled(const RunOptions& run);

/// The test sets of a task that are in the data folder; for MNLI, the diagnostic set, too. An Error if one that belongs
/// to the task is missing.
std::vector<TestSet> test_sets(const RunOptions& run, const TextConfig& config, const Corpus& corpus);
/// The ids of a test set of a corpus. Tells `say` how many rows were read, and what is unusual.
Encoded encode_test(const RunOptions& run, const TextConfig& config, const Texts& texts, const TestSet& test,
                    const Say& say);

}  // namespace bochner::glue
