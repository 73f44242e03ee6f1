// Every attention in the registry: lists them, shows one, and computes any of them on the caller's own tensors.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "experiments/attention/io.h"
#include "experiments/common/program/program.h"
#include "experiments/common/run/tensor_file.h"
#include "experiments/learners/mechanism_config.h"

namespace bochner {
namespace {

struct Config {
  RunOptions run;
  bool list = false;
  std::string show;
  std::string io;
  bool matrix = false;
  bool causal = false;
  bool training = false;
  MechanismConfig mechanism{{"attention", "show"}};

  Config() {
    run.attention = "softmax";
    run.attentions = attention_names();
  }
  void fields(Fields& f) {
    run.fields(f);
    f("list", list, "print a table of all mechanisms").of_invocation();
    f("show", show, "print equation, shapes and options of this mechanism").of_invocation();
    f("io", io, "safetensors file with Q, K, V and maybe mask, dO and parameters; the result goes to --out");
    const auto computes = [this] { return !io.empty(); };
    f("matrix", matrix, "also write the attention matrix A, found with one-hot values").only("with --io", computes);
    f("causal", causal, "token i sees tokens 0 to i").only("with --io", computes);
    f("training", training, "run as in a training step, with batch statistics, noise and dropout")
        .only("with --io", computes);
    f.group("mechanism", mechanism);
    for (const char* name : {"mechanism.redraw", "mechanism.redraw-in-evaluation"}) {  // --io draws frequencies once
      f.at(name).only("without --io", [this] { return io.empty(); });
    }
  }
};

void print_mechanism(const std::string& name, const Config& config) {
  const MechanismInfo& info = mechanism_named(name);
  const auto line = [](const char* what, const std::string& text) {
    if (!text.empty()) fmt::print("  {:<13} {}\n", what, text);
  };
  fmt::print("{}\n", info.name);
  line("equation", info.equation);
  line("source", fmt::format("{} ({})", info.paper, info.year));
  line("shapes", "Q (B, H, Lq, D), K (B, H, Lk, D), V (B, H, Lk, E) -> O (B, H, Lq, E)");
  line("approximates", info.approximates);
  line("time", info.cost);
  line("causal", info.causal ? "yes" : "no");
  line("learns", info.learns);
  line("as released", info.released);
  line("as skyformer", info.skyformer);
  MechanismOptions options = config.mechanism.chosen(name);
  MechanismOptions shown = options;
  shown.set_default_length(64);
  Generator init(1);
  const auto mechanism = make_mechanism({}, 4, 64, shown, init);
  std::set<std::string> learnt;
  for (const Parameter* parameter : mechanism->parameters()) learnt.insert(parameter->name);
  const auto state = mechanism->state();
  if (!state.empty()) fmt::print("\nTensors that the file of --io may hold, here for 4 heads of 64 and 64 tokens:\n");
  for (const auto& [key, tensor] : state) {
    fmt::print("  {} {}{}\n", key, tensor.shape().str(), learnt.count(key) > 0 ? ", learns" : "");
  }
  OptionList list = options.list();
  if (list.size() > 0) fmt::print("\nOptions:\n");
  for (const Option& option : list) {
    fmt::print("  --mechanism.{}={}  {}{}\n", option.name(), option.text(), option.help(),
               option.rule().empty() ? "" : " (" + option.rule() + ")");
  }
}

void run(Config& config, Session& session) {
  if ((config.list || !config.show.empty()) && !config.io.empty())
    fail("attention: --list and --show print what there is, and --io computes; leave out one of them");
  if (config.list) fmt::print("{}", mechanisms_table());
  if (!config.show.empty()) print_mechanism(config.show, config);
  if (config.list || !config.show.empty()) return;
  if (config.io.empty()) fail("attention: nothing to do; --list, --show NAME, or --io FILE (see --help)");
  const AttentionCall call{.mechanism = config.mechanism.chosen(config.run.attention),
                           .causal = config.causal,
                           .training = config.training,
                           .matrix = config.matrix,
                           .seed = config.run.seed};
  const TensorMap given = read_safetensors(config.io).tensors;
  const std::filesystem::path out = result_file(config.io, config.run.out, config.run.attention);
  TensorMap result;
  try {
    result = attend_tensors(call, given);
  } catch (const Error& error) {
    fail("{} on {}: {}", config.run.attention, config.io, error.what());
  }
  write_result(out, result, {{"attention", config.run.attention}, {"options", session.fields.json("mechanism")}},
               fmt::format("{} on {}", config.run.attention, config.io), session.log);
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>(
      {.name = "attention",
       .summary = "Every attention of the registry, on your own tensors",
       .resources = bochner::embedded_resources(),
       .unused =
           bochner::options_of_training({"steps", "batch", "data", "device", "precision", "debug-sync", "graphs"})},
      argc, argv, bochner::run);
}
