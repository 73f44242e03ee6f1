#include "experiments/common/program/settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/environment.h"
#include "engine/error.h"
#include "engine/nearest.h"
#include "experiments/common/config/ini.h"
#include "experiments/common/config/suggest.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/common/run/stored_run.h"

extern char** environ;  // NOLINT: POSIX

namespace bochner {
namespace {

constexpr std::string_view kEnvironmentPrefix = "BOCHNER_";
/// The key, in the file that all tasks of a protocol share, that lists these tasks. Without it, any task.
constexpr std::string_view kTasksOfProtocol = "tasks";

Assignments from_environment(const Fields& fields, const Environment& environment, ConfigReport& report) {
  Assignments result;
  std::vector<std::string> known(kEngineVariables.begin(), kEngineVariables.end());
  for (const Field& field : fields.all()) {
    if (field.is_command_line_only()) continue;
    const std::string variable = field.environment_name();
    known.push_back(variable);
    const auto found = environment.find(variable);
    if (found != environment.end()) result.push_back({field.name(), found->second, "environment " + variable});
  }
  for (const auto& [variable, value] : environment) {
    if (std::find(known.begin(), known.end(), variable) != known.end()) continue;
    const std::string near = near_name(variable, known);
    report.warnings.push_back(fmt::format("environment {}: there is no such option, it is ignored{}", variable,
                                          near.empty() ? "" : "; did you mean " + near + "?"));
  }
  return result;
}

Assignments from_ini(const Experiment& experiment, Fields& fields, std::string_view text, const std::string& file,
                     bool is_preset) {
  Assignments result;
  for (const IniEntry& entry : parse_ini(text, file)) {
    const std::string where = fmt::format("{}:{}", file, entry.line);
    if (entry.name == "experiment") {
      if (entry.value != experiment.name) {
        fail("{}: these are settings of the experiment '{}', but this is '{}'", where, entry.value, experiment.name);
      }
      continue;
    }
    if (is_preset && entry.name == kTasksOfProtocol) continue;
    const Field* const field = fields.find(entry.name);
    if (field == nullptr) {
      fail("{}: there is no option '{}'{}", where, entry.name, suggestion(entry.name, fields, "'"));
    }
    if (field->is_command_line_only() || (is_preset && entry.name == "preset")) {
      fail("{}: '{}' cannot be set in {}", where, entry.name, is_preset ? "a preset" : "a file");
    }
    result.push_back({entry.name, entry.value, where});
  }
  return result;
}

std::string read_config(const std::string& file) {
  constexpr std::streamsize kLargest = 1 << 20;
  if (std::filesystem::is_directory(file)) fail("--config: {} is a folder; name its config.ini", file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("--config: cannot read {}", file);
  std::string text(static_cast<size_t>(kLargest) + 1, '\0');
  stream.read(text.data(), kLargest + 1);
  if (stream.gcount() > kLargest) fail("--config: {} has more than {} bytes; is this an INI file?", file, kLargest);
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

/// The value that `name` will have; `sources` are in order of precedence.
std::string value_of(const std::string& name, Fields& fields, std::initializer_list<const Assignments*> sources) {
  std::string value = fields.at(name).text();
  for (const Assignments* source : sources) {
    for (const Assignment& assignment : *source) {
      if (assignment.name == name) value = assignment.value;
    }
  }
  return value;
}

void assign_all(Fields& fields, const Assignments& assignments, bool of_preset = false) {
  for (const Assignment& assignment : assignments) {
    try {
      fields.at(assignment.name).assign(assignment.value, of_preset);
    } catch (const Error& error) {
      // `--steps: 'x' is not ...`, unless the place already names the option.
      const std::string message = error.what();
      const std::string name = assignment.name + ": ";
      const bool named = assignment.where.ends_with(assignment.name) && message.starts_with(name);
      fail("{}: {}", assignment.where, named ? message.substr(name.size()) : message);
    }
  }
}

/// Refuses a task that the protocol's shared file does not name.
void require_task_of(const Resource& shared, const std::string& task) {
  for (const IniEntry& entry : parse_ini(shared.text, "preset " + std::string(shared.name))) {
    if (entry.name != kTasksOfProtocol) continue;
    std::vector<std::string> tasks;
    std::istringstream words(entry.value);
    for (std::string word; words >> word;) tasks.push_back(word);
    if (std::find(tasks.begin(), tasks.end(), task) != tasks.end()) continue;
    fail("--preset: '{}' has no settings for the task '{}'; it has {}", shared.name, task, listed(tasks));
  }
}

/// Refuses `kl.text`, the name of a file of the protocol, and says what is meant.
void refuse_name_of_file(const std::vector<std::string>& protocols, const std::string& given) {
  std::vector<std::string> parts;
  std::istringstream words(given);
  for (std::string word; std::getline(words, word, '.');) parts.push_back(word);
  const bool known = std::find(protocols.begin(), protocols.end(), parts.front()) != protocols.end();
  if (!known || parts.size() < 2 || parts.size() > 3) return;
  fail("--preset: '{}' names a protocol and a task{}; say --preset={} --task={}{}", given,
       parts.size() == 3 ? " and a mechanism" : "", parts[0], parts[1],
       parts.size() == 3 ? " --attention=" + parts[2] : "");
}

/// The files of a protocol for this task and mechanism, in the order in which they apply.
Assignments from_preset(const Experiment& experiment, Fields& fields, const std::string& protocol,
                        const Assignments& file, const Assignments& environment, const Assignments& command_line) {
  Assignments result;
  if (protocol.empty()) return result;
  const std::vector<std::string> protocols = experiment.protocols();
  if (protocols.empty()) fail("--preset: {} has no presets", experiment.name);
  if (std::find(protocols.begin(), protocols.end(), protocol) == protocols.end()) {
    refuse_name_of_file(protocols, protocol);
    fail("--preset: there is no '{}'{}", protocol, valid_names(protocol, protocols));
  }
  const auto add = [&](const std::string& name) {
    const Resource* const preset = experiment.preset(name);
    if (preset == nullptr) return false;
    const Assignments more = from_ini(experiment, fields, preset->text, "preset " + name, true);
    result.insert(result.end(), more.begin(), more.end());
    return true;
  };
  const bool has_shared = add(protocol);
  const std::string task = value_of("task", fields, {&result, &file, &environment, &command_line});
  if (has_shared) require_task_of(*experiment.preset(protocol), task);
  const bool has_task = add(protocol + "." + task);
  if (!has_shared && !has_task) {
    std::vector<std::string> names;
    for (const Resource& preset : experiment.resources.presets) {
      if (preset.name.starts_with(protocol + ".")) names.emplace_back(preset.name.substr(protocol.size() + 1));
    }
    fail("--preset: '{}' has no settings for the task '{}'; it has {}", protocol, task, listed(names));
  }
  const std::string attention = value_of("attention", fields, {&result, &file, &environment, &command_line});
  add(protocol + "." + task + "." + attention);
  return result;
}

/// Whether a length of training, in steps or seconds, where 0 means no limit, is greater than before.
bool is_more(const std::string& length, const std::string& before) {
  const auto number = [](const std::string& text) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  return number(length) > number(before);
}

/// The values of a config.ini by name.
std::map<std::string, std::string> settings_of(const std::string& stored, const std::string& file) {
  std::map<std::string, std::string> settings;
  for (const IniEntry& entry : parse_ini(stored, file)) settings[entry.name] = entry.value;
  return settings;
}

/// Refuses `--resume=FOLDER`, since --out names the folder.
void refuse_folder_to_resume(const Assignments& command_line) {
  for (const Assignment& given : command_line) {
    if (given.name != "resume" || given.value == "true" || !std::filesystem::is_directory(given.value)) continue;
    fail("--resume={}: a folder is named by --out: {}", given.value,
         holds_run(given.value) ? "say --resume --out=" + given.value : no_run_in(given.value));
  }
}

std::string config_in(const std::string& out) { return (std::filesystem::path(out) / kConfig).string(); }

/// The config.ini of the run in the folder; empty if there are several below it, as each is compared with its own.
std::string config_to_resume(const std::string& out) {
  if (holds_run(out)) return trusted_config(out);
  if (!holds_runs(out)) fail("--resume: there is no run in {}: {} is missing", out, config_in(out));
  return "";
}

bool value_is_true(const Assignments& assignments, const std::string& name) {
  std::string value;
  for (const Assignment& assignment : assignments) {
    if (assignment.name == name) value = assignment.value;
  }
  return value == "true" || value == "yes" || value == "on" || value == "1";
}

}  // namespace

Environment bochner_environment() {
  Environment result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(kEnvironmentPrefix)) continue;
    result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

ConfigReport load_config(const Experiment& experiment, Fields& fields, const RunOptions& options,
                         std::span<const std::string> arguments, const Environment& environment, Communicator& comm) {
  ConfigReport report;
  const Assignments command_line = from_command_line(fields, arguments);
  for (const Assignment& given : command_line) {
    if (std::find(experiment.unused.begin(), experiment.unused.end(), given.name) == experiment.unused.end()) continue;
    fail("--{}: leave it out; {} has no use for it, and it would change nothing", given.name, experiment.name);
  }
  refuse_folder_to_resume(command_line);
  bool of_run = false;
  for (const Assignment& given : command_line) {
    const std::string& name = given.name;
    if (name == "steps" || name == "seconds" || name == "shards") report.for_resume.push_back(given);
    of_run = of_run || name == "evaluate" || name == "predict" ||
             (experiment.trains && std::ranges::find(experiment.of_run, name) != experiment.of_run.end());
  }
  const Assignments variables = from_environment(fields, environment, report);

  Assignments file;
  const std::string config = value_of("config", fields, {&command_line});
  const std::string out = value_of("out", fields, {&variables, &command_line});
  if (!config.empty()) {
    const std::string text = read_config(config);
    file = from_ini(experiment, fields, text, config, false);
    if (config_was_changed(text, of_run)) {
      report.warnings.push_back(
          fmt::format("{}: was changed since the run wrote it; this run uses it as it is now", config));
    }
  } else if (experiment.trains && value_is_true(command_line, "resume") && !out.empty()) {
    const std::string stored = comm.broadcast(comm.is_first() ? config_to_resume(out) : "");
    file = from_ini(experiment, fields, stored, config_in(out), false);
  }

  const std::string protocol = value_of("preset", fields, {&file, &variables, &command_line});
  assign_all(fields, from_preset(experiment, fields, protocol, file, variables, command_line), /*of_preset=*/true);
  std::vector<std::string> of_preset;
  for (const Field& field : fields.all()) of_preset.push_back(field.text());
  assign_all(fields, file);
  assign_all(fields, variables);
  assign_all(fields, command_line);
  fields.settle();
  fields.validate();
  report.without_effect = without_effect(fields, command_line);

  if (options.tasks.empty() && !options.task.empty()) {
    fail("--task={}: {} has no tasks to choose from", options.task, experiment.name);
  }

  for (size_t i = 0; i < of_preset.size(); ++i) {
    const Field& field = fields.all()[i];
    const bool says_which_run = field.name() == "task" || field.name() == "attention" || field.name() == "preset" ||
                                field.name() == "seed" || field.name() == "seeds";
    // This setting may change when a run is resumed, but it decides which model is the best one.
    const bool counts = !field.is_free_on_resume() || field.name() == "optim.evaluate-every";
    if (!counts || says_which_run || field.text() == of_preset[i]) continue;
    report.overrides.emplace_back(field.name(), field.text());
  }
  return report;
}

std::string config_ini(const Experiment& experiment, const Fields& fields, bool begun) {
  return fmt::format("# {}\nexperiment = {}\n{}", experiment.summary, experiment.name, fields.ini(begun));
}

std::vector<std::string> require_same_model(const Fields& fields, const std::string& stored, const std::string& file,
                                            const std::string& option, bool trains) {
  constexpr std::array kOnlyHow = {"data",   "device",          "batch", "precision",       "accumulate", "shards",
                                   "reduce", "sequence-shards", "steps", "group-by-length", "seconds",    "seeds",
                                   "init"};
  const std::map<std::string, std::string> before = settings_of(stored, file);
  std::vector<std::string> changes;
  std::vector<std::string> others;
  for (const Field& field : fields.all()) {
    const std::string& name = field.name();
    const auto found = before.find(name);
    if (found == before.end() || found->second == field.text()) continue;
    const std::string change = fmt::format("{} is {} but was {}", name, field.text(), found->second);
    const bool of_training = name.starts_with("optim.") || name == "batch" || name == "seed";
    if (name == "task" || name == "attention" || name.starts_with("model.") || (trains && of_training)) {
      changes.push_back(change);
    } else if (!field.is_free_on_resume() && !name.starts_with("optim.") &&
               std::ranges::find(kOnlyHow, name) == kOnlyHow.end()) {
      others.push_back(change);
    }
  }
  if (!changes.empty()) {
    fail("--{}: {}: {}; its model is asked as it was trained, leave that out", option, file, listed(changes));
  }
  if (others.empty()) return {};
  return {fmt::format("--{}: {}: {}; it may be asked about examples that it was trained on, or something else", option,
                      file, listed(others))};
}

std::vector<std::string> require_same_config(const Fields& fields, const std::string& stored, const std::string& file,
                                             const Assignments& allowed) {
  const std::map<std::string, std::string> before = settings_of(stored, file);
  std::vector<std::string> changes;
  std::vector<std::string> let_pass;
  std::string more;
  for (const Field& field : fields.all()) {
    const std::string& name = field.name();
    const auto found = before.find(name);
    if (field.is_free_on_resume() || found == before.end() || found->second == field.text()) continue;
    const bool limited = name == "seconds" && found->second != "0";
    const bool longer = (name == "steps" || limited) && is_more(field.text(), found->second);
    const bool in_shards = name == "shards" && found->second == "0";
    if ((longer || in_shards) && std::ranges::find(allowed, name, &Assignment::name) != allowed.end()) {
      let_pass.push_back(name);
      continue;
    }
    changes.push_back(fmt::format("{} is {} but was {}", name, field.text(), found->second));
    if (longer) more = "--" + name;
    if (in_shards)
      changes.back() += fmt::format(", and --shards={} on the command line goes on in shards", field.text());
  }
  if (!changes.empty()) {
    fail("--resume: {}: {}; a run goes on as it began{}, start another with --out", file, listed(changes),
         !more.empty() && changes.size() == 1 ? ", or with " + more + " on the command line longer" : "");
  }
  return let_pass;
}

void assign_arguments(Fields& fields, std::span<const std::string> arguments) {
  const Assignments command_line = from_command_line(fields, arguments);
  assign_all(fields, command_line);
  fields.validate();
  require_effect(std::vector{without_effect(fields, command_line)});
}

}  // namespace bochner
