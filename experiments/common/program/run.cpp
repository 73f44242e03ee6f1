#include "experiments/common/program/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/comm/silence.h"
#include "engine/error.h"
#include "engine/io/file.h"
#include "experiments/common/process/interrupt.h"
#include "experiments/common/process/output.h"
#include "experiments/common/process/processes.h"
#include "experiments/common/program/bench.h"
#include "experiments/common/run/answer.h"
#include "experiments/common/run/data_record.h"
#include "experiments/common/run/init.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/common/run/stored_run.h"

namespace bochner {
namespace {

/// The folder of a run, and whether the run is resumed there.
struct Place {
  std::filesystem::path path;
  bool resume = false;
};

/// The place of the run with this seed, one of `many` if there are several.
Place place_of(const Session& session, uint64_t seed, bool many) {
  const RunOptions& options = session.options;
  if (many) {
    const std::filesystem::path path = std::filesystem::path(options.out) / fmt::format("seed{}", seed);
    return {path, options.resume && holds_run(path)};
  }
  return {options.out.empty() ? folder_of_runs(session.experiment, options) : std::filesystem::path(options.out),
          options.resume};
}

RunFolder folder_of(const Session& session, bool many) {
  const Place place = place_of(session, session.options.seed, many);
  if (!session.comm.is_first()) return RunFolder::of_first(place.path);
  return {place.path, place.resume};
}

/// Continues the run in the folder: its id and config.ini, which must agree with the current settings. Returns the
/// names of the settings that the command line changes.
std::vector<std::string> read_identity(const Session& session, const RunFolder& folder, RunIdentity& identity) {
  const std::string file = (folder / kConfig).string();
  identity.config = trusted_config(folder.path());
  if (!std::filesystem::exists(file)) write_file_atomically(file, identity.config);
  identity.id = id_of_config(identity.config, file);
  std::vector<std::string> changed = require_same_config(session.fields, identity.config, file, session.for_resume);
  if (!changed.empty()) {
    identity.config_before =
        std::exchange(identity.config, stamped_config(config_ini(session.experiment, session.fields), identity.id));
  }
  return changed;
}

/// The settings that differ from the protocol's: those that the run began with, and those that the command line changes
/// now. A run that is continued reads all settings from config.ini, also those that were computed when it began.
Overrides overrides_of(const Session& session, const std::optional<StoredRun>& stored,
                       const std::vector<std::string>& changed) {
  if (!stored || stored->overrides.empty()) return session.overrides;
  Overrides all = parse_overrides_json(stored->overrides, kCheckpointLast);
  for (const std::string& name : changed) {
    std::erase_if(all, [&](const auto& one) { return one.first == name; });
    const auto now = std::ranges::find(session.overrides, name, &Overrides::value_type::first);
    if (now != session.overrides.end()) all.push_back(*now);
  }
  return all;
}

/// For a run that is continued in shards.
void warn_of_shards(const Session& session, int64_t step) {
  session.log.warning(
      "--shards={}: until step {} this run took its batches whole; from here on sums differ by rounding, and noise is "
      "drawn anew, so it is no longer equal to a run without a break",
      session.options.shards, step);
}

/// A finished run next to unfinished ones must have learnt from the same data.
void require_data_of(const RunRecord& finished, std::vector<DataRead> now) {
  if (now.size() > finished.data.size()) return;
  require_same_data(now, {finished.data.begin(), finished.data.begin() + std::ssize(now)});
}

/// Sets an option temporarily.
template <class T>
class Setting {
 public:
  Setting(T& value, T now) : value_(value), before_(value) { value_ = now; }
  ~Setting() { value_ = before_; }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  T& value_;
  T before_;
};

/// What the first process tells the others instead of the command that continues the run.
constexpr const char* kFinished = "finished";

TrainPlan timed(TrainPlan plan, const RunOptions& options) {
  plan.seconds = options.seconds;
  plan.checkpoint_minutes = options.checkpoint_every;
  return plan;
}

/// Makes the model, and collects the data that it learns from, which must be the same in all processes.
std::unique_ptr<Trainable> made(const Session& session, const MakeTrainable& make, std::vector<DataRead>& data) {
  const DataLog own;  // of the data that only this run reads
  std::unique_ptr<Trainable> model = make();
  data = session.data.reads();
  for (const DataRead& read : own.reads()) data.push_back(read);
  std::string lines;
  for (const DataRead& read : data)
    lines += fmt::format("{} bytes, SHA-256 {}{}{}\n", read.bytes, read.sha256, kOnlyShown, read.name);
  require_alike(session.comm, fmt::format("what is read for {}", session.options.task), lines);
  return model;
}

/// The part of all processes but the first, which write nothing.
RunRecord train_with_first(Session& session, const TrainPlan& plan, const RunFolder& folder,
                           const MakeTrainable& make) {
  RunRecord run;
  const std::string go_on = session.comm.broadcast("");
  if (go_on == kFinished) return run;
  const StopNote note("interrupted; go on with: " + go_on);  // printed here if the first process is lost
  RunIdentity identity;
  const std::unique_ptr<Trainable> model = made(session, make, identity.data);
  run.result = Trainer(*model, timed(plan, session.options), folder, identity, session.log,
                       Device::named(session.options.device), go_on, session.comm)
                   .run();
  return run;
}

}  // namespace

std::string run_name(const RunOptions& options) {
  std::string name;
  for (const std::string& part : {options.task, options.attention == "none" ? "" : options.attention, options.preset}) {
    if (!part.empty()) name += part + "-";
  }
  if (options.seeds == 1) return name + fmt::format("seed{}", options.seed);
  return name + fmt::format("seeds{}-{}", options.seed, options.seed + static_cast<uint64_t>(options.seeds) - 1);
}

std::filesystem::path folder_of_runs(const Experiment& experiment, const RunOptions& options) {
  return numbered_folder(std::filesystem::path("runs") / experiment.name, run_name(options), options.resume);
}

void require_places(const Session& session) {
  const RunOptions& options = session.options;
  if (!session.comm.is_first() || options.bench || asks_a_run(options)) return;
  for (int i = 0; i < options.seeds; ++i) {
    const Place place = place_of(session, options.seed + static_cast<uint64_t>(i), options.seeds > 1);
    require_place(place.path, place.resume);
    if (!options.init.empty() && !holds_run(place.path)) require_weights(options.init);
  }
}

RunRecord train_run(Session& session, const TrainPlan& plan, RunFolder folder, const MakeTrainable& make) {
  const RunOptions& options = session.options;
  Communicator& comm = session.comm;
  if (!comm.is_first()) return train_with_first(session, plan, folder, make);
  if (!folder.warning().empty()) session.log.warning("{}", folder.warning());
  RunIdentity identity;
  const std::optional<StoredRun> stored = StoredRun::of(folder.path());
  const bool resumes = holds_run(folder.path());
  std::vector<std::string> changed;
  if (resumes) changed = read_identity(session, folder, identity);
  const bool in_shards = std::ranges::find(changed, "shards") != changed.end();
  if (std::filesystem::exists(folder / kResults)) {
    RunRecord finished = read_run(folder.path());
    if (changed.size() == (in_shards ? 1 : 0)) {  // it does not become longer
      session.log.info("{} is finished already", folder.path().string());
      require_data_of(finished, session.data.reads());
      comm.broadcast(kFinished);
      return finished;
    }
    if (!std::filesystem::exists(folder / kCheckpointLast))
      fail(
          "--resume: {} is finished, and its checkpoint-last, from which it would go on, is missing; restore that file",
          folder.path().string());
  }
  if (!resumes) {
    identity.id = new_run_id();
    identity.config = stamped_config(config_ini(session.experiment, session.fields), identity.id);
  }
  if (in_shards && stored && stored->step > 0) warn_of_shards(session, stored->step);
  const Overrides overrides = overrides_of(session, stored, changed);
  identity.overrides = overrides_json(overrides);
  std::vector<std::string> again = {"--resume", "--out", folder.path().string()};
  for (const std::string& name : changed)
    again.push_back(fmt::format("--{}={}", name, session.fields.find(name)->text()));
  const std::string go_on = session.go_on.empty() ? command_to_go_on(session.program, again, comm) : session.go_on;
  comm.broadcast(go_on);
  const std::unique_ptr<Trainable> model = made(session, make, identity.data);
  require_of_task(identity.data, options.task, options.tasks);
  for (const std::string& line : unpublished(identity.data)) {
    if (session.told.insert(line).second) session.log.warning("{}", line);
  }
  for (const std::string& remark : model->remarks()) {
    const std::string line = fmt::format("{}: {}", options.task, remark);
    if (session.told.insert(line).second) session.log.warning("{}", line);
  }
  if (stored) {
    require_same_data(identity.data, stored->data);
    identity.init = stored->init;
  } else if (!options.init.empty()) {
    identity.init = init_from(*model, options.init, session.log);
  }
  session.log.info("{}: {} parameters, {}{} steps, {}into {}", run_name(options), model->parameters(),
                   options.seconds > 0 ? fmt::format("{:g} seconds and at most ", options.seconds) : "", plan.steps,
                   comm.size() > 1 ? fmt::format("{} processes, ", comm.size()) : "", folder.path().string());
  const StopNote note("interrupted; go on with: " + go_on);
  Trainer trainer(*model, timed(plan, options), folder, identity, session.log, Device::named(options.device), go_on,
                  comm);
  folder.keep();
  RunRecord run;
  run.folder = folder.path();
  try {
    run.result = trainer.run();
  } catch (const DiskError&) {
    throw;
  } catch (const Silence&) {
    throw;
  } catch (const Error&) {
    if (trainer.steps() == 0) folder.discard();  // a mistake in the settings that only a step finds: try again there
    throw;
  }
  run.experiment = session.experiment.name;
  run.task = options.task;
  run.protocol = options.preset.empty() ? "custom" : options.preset;
  if (!session.learns.empty()) run.protocol += ", " + session.learns;
  run.overrides = overrides;
  run.attention = options.attention;
  run.seed = options.seed;
  run.device = options.device;
  run.precision = options.precision;
  run.model = session.fields.json("model");
  run.config = identity.config;
  run.id = identity.id;
  run.date = utc_now();
  run.host = host_name();
  run.data = identity.data;
  run.init = identity.init;
  run.curves = parse_metrics(read_text(folder / kMetrics));

  std::vector<ReportFigure> own;
  if (session.after_run) own = session.after_run(run);
  std::vector<ReportFigure> figures = figures_of(session.experiment, {run});
  figures.insert(figures.end(), own.begin(), own.end());
  const PaperTable papers = PaperTable::parse(session.experiment.resources.paper);
  const std::string title = fmt::format("{}: {}", session.experiment.name, run_name(options));
  write_file_atomically(folder / kReport, report_html(title, {run}, papers, figures));
  write_file_atomically(folder / kResults, results_json(run, papers));  // last: it marks the run as complete
  return run;
}

void train_runs(Session& session, const TrainPlan& plan, const MakeTrainable& make) {
  RunOptions& options = session.options;
  if (session.rehearsal) return;
  if (options.bench) {
    session.comm.meet();
    const std::unique_ptr<Trainable> model = make();
    model->share(session.comm);
    const Device device = Device::named(options.device);
    fmt::print("{}:\n{}", run_name(options), bench_text(bench_steps(*model, device, 5, session.comm), device));
    flush_output();
    return;
  }
  if (asks_a_run(options)) return answer(options, *make(), session.comm);
  require_places(session);
  const int count = options.seeds;
  const uint64_t first_seed = options.seed;
  const Setting<int> one(options.seeds, 1);
  for (int i = 0; i < count; ++i) {
    const Setting<uint64_t> seed(options.seed, first_seed + static_cast<uint64_t>(i));
    std::optional<StopNote> note;
    if (i > 0) note.emplace("interrupted; go on with: " + session.go_on);
    session.records.push_back(train_run(session, plan, folder_of(session, count > 1), make));
    const TrainResult& result = session.records.back().result;
    session.log.info("{}: {} {} (best of {}, step {}); last step: {}", run_name(options), result.test_name(),
                     metrics_text(result.test), result.only_set.empty() ? "validation" : result.only_set,
                     result.best_step, metrics_text(result.test_last));
  }
}

}  // namespace bochner
