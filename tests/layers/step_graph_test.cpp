// Recorded training steps give the same bytes as steps that run op by op, whatever comes between them.
#include "engine/step_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/fused/cross_entropy.h"
#include "autograd/optim/optimizer.h"
#include "engine/card.h"
#include "engine/ops/binary.h"
#include "engine/ops/dropout.h"
#include "engine/ops/matmul.h"
#include "layers/batch_norm.h"
#include "layers/models/encoder.h"
#include "tests/card.h"
#include "tests/layers/every_mechanism.h"

namespace bochner {
namespace {

using Mode = StepGraph::Mode;
using Bytes = std::vector<std::vector<double>>;

/// A small encoder in training on a device: dropout, a rate that changes, clipping, two lengths of batches.
class Training {
 public:
  static constexpr int64_t kBatch = 2;
  static constexpr int64_t kLength = 12;

  Training(const std::string& attention, int64_t redraw, Device device, const Settings& settings = {})
      : device_(device),
        noise_(5),
        init_(3),
        model_(options(attention, redraw, settings), init_),
        graph_(device, noise_) {
    model_.to(device, DType::f32);
    parameters_ = model_.parameters();
    optimizer_ = std::make_unique<AdamW>(parameters_);
    ids_ = Tensor::empty({kBatch * kLength}, DType::i64, device);
    labels_ = Tensor::empty({kBatch}, DType::i64, device);
    loss_ = Tensor::zeros({}, DType::f64, device);
    sum_ = Tensor::zeros({}, DType::f64, device);
  }

  Mode step(int64_t number, bool graph) {
    const int64_t length = number % 3 == 2 ? 7 : kLength;
    Generator batch(100 + static_cast<uint64_t>(number));
    const Tensor ids = ids_.slice(0, 0, kBatch * length).view({kBatch, length});
    ids.copy_(integers(ids.shape(), 0, 11, batch));
    labels_.copy_(integers({kBatch}, 0, 3, batch));
    optimizer_->prepare(1e-2 / static_cast<double>(1 + number));
    const auto update = [&] {
      Context context{noise_, true};
      const Tensor padding = Tensor::scalar(9, DType::i64, device_);  // and words above it
      {
        Tape tape;
        const Variable loss = cross_entropy(model_.forward(ids, less(ids, padding), context), labels_);
        loss_.copy_(loss.value());
        tape.backward(loss);
      }
      add_(sum_, loss_);
      GradientClip clip = clip_by_norm(parameters_, 0.3);
      clip.guard = sum_;
      optimizer_->apply(clip);
      optimizer_->clear_gradients();
    };
    if (graph) return graph_.run(ids.shape().str(), update);
    update();
    return Mode::op_by_op;
  }

  /// Everything that a checkpoint would contain.
  Bytes state() {
    Bytes all = {sum_.to_vector<double>(), {static_cast<double>(noise_.offset())}};
    for (const auto& [name, tensor] : model_.state()) all.push_back(tensor.to_vector<double>());
    for (const auto& [name, tensor] : optimizer_->state()) all.push_back(tensor.to_vector<double>());
    return all;
  }
  const StepGraph& graph() const { return graph_; }

 private:
  static EncoderOptions options(const std::string& attention, int64_t redraw, const Settings& settings) {
    EncoderOptions options;
    options.vocabulary = 11;
    options.length = kLength;
    options.classes = 3;
    options.layers = 1;
    options.dim = 16;
    options.hidden = 16;
    options.positions = redraw == 0 ? EncoderOptions::Positions::sinusoidal : EncoderOptions::Positions::learned;
    options.dropout = 0.2;
    options.attention.mechanism =
        small(attention, kLength).set_known({{"features", 4}, {"redraw", redraw}}).set_known(settings);
    options.attention.heads = 2;
    return options;
  }

  Device device_;
  Generator noise_, init_;
  SequenceClassifier model_;
  std::vector<Parameter*> parameters_;
  std::unique_ptr<AdamW> optimizer_;
  Tensor ids_, labels_, loss_, sum_;
  StepGraph graph_;
};

/// The modes of a training's steps, while tensors come and go between them.
std::vector<Mode> train(Training& training, int64_t steps, bool graph) {
  std::vector<Mode> ran;
  std::vector<Tensor> between;
  for (int64_t i = 0; i < steps; ++i) {
    ran.push_back(training.step(i, graph));
    for (const int64_t count : {3, 100, 3000}) {
      between.push_back(Tensor::full({count}, static_cast<double>(i), DType::f32, Device::cuda()));
    }
    if (i % 4 == 3) between.erase(between.begin(), between.begin() + 5);
  }
  for (const Tensor& one : between) {  // no replay wrote into them
    const std::vector<double> values = one.to_vector<double>();
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [&](double x) { return x == values[0]; }));
  }
  return ran;
}

