#include "layers/models/encoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/fused/cross_entropy.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
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

TEST(Encoder, TokensMayBeSumsOfEntries) {
  EncoderOptions options{.vocabulary = 3, .length = 4, .classes = 2, .layers = 1, .dim = 6, .hidden = 4};
  options.attention.attention = "softmax";
  options.pooling = EncoderOptions::Pooling::first;
  options.dropout = 0;
  const Tensor codes = Tensor::from<float>({0, 1, 1, 0, 1, 1}, {3, 2});
  Generator init(1);
  Generator again(1);
  SequenceClassifier plain(options, init);
  options.codes = codes;
  SequenceClassifier coded(options, again);
  // The same model where each row of the plain table is that sum.
  auto state = coded.state();
  const Tensor entries = state.at("tokens.weight");
  ASSERT_EQ(entries.shape(), (Shape{2, 6}));
  auto rows = state;
  rows["tokens.weight"] = matmul(codes, entries);
  plain.load_state(rows);
  Generator noise(2);
  Context context{noise, false};
  const Tensor ids = Tensor::from<int64_t>({1, 2, 0, 2, 0, 0, 1, 1}, {2, 4});
  const std::vector<double> expected = plain.forward(ids, {}, context).value().to_vector<double>();
  EXPECT_EQ(coded.forward(ids, {}, context).value().to_vector<double>(), expected);
  options.codes = Tensor::zeros({2, 2});
  EXPECT_THROW(SequenceClassifier(options, init), Error);
}

TEST(Encoder, ReadsTheFirstTokenWithoutOneInFront) {
  EncoderOptions options{.vocabulary = 5, .length = 6, .classes = 2, .layers = 0, .dim = 6, .hidden = 4};
  options.pooling = EncoderOptions::Pooling::first;
  options.dropout = 0;
  Generator init(1);
  SequenceClassifier model(options, init);
  EXPECT_EQ(model.state().count("cls"), 0U);
  EXPECT_EQ(model.state().at("positions").shape(), (Shape{6, 6}));
  Generator noise(2);
  Context context{noise, false};
  const auto of = [&](std::vector<int64_t> ids) {
    return model.forward(Tensor::from(ids, {1, 3}), {}, context).value().to_vector<double>();
  };
  EXPECT_EQ(of({1, 2, 3}), of({1, 4, 4}));  // without layers nothing flows between places
  EXPECT_NE(of({1, 2, 3}), of({2, 2, 3}));
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
