// What the program measures: a mechanism alone, or the Transformer around it, in the sizes that its options ask for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/common/config/options.h"
#include "experiments/learners/mechanism_config.h"

namespace bochner::efficiency {

struct Config {
  RunOptions run;
  std::string against = "length";
  std::vector<int64_t> values;
  std::vector<int64_t> lengths = {256, 512, 1024, 2048, 4096};
  std::vector<std::string> methods = {"softmax", "performer", "performer-relu", "gmm-prf", "fastfood-prf", "none"};
  std::vector<int64_t> features;
  std::vector<int64_t> layers = {6};
  int64_t dim = 64;
  int64_t head_dim = 0;
  int64_t heads = 1;
  int64_t hidden = 64;
  int64_t vocabulary = 256;
  int64_t repeats = 3;
  double limit_seconds = 20;
  double budget_seconds = 0;
  std::string clock = "wall";
  bool causal = false;
  MechanismConfig mechanism{{"methods"}};

  Config() {
    run.tasks = {"attention", "model"};
    run.task = "attention";
    run.batch = 1;
  }
  void fields(Fields& f) {
    run.fields(f);
    f.at("task").means("what is measured; A,B,... measures each of them");
    f("against", against,
      "what differs: length, or at one length features (M), components (C, Gaussians of gmm-*) or head-dim (d)")
        .one_of({"length", "features", "components", "head-dim"});
    f("values", values, "of what differs, if that is not the length, for which --lengths has them")
        .at_least(1)
        .only("with another --against than length", [this] { return against != "length"; });
    f("lengths", lengths, "numbers of tokens in a sequence").at_least(1);
    f("methods", methods, "mechanisms to compare; none returns V, the line X of PERF").one_of(attention_names());
    f("features", features, "random features of each method, in their order; empty: --mechanism.features for all")
        .at_least(0);
    const auto of_model = [this] { return is_model(); };
    f("layers", layers, "numbers of encoder blocks in the model")
        .at_least(1)
        .at_most(1000)
        .only("with --task=model", of_model);
    const auto sets_heads = [this] { return against != "head-dim"; };
    f("dim", dim, "size of the residual stream")
        .at_least(1)
        .only("with --task=model or where it sets the size of a head",
              [this, sets_heads] { return is_model() || (head_dim == 0 && sets_heads()); });
    f("head-dim", head_dim, "size of a head; 0: dim / heads")
        .at_least(0)
        .only("with another --against than head-dim", sets_heads);
    f("heads", heads, "attention heads").at_least(1);
    f("hidden", hidden, "hidden units of the model's feed-forward blocks")
        .at_least(1)
        .only("with --task=model", of_model);
    f("vocabulary", vocabulary, "number of different tokens").at_least(1).only("with --task=model", of_model);
    f("repeats", repeats, "number of rounds, of which the fastest counts; all methods of a length take turns")
        .at_least(1)
        .at_most(10000);
    f("limit-seconds", limit_seconds, "a mechanism stops after a pass that took longer than this").above(0);
    f("budget-seconds", budget_seconds, "a mechanism stops if it would take longer than this in all; 0: no limit")
        .at_least(0);
    f("clock", clock,
      "how passes are timed: wall, or cpu, processor time of all threads, which other programs on a busy machine "
      "change less")
        .one_of({"wall", "cpu"});
    f("causal", causal, "token i sees tokens 0 to i").only("with --task=attention", [this] { return !is_model(); });
    f.group("mechanism", mechanism);
  }

  bool is_model() const { return run.task == "model"; }
  const std::vector<int64_t>& swept() const { return against == "length" ? lengths : values; }
  int64_t head_size() const { return head_dim > 0 ? head_dim : dim / heads; }
};

/// One mechanism with its number of features, in a model with this number of blocks.
struct Method {
  MechanismOptions mechanism;
  int64_t layers = 0;
  std::string label;
};

/// One mechanism of given sizes, ready to be measured.
struct Bench {
  std::function<void()> forward, both;  ///< without a tape; with one, and with backward
};

/// The methods that the options name, in their order, for each number of layers.
std::vector<Method> methods_of(const Config& config);
/// The bench of a method where `value` is the length, or whatever else is varied (Config::against).
Bench bench_at(const Config& config, const Method& method, int64_t value);

}  // namespace bochner::efficiency
