#include "experiments/lra/tasks.h"

#include "datasets/text/bags.h"

namespace bochner::lra {

std::vector<Baseline> bags_of(const TaskData& data) {
  const auto accuracy = [&](text::Bag bag) {
    return text::bag_accuracy(dynamic_cast<const text::ByteTexts&>(*data.train),
                              dynamic_cast<const text::ByteTexts&>(*data.test), bag, data.task.max_length);
  };
  return {{"bag of bytes", {{"accuracy", accuracy(text::Bag::bytes)}}},
          {"bag of words", {{"accuracy", accuracy(text::Bag::words)}}}};
}

std::vector<ArenaTask> arena_tasks() {
  return {
      listops_task(), pathfinder_task(), pathx_task(), text_task(), retrieval_task(), films_task(), image_task(),
  };
}

}  // namespace bochner::lra
