// Conversion of a pretrained BERT from softmax to another attention.
#include <nlohmann/json.hpp>

#include "datasets/glue/tables.h"
#include "engine/io/file.h"
#include "engine/io/json_file.h"
#include "engine/io/paths.h"
#include "experiments/common/process/build_info.h"
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/common/report/table.h"
#include "experiments/common/run/answer.h"
#include "experiments/common/run/data_record.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/convert/distillation.h"
#include "experiments/convert/texts.h"
#include "experiments/learners/mechanism_config.h"
#include "experiments/learners/pretrained.h"
#include "experiments/learners/task.h"
#include "layers/models/hugging_face.h"

namespace bochner {
namespace {

constexpr const char* kNone = "none";

struct ModelConfig {
  std::string attention_blocks{};
  MechanismConfig mechanism;

  void fields(Fields& f) {
    attention_blocks_field(f, attention_blocks);
    f.group("mechanism", mechanism);
  }
};

struct Config {
  RunOptions run;
  std::string pretrained{};
  std::vector<std::string> text{};
  std::string text_of = kNone;
  bool special_in_text = true;
  std::string to{};
  std::string cache{};
  int64_t max_length = 128;
  int64_t measured = 16;
  convert::Match match = convert::Match::outputs;
  ModelConfig model;
  OptimConfig optim;

  Config() {
    run.task = "distillation";
    run.tasks = {"distillation"};
    run.attention = "hedgehog";
    run.attentions = attention_names();
    run.steps = 500;
    run.batch = 16;
    run.graphs = false;  // Distillation::problem
    optim.schedule = "linear";
    optim.rate = 1e-2;
    optim.weight_decay = 0.01;
    optim.evaluate_every = 0;
  }
  void fields(Fields& f) {
    run.fields(f);
    f("pretrained", pretrained, "folder of a BERT with softmax attention, with its tokenizer");
    f("text", text, "files, folders and archives of text to learn from, with commas between them");
    f("text-of", text_of,
      "a task of GLUE, in --data, whose training sentences and pairs to learn from, without labels, as glue reads them")
        .one_of(tasks());
    f("special-in-text", special_in_text, "as in glue").only("with --text-of", [this] { return text_of != kNone; });
    f("to", to,
      "new or empty folder to write the converted model into, for --pretrained of other programs; empty: model, in the "
      "run's folder")
        .free_on_resume();
    f("cache", cache, "folder where texts are kept as tokens; empty: tokens, in --data");
    f("match", match, convert::kMatches,
      "what is fitted to softmax: attention's outputs; the weights of values, where these are positive; or outputs in "
      "the first half of the steps and the states behind blocks in the second");
    f("max-length", max_length, "tokens of an example, [CLS] and [SEP] among them").at_least(8).at_most(1 << 20);
    f("measured", measured, "batches of held-out text on which errors are measured, at most").at_least(1);
    f.group("model", model);
    f.group("optim", optim);
  }

