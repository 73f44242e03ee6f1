#include "experiments/learners/sequence/random_data.h"

#include "engine/random.h"

namespace bochner::sequence {

TaskData random_data(const Task& task, int64_t batch) {
  Generator generator(0);
  const auto split = [&](const char* name, int64_t examples) -> std::shared_ptr<const Dataset> {
    std::vector<int32_t> tokens;
    std::vector<int64_t> offsets = {0};
    std::vector<int32_t> labels;
    tokens.reserve(static_cast<size_t>(examples * task.sequences * task.max_length));
    for (int64_t i = 0; i < examples; ++i) {
      for (int s = 0; s < task.sequences; ++s) {
        for (int64_t k = 0; k < task.max_length; ++k) {
          tokens.push_back(static_cast<int32_t>(1 + generator.below(task.vocabulary - 1)));
        }
        offsets.push_back(static_cast<int64_t>(tokens.size()));
      }
      labels.push_back(static_cast<int32_t>(i % task.classes));
    }
    return std::make_shared<PackedDataset<int32_t>>(task.name + " random " + name, tokens, offsets, labels,
                                                    task.sequences);
  };
  return {task, split("train", 2 * batch), split("valid", batch), split("test", batch)};
}

}  // namespace bochner::sequence
