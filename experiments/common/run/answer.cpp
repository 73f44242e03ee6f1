#include "experiments/common/run/answer.h"

#include <fmt/format.h>

#include "engine/error.h"
#include "engine/io/file.h"
#include "experiments/common/process/output.h"
#include "experiments/common/run/run_folder.h"

namespace bochner {
namespace {

std::string table_of(Trainable& model, const std::string& answers) {
  std::string lines;
  size_t numbers = 0;
  model.predict(answers, [&](const Prediction& one) {
    numbers = one.numbers.size();
    lines += fmt::format("{}\t{}", one.number, one.answer);
    for (const double number : one.numbers) lines += fmt::format("\t{}", number);
    lines += "\n";
  });
  if (lines.empty()) fail("--predict: this experiment answers no questions one by one");
  std::string head = "index\tprediction";
  for (size_t i = 0; i < numbers; ++i) head += fmt::format("\tp{}", i);
  return head + "\n" + lines;
}

/// Several files go into the folder --out, which is created if necessary; a single one is --out itself, or goes into
/// the folder that it names. Each is opened before the model answers, which may take long.
void write_answers(const RunOptions& options, const std::filesystem::path& folder, Trainable& model) {
  const std::vector<std::string> files = model.answer_files();
  if (files.empty()) fail("--predict: this experiment answers no questions one by one");
  const std::filesystem::path out = options.out.empty() ? folder : std::filesystem::path(options.out);
  const bool is_folder = options.out.empty() || files.size() > 1 || std::filesystem::is_directory(out);
  if (is_folder) std::filesystem::create_directories(out);
  for (const std::string& name : files) {
    const std::filesystem::path file = is_folder ? out / name : out;
    AtomicFile to(file);
    to.write(table_of(model, name));
    to.commit();
    fmt::print("{}\n", file.string());
  }
}

}  // namespace

State best_of(const std::filesystem::path& folder) {
  const std::filesystem::path checkpoint = checkpoint_in(folder);
  if (checkpoint.empty()) fail("{} holds no checkpoint yet", folder.string());
  return State::load(checkpoint);
}

bool asks_a_run(const RunOptions& options) { return !options.evaluate.empty() || !options.predict.empty(); }

void answer(const RunOptions& options, Trainable& model, Communicator& comm) {
  model.share(comm);
  const std::filesystem::path folder = options.evaluate.empty() ? options.predict : options.evaluate;
  const State state = best_of(folder);
  model.load_model(state);
  if (options.evaluate.empty()) {
    write_answers(options, folder, model);
  } else {
    fmt::print("{}, step {}\n", state.file, state.integer("run.step"));
    std::vector<std::pair<std::string, Split>> sets = {{"valid", Split::valid}, {"test", Split::test}};
    if (const std::string only = model.only_set(); !only.empty()) sets = {{only, Split::test}};
    for (const auto& [name, split] : sets) {
      fmt::print("{}: {}\n", name, metrics_text(model.evaluate(split)));
    }
  }
  flush_output();
}

}  // namespace bochner
