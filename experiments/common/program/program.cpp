#include "experiments/common/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>

#include "engine/card.h"
#include "engine/comm/nccl.h"
#include "engine/comm/shard_tree.h"
#include "engine/cpu/bf16/product.h"
#include "engine/device.h"
#include "engine/error.h"
#include "engine/io/file.h"
#include "engine/parallel.h"
#include "engine/precision.h"
#include "engine/trace.h"
#include "experiments/common/config/command_line.h"
#include "experiments/common/process/arguments.h"
#include "experiments/common/process/build_info.h"
#include "experiments/common/process/interrupt.h"
#include "experiments/common/process/output.h"
#include "experiments/common/process/processes.h"
#include "experiments/common/process/start.h"
#include "experiments/common/program/figures.h"
#include "experiments/common/program/run.h"
#include "experiments/common/report/report.h"
#include "experiments/common/report/results_table.h"
#include "experiments/common/report/runs_shown.h"
#include "experiments/common/run/run_folder.h"

namespace bochner {
namespace {

/// The number of shards in a batch if several processes share it and --shards is not given.
constexpr int kShards = 8;

constexpr const char* kResumeAuto = "--resume=auto";

bool has_argument(const Arguments& arguments, const std::string& word) {
  return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
}

/// `performer+softmax`, as long as that is short.
std::string name_of(const std::vector<std::string>& names, const char* kind) {
  if (names.size() > 3) return fmt::format("{}-{}", names.size(), kind);
  std::string name = names.front();
  for (size_t i = 1; i < names.size(); ++i) name += "+" + names[i];
  return name;
}

/// Checks the device and its precision, and the environment's choice of how bf16 adds, even if that is not used.
void use_device(const Experiment& experiment, const RunOptions& options) {
  const Device device = Device::named(options.device);
  const Precision precision = precision_named(options.precision);
  if (precision == Precision::tf32 && device.is_cpu())
    fail("--precision=tf32: needs a card; the CPU multiplies in f32");
  if (precision == Precision::bf16 && device.is_cpu() && !experiment.stores_bf16)
    fail("--precision=bf16: needs a card; on the CPU {} computes in f32", experiment.name);
  cpu::bf16_order();
  set_precision(precision);
  set_debug_sync(options.debug_sync);
}

/// One call of an experiment's program.
class Program {
 public:
  Program(const Experiment& experiment, const std::function<void(const Launch&)>& with_config, Log& log,
          Communicator& comm, std::string name, Arguments arguments)
      : experiment_(experiment),
        with_config_(with_config),
        log_(log),
        comm_(comm),
        name_(std::move(name)),
        arguments_(std::move(arguments)) {}

  void run() {
    std::vector<std::string> of_run = {"evaluate", "predict"};
    of_run.insert(of_run.end(), experiment_.of_run.begin(), experiment_.of_run.end());
    for (const std::string& option : of_run) use_settings_of_run(option, of_run);
    if (experiment_.trains && has_flag(arguments_, "bench"))
      refuse_beside("bench", {"out", "resume", "seconds", "init"});
    for (const char* option : {"task", "attention"}) arguments_ = with_last_alone(arguments_, option);
    const std::vector<std::string> tasks = compared(arguments_, "task");
    const std::vector<std::string> attentions = compared(arguments_, "attention");
    if (has_argument(arguments_, kResumeAuto)) settle_resume(tasks, attentions);
    for (const std::string& option : experiment_.of_one) {
      if (tasks.size() + attentions.size() > 0 && argument(arguments_, option)) {
        fail("--{}: takes what one task and one attention give; name one of each", option);
      }
    }
    if (tasks.empty() && attentions.empty()) {
      launch(arguments_);
    } else {
      compare(tasks, attentions);
    }
    conclude();
  }

 private:
  /// `--evaluate RUN` and `--predict RUN` use the run's own config.
  void use_settings_of_run(const std::string& option, const std::vector<std::string>& others) {
    const std::optional<std::string> folder = argument(arguments_, option);
    if (!folder || !experiment_.trains) return;
    for (const std::string& other : others) {
      if (other != option && argument(arguments_, other)) fail("--{} and --{}: name one of them", option, other);
    }
    for (const char* of_settings : {"config", "preset"}) {
      if (argument(arguments_, of_settings))
        fail("--{}={} has the settings of that run; leave out --{}", option, *folder, of_settings);
    }
    refuse_beside(option, {"steps", "seconds", "init", "seeds", "resume", "bench"});
    if (option == "evaluate") refuse_beside(option, {"out"});
    if (!holds_run(*folder)) fail("--{}: {}", option, no_run_in(*folder));
    asked_ = {option, *folder};
    const std::string config = asked_->config().string();
    if (!std::filesystem::exists(config)) {
      fail("--{}: {} is missing; restore it from a copy, or have it written again by --resume --out={}", option, config,
           *folder);
    }
    arguments_.push_back("--config=" + config);
  }

