// Models whose activations are stored in bf16 (layers/mixed_precision.h), on the CPU and on a card: they compute and
// learn what they do in f32, and an encoder keeps half as much for backward.
#include "layers/mixed_precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "autograd/fused/cross_entropy.h"
#include "autograd/optim/optimizer.h"
#include "engine/allocator.h"
#include "engine/ops/binary.h"
#include "engine/parallel.h"
#include "engine/precision.h"
#include "layers/models/encoder.h"
#include "layers/models/mlp.h"
#include "tests/card.h"

namespace bochner {
namespace {

using namespace testing_card;  // NOLINT

/// Sets the precision during its lifetime.
class Within {
 public:
  explicit Within(Precision precision) { set_precision(precision); }
  ~Within() { set_precision(Precision::f32); }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
};

struct Sizes {
  int64_t batch, length, dim, heads;
};

EncoderOptions options_of(const std::string& attention, const Sizes& sizes) {
  EncoderOptions options{.vocabulary = 11, .length = sizes.length, .classes = 3, .layers = 2, .dim = sizes.dim};
  options.hidden = 2 * sizes.dim;
  options.attention = {
      .mechanism = MechanismOptions(attention).set_known({{"features", 24}, {"block", 8}, {"convolution", 5}}),
      .heads = sizes.heads};
  return options;
}

/// A model in training, and one batch: the class of a sequence is its first token modulo 3.
class Training {
 public:
  Training(const EncoderOptions& options, const Sizes& sizes, Device device)
      : noise_(5), init_(3), model_(options, init_) {
    model_.to(device, DType::f32);
    optimizer_ = std::make_unique<AdamW>(model_.parameters());
    Generator data(7);
    const Tensor ids = integers({sizes.batch, sizes.length}, 0, 11, data);
    std::vector<int64_t> labels;
    for (const int64_t id : ids.slice(1, 0, 1).to_vector<int64_t>()) labels.push_back(id % 3);
    labels_ = Tensor::from<int64_t>(labels, {sizes.batch}).to(device);
    const Tensor lengths = Tensor::full({sizes.batch, 1}, static_cast<double>(sizes.length), DType::i64);
    lengths.slice(0, 0, 1).fill_(static_cast<double>((sizes.length + 1) / 2));  // one is shorter
    mask_ = less(Tensor::arange(sizes.length).unsqueeze(0), lengths).to(device);
    ids_ = ids.to(device);
  }

  Variable loss() {
    Context context{noise_, true};
    return cross_entropy(model_.forward(ids_, mask_, context), labels_);
  }
  double step() {
    Tape tape;
    const Variable found = loss();
    tape.backward(found);
    optimizer_->prepare(3e-3);
    optimizer_->apply();
    optimizer_->clear_gradients();
    return found.item();
  }
  /// The loss, then the gradient of each parameter.
  std::vector<std::vector<double>> gradients() {
    Tape tape;
    const Variable found = loss();
    EXPECT_EQ(found.dtype(), DType::f32);
    tape.backward(found);
    std::vector<std::vector<double>> results{{found.item()}};
    for (const Parameter* parameter : model_.parameters()) {
      EXPECT_EQ(parameter->value.dtype(), DType::f32);
      if (!parameter->grad.defined()) continue;
      EXPECT_EQ(parameter->grad.dtype(), DType::f32) << parameter->name;
      results.push_back(parameter->grad.to_vector<double>());
    }
    return results;
  }

