// Pretraining of a BERT on any text: hidden tokens, and on request the next sentence.
#include "experiments/common/program/program.h"
#include "experiments/common/program/run.h"
#include "experiments/learners/task.h"
#include "experiments/pretrain/problem.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

void run(pretrain::Config& config, Session& session) {
  const text::TokenCacheOptions texts = config.texts();
  config.optim.schedule_of(config.run.steps);
  require_places(session);
  const auto say = messages_to(session.log).say;
  const std::filesystem::path folder =
      config.cache.empty() ? std::filesystem::path(config.run.data) / "tokens" : std::filesystem::path(config.cache);
  const text::TokenCache cache = text::token_cache(folder, texts, say);
  config.settle(session.fields, cache.train.tokens / pretrain::piece_length(config));
  session.after_run = [&](RunRecord& record) {
    const uint64_t before = config.run.seed;
    config.run.seed = record.seed;
    pretrain::save_model(config, cache, record.folder);
    config.run.seed = before;
    const double tokens = record.result.samples_per_second() * static_cast<double>(config.max_length);
    record.derived.emplace_back("tokens_per_second", tokens);
    session.log.info("{:.0f} tokens per second; the model is in {}", tokens, (record.folder / "model").string());
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
       .stores_bf16 = true},
      argc, argv, run);
}
