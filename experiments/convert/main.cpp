// Conversion of a pretrained BERT from softmax to another attention.
#include <cmath>
#include <nlohmann/json.hpp>

#include "datasets/glue/tables.h"
#include "engine/io/file.h"
#include "engine/io/json_file.h"
#include "engine/io/paths.h"
#include "engine/stopwatch.h"
#include "experiments/common/process/build_info.h"
#include "experiments/common/process/interrupt.h"
#include "experiments/common/program/program.h"
#include "experiments/common/report/table.h"
#include "experiments/common/run/data_record.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/convert/distillation.h"
#include "experiments/convert/texts.h"
#include "experiments/learners/mechanism_config.h"
#include "experiments/learners/pretrained.h"
#include "layers/models/hugging_face.h"

namespace bochner {
namespace {

constexpr const char* kNone = "none";

struct Config {
  RunOptions run;
  std::string pretrained{};
  std::vector<std::string> text{};
  std::string text_of = kNone;
  std::string to{};
  std::string attention_blocks{};
  std::string cache{};
  int64_t max_length = 128;
  double rate = 1e-2;
  int64_t measured = 16;
  std::string match = "outputs";
  MechanismConfig mechanism;

  Config() {
    run.attention = "hedgehog";
    run.attentions = attention_names();
    run.steps = 500;
    run.batch = 16;
  }
  void fields(Fields& f) {
    run.fields(f);
    f.at("preset").means("the protocol whose settings to start from; --attention chooses its files");
    f("pretrained", pretrained, "folder of a BERT with softmax attention, with its tokenizer");
    f("text", text, "files, folders and archives of text to learn from, with commas between them");
    f("text-of", text_of,
      "a task of GLUE, in --data, whose training sentences and pairs to learn from, without labels, as glue reads them")
        .one_of(tasks());
    f("to", to, "new or empty folder to write the converted model into, for --pretrained of other programs");
    attention_blocks_field(f, attention_blocks);
    f("cache", cache, "folder where texts are kept as tokens; empty: tokens, in --data");
    f("match", match,
      "what is fitted to softmax: attention's outputs; the weights of values, where these are positive; or outputs in "
      "the first half of the steps and the states behind blocks in the second")
        .one_of({"outputs", "weights", "states"});
    f("max-length", max_length, "tokens of an example, [CLS] and [SEP] among them").at_least(8).at_most(1 << 20);
    f("rate", rate, "learning rate at first; it falls linearly to 0").above(0);
    f("measured", measured, "batches of held-out text on which errors are measured, at most").at_least(1);
    f.group("mechanism", mechanism);
  }

