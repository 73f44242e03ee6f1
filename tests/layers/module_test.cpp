// The tree of parameters: names, checkpoints, freezing.
#include "layers/module.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "layers/batch_norm.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/linear.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

class Pair : public Module {
 public:
  Pair(Slot slot, Generator& init)
      : Module(std::move(slot)), in_(sub("in"), 3, 4, init), out_(sub("out"), 4, 2, init) {}
  Variable forward(const Variable& x) const { return out_.forward(relu(in_.forward(x))); }

 private:
  Linear in_;
  Linear out_;
};

class Tower : public Module {
 public:
  explicit Tower(uint64_t seed) : init_(seed), first_(sub("first"), init_), second_(sub("nested.second"), init_) {
    parameter("gain", Tensor::full({2}, 1));
    buffer("seen", Tensor::zeros({1}, DType::i64));
  }

 private:
  Generator init_;
  Pair first_;
  Pair second_;
};

TEST(Module, NamesAreDottedPaths) {
  Tower tower(1);
  std::vector<std::string> names;
  for (const Parameter* parameter : tower.parameters()) names.push_back(parameter->name);
  EXPECT_EQ(names, (std::vector<std::string>{"gain", "first.in.weight", "first.in.bias", "first.out.weight",
                                             "first.out.bias", "nested.second.in.weight", "nested.second.in.bias",
                                             "nested.second.out.weight", "nested.second.out.bias"}));
  EXPECT_TRUE(tower.state().contains("seen"));
  EXPECT_EQ(tower.parameter_count(), 2 + 2 * (3 * 4 + 4 + 4 * 2 + 2));
}

TEST(Module, TwoPartsOfOneNameHaveNoState) {
  struct Twins : Module {
    explicit Twins(Generator& init) : Module(Slot{}), a(sub("x"), 3, 2, init), b(sub("x"), 3, 2, init) {}
    Linear a, b;
  };
  Generator init(1);
  Twins twins(init);
  EXPECT_NE(test::message_of([&] { twins.state(); }).find("two tensors are called 'x."), std::string::npos);
}

TEST(Module, AStateComesBackBitForBit) {
  Tower from(1), to(2);
  EXPECT_NE(from.state().at("first.in.weight").to_vector<float>(), to.state().at("first.in.weight").to_vector<float>());
  to.load_state(from.state());
  for (const auto& [name, tensor] : from.state()) {
    EXPECT_EQ(to.state().at(name).to_vector<double>(), tensor.to_vector<double>()) << name;
  }
}

TEST(Module, AStateThatDoesNotFitIsRefusedAndNothingIsCopied) {
  Tower tower(1);
  const std::vector<float> before = tower.state().at("first.in.weight").to_vector<float>();
  const auto refused = [&](auto&& change) {
    Tower other(2);
    std::map<std::string, Tensor> state = other.state();
    change(state);
    const std::string message = message_of([&] { tower.load_state(state); });
    EXPECT_EQ(tower.state().at("first.in.weight").to_vector<float>(), before) << message;
    return message;
  };
  EXPECT_EQ(refused([](auto& state) { state.erase("nested.second.out.bias"); }),
            "checkpoint: tensor 'nested.second.out.bias' is missing; is this another model's checkpoint?");
  EXPECT_EQ(refused([](auto& state) { state["more"] = Tensor::zeros({1}); }),
            "checkpoint: tensor 'more' is not part of this model; is this another model's checkpoint?");
  EXPECT_EQ(refused([](auto& state) {
              state["first.out.weight"] = Tensor::zeros({4, 2});
            }),
            "checkpoint: tensor 'first.out.weight' has shape (4, 2), the model needs (2, 4); is this another model's "
            "checkpoint?");
}

