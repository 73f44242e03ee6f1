// Gradients that are summed over processes during backward. The processes are threads of this one.
#include "experiments/learners/sharded_step.h"

#include <gtest/gtest.h>

#include <map>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "layers/linear.h"
#include "tests/engine/comm/in_threads.h"

namespace bochner {
namespace {

constexpr int kShards = 6;

/// Five layers; the middle one sees only the odd shards, and the last one none.
class Layers : public Module {
 public:
  explicit Layers(Generator init)
      : first_(sub("first"), 3, 40, init),
        odd_(sub("odd"), 40, 40, init),
        second_(sub("second"), 40, 50, init),
        third_(sub("third"), 50, 2, init),
        never_(sub("never"), 2, 2, init) {}
  Variable forward(const Variable& x, bool odd) const {
    Variable y = relu(first_.forward(x));
    if (odd) y = odd_.forward(y);
    return third_.forward(relu(second_.forward(y)));
  }

 private:
  Linear first_, odd_, second_, third_, never_;
};

struct Found {
  std::map<std::string, std::vector<float>> gradients;
  double loss = 0;
  int64_t bytes_in_backward = 0;  ///< sent before this process's last backward pass was over
  int64_t bytes = 0;
};

Found step_of(Communicator& comm, int64_t bucket) {
  Layers model(Generator(1));
  ShardedStep step(model, comm, kShards, 1, false, bucket);
  Found found;
  const Tensor sums = step.run([&](int64_t i, SequenceSlice*, const Tape::Completed& completed) {
    Generator of_shard(static_cast<uint64_t>(i) + 10);
    const Tensor x = normal({5, 3}, of_shard);
    if (i == 4) return Tensor::zeros({1}, DType::f64);  // a shard without examples has no backward pass
    Tape tape;
    const Variable loss = sum(square(model.forward(x, i % 2 == 1)));
    const int64_t before = comm.bytes_sent();
    tape.backward(loss, completed);
    found.bytes_in_backward += comm.bytes_sent() - before;
    return loss.value().cast(DType::f64).reshape({1});
  });
  for (const Parameter* parameter : model.parameters()) {
    if (parameter->grad.defined()) found.gradients[parameter->name] = parameter->grad.to_vector<float>();
  }
  found.loss = sums.data<double>()[0];
  found.bytes = comm.bytes_sent();
  return found;
}

TEST(ShardedStep, BucketsAndProcessesChangeNoBit) {
  const Found expected = step_of(alone(), ShardedStep::kBucket);
  EXPECT_EQ(expected.gradients.size(), 8U);
  EXPECT_FALSE(expected.gradients.contains("never.weight"));
  for (const int64_t bucket : {int64_t{1}, int64_t{100}, int64_t{2000}, ShardedStep::kBucket}) {
    for (int processes = 2; processes <= kShards; ++processes) {
      test::in_threads(processes, [&](Communicator& comm) {
        const Found found = step_of(comm, bucket);
        EXPECT_EQ(found.gradients, expected.gradients) << processes << " processes, buckets of " << bucket;
        EXPECT_EQ(found.loss, expected.loss);
      });
    }
  }
}

TEST(ShardedStep, GradientsSetOutDuringBackward) {
  test::in_threads(2, [&](Communicator& comm) {
    // Buckets start at the end of the model, with a layer that has no gradient, which is known only after backward.
    EXPECT_EQ(step_of(comm, 1).bytes_in_backward, 0);
  });
  test::in_threads(2, [&](Communicator& comm) {
    Generator init(1);
    Linear model({}, 30, 20, init);
    ShardedStep step(model, comm, 2, 1, false, 1);
    int64_t in_backward = 0;
    step.run([&](int64_t, SequenceSlice*, const Tape::Completed& completed) {
      const Tensor x = normal({5, 30}, init);
      Tape tape;
      const Variable loss = sum(square(model.forward(x)));
      const int64_t before = comm.bytes_sent();
      tape.backward(loss, completed);
      in_backward = comm.bytes_sent() - before;
      return Tensor::zeros({1}, DType::f64);
    });
    EXPECT_GE(in_backward, 4 * (30 * 20 + 20) / 2);  // half of each bucket goes to the other process
  });
}

TEST(ShardedStep, ManyStepsInTheSameChannels) {
  test::in_threads(3, [&](Communicator& comm) {
    Generator init(1);
    Linear model({}, 8, 4, init);
    ShardedStep step(model, comm, 3, 1, false, 1);
    for (int k = 1; k <= 20; ++k) {
      const Tensor sums = step.run([&](int64_t i, SequenceSlice*, const Tape::Completed& completed) {
        Tape tape;
        tape.backward(sum(model.forward(Tensor::full({1, 8}, k * static_cast<double>(i + 1)))), completed);
        return Tensor::full({1}, k, DType::f64);
      });
      EXPECT_EQ(sums.data<double>()[0], 3 * k);
      for (Parameter* parameter : model.parameters()) {
        const double expected = parameter->name == "bias" ? 3 : 6 * k;
        for (const float x : parameter->grad.to_vector<float>()) ASSERT_EQ(x, expected) << parameter->name << " " << k;
        parameter->grad = Tensor();
      }
    }
  });
}

}  // namespace
}  // namespace bochner