 private:
  Generator noise_, init_;
  SequenceClassifier model_;
  std::unique_ptr<AdamW> optimizer_;
  Tensor ids_, mask_, labels_;
};

std::vector<Device> devices() {
  std::vector<Device> found{Device::cpu()};
  if (missing().empty()) found.push_back(Device::cuda());
  return found;
}

TEST(MixedPrecision, AStepIsThatOfF32ButForRounding) {
  // A rounding to bf16 is an error of at most 2^-9, in the mean square 2^-18 / 3. Between a token and a gradient there
  // are about ten for each of two layers, forward and backward, and the mechanism, whose exponents are sums. (There is
  // no ReLU: a ReLU that turns the other way is not a matter of rounding.)
  const double bound = 100 * std::exp2(-18);
  for (const auto& [attention, heads] : {std::pair<std::string, int64_t>{"softmax", 2},
                                         {"softmax", 8},
                                         {"performer", 8},
                                         {"gmm-prf", 2},
                                         {"fastfood-prf", 8},
                                         {"skyformer", 2},
                                         {"none", 2}}) {
    const Sizes sizes{2, 33, 64, heads};
    for (const auto block : {EncoderOptions::Block::pre_norm, EncoderOptions::Block::kl_released}) {
      EncoderOptions options = options_of(attention, sizes);
      options.block = block;
      options.recompute = heads == 8;
      const auto expected = Training(options, sizes, Device::cpu()).gradients();
      const Within bf16(Precision::bf16);
      for (const Device device : devices()) {
        if (!device.is_cpu()) poison();
        const auto found = Training(options, sizes, device).gradients();
        EXPECT_EQ(Training(options, sizes, device).gradients(), found) << "two runs differ";
        ASSERT_EQ(found.size(), expected.size());
        EXPECT_NEAR(found[0][0], expected[0][0], std::exp2(-7)) << attention << " on " << device.str();
        EXPECT_NE(found[0][0], expected[0][0]) << "nothing was rounded";
        const double floor = common_floor(expected);
        for (size_t i = 1; i < found.size(); ++i) {
          EXPECT_LE(squared_error(found[i], expected[i], floor), bound)
              << attention << ", heads of " << 64 / heads << " on " << device.str() << ", gradient " << i;
        }
      }
    }
  }
}

TEST(MixedPrecision, ThreadsChangeNoBit) {
  const Within bf16(Precision::bf16);
  const Sizes sizes{3, 300, 64, 2};
  const int before = threads();
  for (const char* attention : {"softmax", "performer", "gmm-prf"}) {
    const auto with = [&](int count) {
      set_threads(count);
      return Training(options_of(attention, sizes), sizes, Device::cpu()).gradients();
    };
    EXPECT_EQ(with(3), with(1)) << attention;
  }
  set_threads(before);
}

/// The losses of training on a device: in f32 the last one is below `reached`, and in bf16 all equal those of f32 up to
/// rounding.
void expect_to_learn_as_in_f32(const std::function<std::vector<double>(Device)>& train, double reached) {
  const std::vector<double> expected = train(Device::cpu());
  EXPECT_LT(expected.back(), reached);
  const Within bf16(Precision::bf16);
  for (const Device device : devices()) {
    const std::vector<double> found = train(device);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_NE(found, expected) << "nothing was rounded";
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], std::exp2(-7)) << "step " << i << " on " << device.str();
  }
}

TEST(MixedPrecision, LearnsAsInF32) {
  const Sizes sizes{12, 6, 32, 1};
  EncoderOptions options = options_of("performer", sizes);
  options.dropout = 0;
  options.pooling = EncoderOptions::Pooling::first;
  options.layers = 1;
  const auto train = [&](Device device) {
    Training training(options, sizes, device);
    std::vector<double> losses;
    for (int i = 0; i < 40; ++i) losses.push_back(training.step());
    return losses;
  };
  expect_to_learn_as_in_f32(train, 0.2);
}

TEST(MixedPrecision, WhatIsKeptForBackwardIsHalfAsMuch) {
  for (const Device device : devices()) {
    const Allocator& memory = Allocator::of(device);
    for (const char* attention : {"softmax", "performer", "gmm-prf"}) {
      const Sizes sizes{1, 128, 64, 2};
      const auto kept = [&](Precision precision) {
        const Within chosen(precision);
        EncoderOptions options = options_of(attention, sizes);
        Training training(options, sizes, device);
        training.step();
        const int64_t before = memory.stats().current_bytes;
        Tape tape;
        const Variable loss = training.loss();
        return static_cast<double>(memory.stats().current_bytes - before);
      };
      EXPECT_LT(kept(Precision::bf16), 0.55 * kept(Precision::f32)) << attention << " on " << device.str();
    }
  }
}

TEST(MixedPrecision, APlainNetworkLearnsAsInF32) {
  const auto train = [](Device device) {
    Generator init(3);
    Mlp model(Slot{}, {.inputs = 20, .hidden = {64, 64}, .outputs = 3}, init);
    model.to(device, DType::f32);
    AdamW optimizer(model.parameters());
    const Tensor x = normal({128, 20}, init).to(device);
    std::vector<int64_t> classes;
    for (const float value : x.slice(1, 0, 1).to_vector<float>())
      classes.push_back(value < -0.4 ? 0 : value < 0.4 ? 1 : 2);
    const Tensor labels = Tensor::from<int64_t>(classes, {128}).to(device);
    std::vector<double> losses;
    for (int i = 0; i < 60; ++i) {
      Generator unused(0);
      Context context{unused, true};
      Tape tape;
      const Variable logits = model.forward(x, context);
      EXPECT_EQ(logits.dtype(), DType::f32);
      const Variable loss = cross_entropy(logits, labels);
      tape.backward(loss);
      optimizer.step(3e-3);
      optimizer.clear_gradients();
      losses.push_back(loss.item());
    }
    return losses;
  };
  expect_to_learn_as_in_f32(train, 0.3);
}

TEST(MixedPrecision, ChangesNoTypeButF32) {
  const Variable x = Tensor::full({3}, 1.00390625, DType::f32);  // 1 + 2^-8, which bf16 cannot represent
  EXPECT_EQ(as_stored(x).dtype(), DType::f32);
  const Within bf16(Precision::bf16);
  EXPECT_EQ(as_stored(x).dtype(), DType::bf16);
  EXPECT_EQ(as_computed(as_stored(x)).value().to_vector<double>(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(as_stored(Tensor::zeros({2}, DType::f64)).dtype(), DType::f64);
  EXPECT_EQ(as_computed(Tensor::zeros({2}, DType::f64)).dtype(), DType::f64);
}

}  // namespace
}  // namespace bochner
