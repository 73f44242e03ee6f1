#include "experiments/lra/config.h"

#include <filesystem>

#include "engine/error.h"

namespace bochner::lra {

void ListopsConfig::fields(Fields& f) {
  f("tokenisation", tokenisation, "fixed keeps closing brackets; released, SKY's, loses them")
      .one_of({"fixed", "released"});
  f("max-length", max_length, "longest sequence; longer ones are cut").at_least(1);
  f("min-tokens", min_tokens, "generated expressions are longer than this").at_least(0).at_most(1000000);
  f("max-tokens", max_tokens, "generated expressions are shorter than this").at_least(2).at_most(1000000);
  f("train-examples", train_examples, "expressions to generate for training").at_least(1).at_most(10000000);
  f("valid-examples", valid_examples, "for choosing the best checkpoint").at_least(1).at_most(10000000);
  f("test-examples", test_examples, "for the result").at_least(1).at_most(10000000);
  f("data-seed", data_seed, "seed of the generator of expressions");
  f("found", found,
    "take the three files of the folder listops as they are, without a manifest; the examples are then counted, "
    "min-tokens, max-tokens and data-seed are not used");
}

void ListopsConfig::state_found(const TaskData& data) {
  if (!found) return;
  const ListopsConfig untouched;
  if (min_tokens != untouched.min_tokens || max_tokens != untouched.max_tokens || data_seed != untouched.data_seed) {
    fail("listops.found: min-tokens, max-tokens and data-seed are for making files; leave them out");
  }
  const auto state = [](const char* name, int64_t& asked, int64_t usual, int64_t there) {
    if (asked != usual && asked != there) {
      fail("listops.{}: {} are asked for, but the file that was found holds {}; leave it out", name, asked, there);
    }
    asked = there;
  };
  state("train-examples", train_examples, untouched.train_examples, data.train->size());
  state("valid-examples", valid_examples, untouched.valid_examples, data.valid->size());
  state("test-examples", test_examples, untouched.test_examples, data.test->size());
}

Config::Config() {
  run.task = "listops";
  run.tasks = {"listops"};
  run.attentions = sequence::mechanism_names();
  run.attention = "performer";
  run.steps = 5000;
  run.batch = 32;
  optim.rate = 1e-4;
}

void Config::fields(Fields& f) {
  run.fields(f);
  f.group("listops", listops);
  f.group("model", model);
  f.group("optim", optim);
  f.then([this](const Fields&) {
    if (listops.max_tokens >= listops.min_tokens + 2) return;
    fail("--listops.max-tokens={} leaves no length between it and --listops.min-tokens={}", listops.max_tokens,
         listops.min_tokens);
  });
}

bochner::listops::TaskOptions Config::listops_options() const {
  bochner::listops::TaskOptions options;
  options.generator.min_length = listops.min_tokens;
  options.generator.max_length = listops.max_tokens;
  options.generator.train = listops.train_examples;
  options.generator.valid = listops.valid_examples;
  options.generator.test = listops.test_examples;
  options.generator.seed = listops.data_seed;
  const bool official = options.generator == bochner::listops::GeneratorOptions{};
  const std::string folder =
      official || listops.found ? "listops" : fmt::format("listops-{}-{}", listops.min_tokens, listops.max_tokens);
  options.folder = std::filesystem::path(run.data) / folder;
  options.read.tokenisation = bochner::listops::tokenisation_named(listops.tokenisation);
  options.read.max_length = listops.max_length;
  options.found = listops.found;
  return options;
}

}  // namespace bochner::lra
