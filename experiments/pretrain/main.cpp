// Pretraining of a BERT on any text: hidden tokens, and on request the next sentence.
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/common/run/answer.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/learners/task.h"
#include "experiments/pretrain/problem.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

/// The run whose model is used, continued or begun with; empty: none.
std::filesystem::path run_before(const pretrain::Config& config, const Session& session) {
  const RunOptions& run = config.run;
  if (asks_a_run(run)) return run.evaluate.empty() ? run.predict : run.evaluate;
  if (run.resume) {
    std::filesystem::path folder = run.out;
    if (folder.empty()) folder = folder_of_runs(session.experiment, run);
    if (run.seeds > 1) folder /= fmt::format("seed{}", run.seed);
    if (std::filesystem::exists(folder / kCheckpointLast)) return folder;  // or else it begins anew
  }
  return run.init;
}

/// Exports the model of a run for other programs: copies what a finished run has written; for an unfinished run, writes
/// it with the tokens of its texts.
void export_run(const pretrain::Config& config, Communicator& comm, const Say& say) {
  const std::filesystem::path run = config.exported;
  const std::filesystem::path model = pretrain::model_folder(run);
  const std::filesystem::path to = config.folder();
  if (std::filesystem::exists(run / kResults) && std::filesystem::exists(model)) {
    std::filesystem::create_directories(to);
    std::filesystem::copy(model, to, std::filesystem::copy_options::recursive);
  } else {
    pretrain::save_model(config, pretrain::cache_of(config, run, comm, say), run, to);
  }
  fmt::print("{}\n", config.to);
}

void run(pretrain::Config& config, Session& session) {
  const auto say = messages_to(session.log).say;
  if (!config.exported.empty()) return export_run(config, session.comm, say);
  (void)config.texts();  // before a folder is created
  config.optim.schedule_of(config.run.steps);
  require_places(session);
  const std::string before =
      session.comm.broadcast(session.comm.is_first() ? run_before(config, session).string() : std::string());
  const text::TokenCache cache = pretrain::cache_of(config, before, session.comm, say);
  config.settle(session.fields, cache.train.tokens / pretrain::piece_length(config));
  session.after_run = [&](RunRecord& record) {
    const std::filesystem::path model = pretrain::model_folder(record.folder);
    pretrain::save_model(config, cache, record.folder, model);
    const double tokens = record.result.samples_per_second() * static_cast<double>(config.max_length);
    record.derived.emplace_back("tokens_per_second", tokens);
    session.log.info("{:.0f} tokens per second; the model is in {}", tokens, model.string());
    return std::vector<ReportFigure>();
  };
  train_runs(session, plan_by(metrics_named({"perplexity"})[0], config.run, config.optim), [&] {
    return std::make_unique<Learner>(config.run, config.optim, pretrain::problem_of(config, cache, say));
  });
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<pretrain::Config>(
      {.name = "pretrain",
       .summary = "Pretraining of a BERT with any attention: hidden tokens of any text",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true,
       .of_run = {"export"}},
      argc, argv, run);
}
