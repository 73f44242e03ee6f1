#include "experiments/learners/sequence/contrastive.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "datasets/subset.h"

namespace bochner::sequence {
namespace {

/// Of the two classes of pairs, the one whose texts belong together.
constexpr int64_t kTogether = 1;

/// x / |x|, row by row; 0 stays 0.
Variable normalised(const Variable& x) { return x / sqrt(sum(square(x), {1}, true) + 1e-12); }

class ContrastiveModel final : public Module {
 public:
  ContrastiveModel(const EncoderOptions& options, double temperature, Generator& init)
      : temperature_(temperature), trunk_(sub(""), options, init) {}

  /// ids, mask (n, 2, length) -> s (n, n)
  Variable forward(const Tensor& ids, const Tensor& mask, Context& context) const {
    const int64_t n = ids.size(0);
    const Shape both{2 * n, ids.size(2)};
    const bochner::Encoder::States states = trunk_.forward(ids.reshape(both), mask.reshape(both), context);
    const Variable pairs = reshape(normalised(trunk_.pool(states, context)), {n, 2, trunk_.options().dim});
    return matmul(select(pairs, 1, 0), transpose(select(pairs, 1, 1), 0, 1)) / temperature_;
  }

 private:
  double temperature_;
  bochner::Encoder trunk_;
};

}  // namespace

Examples PlacesInBatch::examples_of(Examples pairs) {
  for (auto& [name, tensor] : pairs.tensors) {
    if (name == "labels") tensor = Tensor::arange(pairs.size());
  }
  return pairs;
}

Problem contrastive(const RunOptions& run, const EncoderOptions& options, const TaskData& data, double temperature) {
  if (data.task.sequences != 2) {
    fail("contrastive learning: an example of {} is one sequence, not a pair; choose retrieval or films",
         data.task.name);
  }
  if (run.batch < 2) fail("contrastive learning: --batch={}: a pair alone has no other to be told from", run.batch);
  require_batch_norm_of_batches(run, options);
  TaskData together = data;
  for (auto* part : {&together.train, &together.valid, &together.test}) {
    *part = examples_of(*part, kTogether);
  }
  Generator init = stream_of(run.seed, Stream::init);
  const auto model = std::make_shared<ContrastiveModel>(options, temperature, init);
  Problem problem = without_model(run, options, together);
  problem.model = model;
  problem.forward = [model](const Examples& examples, Context& context) -> Outputs {
    return {model->forward(examples.at("ids"), examples.at("mask"), context)};
  };
  problem.objective = std::make_shared<InBatchContrast>();
  problem.train = std::make_unique<PlacesInBatch>(std::move(problem.train));
  problem.split = [pairs = problem.split](Split of) { return std::make_unique<PlacesInBatch>(pairs(of)); };
  problem.metrics = metrics_named({"loss", "accuracy"});
  return problem;
}

}  // namespace bochner::sequence