 private:
  /// The tasks that have a training set.
  static std::vector<std::string> tasks() {
    std::vector<std::string> names = {kNone};
    for (const glue::Corpus& corpus : glue::corpora()) {
      if (!corpus.train.name.empty()) names.push_back(corpus.name);
    }
    return names;
  }
};

/// An Error about anything that can be known before texts are read.
void require_settings(const Config& config) {
  require_positions(pretrained_bert(config.pretrained), config.max_length);
  if (config.text.empty() == (config.text_of == kNone)) {
    fail("name text to learn from: either files by --text, or a task of GLUE by --text-of");
  }
  if (config.match == convert::Match::states && config.run.seconds > 0) {
    fail("--match=states --seconds={}: the second half begins with a step; say how many by --steps",
         config.run.seconds);
  }
  if (!config.to.empty() && config.run.seeds > 1) {
    fail("--to={}: takes the model of one run; leave it out with --seeds={}, and each run keeps its own", config.to,
         config.run.seeds);
  }
  config.optim.schedule_of(config.run.steps);
}

std::shared_ptr<convert::Distillation> distillation_of(const Config& config) {
  return std::make_shared<convert::Distillation>(config.pretrained, config.model.mechanism.chosen(config.run.attention),
                                                 config.model.attention_blocks, Device::named(config.run.device),
                                                 config.run.seed, config.match, config.run.steps / 2);
}

convert::Texts texts_of(const Config& config, const Say& say) {
  const convert::TextOptions options{config.pretrained, config.max_length, config.run.batch, config.run.seed,
                                     config.special_in_text};
  const std::filesystem::path data = config.run.data;
  if (config.text_of != kNone) return convert::sentences_of(config.text_of, data / "glue", options, say);
  return convert::pieces_of(config.text, config.cache.empty() ? data / "tokens" : std::filesystem::path(config.cache),
                            options, say);
}

std::vector<Examples> first_batches(Feed& feed, int64_t most) {
  std::vector<Examples> batches;
  while (std::ssize(batches) < std::min(most, feed.steps_per_epoch())) batches.push_back(feed.next());
  return batches;
}

/// Writes next to the model what was done and how far the outputs are from softmax's.
void write_record(const Config& config, const Session& session, const RunRecord& run,
                  const convert::Distillation& distillation, const std::vector<double>& after,
                  const std::filesystem::path& folder) {
  const std::vector<double>& before = distillation.before();
  nlohmann::ordered_json record = {{"pretrained", std::filesystem::path(config.pretrained).filename().string()},
                                   {"attention", config.run.attention},
                                   {"options", nlohmann::ordered_json::parse(session.fields.json("model.mechanism"))},
                                   {"steps", run.result.steps},
                                   {"batch", config.run.batch},
                                   {"max-length", config.max_length},
                                   {"text-of", config.text_of},
                                   {"match", std::string(text_of(convert::kMatches, config.match))},
                                   {"rate", config.optim.rate},
                                   {"precision", config.run.precision},
                                   {"seed", config.run.seed},
                                   {"learnt", distillation.learnt()},
                                   {"seconds", run.result.train_seconds},
                                   {"data", nlohmann::ordered_json::parse(data_json(run.data))},
                                   {"git", build_info().commit}};
  for (size_t i = 0; i < distillation.blocks().size(); ++i) {
    record["blocks"].push_back({{"block", distillation.blocks()[i]}, {"before", before[i]}, {"after", after[i]}});
  }
  record["model"] = {{"before", before.back()}, {"after", after.back()}};
  write_file_atomically(folder / "conversion.json", json_text(record, 2) + "\n");
}

Table table_of(const convert::Distillation& distillation, const std::vector<double>& after) {
  const std::vector<double>& before = distillation.before();
  Table table{{"block", "before", "after"}, {}};
  for (size_t i = 0; i < before.size(); ++i) {
    const bool is_model = i == distillation.blocks().size();
    table.rows.push_back({is_model ? "last states" : std::to_string(distillation.blocks()[i]),
                          fmt::format("{:.4f}", before[i]), fmt::format("{:.4f}", after[i])});
  }
  return table;
}

void run(Config& config, Session& session) {
  const auto say = messages_to(session.log).say;
  {
    const DataLog unused;  // each run reads the model again
    require_settings(config);
    require_places(session);
    if (!asks_a_run(config.run) && distillation_of(config)->learnt() == 0) {
      session.log.info("{} learns nothing, so it is taken as it is", config.run.attention);
      config.run.steps = 0;
    }
  }

  std::shared_ptr<convert::Distillation> distillation;  // of the latest run
  std::vector<Examples> held_out;
  session.after_run = [&](RunRecord& record) {
    distillation->take(best_of(record.folder));
    const std::vector<double> after = distillation->apart(held_out);
    const std::filesystem::path to = config.to.empty() ? record.folder / "model" : std::filesystem::path(config.to);
    save_pretrained(*distillation->converted(), to, config.pretrained, Reader::own);
    write_record(config, session, record, *distillation, after, to);
    const Table table = table_of(*distillation, after);
    const std::string title = fmt::format("How far {} is from softmax, |S - T| / |T|", config.run.attention);
    fmt::print("{}:\n{}\n{}\n", title, table.text(), to.string());
    return std::vector<ReportFigure>{{title, table.html()}};
  };
  train_runs(session, plan_by({.name = "error-of-states", .of = {}}, config.run, config.optim), [&] {
    if (!config.to.empty() && !asks_a_run(config.run)) {
      require_unused(config.to, "to");
      require_writable(config.to, "to");
    }
    distillation = distillation_of(config);
    say(fmt::format("{}: {}", config.pretrained, distillation->tensors().text()));
    convert::Texts texts = texts_of(config, say);
    require_tokens(distillation->options(), texts.tokenizer->size(), config.pretrained);
    held_out = first_batches(*texts.held_out, config.measured);
    return std::make_unique<Learner>(config.run, config.optim, distillation->problem(std::move(texts.train), held_out));
  });
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>(
      {.name = "convert",
       .summary = "Conversion of a pretrained BERT from softmax to another attention",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true,
       .unused = {"accumulate", "shards", "reduce", "graphs", "predict"},
       .of_one = {"to"}},
      argc, argv, bochner::run);
}