  void warn(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) log_.warning("{}", warning);
  }

  /// Refuses what is useless with `option`, which trains nothing.
  void refuse_beside(const std::string& option, const std::vector<std::string>& others) const {
    for (const std::string& other : others) {
      if (has_flag(arguments_, other) || argument(arguments_, other))
        fail("--{}: leave it out; beside --{}, which trains nothing, it would change nothing", other, option);
    }
  }

  /// Whether the caller asks for information instead of a run.
  bool tells(const Fields& fields, const RunOptions& options) const {
    if (options.help) write_output(help_text(experiment_, fields));
    if (options.version && !options.help) write_output(version_text());
    if (options.dump_config && !options.help && !options.version) write_output(config_ini(experiment_, fields, false));
    return options.help || options.version || options.dump_config;
  }

  /// `--resume=auto` becomes `--resume` if there is something to resume; otherwise it is removed.
  void settle_resume(const std::vector<std::string>& tasks, const std::vector<std::string>& attentions) {
    std::erase(arguments_, kResumeAuto);
    Arguments first = arguments_;
    if (!tasks.empty()) first = parts_by({{"", first}}, "task", tasks).front().arguments;
    if (!attentions.empty()) first = parts_by({{"", first}}, "attention", attentions).front().arguments;
    with_config_([&](Fields& fields, RunOptions& options, const Body&) {
      load_config(experiment_, fields, options, first, bochner_environment(), comm_);
      options.resume = true;
      if (first_finds_runs(folder_asked(options, tasks, attentions))) arguments_.emplace_back("--resume");
    });
  }

  /// Whether the first process finds runs in the folder. The others must do as it does, and may look later.
  bool first_finds_runs(const std::filesystem::path& folder) const {
    if (!comm_.is_first()) return comm_.broadcast("") == "yes";
    const bool found = holds_runs(folder);
    comm_.broadcast(found ? "yes" : "no");
    return found;
  }

  /// The folder that --out names, otherwise the latest of those named after the run or runs.
  std::filesystem::path folder_asked(RunOptions options, const std::vector<std::string>& tasks,
                                     const std::vector<std::string>& attentions) const {
    if (!options.out.empty()) return options.out;
    if (!tasks.empty()) options.task = name_of(tasks, "tasks");
    if (!attentions.empty()) options.attention = name_of(attentions, "attentions");
    return folder_of_runs(experiment_, options);
  }

  void launch(const Arguments& arguments, bool rehearsal = false) {
    with_config_([&](Fields& fields, RunOptions& options, const Body& body) {
      const ConfigReport loaded = load_config(experiment_, fields, options, arguments, bochner_environment(), comm_);
      if (!is_part_) require_effect(std::vector{loaded.without_effect});
      if (options.dump_config) warn(loaded.warnings);
      if (tells(fields, options)) return;
      if (asked_) {
        warn(require_same_model(fields, read_text(asked_->config()), asked_->config().string(), asked_->option,
                                /*trains=*/asked_->option != "evaluate" && asked_->option != "predict"));
      }
      if (!experiment_.trains) require_measurement(experiment_, fields, options);
      if (comm_.is_first()) log_ = Log(options.quiet ? LogLevel::warning : log_level_named(options.log_level));
      if (comm_.is_first() && rehearsal) {
        log_.info("{}: reading the data; training begins when those of all tasks are there", options.task);
        log_ = Log(LogLevel::error);  // the rest is told with the runs
      }
      warn(loaded.warnings);
      if (!asked_) warn(fields.warnings());
      if (asked_ && !std::filesystem::exists(asked_->folder / kResults)) {
        log_.warning("--{}: the run {} is not finished; its best model so far is taken", asked_->option,
                     asked_->folder.string());
      }
      run_together(fields, options);
      if (!options.predict.empty() && options.out.empty()) require_writable(options.predict, "out");
      if (options.seeds > 1) {
        if (options.out.empty()) options.out = folder_of_runs(experiment_, options).string();
        if (folder_.empty()) gather_in(options.out);
      }
      set_threads(options.threads);
      use_device(experiment_, options);
      if (!options.trace.empty() && trace_.empty() && comm_.is_first() && !rehearsal) {
        if (!std::filesystem::exists(options.trace)) made_.add(options.trace);
        trace::require_writable(options.trace);  // before the training
        trace_ = options.trace;
        trace::start();
      }
      Session session{experiment_, fields, options, log_, name_, go_on_, loaded.overrides, loaded.for_resume, comm_};
      session.rehearsal = rehearsal;
      body(session);
      records_.insert(records_.end(), session.records.begin(), session.records.end());
    });
  }

