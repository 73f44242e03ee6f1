// The size of attention weights before training: those of queries, keys and values, and of Linformer.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/attention/multi_head.h"

namespace bochner {
namespace {

TEST(AttentionInit, XavierIsOfEachOfQueriesKeysAndValues) {
  for (const auto kind : {LinearOptions::Init::xavier, LinearOptions::Init::xavier_weight}) {
    Generator init(1);
    MultiHeadOptions options;
    options.projection.init = kind;
    MultiHeadAttention attention({}, 32, options, init);
    const double found = amax(abs(attention.state().at("qkv.weight"))).item();
    EXPECT_LE(found, std::sqrt(6.0 / 64));
    EXPECT_GT(found, std::sqrt(6.0 / 128));
  }
}

TEST(AttentionInit, LinformersProjectionsKeepLengths) {
  Generator init(1);
  MechanismOptions options("linformer", {{"features", 4}});
  options.set_default_length(1000);
  const auto mechanism = make_mechanism({}, 2, 4, options, init);
  EXPECT_NEAR(mean(square(mechanism->state().at("E"))).item(), 1.0 / 4, 0.02);
}

}  // namespace
}  // namespace bochner