class EveryMechanismRecordedOnACard : public testing::TestWithParam<size_t> {};

TEST_P(EveryMechanismRecordedOnACard, TrainsToTheSameBytes) {
  BOCHNER_NEEDS_CARD();
  const std::string name = mechanisms()[GetParam()].name;
  Training plain(name, 0, Device::cuda());
  Training recorded(name, 0, Device::cuda());
  train(plain, 8, false);
  const std::vector<Mode> ran = train(recorded, 8, true);
  EXPECT_EQ(plain.state(), recorded.state()) << recorded.graph().objection();
  const auto replayed = std::count(ran.begin(), ran.end(), Mode::replayed);
  if (replayed == 0) {
    EXPECT_FALSE(recorded.graph().objection().empty());
  }
  for (const char* always :
       {"softmax", "linear-elu", "performer", "gmm-rks", "gmm-prf", "gaussian", "skyformer", "nystromformer"}) {
    if (name == always) {
      EXPECT_EQ(replayed, 3) << recorded.graph().objection();  // after positions were copied to the card
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMechanismRecordedOnACard, testing::Range<size_t>(0, mechanisms().size()),
                         every_mechanism_name);

TEST(StepGraphOnACard, LandmarksAreDrawnAndPlacedInReplays) {
  BOCHNER_NEEDS_CARD();
  for (const std::string name : {"skyformer", "nystromformer"}) {
    for (const Settings& settings : {Settings{{"as", "skyformer"}}, Settings{{"kernel", "softmax"}}}) {
      Training plain(name, 0, Device::cuda(), settings);
      Training recorded(name, 0, Device::cuda(), settings);
      train(plain, 8, false);
      const std::vector<Mode> ran = train(recorded, 8, true);
      EXPECT_EQ(plain.state(), recorded.state());
      EXPECT_EQ(std::count(ran.begin(), ran.end(), Mode::replayed), 3) << recorded.graph().objection();
    }
  }
}

TEST(StepGraphOnACard, DrawsNewFeaturesWhenTheyAreDue) {
  BOCHNER_NEEDS_CARD();
  Training plain("performer", 5, Device::cuda());
  Training recorded("performer", 5, Device::cuda());
  train(plain, 20, false);
  const std::vector<Mode> ran = train(recorded, 20, true);
  EXPECT_EQ(plain.state(), recorded.state());
  EXPECT_EQ(ran[5], Mode::op_by_op);  // after five steps with the first features
  EXPECT_EQ(ran[10], Mode::op_by_op);
  EXPECT_EQ(ran[6], Mode::replayed);
}

TEST(StepGraphOnACard, FindsPlaceRateAndStepCountInMemoryOfTheDevice) {
  BOCHNER_NEEDS_CARD();
  const auto run = [](Device device, std::vector<Tensor>& masks) {
    Generator noise(9, 40);
    StepGraph graph(device, noise);
    Parameter parameter{"p", Tensor::full({50}, 1, DType::f64, device), {}, true};
    Adam optimizer({&parameter}, {.weight_decay = 0.1});
    const Tensor mask = Tensor::empty({50}, DType::f64, device);
    const Tensor normals = Tensor::empty({50}, DType::f64, device);
    for (int i = 0; i < 6; ++i) {
      optimizer.prepare(0.1 * (i + 1));
      const Mode ran = graph.run("", [&] {
        mask.copy_(dropout_mask({50}, Dropout::draw(0.4, 50, noise), DType::f64, device));
        normals.copy_(normal({50}, noise, 0, 1, DType::f64, device));
        parameter.grad = mask + normals;
        optimizer.apply();
        optimizer.clear_gradients();
      });
      EXPECT_EQ(ran, device.is_cpu() || i == 0 ? Mode::op_by_op : (i == 1 ? Mode::recorded : Mode::replayed));
      masks.push_back(mask.to(Device::cpu()).clone());
    }
    EXPECT_EQ(noise.offset(), 40 + 6 * (28 + 100));
    return parameter.value.to_vector<double>();
  };
  std::vector<Tensor> expected_masks, masks;
  const std::vector<double> expected = run(Device::cpu(), expected_masks);
  const std::vector<double> found = run(Device::cuda(), masks);
  for (size_t i = 0; i < masks.size(); ++i) {
    EXPECT_EQ(masks[i].to_vector<double>(), expected_masks[i].to_vector<double>()) << i;
  }
  EXPECT_LE(testing_card::squared_error(found, expected), 1e-24);
}

TEST(StepGraphOnACard, StepsThatNeedTheHostAreNotRecorded) {
  BOCHNER_NEEDS_CARD();
  Generator noise(1);
  Generator other(2);
  const Tensor x = Tensor::zeros({4}, DType::f32, Device::cuda());
  BatchNorm1d norm(Slot{}, 4);
  norm.to(Device::cuda(), DType::f32);
  const Variable rows(Tensor::zeros({3, 4}, DType::f32, Device::cuda()));
  const auto objection_to = [&](const std::function<void()>& step) {
    StepGraph graph(Device::cuda(), noise);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(graph.run("", step), Mode::op_by_op);
    return graph.objection();
  };
  EXPECT_EQ(objection_to([&] { x.to_vector<float>(); }), "has the host read values");
  EXPECT_EQ(objection_to([&] { x.copy_(Tensor::zeros({4})); }), "brings values from the host");
  EXPECT_EQ(objection_to([&] { noise.next(); }), "draws random numbers on the host");
  EXPECT_EQ(objection_to([&] { dropout_mask({4}, Dropout::draw(0.1, 4, other), DType::f32, Device::cuda()); }),
            "draws random numbers of another stream");
  EXPECT_EQ(objection_to([&] { norm.forward(rows, true); }), "counts the batches of batch_norm");

  // A step that turns out to need it while being recorded is an error, and the next one is observed again.
  StepGraph graph(Device::cuda(), noise);
  bool reads = false;
  const auto step = [&] {
    x.fill_(1);
    if (reads) x.to_vector<float>();
  };
  EXPECT_EQ(graph.run("", step), Mode::op_by_op);
  reads = true;
  EXPECT_THROW(graph.run("", step), Error);
  reads = false;
  EXPECT_EQ(graph.run("", step), Mode::op_by_op);
  EXPECT_EQ(graph.run("", step), Mode::recorded);
  EXPECT_EQ(graph.run("", step), Mode::replayed);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 1));
  set_debug_sync(true);
  EXPECT_EQ(graph.run("", step), Mode::op_by_op);
  set_debug_sync(false);
  graph.clear();
  EXPECT_EQ(graph.run("", step), Mode::op_by_op);
}

