#include "layers/models/encoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/fused/cross_entropy.h"
#include "engine/ops/binary.h"
#include "engine/random.h"
#include "layers/attention/mechanism.h"

namespace bochner {
namespace {

class EncoderWith : public testing::TestWithParam<std::string> {};

bool all_finite(const Tensor& x) {
  for (const double value : x.to_vector<double>()) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

TEST_P(EncoderWith, TrainsOnPaddedSequencesWithEitherPooling) {
  for (const auto pooling : {EncoderOptions::Pooling::mean, EncoderOptions::Pooling::cls}) {
    EncoderOptions options{.vocabulary = 9, .length = 20, .classes = 3, .layers = 1, .dim = 16, .hidden = 8};
    options.attention = {.attention = GetParam(), .heads = 2, .mechanism = {.features = 8, .block = 8}};
    options.pooling = pooling;
    Generator init(1), noise(2);
    SequenceClassifier model(options, init);
    const Tensor ids = integers({2, 17}, 0, 9, noise);  // shorter than the model's longest, and not whole blocks
    const Tensor real = less(Tensor::arange(17).unsqueeze(0), Tensor::from<int64_t>({17, 9}, {2, 1}));
    Context context{noise, true};
    Tape tape;
    const Variable logits = model.forward(ids, real, context);
    ASSERT_EQ(logits.shape(), (Shape{2, 3}));
    EXPECT_TRUE(all_finite(logits.value()));
    tape.backward(cross_entropy(logits, Tensor::from<int64_t>({0, 2}, {2})));
    for (const Parameter* parameter : model.parameters()) {
      if (parameter->grad.defined()) {
        EXPECT_TRUE(all_finite(parameter->grad)) << parameter->name;
      }
    }
    EXPECT_TRUE(model.parameters().front()->grad.defined());
  }
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const MechanismInfo& line : mechanisms()) names.push_back(line.name);
  return names;
}

std::string readable(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, EncoderWith, testing::ValuesIn(all_names()), readable);

}  // namespace
}  // namespace bochner
