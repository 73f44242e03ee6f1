#include "experiments/common/config/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/make_shared.hpp>
#include <boost/program_options.hpp>
#include <sstream>

#include "engine/error.h"
#include "engine/nearest.h"
#include "experiments/common/config/suggest.h"
#include "experiments/common/process/build_info.h"
#include "experiments/common/process/output.h"

namespace bochner {
namespace {

namespace po = boost::program_options;

constexpr int kLeastHelpWidth = 60;
constexpr int kMostHelpWidth = 140;

/// Whether a program accepts an option, rather than refusing every value of it.
bool takes(const Experiment& experiment, const Field& field) {
  return experiment.takes(field.name()) && (field.name() != "task" || !field.choices().empty());
}

/// Boost's description of the options, of one program or of any, in lines of `width` characters.
po::options_description described(const Fields& fields, int width, const Experiment* experiment = nullptr) {
  const auto columns = static_cast<unsigned>(std::clamp(width, kLeastHelpWidth, kMostHelpWidth));
  po::options_description all(columns, columns / 2);
  std::vector<std::string> captions;
  const auto group_of = [](const Field& field) { return field.name().substr(0, field.name().find('.')); };
  const auto caption_of = [&](const Field& field) {
    return field.name().find('.') == std::string::npos ? std::string("Options") : "Options of " + group_of(field);
  };
  for (const Field& field : fields.all()) {
    if (std::find(captions.begin(), captions.end(), caption_of(field)) == captions.end()) {
      captions.push_back(caption_of(field));
    }
  }
  for (const std::string& caption : captions) {
    po::options_description group(caption, columns, columns / 2);
    for (const Field& field : fields.all()) {
      if (caption_of(field) != caption) continue;
      if (experiment != nullptr && !takes(*experiment, field)) continue;
      auto* const semantic = po::value<std::string>();
      const std::string shown = field.text();
      if (field.is_flag()) {
        const bool set_by_default = shown == "true" && !field.is_command_line_only();
        semantic->implicit_value("true", "")->value_name(set_by_default ? "BOOL (=true)" : " ");
      } else {
        semantic->value_name(field.placeholder() + (shown.empty() ? "" : " (=" + shown + ")"));
      }
      const std::string rule = field.rule();
      std::string help = field.help() + (rule.empty() ? "" : "; " + rule);
      for (const Field::Condition& condition : field.conditions()) {
        help += (&condition == &field.conditions().front() ? "; only " : ", and ") + condition.text;
      }
      group.add(boost::make_shared<po::option_description>(field.name() == "help" ? "help,h" : field.name().c_str(),
                                                           semantic, help.c_str()));
    }
    all.add(group);
  }
  return all;
}

}  // namespace

Assignments from_command_line(const Fields& fields, std::span<const std::string> arguments) {
  const po::options_description description = described(fields, kHelpWidth);
  Assignments result;
  try {
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const auto parsed = po::command_line_parser(std::vector<std::string>(arguments.begin(), arguments.end()))
                            .options(description)
                            .style(style)
                            .allow_unregistered()
                            .run();
    for (const auto& option : parsed.options) {
      const std::string token = option.original_tokens.empty() ? "" : option.original_tokens.front();
      if (option.position_key >= 0 || !token.starts_with('-')) {
        fail("unexpected argument '{}'{}", token, suggestion_for_word(token, fields));
      }
      const std::string& name = option.string_key;
      if (option.unregistered) {
        const std::string typed = token.substr(0, token.find('='));
        fail("{}: there is no such option{}", typed,
             token.starts_with("--") ? suggestion(typed.substr(2), fields) : suggestion_for_word(token, fields));
      }
      const std::string value = option.value.empty() ? "true" : option.value.front();
      result.push_back({name, value, "--" + name});
    }
  } catch (const po::invalid_command_line_syntax& error) {
    const bool cut = error.kind() == po::invalid_syntax::empty_adjacent_parameter;
    const bool bare = error.kind() == po::invalid_syntax::missing_parameter;
    if (cut)
      fail("{}: nothing follows the equals sign; give a value, or leave the option out", error.get_option_name());
    if (bare) fail("{}: a value must follow", error.get_option_name());
    fail("command line: {}", error.what());
  } catch (const po::error& error) {
    fail("command line: {}", error.what());
  }
  return result;
}

Refusals without_effect(const Fields& fields, const Assignments& command_line) {
  Refusals refusals;
  for (const Assignment& given : command_line) {
    if (const std::string* const other = fields.idle_beside(given.name)) {
      refusals[given.name] = fmt::format("--{}: leave it out; beside --{} it would change nothing", given.name, *other);
      continue;
    }
    const Field::Condition* const condition = fields.find(given.name)->unmet();
    if (condition == nullptr) continue;
    refusals[given.name] = fmt::format("--{}: leave it out; it counts only {}, and would change nothing here",
                                       given.name, condition->text);
  }
  return refusals;
}

void require_effect(std::span<const Refusals> runs) {
  for (const auto& refused : runs.front()) {
    if (std::all_of(runs.begin(), runs.end(), [&](const Refusals& run) { return run.contains(refused.first); }))
      fail("{}", refused.second);
  }
}

std::string options_text(const Fields& fields, int width) {
  std::ostringstream text;
  text << described(fields, width);
  return text.str();
}

bool answered(const Fields& fields, const std::string& usage) {
  const auto given = [&](const char* name) { return fields.find(name)->text() == "true"; };
  if (given("help")) {
    write_output(usage + options_text(fields));
  } else if (given("version")) {
    write_output(version_text());
  } else {
    return false;
  }
  return true;
}

std::string help_text(const Experiment& experiment, const Fields& fields, int width) {
  std::ostringstream text;
  text << fmt::format("{}: {}\n\nUsage: {} {}[--config FILE] [--OPTION=VALUE ...]\n", experiment.name,
                      experiment.summary, experiment.name, experiment.takes("preset") ? "[--preset NAME] " : "");
  const std::vector<std::string> protocols = experiment.protocols();
  if (!protocols.empty()) text << fmt::format("Presets: {}\n", listed(protocols));
  text << fmt::format(
      "Later ones win: defaults, {}config file, environment (BOCHNER_MODEL_LAYERS), command line.\n"
      "Exit codes: 0 done, 1 failed while running, 2 a mistake in the command, 130 interrupted (Ctrl-C, SIGHUP),\n"
      "75 interrupted by SIGTERM or SIGUSR1 (from Slurm: requeue).{}\n",
      experiment.takes("preset") ? "preset, " : "",
      experiment.takes("resume") ? " An interrupted run is saved and continues with --resume." : "");
  text << described(fields, width, &experiment) << "\n";
  return text.str();
}

}  // namespace bochner
