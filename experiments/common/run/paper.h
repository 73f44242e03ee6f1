// The papers' own numbers: paper.csv next to an experiment's main.cpp, embedded in its binary.
//
//   source,protocol,task,attention,metric,value,deviation
//   "Skyformer, Table 1",skyformer,text,skyformer,accuracy,64.70,
//
// `value` is as printed, `deviation` may be empty. Accuracies are in percent, as papers print them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bochner {

struct PaperNumber {
  std::string source;
  std::string protocol;
  std::string task;
  std::string attention;
  std::string metric;
  double value = 0;
  std::optional<double> deviation;
};

/// The value as papers print it, `65.2 ± 0.1`.
std::string value_text(const PaperNumber& number);

class PaperTable {
 public:
  /// An Error names a malformed row.
  static PaperTable parse(std::string_view csv);

  const std::vector<PaperNumber>& numbers() const { return numbers_; }
  /// The number of this protocol for this task and mechanism; null if there is none, since a number of another protocol
  /// may be that of another method. With a `metric`, only numbers of that metric count.
  const PaperNumber* find(std::string_view protocol, std::string_view task, std::string_view attention,
                          std::string_view metric = {}) const;

 private:
  std::vector<PaperNumber> numbers_;
};

}  // namespace bochner
