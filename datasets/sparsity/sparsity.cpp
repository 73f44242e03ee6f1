#include "datasets/sparsity/sparsity.h"

#include <memory>

#include "engine/io/data_log.h"

namespace bochner::sparsity {
namespace {

constexpr uint8_t kTokens[] = {token_of(-1, 0), token_of(1, 0), token_of(-1, 1), token_of(1, 1)};

std::shared_ptr<const Dataset> part(const char* name, const std::vector<uint8_t>& all, int64_t first, int64_t size,
                                    int64_t length) {
  std::vector<uint8_t> tokens(all.begin() + first * length, all.begin() + (first + size) * length);
  std::vector<int64_t> offsets(static_cast<size_t>(size) + 1);
  std::vector<int32_t> labels(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    int sum = 0;
    for (int64_t j = i * length; j < (i + 1) * length; ++j) {
      const uint8_t token = tokens[static_cast<size_t>(j)];
      sum += value_of(token) * relevance_of(token);
    }
    labels[static_cast<size_t>(i)] = sum + kBound;
    offsets[static_cast<size_t>(i) + 1] = (i + 1) * length;
  }
  return std::make_shared<PackedDataset<uint8_t>>(name, std::move(tokens), std::move(offsets), std::move(labels));
}

}  // namespace

Task task(const GeneratorOptions& options) {
  Task task;
  task.name = "sparsity";
  task.classes = kClasses;
  task.vocabulary = static_cast<int64_t>(std::size(kTokens)) + 1;
  task.max_length = options.length;
  return task;
}

TaskData load_task(const GeneratorOptions& options) {
  const std::vector<uint8_t> all = generate(options);
  log_generated("sparsity", {std::as_bytes(std::span(all))});
  TaskData data;
  data.task = task(options);
  data.train = part("sparsity train", all, 0, options.train, options.length);
  data.valid = part("sparsity valid", all, options.train, options.valid, options.length);
  data.test = part("sparsity test", all, options.train + options.valid, options.test, options.length);
  return data;
}

Tensor codes() {
  std::vector<float> values(3, 0);
  for (const uint8_t token : kTokens) {
    values.insert(values.end(), {value_of(token) == 1 ? 1.F : 0.F, value_of(token) == -1 ? 1.F : 0.F,
                                 static_cast<float>(relevance_of(token))});
  }
  return Tensor::from(values, {task({}).vocabulary, 3});
}

}  // namespace bochner::sparsity
