// Executes Turing machines with a Transformer with hard Gaussian attention (KL Theorems 1 and 2), and checks its tape
// step by step against a plain simulator.
#include <algorithm>
#include <filesystem>

#include "engine/io/file.h"
#include "experiments/common/process/interrupt.h"
#include "experiments/common/program/figures.h"
#include "experiments/turing/transformer.h"

namespace bochner {
namespace {

constexpr const char* kOwn = "own";

struct Config {
  RunOptions run;
  std::string input;
  std::string machine;

  Config() {
    for (const turing::Example& example : turing::examples()) run.tasks.push_back(example.name);
    run.tasks.emplace_back(kOwn);
    run.task = "increment";
    run.steps = 10000;
  }
  void fields(Fields& f) {
    run.fields(f);
    f.at("task").means("the machine to run; A,B,... runs each of them");
    f.at("steps").means("steps of the machine, at most");
    f("input", input, "the initial tape; empty: that of the task's example");
    f("machine", machine,
      "a file of rules `state symbol write next move`, for --task=own, which needs an --input, too");
    f.then([this](const Fields& fields) {
      if (!machine.empty() && fields.find("task")->was_given() && run.task != kOwn)
        fail("--machine: --task={} has a machine of its own; leave out one of them", run.task);
      if (!machine.empty()) run.task = kOwn;
      if (run.task == kOwn && machine.empty()) fail("--task=own: name its file of rules by --machine");
    });
  }
};

void run(Config& config, Session& session) {
  const auto& all = turing::examples();
  const auto example = std::find_if(all.begin(), all.end(), [&](const auto& e) { return e.name == config.run.task; });
  const bool own = !config.machine.empty();
  if (own && config.input.empty()) fail("turing: --machine needs an --input");
  const turing::Machine machine = own ? turing::Machine::parse(config.machine, read_text(config.machine))
                                      : turing::Machine::parse(example->name, example->text);
  const std::vector<int64_t> input = machine.read(config.input.empty() ? example->input : config.input);

  turing::Transformer transformer(machine, input);
  turing::Configuration truth = turing::start(machine, input);
  session.log.info("{} states, {} symbols and the blank: vectors of {}, {} weights, none of them learnt",
                   machine.states.size(), machine.symbols.size() - 1, transformer.size(), transformer.parameters());
  int64_t copied = 0;
  do {
    transformer.step();
    ++copied;
  } while (transformer.is_copying());

  Curve heads{"Transformer", 0, false, {}};
  Curve truths{"simulator", 0, true, {}};
  int64_t steps = 0;
  while (true) {
    const turing::Configuration found = transformer.configuration();
    session.log.info("{:>6}  {:<10} {}", steps, machine.states[static_cast<size_t>(truth.state)],
                     turing::text(machine, truth));
    if (!(found == truth) || transformer.symbol() != truth.symbol()) {
      throw RunFailure(fmt::format("turing: after {} steps the Transformer has {} and the simulator {}", steps,
                                   turing::text(machine, found), turing::text(machine, truth)));
    }
    heads.points.emplace_back(steps, found.head);
    truths.points.emplace_back(steps, truth.head);
    if (machine.is_final(truth.state)) break;
    if (steps == config.run.steps) {
      session.log.warning("not halted after {} steps (--steps)", steps);
      break;
    }
    turing::step(machine, truth);
    transformer.step();
    ++steps;
  }
  const std::string summary = fmt::format(
      "{} on {}: the same state, head, symbol and tape after each of {} steps, after {} of copying the input; ends as "
      "{} in {}.",
      machine.name, config.input.empty() ? example->input : config.input, steps, copied, turing::text(machine, truth),
      machine.states[static_cast<size_t>(truth.state)]);
  fmt::print("{}\n", summary);
  const Table sizes{{"", "value"},
                    {{"steps, each checked", std::to_string(steps)},
                     {"steps of copying the input", std::to_string(copied)},
                     {"states |Q|", std::to_string(machine.states.size())},
                     {"symbols |Sigma|, without the blank", std::to_string(machine.symbols.size() - 1)},
                     {"size of a vector, 2 |Q| + 3 |Sigma| + 12", std::to_string(transformer.size())},
                     {"weights, none learnt", std::to_string(transformer.parameters())}}};
  write_figures(session, {{"Where the head is (KL Theorems 1 and 2)", "step", "cell", {heads, truths}, summary}},
                {{fmt::format("The Transformer that executed {}", machine.name), sizes}});
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>(
      {.name = "turing",
       .summary = "A Transformer with hard Gaussian attention executes a Turing machine",
       .resources = bochner::embedded_resources(),
       .trains = false,
       .unused = {"attention", "batch", "data", "device", "precision", "debug-sync", "graphs"}},
      argc, argv, bochner::run);
}