TEST(Module, FrozenParametersTakeNoGradientAndDoNotCount) {
  Generator init(1);
  Pair pair({}, init);
  const auto run = [&] {
    Tape tape;
    tape.backward(sum(pair.forward(Variable(Tensor::full({5, 3}, 1)))));
  };
  pair.set_trainable(false);
  EXPECT_EQ(pair.parameter_count(), 0);
  {
    Tape tape;
    EXPECT_FALSE(pair.forward(Variable(Tensor::full({5, 3}, 1))).tracked());
  }
  pair.set_trainable(true);
  run();
  for (const Parameter* parameter : pair.parameters()) EXPECT_TRUE(parameter->grad.defined()) << parameter->name;
  pair.clear_gradients();
  for (const Parameter* parameter : pair.parameters()) EXPECT_FALSE(parameter->grad.defined()) << parameter->name;
}

TEST(Module, MovesToAnotherTypeButNotItsCounts) {
  Tower tower(1);
  tower.to(Device::cpu(), DType::f64);
  EXPECT_EQ(tower.state().at("first.in.weight").dtype(), DType::f64);
  EXPECT_EQ(tower.state().at("seen").dtype(), DType::i64);
}

TEST(EmbeddingLayer, LooksUpRowsAndRefusesIdsOutsideTheTable) {
  Generator init(1);
  Embedding table({}, 5, 3, 1.0, init);
  const Tensor rows = table.state().at("weight");
  const Tensor found = table.forward(Tensor::from<int64_t>({4, 0, 4, 2}, {2, 2})).value();
  ASSERT_EQ(found.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(found.select(0, 1).select(0, 1).to_vector<float>(), rows.select(0, 2).to_vector<float>());
  EXPECT_EQ(found.select(0, 0).select(0, 0).to_vector<float>(), rows.select(0, 4).to_vector<float>());
  for (const int64_t id : {-1, 5}) {
    EXPECT_NE(message_of([&] {
                table.forward(Tensor::from<int64_t>({id}, {1, 1}));
              }).find(std::to_string(id)),
              std::string::npos);
  }
}

// Vaswani et al., 2017, §3.5, by its formula in double.
TEST(Positions, SinusoidsAreThoseOfTheFormula) {
  for (const int64_t dim : {1, 2, 7, 64}) {
    const Tensor P = sinusoidal_positions(300, dim);
    ASSERT_EQ(P.shape(), (Shape{300, dim}));
    const std::vector<double> values = P.to_vector<double>();
    for (int64_t i = 0; i < 300; ++i) {
      for (int64_t j = 0; j < dim; ++j) {
        const double angle =
            static_cast<double>(i) / std::pow(10000.0, static_cast<double>(j / 2 * 2) / static_cast<double>(dim));
        ASSERT_NEAR(values[static_cast<size_t>(i * dim + j)], j % 2 == 0 ? std::sin(angle) : std::cos(angle), 1e-5)
            << i << ", " << j;
      }
    }
  }
}

TEST(DropoutModule, IsOnInTrainingAloneAndDrawnAgainFromItsGenerator) {
  const DropoutLayer layer({}, 0.25);
  const Variable x = Tensor::full({100, 50}, 3.0);
  Generator noise(4), again(4);
  Context evaluation{noise, false};
  EXPECT_EQ(layer.forward(x, evaluation).value().to_vector<float>(), x.value().to_vector<float>());
  EXPECT_EQ(noise.offset(), 0U);
  Context training{noise, true}, same{again, true};
  const std::vector<float> dropped = layer.forward(x, training).value().to_vector<float>();
  EXPECT_EQ(layer.forward(x, same).value().to_vector<float>(), dropped);
  EXPECT_EQ(noise, again);
  int zeros = 0;
  for (const float value : dropped) {
    if (value == 0) {
      ++zeros;
    } else {
      ASSERT_FLOAT_EQ(value, 4);
    }
  }
  EXPECT_NEAR(zeros, 1250, 4 * std::sqrt(5000 * 0.25 * 0.75));
  EXPECT_NE(layer.forward(x, training).value().to_vector<float>(), dropped);
  EXPECT_THROW(DropoutLayer({}, -0.1), Error);
  EXPECT_THROW(DropoutLayer({}, 1.5), Error);
}

}  // namespace
}  // namespace bochner
