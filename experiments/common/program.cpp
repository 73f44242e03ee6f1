#include "experiments/common/program.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/parallel.h"
#include "engine/trace.h"
#include "experiments/common/build_info.h"
#include "experiments/common/interrupt.h"

namespace bochner {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kCallersMistake = 2;
constexpr int kInterrupted = 130;

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) != 0) fail("can not write to standard output");
}

void run(Session& session, const std::function<void(Session&)>& body) {
  set_threads(session.options.threads);
  Device::named(session.options.device);
  const std::string advice = blas_advice();
  if (!advice.empty()) session.log.info("{}", advice);
  const std::string& trace_file = session.options.trace;
  if (trace_file.empty()) return body(session);
  trace::start();
  body(session);
  trace::stop();
  trace::write(trace_file);
  print(trace::table());
}

}  // namespace

int main_of_fields(const Experiment& experiment, Fields& fields, RunOptions& options, int argc, char** argv,
                   const std::function<void(Session&)>& body) {
  install_signal_handlers();
  Log log;
  const auto report = [&](const char* kind, const char* message) {
    log.line(LogLevel::error, std::string(kind) + message);
  };
  try {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const ConfigReport loaded = load_config(experiment, fields, options, arguments, bochner_environment());
    if (options.help) return print(help_text(experiment, fields)), kDone;
    if (options.version) return print(version_text()), kDone;
    if (options.dump_config) return print(config_ini(experiment, fields)), kDone;
    log = Log(options.quiet ? LogLevel::warning : log_level_named(options.log_level));
    for (const std::string& warning : loaded.warnings) log.warning("{}", warning);
    Session session{experiment, fields, options, log, argc > 0 ? argv[0] : experiment.name, loaded.overrides};
    run(session, body);
    return kDone;
  } catch (const Interrupted& interruption) {
    log.line(LogLevel::warning, interruption.what());
    return kInterrupted;
  } catch (const Error& error) {
    report("", error.what());
    return kCallersMistake;
  } catch (const std::filesystem::filesystem_error& error) {
    report("", error.what());
    return kCallersMistake;
  } catch (const std::bad_alloc&) {
    report("", "out of memory; a smaller --batch needs less");
    return kFailed;
  } catch (const std::exception& error) {
    report("", error.what());
    return kFailed;
  }
}

}  // namespace bochner