TEST(StepGraphOnACard, TablesOfProductsArePartOfTheRecord) {
  BOCHNER_NEEDS_CARD();
  Generator noise(1);
  StepGraph graph(Device::cuda(), noise);
  // Matrices at uneven distances: more than a few runs, whose addresses are copied to the device.
  const Tensor a = Tensor::zeros({3, 5, 4, 2, 6}, DType::f32, Device::cuda());
  const Tensor b = normal({3, 5, 4, 6, 2}, noise).to(Device::cuda());
  const Tensor c = Tensor::zeros({3, 5, 4, 2, 2}, DType::f32, Device::cuda());
  for (int i = 0; i < 5; ++i) {
    Generator values(static_cast<uint64_t>(i));
    const Tensor now = normal(a.shape(), values);
    a.copy_(now);
    const Tensor left = a.slice(2, 0, 3).permute({2, 0, 1, 3, 4});
    const Tensor right = b.slice(2, 1, 4).permute({2, 0, 1, 3, 4});
    const Tensor to = c.slice(2, 0, 3).permute({2, 0, 1, 3, 4});
    graph.run("", [&] { to.copy_(matmul(left, right)); });
    const Tensor expected = matmul(now.slice(2, 0, 3).permute({2, 0, 1, 3, 4}),
                                   b.to(Device::cpu()).slice(2, 1, 4).permute({2, 0, 1, 3, 4}));
    EXPECT_LE(testing_card::squared_error(to.to_vector<double>(), expected.to_vector<double>()), 1e-10) << i;
  }
}

TEST(StepGraphOnACard, MemoryComesBack) {
  BOCHNER_NEEDS_CARD();
  Allocator& memory = Allocator::of(Device::cuda());
  const int64_t before = memory.stats().current_bytes;
  for (int i = 0; i < 2; ++i) {
    Training training("softmax", 0, Device::cuda());
    train(training, 6, true);
  }
  EXPECT_EQ(memory.stats().current_bytes, before);
  const int64_t asked = memory.stats().system_allocations;
  for (int i = 0; i < 4; ++i) {
    Training training("softmax", 0, Device::cuda());
    train(training, 6, true);
  }
  EXPECT_EQ(memory.stats().system_allocations, asked);
}

}  // namespace
}  // namespace bochner
