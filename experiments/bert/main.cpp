// Pretrained BERT and ViT: computes their outputs on the caller's own inputs, and writes their weights again.
#include "engine/io/paths.h"
#include "engine/nearest.h"
#include "experiments/bert/io.h"
#include "experiments/common/program/program.h"
#include "experiments/common/run/tensor_file.h"
#include "experiments/learners/mechanism_config.h"
#include "experiments/learners/pretrained.h"

namespace bochner {
namespace {

struct Config {
  RunOptions run;
  std::string pretrained;
  std::string adapter;
  std::string io;
  std::string to{};
  std::string attention_blocks;
  bool training = false;
  MechanismConfig mechanism;

  Config() {
    run.attention = "softmax";
    run.attentions = attention_names();
  }
  void fields(Fields& f) {
    run.fields(f);
    f("pretrained", pretrained, "folder with config.json and model.safetensors, as transformers writes it");
    f("adapter", adapter, "folder of an adapter that is added to it, of glue, vit or PEFT (LoRA)");
    f("io", io, "safetensors file with input_ids, or pixel_values; the result goes to --out");
    f("to", to, "new or empty folder into which the model is written again, for transformers");
    attention_blocks_field(f, attention_blocks);
    f("training", training, "run as in a training step, with dropout").only("with --io", [this] {
      return !io.empty();
    });
    f.group("mechanism", mechanism);
    f.then([this](Fields& fields) { take_attention_of(pretrained, fields, "mechanism", run.attention, mechanism); });
  }
};

void run(Config& config, Session& session) {
  if (config.pretrained.empty()) fail("bert: say --pretrained=FOLDER, with config.json and model.safetensors");
  if (config.io.empty() && config.to.empty()) fail("bert: nothing to do; --io=FILE or --to=FOLDER");
  require_unused(config.to, "to");
  const ModelCall call{.folder = config.pretrained,
                       .adapter = config.adapter,
                       .mechanism = config.mechanism.chosen(config.run.attention),
                       .blocks = config.attention_blocks,
                       .training = config.training,
                       .seed = config.run.seed,
                       .device = Device::named(config.run.device),
                       .to = config.to};
  TensorMap given;
  if (!config.io.empty()) {
    given = read_safetensors(config.io).tensors;
    if (given.empty()) fail("{}: holds no tensors", config.io);
  }
  ModelAnswer answer;
  try {
    answer = answer_tensors(call, given);
  } catch (const Error& error) {
    if (config.io.empty()) throw;
    fail("{} on {}: {}", config.pretrained, config.io, error.what());
  }
  session.log.info("{}", answer.loaded.text());
  if (const std::vector<std::string>& random = answer.loaded.made_new; !random.empty()) {
    session.log.warning("{}: lacks {}; these have random values, and what is computed with them is random, too",
                        config.pretrained, listed(random));
  }
  if (!config.to.empty()) fmt::print("{}\n", config.to);
  if (config.io.empty()) return;
  const std::filesystem::path out = result_file(config.io, config.run.out, "bert");
  write_result(out, answer.tensors, {{"pretrained", config.pretrained}, {"attention", config.run.attention}},
               fmt::format("{} on {}", config.pretrained, config.io), session.log);
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>({.name = "bert",
                                            .summary = "Pretrained BERT and ViT, on your own inputs",
                                            .resources = bochner::embedded_resources(),
                                            .unused = bochner::options_of_training({"steps", "batch"})},
                                           argc, argv, bochner::run);
}
