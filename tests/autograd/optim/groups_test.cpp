// Groups of parameters by name: the effect of each rule, and that an optimizer updates each group like a separate
// optimizer with the same numbers.
#include "autograd/optim/groups.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/optim/optimizer.h"

namespace bochner {
namespace {

Parameter parameter(const std::string& name) {
  return {name, Tensor::from<double>({1, -2, 3}, {3}), Tensor::from<double>({0.5, -4, 1e-3}, {3})};
}

TEST(GroupRules, AStarStandsForAnyText) {
  EXPECT_TRUE(fits("blocks.1.norm1.bias", "*.bias"));
  EXPECT_TRUE(fits("blocks.1.norm1.bias", "blocks.*norm*"));
  EXPECT_TRUE(fits("blocks.1.norm1.bias", "*"));
  EXPECT_TRUE(fits("ab", "ab*"));
  EXPECT_TRUE(fits("a.aab", "*aab"));  // the first matching `a` is not the right one
  EXPECT_TRUE(fits("", "**"));
  EXPECT_FALSE(fits("blocks.1.norm1.weight", "*.bias"));
  EXPECT_FALSE(fits("bias", "*.bias"));
  EXPECT_FALSE(fits("bias.x", "bias"));
  EXPECT_FALSE(fits("", "a"));
}

TEST(GroupRules, TheFirstThatFitsDecides) {
  Parameter word = parameter("embeddings.word.weight"), bias = parameter("dense.bias"),
            weight = parameter("dense.weight"), head = parameter("head.weight"), norm = parameter("norm.weight");
  const std::vector<ParameterGroup> groups =
      parameter_groups({&word, &bias, &weight, &head, &norm}, {{.pattern = "embeddings.*", .frozen = true},
                                                               {.pattern = "*.bias", .weight_decay = 0},
                                                               {.pattern = "head.*", .rate = 10},
                                                               {.pattern = "norm*", .weight_decay = 0}});
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].parameters, (std::vector<Parameter*>{&weight}));
  EXPECT_EQ(groups[0].rate, 1);
  EXPECT_FALSE(groups[0].weight_decay.has_value());
  EXPECT_EQ(groups[1].parameters, (std::vector<Parameter*>{&bias, &norm}));
  EXPECT_EQ(groups[1].weight_decay, 0.0);
  EXPECT_EQ(groups[2].parameters, (std::vector<Parameter*>{&head}));
  EXPECT_EQ(groups[2].rate, 10);
  EXPECT_FALSE(word.trainable);
  EXPECT_TRUE(bias.trainable && weight.trainable && head.trainable && norm.trainable);
}

TEST(GroupRules, OneThatDecidesNothingIsAMistake) {
  Parameter weight = parameter("dense.weight"), bias = parameter("dense.bias");
  const auto message = [&](const std::vector<GroupRule>& rules) -> std::string {
    try {
      parameter_groups({&weight, &bias}, rules);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({{.pattern = "*.biass", .rate = 2}}).find("'*.biass'"), std::string::npos);
  EXPECT_NE(message({{.pattern = "*", .rate = 2}, {.pattern = "*.bias"}}).find("'*.bias'"), std::string::npos);
  EXPECT_NE(message({{.pattern = "*", .rate = -1}}).find("-1"), std::string::npos);
  EXPECT_NE(message({{.pattern = "*", .weight_decay = -0.5}}).find("-0.5"), std::string::npos);
  EXPECT_NE(message({{.pattern = "*", .rate = NAN}}).find("nan"), std::string::npos);
  EXPECT_EQ(message({{.pattern = "*.bias", .rate = 0}}), "");
}

TEST(Optimizer, MovesEachGroupAsAnOptimizerOfItsOwn) {
  const auto both = [](auto make_grouped, auto make_lone) {
    Parameter plain = parameter("plain"), fast = parameter("fast");
    auto grouped = make_grouped(std::vector<ParameterGroup>{{{&plain}}, {{&fast}, 10, 0.5}});
    Parameter plain_alone = parameter("plain"), fast_alone = parameter("fast");
    auto lone = make_lone(std::vector<Parameter*>{&plain_alone}, 0.01);
    auto lone_fast = make_lone(std::vector<Parameter*>{&fast_alone}, 0.5);
    for (int step = 0; step < 3; ++step) {
      grouped.step(0.1);
      lone.step(0.1);
      lone_fast.step(0.1 * 10);
    }
    EXPECT_EQ(plain.value.to_vector<double>(), plain_alone.value.to_vector<double>());
    EXPECT_EQ(fast.value.to_vector<double>(), fast_alone.value.to_vector<double>());
    EXPECT_NE(plain.value.to_vector<double>(), fast.value.to_vector<double>());
    EXPECT_EQ(grouped.state().size(), lone.state().size() + lone_fast.state().size() - 1);  // one count of steps
  };
  using Groups = std::vector<ParameterGroup>;
  using Parameters = std::vector<Parameter*>;
  both([](Groups g) { return AdamW(std::move(g), {.weight_decay = 0.01}); },
       [](Parameters p, double decay) { return AdamW(std::move(p), {.weight_decay = decay}); });
  both([](Groups g) { return Adam(std::move(g), {.weight_decay = 0.01}); },
       [](Parameters p, double decay) { return Adam(std::move(p), {.weight_decay = decay}); });
  both([](Groups g) { return Sgd(std::move(g), {.momentum = 0.9, .weight_decay = 0.01}); },
       [](Parameters p, double decay) { return Sgd(std::move(p), {.momentum = 0.9, .weight_decay = decay}); });
}

TEST(Optimizer, AGroupWithoutDecayHasNone) {
  Parameter bias = parameter("bias");
  bias.grad = Tensor::zeros({3}, DType::f64);
  AdamW optimizer({ParameterGroup{{&bias}, 1, 0.0}}, {.weight_decay = 0.5});
  optimizer.step(0.1);
  EXPECT_EQ(bias.value.to_vector<double>(), (std::vector<double>{1, -2, 3}));
}

TEST(Optimizer, RefusesAParameterInTwoGroups) {
  Parameter p = parameter("twice");
  EXPECT_THROW(AdamW(std::vector<ParameterGroup>{{{&p}}, {{&p}, 2}}), Error);
}

}  // namespace
}  // namespace bochner
