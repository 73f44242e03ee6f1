#include "experiments/common/run/paper.h"

#include <fmt/format.h>

#include "engine/io/csv.h"

namespace bochner {

std::string value_text(const PaperNumber& number) {
  return number.deviation ? fmt::format("{:g} ± {:g}", number.value, *number.deviation)
                          : fmt::format("{:g}", number.value);
}

PaperTable PaperTable::parse(std::string_view csv) {
  PaperTable table;
  if (csv.empty()) return table;
  CsvReader reader(bytes_of(csv), "paper.csv");
  reader.read_header();
  const int source = reader.column("source");
  const int protocol = reader.column("protocol");
  const int task = reader.column("task");
  const int attention = reader.column("attention");
  const int metric = reader.column("metric");
  const int value = reader.column("value");
  const int deviation = reader.column("deviation");
  while (reader.next()) {
    PaperNumber number{std::string(reader[source]),
                       std::string(reader[protocol]),
                       std::string(reader[task]),
                       std::string(reader[attention]),
                       std::string(reader[metric]),
                       reader.number(value),
                       std::nullopt};
    if (!reader[deviation].empty()) number.deviation = reader.number(deviation);
    table.numbers_.push_back(std::move(number));
  }
  return table;
}

const PaperNumber* PaperTable::find(std::string_view protocol, std::string_view task, std::string_view attention,
                                    std::string_view metric) const {
  for (const PaperNumber& number : numbers_) {
    if (number.protocol != protocol || number.task != task || number.attention != attention) continue;
    if (metric.empty() || number.metric == metric) return &number;
  }
  return nullptr;
}

}  // namespace bochner