  /// Prepares what several processes are to do together, if there are several.
  void run_together(const Fields& fields, RunOptions& options) const {
    comm_.set_timeout(options.process_timeout);
    if (options.sequence_shards > 1 && options.shards == 0) options.shards = 1;
    const bool by_nccl = options.processes == "nccl";
    if (by_nccl && options.device != "cuda")
      fail("--processes=nccl: it carries between cards, one for each process; give --device=cuda, or --processes=mpi");
    if (by_nccl) require_nccl();
    if (comm_.size() == 1) return;
    if (!experiment_.trains)
      fail("{} processes: {} measures in one; start it without mpirun", comm_.size(), experiment_.name);
    if (asked_ && asked_->option != "evaluate")
      fail("--{}: takes one process, but there are {}", asked_->option, comm_.size());
    if (options.shards == 0) options.shards = kShards;
    if (options.shards * options.sequence_shards < comm_.size() && options.sequence_shards > 1) {
      fail(
          "--shards={} --sequence-shards={}: they make {} parts, too few for {} processes; start fewer, or ask for "
          "more",
          options.shards, options.sequence_shards, options.shards * options.sequence_shards, comm_.size());
    }
    const ShardTree tree(options.shards * options.sequence_shards, comm_.size());  // an Error if there are too few
    std::string settings;
    constexpr std::array kOfOneProcess = {"threads", "data", "checkpoint-every", "graphs"};
    for (const Field& field : fields.all()) {
      if (std::ranges::find(kOfOneProcess, field.name()) == kOfOneProcess.end())
        settings += field.name() + " = " + field.text() + "\n";
    }
    require_alike(comm_, "the configuration", settings);
    require_alike(comm_, "the build", build_lines());
    take_card(options);
  }

  /// Each process on a machine takes a GPU of its own; without NCCL, several may share one.
  void take_card(const RunOptions& options) const {
    const bool by_nccl = options.processes == "nccl";
    if (options.device != "cuda") return;
    Device::named(options.device);  // an Error with the reason if there is none
    const int place = comm_.rank_on_host();
    if (by_nccl && comm_.any(place >= cards() && !nccl_shares_cards())) {
      fail(
          "--processes=nccl: a machine has more processes than cards (this one has {} cards); start one process "
          "for each card, set NCCL_MULTI_RANK_GPU_ENABLE=1 for NCCL 2.30 or later to share them, or give "
          "--processes=mpi",
          cards());
    }
    set_own_card(place % cards());
    if (by_nccl && comm_.for_cards() == nullptr)
      comm_.set_for_cards(nccl_communicator(comm_, Device::named(options.device)));
  }

