// Runs a real program as a person would, and tells what it printed and how it ended.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/files.h"

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

  /// Runs in `folder`. No file it writes may pass `file_limit` bytes, where that is not 0. Runs as `user`, where that
  /// is not 0; only root may ask for it.
  Process(const std::vector<std::string>& command, const std::filesystem::path& folder, const Variables& variables = {},
          rlim_t file_limit = 0, uid_t user = 0) {
    const std::string tag = std::to_string(getpid()) + "-" + std::to_string(counter()++);
    out_ = folder / (".stdout-" + tag);
    err_ = folder / (".stderr-" + tag);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));  // NOLINT
    arguments.push_back(nullptr);
    child_ = fork();
    BOCHNER_ASSERT(child_ >= 0);
    if (child_ == 0) {
      const int out = open(out_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      const int err = open(err_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      if (chdir(folder.c_str()) != 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(126);
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      if (file_limit != 0) {
        const rlimit limit{file_limit, file_limit};
        setrlimit(RLIMIT_FSIZE, &limit);
      }
      for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE}) std::signal(signal, SIG_DFL);
      if (user != 0 && (setgid(user) != 0 || setuid(user) != 0)) _exit(126);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
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

  /// Waits until the file exists and holds the text; false where the program ended before.
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
