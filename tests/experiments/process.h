// Runs a real program as a person would, and reports what it printed and how it ended.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/files.h"
#include "tests/shared_data.h"  // for its effect: without it, $BOCHNER_DATA would be the programs' --data

namespace bochner::test {

struct Ended {
  int code = -1;    ///< exit code, or -signal
  std::string out;  ///< standard output
  std::string err;  ///< standard error
};

/// A program that was started and may still run.
class Process {
 public:
  using Variables = std::map<std::string, std::string>;

  /// Runs in `folder`. No file that it writes may exceed `file_limit` bytes, if that is not 0. Runs as `user`, if that
  /// is not 0; only root may request this.
  Process(std::vector<std::string> command, const std::filesystem::path& folder, const Variables& variables = {},
          rlim_t file_limit = 0, uid_t user = 0) {
    const std::string tag = std::to_string(getpid()) + "-" + std::to_string(counter()++);
    out_ = folder / (".stdout-" + tag);
    err_ = folder / (".stderr-" + tag);
    const auto run_by = [&](const std::vector<std::string>& words) {
      command.insert(command.begin(), words.begin(), words.end());
    };
    const std::string id = std::to_string(user);
    if (user != 0) run_by({"/usr/bin/setpriv", "--reuid=" + id, "--regid=" + id, "--keep-groups"});
    if (file_limit != 0) run_by({"/usr/bin/prlimit", "--fsize=" + std::to_string(file_limit)});
    start(command, folder, environment_with(variables));
  }
  ~Process() {
    if (child_ > 0) {
      kill(SIGKILL);
      wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void kill(int signal) const { ::kill(child_, signal); }
  pid_t pid() const { return child_; }

  Ended wait() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), contents(out_), contents(err_)};
  }

  /// Waits until the file exists and contains the text; false if the program ended before.
  bool wait_for(const std::filesystem::path& file, const std::string& text) const {
    for (;;) {
      if (contents(file).find(text) != std::string::npos) return true;
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) {
        return contents(file).find(text) != std::string::npos;
      }
      usleep(1000);
    }
  }
  const std::filesystem::path& err() const { return err_; }

 private:
  static int& counter() {
    static int count = 0;
    return count;
  }

  /// This process's environment, with these variables replacing its own.
  static std::vector<std::string> environment_with(const Variables& variables) {
    std::vector<std::string> lines;
    for (char** line = environ; *line != nullptr; ++line) {
      const std::string text = *line;
      const std::string name = text.substr(0, text.find('='));
      if (variables.count(name) == 0) lines.push_back(text);
    }
    for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
    return lines;
  }

  /// Uses posix_spawn, as fork would copy all pages of the sanitizers.
  void start(const std::vector<std::string>& command, const std::filesystem::path& folder,
             const std::vector<std::string>& environment) {
    const auto pointers = [](const std::vector<std::string>& words) {
      std::vector<char*> to;
      for (const std::string& word : words) to.push_back(const_cast<char*>(word.c_str()));  // NOLINT
      to.push_back(nullptr);
      return to;
    };
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, out_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, err_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    posix_spawn_file_actions_addchdir_np(&files, folder.c_str());
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE}) sigaddset(&signals, signal);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawn(&child_, command[0].c_str(), &files, &attributes, pointers(command).data(),
                                  pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) fail("cannot start {}: {}", command[0], std::strerror(error));
  }

  pid_t child_ = -1;
  std::filesystem::path out_;
  std::filesystem::path err_;
};

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The results.json of a run.
inline nlohmann::json results_of(const std::filesystem::path& run) {
  return nlohmann::json::parse(contents(run / "results.json"));
}

inline Ended run(const TemporaryFolder& folder, const std::vector<std::string>& command) {
  return Process(command, folder.path()).wait();
}

/// The program tests/toy with these arguments.
inline std::vector<std::string> toy(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BOCHNER_TOY);
  return arguments;
}

inline Ended run_toy(const TemporaryFolder& folder, std::vector<std::string> arguments,
                     const Process::Variables& variables = {}) {
  return Process(toy(std::move(arguments)), folder.path(), variables).wait();
}

}  // namespace bochner::test