  void compare(const std::vector<std::string>& tasks, const std::vector<std::string>& attentions) {
    is_part_ = true;
    const bool resume = has_flag(arguments_, "resume");
    const std::vector<Part> whole = {{"", without_flag(arguments_, "resume")}};
    const std::vector<Part> parts = parts_by(parts_by(whole, "task", tasks), "attention", attentions);
    // All are checked before the first begins, so that a mistake in the last one is reported now.
    std::vector<Refusals> refusals;
    for (const Part& part : parts) {
      with_config_([&](Fields& fields, RunOptions& options, const Body&) {
        refusals.push_back(
            load_config(experiment_, fields, options, part.arguments, bochner_environment(), comm_).without_effect);
      });
    }
    require_effect(refusals);
    bool told = false;
    with_config_([&](Fields& fields, RunOptions& options, const Body&) {
      load_config(experiment_, fields, options, parts.front().arguments, bochner_environment(), comm_);
      told = tells(fields, options);
      if (told) return;
      options.resume = resume;
      gather_in(folder_asked(options, tasks, attentions));
    });
    if (told) return;
    const bool found = first_finds_runs(folder_);
    if (resume && !found) fail("--resume: there is no run in {}", folder_.string());
    if (!resume && found) {
      fail("{} holds runs already; continue them with --resume, or name another folder with --out", folder_.string());
    }
    const auto arguments_of = [&](const Part& part) {
      const std::filesystem::path folder = folder_ / part.folder;
      Arguments arguments = without_argument(part.arguments, "out");
      if (experiment_.takes("out")) arguments.push_back("--out=" + folder.string());
      if (first_finds_runs(folder)) arguments.emplace_back("--resume");
      return arguments;
    };
    // The data of all tasks are also checked, with one mechanism for each.
    const size_t of_task = std::max<size_t>(attentions.size(), 1);
    for (size_t i = 0; experiment_.trains && tasks.size() > 1 && i < parts.size(); i += of_task) {
      launch(arguments_of(parts[i]), true);
    }
    for (const Part& part : parts) {
      std::optional<StopNote> note;
      if (holds_runs(folder_)) note.emplace("interrupted; go on with: " + go_on_);
      launch(arguments_of(part));
    }
  }

  /// For several runs, each in a folder below this one.
  void gather_in(const std::filesystem::path& folder) {
    if (comm_.is_first()) require_no_run_itself(folder);
    folder_ = folder;
    Arguments again = without_flag(without_argument(arguments_, "out"), "resume");
    again.insert(again.end(), {"--out=" + folder.string(), "--resume"});
    go_on_ = command_to_go_on(name_, again, comm_);
  }

  void conclude() {
    if (!trace_.empty()) {
      trace::stop();
      trace::write(trace_);
      made_.keep();
      write_output(trace::table());
    }
    if (records_.empty() || !comm_.is_first()) return;
    const StopNote note("interrupted while the report was written; the runs are complete");
    const PaperTable papers = PaperTable::parse(experiment_.resources.paper);
    std::filesystem::path report = records_.front().folder / kReport;
    if (!folder_.empty()) {
      report = folder_ / kReport;
      write_file_atomically(report,
                            report_html(title_of(records_), records_, papers, figures_of(experiment_, records_)));
    }
    if (!log_.shows(LogLevel::info)) return;
    write_output(fmt::format("{}{}\n", results_text(records_), report.string()));
  }

  const Experiment& experiment_;
  const std::function<void(const Launch&)>& with_config_;
  Log& log_;
  Communicator& comm_;
  std::string name_;
  Arguments arguments_;
  std::vector<RunRecord> records_;
  std::filesystem::path folder_;  ///< of several runs
  bool is_part_ = false;          ///< this is one of several runs
  std::string go_on_;
  std::string trace_;
  Temporaries made_;  ///< the trace, until it is written

  /// A run that is asked about, and the option that names it.
  struct Asked {
    std::string option;
    std::filesystem::path folder;
    std::filesystem::path config() const { return folder / kConfig; }
  };
  std::optional<Asked> asked_;
};

}  // namespace

int exit_code_of(Log& log, const std::function<void()>& body) {
  start_process();
  install_signal_handlers();
  try {
    with_named_files(body);
    flush_output();
    return 0;
  } catch (const Interrupted& interruption) {
    const std::string_view message = interruption.what();
    if (!message.empty()) log.line(LogLevel::warning, std::string(message));
    return stop_code();
  } catch (const std::exception& error) {
    const auto* const from_system = dynamic_cast<const std::system_error*>(&error);
    if (from_system != nullptr && from_system->code() == std::errc::broken_pipe) end_by_closed_pipe();  // fmt::print
    const Failure failure = failure_caught();
    log.line(LogLevel::error, failure.message);
    return failure.code;
  }
}

int main_of_configs(const Experiment& experiment, int argc, char** argv,
                    const std::function<void(const Launch&)>& with_config) {
  Log log;
  Processes processes;
  return exit_code_of(log, [&] {
    const std::string name = argc > 0 ? argv[0] : experiment.name;
    const Arguments arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    processes.run(argument(arguments, "processes").value_or("auto"), log, [&](Communicator& comm) {
      require_same_course(comm, arguments);
      Program(experiment, with_config, log, comm, name, arguments).run();
    });
  });
}

}  // namespace bochner
