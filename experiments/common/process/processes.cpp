#include "experiments/common/process/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <set>
#include <string_view>
#include <vector>

#include "engine/comm/silence.h"
#include "engine/error.h"
#include "engine/io/bytes.h"
#include "engine/io/file.h"
#include "engine/io/lines.h"
#include "engine/io/xxh3.h"
#include "experiments/common/process/arguments.h"
#include "experiments/common/process/interrupt.h"
#include "experiments/common/process/mpi.h"

namespace bochner {
namespace {

/// The number of tasks that Slurm started in this step, including this one.
int tasks_of_slurm() {
  const char* const tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return tasks == nullptr ? 1 : std::atoi(tasks);
}

std::string_view compared_part(std::string_view line) { return line.substr(0, line.find(kOnlyShown)); }

std::string compared_lines(const std::string& text) {
  std::string lines;
  for (const std::string_view line : lines_of(text)) lines.append(compared_part(line)).append("\n");
  return lines;
}

/// The lines of `a` that `b` lacks; `nothing besides` if there are none.
std::string only_in(const std::string& a, const std::string& b) {
  std::set<std::string_view> known;
  for (const std::string_view line : lines_of(b)) known.insert(compared_part(line));
  std::string found;
  for (const std::string_view line : lines_of(a)) {
    if (known.contains(compared_part(line))) continue;
    const size_t end = compared_part(line).size();
    found.append(found.empty() ? "" : ", ").append(line.substr(std::min(end + 1, line.size())));
    found.append(end < line.size() ? " with " : "").append(compared_part(line));
  }
  return found.empty() ? "nothing besides" : found;
}

}  // namespace

Processes::Processes() = default;

Processes::~Processes() {
  if (failure_) leave_in_error(*failure_);
}

void Processes::begin(const std::string& wanted, Log& log) {
  if (wanted == "none") return;
  const bool started = started_by_mpi();
  if (wanted == "mpi" || wanted == "nccl" || started) comm_ = mpi_communicator();
  if ((!comm_ || comm_->size() == 1) && tasks_of_slurm() > 1) {
    fail(
        "srun started {} tasks, but they do not know each other; give srun --mpi=pmix (srun --mpi=list shows what "
        "there is), or --processes=none for tasks that have nothing to do with each other",
        tasks_of_slurm());
  }
  if (!comm_ || comm_->size() == 1) return;
  comm_->introduce();
  if (!comm_->is_first()) {
    // Only one process speaks.
    if (std::freopen("/dev/null", "w", stdout) == nullptr) fail("cannot open /dev/null");
    log = Log(LogLevel::error, stdout);
    keep_quiet();
  }
  lifeline_ = std::make_unique<Lifeline>(
      *comm_, [](const Failure& failure, const std::function<void()>& tell) { leave_because(failure, tell); });
  if (!lifeline_->watches()) {
    lifeline_.reset();
    log.warning(
        "some processes cannot reach the first one by TCP: that one is gone will be noticed only after "
        "--process-timeout");
  }
}

void Processes::fail_with(const Failure& failure) {
  if (comm_->is_first()) {  // its error is reported first: mpirun ends it when the others have ended
    failure_ = failure;
  } else {
    leave_in_error(failure);
  }
}

void Processes::leave_in_error(const Failure& failure) {
  // As soon as one process has ended, mpirun sends signals to all; the first process tells the others before it
  // follows.
  if (comm_->is_first()) ignore_signals();
  if (lifeline_) lifeline_->leave_in_error(failure);
  lifeline_.release();  // NOLINT: MPI cannot finish normally without the others
  comm_.release();      // NOLINT
}

void Processes::run(const std::string& wanted, Log& log, const std::function<void(Communicator&)>& body) {
  begin(wanted, log);
  if (!comm_ || comm_->size() == 1) return body(comm_ ? *comm_ : alone());
  const auto leave = [&] {
    keep_quiet();  // mpirun ends the others when the first one has ended
    comm_->meet();
    if (lifeline_) lifeline_->leave();
  };
  try {
    with_named_files([&] { body(*comm_); });
    leave();
  } catch (const Interrupted& interruption) {  // all processes were interrupted
    log.line(LogLevel::warning, interruption.what());
    leave();
    throw Interrupted("");
  } catch (const std::exception&) {
    fail_with(failure_caught());
    throw;
  }
}

Failure failure_caught() {
  try {
    throw;
  } catch (const DiskError& error) {
    return {Failure::kRunning, error.what()};
  } catch (const Silence& error) {
    return {Failure::kRunning, error.what()};
  } catch (const Error& error) {
    return {Failure::kMistake, error.what()};
  } catch (const std::bad_alloc&) {
    return {Failure::kRunning, "out of memory; a smaller --batch needs less"};
  } catch (const std::exception& error) {
    return {Failure::kRunning, error.what()};
  }
}

std::string command_to_go_on(const std::string& program, const std::vector<std::string>& arguments,
                             const Communicator& comm) {
  const std::string command = command_text(program, arguments);
  return comm.size() == 1 ? command : command + "  (by mpirun or srun, in any number of processes)";
}

void require_alike(Communicator& comm, const std::string& what, const std::string& text) {
  if (comm.size() == 1) return;
  const std::vector<std::string> all = comm.gather(text);
  const std::string mine = compared_lines(text);
  for (size_t r = 1; r < all.size(); ++r) {
    const std::string theirs = compared_lines(all[r]);
    if (theirs == mine) continue;
    fail("{} differs between processes: {} has the hash {} ({}), but {} the hash {} ({}); start all with the same",
         what, comm.who(0), xxh3_of(bytes_of(mine)), only_in(text, all[r]), comm.who(static_cast<int>(r)),
         xxh3_of(bytes_of(theirs)), only_in(all[r], text));
  }
}

void require_same_course(Communicator& comm, const std::vector<std::string>& arguments) {
  std::string lines;
  for (const std::string& word : arguments) {
    for (const std::string name :
         {"--resume", "--bench", "--sweep", "--evaluate", "--predict", "--task", "--attention"}) {
      if (word == name || word.starts_with(name + "=")) lines += word + "\n";
    }
  }
  require_alike(comm, "what the command asks for", lines);
}

bool asked_to_stop(Communicator& comm) {
  const auto signal = static_cast<int>(comm.largest(stop_signal()));
  stop_by(signal);
  return signal != 0;  // a signal that came only now counts next time, as the others do not know of it
}

}  // namespace bochner
