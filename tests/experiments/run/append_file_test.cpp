// Growing records: an append that fails leaves file and mark as they were, and the next one continues from there.
#include "experiments/common/run/append_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "engine/io/file.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;
using test::TemporaryFolder;

/// While it lives, no file of this process may grow beyond the given number of bytes, as on a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(AppendFile, AnAppendThatFailsLeavesTheFileAndItsMarkAsTheyWere) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  AppendFile file(path, {});
  file.append("first\n");
  const FileMark before = file.mark();
  const std::string message = [&] {
    const SmallDisk disk(8);
    return message_of([&] { file.append("second\n"); });  // two bytes of it fit
  }();
  EXPECT_NE(message.find("cannot write " + path.string() + ": File too large"), std::string::npos) << message;
  EXPECT_EQ(test::contents(path), "first\n");
  EXPECT_EQ(file.mark().text(), before.text());
  file.append("third\n");
  EXPECT_EQ(test::contents(path), "first\nthird\n");
  AppendFile again(path, file.mark());  // the mark is for these bytes
  EXPECT_EQ(again.mark().text(), file.mark().text());
}

}  // namespace
}  // namespace bochner
