// What every name of the attention registry promises in cases that are easily forgotten: more or fewer queries than
// keys, lengths that are not whole blocks, the plain composition, causal masks, inputs far from N(0, 1), and options.
#include <fmt/ranges.h>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "tests/layers/every_mechanism.h"

namespace bochner {
namespace {

class EveryForm : public EveryMechanism {
 protected:
  bool has_signed_weights() const {
    const std::string& name = info().name;
    for (const char* part : {"-rks", "-trig", "-cos", "-tanh", "-identity", "-sgn", "-gelu"}) {
      if (name.find(part) != std::string::npos) return true;
    }
    return false;
  }
  bool refuses_cross_attention() const {
    const auto mechanism = make();
    try {
      attend(*mechanism, values({1, kHeads, 3, kDim}, 1), values({1, kHeads, 5, kDim}, 2),
             values({1, kHeads, 5, kDim}, 3), {});
      return false;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(info().name + ": 3 queries and 5 keys"), std::string::npos)
          << error.what();
      return true;
    }
  }
  /// Queries and keys, of lengths that are not whole blocks.
  std::vector<std::pair<int64_t, int64_t>> lengths() const {
    if (refuses_cross_attention()) return {{11, 11}};
    return {{11, 11}, {5, 13}, {13, 5}, {23, 3}, {1, 9}};
  }
  enum class Padding : unsigned char { none, last, first };
  static Tensor ragged(int64_t length) {
    return less(Tensor::arange(length).unsqueeze(0), Tensor::from<int64_t>({length, (length + 1) / 2}, {2, 1}));
  }
  /// In the first example the first key is padded, in the second one all keys are.
  static Tensor late(int64_t length) {
    return less(Tensor::from<int64_t>({0, length}, {2, 1}), Tensor::arange(length).unsqueeze(0));
  }
};

/// Texts of values that the option may take other than its present one.
std::vector<std::string> other_values(const MechanismOptions& options, const std::string& name) {
  std::vector<std::string> texts;
  MechanismOptions tried = options;
  OptionList list = tried.list();
  Option& option = list.at(name);
  std::vector<std::string> candidates = option.choices();
  if (option.is_flag()) candidates = {"true", "false"};
  if (std::holds_alternative<std::vector<int64_t>*>(option.target())) candidates = {"4", "6,8"};
  if (option.number()) candidates = {"0", "0.2", "0.5", "1", "2", "3", "13", "16", "40"};
  for (const std::string& text : candidates) {
    try {
      option.assign(text);
      if (text != options.text(name)) texts.push_back(text);
    } catch (const Error&) {  // out of its range, or not a whole number
    }
  }
  return texts;
}

/// O, dQ, dK and dV.
std::vector<Tensor> results(Mechanism& mechanism, const std::vector<Tensor>& QKV, const Mask& mask, const Tensor& dO,
                            bool training = false) {
  Generator noise(11);
  Context context{noise, training};
  Tape tape;
  const std::vector<Variable> in = {tape.watch(QKV[0]), tape.watch(QKV[1]), tape.watch(QKV[2])};
  const Variable O = mechanism.forward(in[0], in[1], in[2], mask, context);
  const Gradients gradients = tape.gradients({O}, {dO}, in);
  return {O.value(), gradients[0].value(), gradients[1].value(), gradients[2].value()};
}

TEST_P(EveryForm, GradientsAgreeWithDifferencesAtAnyLengths) {
  for (const auto& [queries, keys] : lengths()) {
    for (const bool causal : {false, true}) {
      if (causal && !info().causal) continue;
      SCOPED_TRACE(fmt::format("{} queries, {} keys{}", queries, keys, causal ? ", causal" : ""));
      // Sums of weights that may be negative are kept away from 0, where quotients have no useful derivative.
      const bool is_trig = info().name == "performer-trig";
      const bool has_signs = has_signed_weights() && !is_trig;
      const auto mechanism =
          make({{"redraw", 0}, {"renormalise", !is_trig}, {"eps", 0}, {"denominator-eps", has_signs ? 400 : 0}});
      const Mask mask{ragged(keys), causal};
      const auto f = [&](const std::vector<Variable>& in) {
        Generator noise(1);
        Context context{noise, false};
        return mechanism->forward(in[0], in[1], in[2], mask, context);
      };
      EXPECT_EQ(gradcheck(f,
                          {values({2, kHeads, queries, kDim}, 4), values({2, kHeads, keys, kDim}, 5),
                           values({2, kHeads, keys, kDim}, 6)},
                          {.tolerance = 1e-6}),
                "");
    }
  }
}

TEST_P(EveryForm, PaddingChangesNothingAtAnyLengths) {
  for (const auto& [queries, keys] : lengths()) {
    if (queries == keys) continue;  // registry_test.cpp covers padded queries
    const auto mechanism = make();
    const Tensor Q = values({1, kHeads, queries, kDim}, 21);
    const Tensor K = values({1, kHeads, keys + 4, kDim}, 22) * 3.0;
    const Tensor V = values({1, kHeads, keys + 4, kDim}, 23);
    const Tensor real = less(Tensor::arange(keys + 4).unsqueeze(0), Tensor::from<int64_t>({keys}, {1, 1}));
    EXPECT_LT(apart(attend(*mechanism, Q, K, V, {real, false}),
                    attend(*mechanism, Q, K.slice(2, 0, keys).clone(), V.slice(2, 0, keys).clone(), {})),
              1e-9)
        << queries << " queries, " << keys << " keys";
  }
}

// The composition is the text that people read, and the oracle of the fused kernels: eps, shifts and padding included.
TEST_P(EveryForm, TheCompositionEqualsTheFusedKernel) {
  if (!has("streaming")) GTEST_SKIP() << "it has one form";
  for (const auto& [queries, keys] : lengths()) {
    for (const bool causal : {false, true}) {
      for (const double scale : {1.0, 3.0}) {
        for (const Padding padding : {Padding::none, Padding::last, Padding::first}) {
          SCOPED_TRACE(fmt::format("{} queries, {} keys{}, times {}, padding {}", queries, keys,
                                   causal ? ", causal" : "", scale, static_cast<int>(padding)));
          const std::vector<Tensor> QKV = {values({2, kHeads, queries, kDim}, 31) * scale,
                                           values({2, kHeads, keys, kDim}, 32) * scale,
                                           values({2, kHeads, keys, kDim}, 33)};
          const Tensor dO = values({2, kHeads, queries, kDim}, 34);
          const Mask mask{padding == Padding::none   ? Tensor()
                          : padding == Padding::last ? ragged(keys)
                                                     : late(keys),
                          causal};
          const auto run = [&](bool streaming) {
            const auto mechanism = make({{"eps", 1e-3}, {"streaming", streaming}});
            return results(*mechanism, QKV, mask, dO);
          };
          const std::vector<Tensor> fused = run(true);
          const std::vector<Tensor> composed = run(false);
          for (size_t i = 0; i < fused.size(); ++i) {
            const double size = std::max(1.0, amax(abs(fused[i])).item());
            EXPECT_LT(apart(fused[i].to_vector<double>(), composed[i].to_vector<double>()), 1e-10 * size)
                << "of O, dQ, dK, dV number " << i;
          }
        }
      }
    }
  }
}

TEST_P(EveryForm, PaddedTokensOfAnySizeLeaveTheGradientsOfOthersAlone) {
  for (const bool streaming : {true, false}) {
    if (!streaming && !has("streaming")) continue;
    SCOPED_TRACE(streaming ? "streaming" : "composed");
    const auto mechanism = make({{"streaming", streaming}});
    mechanism->to(Device::cpu(), DType::f32);
    const Shape shape{1, kHeads, 9, kDim};
    const Mask mask{less(Tensor::arange(9).unsqueeze(0), Tensor::from<int64_t>({6}, {1, 1})), false};
    const auto found = [&](double padding) {
      std::vector<Tensor> in;
      for (const uint64_t seed : {41, 42, 43, 44}) in.push_back(values(shape, seed).cast(DType::f32));
      for (size_t i = 0; i < 3; ++i) in[i].slice(2, 6, 9).fill_(padding);
      in[3].slice(2, 6, 9).fill_(0);
      std::vector<double> all;
      for (const Tensor& x : results(*mechanism, {in[0], in[1], in[2]}, mask, in[3])) {
        for (const double entry : x.slice(2, 0, 6).to_vector<double>()) all.push_back(entry);
      }
      return all;
    };
    const std::vector<double> expected = found(0.5);
    for (const double padding : {1e4, 1e30}) {
      const std::vector<double> with = found(padding);
      for (const double entry : with) ASSERT_TRUE(std::isfinite(entry)) << "padded with " << padding;
      EXPECT_LT(apart(with, expected), 1e-4) << "padded with " << padding;
    }
  }
}

TEST_P(EveryForm, WithoutRenormalisationWeightsAreMeansOverDraws) {
  if (!has("renormalise") || !has("features")) GTEST_SKIP() << "no frequencies, or always renormalised";
  // The weight of a key that equals the query, with 64 features and with 128 of which both halves are the same.
  const Tensor x = values({1, kHeads, 1, kDim}, 51) * 0.3;
  const auto weight = [&](int64_t features) {
    double total = 0;
    for (uint64_t seed = 1; seed < 9; ++seed) {
      const MechanismOptions options =
          small(info().name).set_known({{"renormalise", false}, {"eps", 0}, {"features", features}});
      Generator init(seed);
      const auto mechanism = make_mechanism({}, kHeads, kDim, options, init);
      mechanism->to(Device::cpu(), DType::f64);
      for (Parameter* parameter : mechanism->parameters()) parameter->value.fill_(0.1);
      total += attend(*mechanism, x, x, Tensor::full(x.shape(), 1, DType::f64), {})[0] / 8;
    }
    return total;
  };
  const double few = weight(64);
  EXPECT_NEAR(weight(256), few, 0.3 * std::abs(few));
}

// Each option that a mechanism lists changes something: some value of it does, whatever the other choices are. If the
// mechanism says that it does not count, it changes nothing.
TEST_P(EveryForm, ReadsEachOfItsOptions) {
  const auto texts_of = [](const MechanismOptions& options) {
    std::vector<std::string> texts;
    for (const std::string& name : options.names()) texts.push_back(name + "=" + options.text(name));
    return texts;
  };
  const auto outputs = [&](const MechanismOptions& options) {
    std::vector<double> all;
    try {
      Generator init(3);
      const auto mechanism = make_mechanism({}, kHeads, kDim, options, init);
      mechanism->to(Device::cpu(), DType::f64);
      for (const auto& [name, tensor] : mechanism->state()) all.push_back(static_cast<double>(tensor.size()));
      const Shape shape{1, kHeads, 24, kDim};
      for (const bool training : {false, false, true, true}) {
        Generator noise(11 + all.size());
        Context context{noise, training};
        const Variable O = mechanism->forward(values(shape, 61), values(shape, 62), values(shape, 63), {}, context);
        for (const double x : O.value().to_vector<double>()) all.push_back(x);
      }
    } catch (const Error&) {
      return std::vector<double>();  // an option that can be refused is read
    }
    return all;
  };
  // Whether an option is read may depend on another one: for example, only one form of the synthesizer has features.
  std::vector<MechanismOptions> starts = {small(info().name)};
  for (const Option& option : starts[0].list()) {
    std::vector<std::string> choices = option.choices();
    if (option.name() == "exact-inverse") choices = {"true"};
    for (const std::string& text : choices) {
      starts.push_back(MechanismOptions(starts[0]).set(option.name(), text));
    }
  }
  for (const std::string& name : info().defaults().names()) {
    // These change only rounding, or the handling of padding and of tokens that are not here; other tests cover them.
    if (name == "streaming" || name == "as") continue;
    bool differs = false;
    for (MechanismOptions& start : starts) {
      const std::vector<double> before = outputs(start);
      const bool counts = start.list().at(name).counts();
      bool differs_here = false;
      for (const std::string& text : other_values(start, name)) {
        if (counts && differs_here) continue;
        const bool changes = outputs(MechanismOptions(start).set(name, text)) != before;
        differs_here = differs_here || changes;
        EXPECT_TRUE(counts || !changes) << name << "=" << text << " changes something, but should not count";
      }
      differs = differs || differs_here;
      if (name == "length" || name == "denominator-eps" || name == "features") {
        EXPECT_EQ(differs_here, counts) << name << " where " << fmt::format("{}", fmt::join(texts_of(start), " "));
      }
    }
    EXPECT_TRUE(differs) << name << " is listed but not read";
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryForm, testing::Range<size_t>(0, mechanisms().size()), every_mechanism_name);

}  // namespace
}  // namespace bochner
