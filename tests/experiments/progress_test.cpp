#include "experiments/common/process/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "experiments/common/config/command_line.h"
#include "experiments/common/config/options.h"

namespace bochner {
namespace {

using std::chrono::milliseconds;

struct Printed {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  ~Printed() {
    std::fclose(stream);
    free(text);  // NOLINT: open_memstream allocates it this way
  }
  std::string str() const {
    std::fflush(stream);
    return {text, size};
  }
};

ProgressState at(int64_t step) { return {.step = step, .steps = 100, .loss = 0.5, .accuracy = 0.25, .rate = 2.0}; }

TEST(Progress, TheBarTellsAllAndFitsItsLine) {
  EXPECT_EQ(progress_bar(at(50), 100), "[==========>         ] 50/100  loss 0.5  acc 25.0%  2 step/s  0:25 left");
  EXPECT_EQ(progress_bar(at(100), 100), "[====================] 100/100  loss 0.5  acc 25.0%  2 step/s");
  EXPECT_EQ(progress_bar(at(50), 60), "[====>   ] 50/100  loss 0.5  acc 25.0%  2 step/s  0:25 left");
  EXPECT_EQ(progress_bar(at(50), 53), "50/100  loss 0.5  acc 25.0%  2 step/s  0:25 left");
  EXPECT_EQ(progress_bar(at(50), 30).size(), 29U);
  EXPECT_EQ(progress_line({.step = 1, .steps = 3, .loss = 1e-9}), "step 1/3 (33%)  loss 1e-09");
  const ProgressState timed = {.step = 30, .steps = 100, .seconds = 45, .limit = 60, .loss = 0.5, .rate = 2.0};
  EXPECT_EQ(progress_line(timed), "step 30, 0:45/1:00 (75%)  loss 0.5  2 step/s  0:15 left");
  EXPECT_EQ(progress_bar(timed, 100), "[===============>    ] 30, 0:45/1:00  loss 0.5  2 step/s  0:15 left");
}

TEST(Progress, OnATerminalTheBarIsDrawnOverAndCleared) {
  const Printed printed;
  Log log(LogLevel::info, printed.stream);
  const auto start = Progress::Clock::now();
  {
    Progress progress(log, true, 100);
    progress.update(at(1), start);
    progress.update(at(2), start + milliseconds(10));
    log.info("a message");
    progress.update(at(3), start + milliseconds(150));
  }
  const std::string text = printed.str();
  EXPECT_NE(text.find("\r\033[K[>"), std::string::npos) << text;
  EXPECT_EQ(text.find(" 2/100"), std::string::npos) << text;
  EXPECT_NE(text.find("\r\033[Ka message\n"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\r\033[K")) << text;
}

TEST(Progress, ElsewhereItIsPlainLinesThatGrowRare) {
  const Printed printed;
  Log log(LogLevel::info, printed.stream);
  const auto start = Progress::Clock::now();
  Progress progress(log, false, 80);
  for (int second = 0; second <= 20; ++second) progress.update(at(second), start + std::chrono::seconds(second));
  progress.update(at(100), start + std::chrono::seconds(21));
  progress.finish();
  const std::string text = printed.str();
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_TRUE(text.starts_with("step 1/100 (1%)")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << text;  // after 1, 3, 7, 15 s, and at the end
}

TEST(Progress, QuietPrintsNothing) {
  const Printed printed;
  Log log(LogLevel::warning, printed.stream);
  Progress progress(log, true, 80);
  progress.update(at(1));
  progress.update(at(100));
  log.info("hidden");
  log.warning("shown");
  EXPECT_EQ(printed.str(), "warning: shown\n");
}

TEST(Progress, ClockTexts) {
  EXPECT_EQ(clock_text(6.6), "0:07");
  EXPECT_EQ(clock_text(754), "12:34");
  EXPECT_EQ(clock_text(3723), "1:02:03");
  EXPECT_EQ(clock_text(3 * 86400 + 4 * 3600 + 5 * 60), "3d 04:05");
  EXPECT_EQ(clock_text(-1), "?");
}

TEST(Help, IsAsWideAsTheTerminal) {
  RunOptions options;
  const Fields fields = Fields::of(options);
  const auto widest = [&](int width) {
    std::istringstream lines(options_text(fields, width));
    size_t most = 0;
    for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
    return most;
  };
  EXPECT_LE(widest(80), 80U);
  EXPECT_GT(widest(80), 70U);
  EXPECT_LE(widest(100), 100U);
  EXPECT_GT(widest(100), 90U);
  EXPECT_EQ(widest(20), widest(60));
  EXPECT_EQ(widest(1000), widest(140));
}

}  // namespace
}  // namespace bochner