 private:
  /// Those with a training set.
  static std::vector<std::string> tasks() {
    std::vector<std::string> names = {kNone};
    for (const glue::Corpus& corpus : glue::corpora()) {
      if (!corpus.train.name.empty()) names.push_back(corpus.name);
    }
    return names;
  }
};

convert::Texts texts_of(const Config& config, const Say& say) {
  const convert::TextOptions options{config.pretrained, config.max_length, config.run.batch, config.run.seed};
  const std::filesystem::path data = config.run.data;
  if (config.text_of != kNone) return convert::sentences_of(config.text_of, data / "glue", options, say);
  return convert::pieces_of(config.text, config.cache.empty() ? data / "tokens" : std::filesystem::path(config.cache),
                            options, say);
}

void train(convert::Distillation& distillation, std::unique_ptr<Feed> texts, const Config& config, Log& log) {
  if (distillation.learnt() == 0) {
    log.info("{} learns nothing, so it is taken as it is", config.run.attention);
    return;
  }
  RunOptions run = config.run;
  run.graphs = false;  // Distillation::problem
  const OptimConfig optim{.schedule = "linear", .rate = config.rate, .weight_decay = 0.01};
  Learner learner(run, optim, distillation.problem(std::move(texts)));
  double sum = 0;
  int64_t count = 0;
  const bool two_parts = config.match == "states";
  for (int64_t step = 0; step < config.run.steps; ++step) {
    if (two_parts && step == config.run.steps / 2) distillation.fit(convert::Match::states);
    const double loss = learner.step(step).loss.item();
    if (!std::isfinite(loss)) {
      throw RunFailure(fmt::format("the loss of step {} is {}; try a smaller --rate", step + 1, shown_loss(loss)));
    }
    sum += loss;
    ++count;
    if ((step + 1) % std::max<int64_t>(1, config.run.steps / 10) == 0) {
      log.info("step {}/{}: {} {:.4g}", step + 1, config.run.steps,
               config.match == "weights"                   ? "divergence of the weights"
               : two_parts && step >= config.run.steps / 2 ? "squared error, as a share of the states' squares,"
                                                           : "squared error, as a share of the outputs' squares,",
               sum / static_cast<double>(count));
      sum = 0;
      count = 0;
    }
  }
}

/// What was done and how far outputs are apart, beside the model.
void write_record(const Config& config, Session& session, const convert::Distillation& distillation,
                  const std::vector<double>& before, const std::vector<double>& after, double seconds) {
  nlohmann::ordered_json record = {{"pretrained", std::filesystem::path(config.pretrained).filename().string()},
                                   {"attention", config.run.attention},
                                   {"options", nlohmann::ordered_json::parse(session.fields.json("mechanism"))},
                                   {"steps", distillation.learnt() == 0 ? 0 : config.run.steps},
                                   {"batch", config.run.batch},
                                   {"max-length", config.max_length},
                                   {"text-of", config.text_of},
                                   {"match", config.match},
                                   {"rate", config.rate},
                                   {"precision", config.run.precision},
                                   {"seed", config.run.seed},
                                   {"learnt", distillation.learnt()},
                                   {"seconds", seconds},
                                   {"data", nlohmann::ordered_json::parse(data_json(session.data.reads()))},
                                   {"git", build_info().commit}};
  for (size_t i = 0; i < distillation.blocks().size(); ++i) {
    record["blocks"].push_back({{"block", distillation.blocks()[i]}, {"before", before[i]}, {"after", after[i]}});
  }
  record["model"] = {{"before", before.back()}, {"after", after.back()}};
  write_file_atomically(std::filesystem::path(config.to) / "conversion.json", json_text(record, 2) + "\n");
}

void run(Config& config, Session& session) {
  require_positions(pretrained_bert(config.pretrained), config.max_length);
  if (config.to.empty()) fail("--to: name the folder to write the converted model into");
  require_unused(config.to, "to");
  require_writable(config.to, "to");
  if (config.text.empty() == (config.text_of == kNone)) {
    fail("name text to learn from: either files by --text, or a task of GLUE by --text-of");
  }
  const auto say = [&](const std::string& line) { session.log.info("{}", line); };
  convert::Distillation distillation(config.pretrained, config.mechanism.chosen(config.run.attention),
                                     config.attention_blocks, Device::named(config.run.device), config.run.seed,
                                     config.match == "weights" ? convert::Match::weights : convert::Match::outputs);
  say(fmt::format("{}: {}", config.pretrained, distillation.tensors().text()));
  record_weights(pretrained_weights(config.pretrained));
  convert::Texts texts = texts_of(config, say);
  require_tokens(distillation.options(), texts.tokenizer->size(), config.pretrained);
  std::vector<Examples> held_out;
  while (std::ssize(held_out) < std::min(config.measured, texts.held_out->steps_per_epoch())) {
    held_out.push_back(texts.held_out->next());
  }

  const Stopwatch watch;
  const std::vector<double> before = distillation.apart(held_out);
  train(distillation, std::move(texts.train), config, session.log);
  const std::vector<double> after = distillation.apart(held_out);
  const double seconds = watch.seconds();

  save_pretrained(*distillation.converted(), config.to, config.pretrained, Reader::own);
  write_record(config, session, distillation, before, after, seconds);
  Table table{{"block", "before", "after"}, {}};
  for (size_t i = 0; i < before.size(); ++i) {
    const bool is_model = i == distillation.blocks().size();
    table.rows.push_back({is_model ? "last states" : std::to_string(distillation.blocks()[i]),
                          fmt::format("{:.4f}", before[i]), fmt::format("{:.4f}", after[i])});
  }
  fmt::print("How far {} is from softmax, |S - T| / |T|:\n{}\n{}\n", config.run.attention, table.text(), config.to);
  session.log.info("{} values learnt in {:.0f} s", distillation.learnt(), seconds);
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>(
      {.name = "convert",
       .summary = "Conversion of a pretrained BERT from softmax to another attention",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true,
       .unused = bochner::options_of_training({"out"}),
       .of_one = {"to"}},
      argc, argv, bochner::run);
}
