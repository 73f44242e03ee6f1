// Runs that continue with another number of processes, or in shards.
#include <gtest/gtest.h>

#include "tests/experiments/processes/together.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::has;
using test::kLra;
using test::mpirun;
using test::Words;
using test::operator+;

class GoingOn : public test::UnderMpirun {
 protected:
  /// The command that continues the run in a folder.
  static Words resume(const std::string& out, const Words& more) {
    return Words{BOCHNER_LRA, "--data=data", "--resume", "--out=" + out} + more;
  }
  void expect_refused(const Words& command, const std::string& why) {
    const Ended ended = run(command);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_TRUE(has(ended, why)) << ended.err;
  }
};

TEST_F(GoingOn, ARunGoesOnInAnotherNumberOfProcesses) {
  ASSERT_EQ(run(kLra + Words{"--shards=8", "--out=alone"}).code, 0);
  ASSERT_EQ(run(mpirun(4, kLra + Words{"--shards=8", "--steps=8", "--out=cut"})).code, 0);
  const Ended ended = run(resume("cut", {"--steps=16"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  ASSERT_EQ(run(mpirun(2, resume("cut", {"--steps=24"}))).code, 0);
  EXPECT_EQ(weights_of("cut"), weights_of("alone"));
}

TEST_F(GoingOn, ARunOfWholeBatchesGoesOnInShardsWhereTheCommandLineSaysSo) {
  ASSERT_EQ(run(kLra + Words{"--steps=8", "--out=one"}).code, 0);
  std::filesystem::copy(folder_ / "one", folder_ / "two", std::filesystem::copy_options::recursive);
  expect_refused(mpirun(2, resume("two", {"--steps=16"})),
                 "shards is 8 but was 0, and --shards=8 on the command line goes on in shards; a run goes on as it");
  const Ended finished = run(resume("two", {"--shards=8"}));
  EXPECT_EQ(finished.code, 0);
  EXPECT_TRUE(has(finished, "two is finished already")) << finished.err;
  EXPECT_NE(contents(folder_ / "two/config.ini").find("\nshards = 0\n"), std::string::npos);

  const Words longer = {"--shards=8", "--steps=16"};
  const Ended one = run(resume("one", longer));
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(has(one, "warning: --shards=8: until step 8 this run took its batches whole; from here on")) << one.err;
  const Ended two = run(mpirun(2, resume("two", longer)));
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(weights_of("one"), weights_of("two"));
  EXPECT_NE(contents(folder_ / "two/config.ini").find("\nshards = 8\n"), std::string::npos);

  for (const char* shards : {"0", "4"})
    expect_refused(resume("one", {std::string("--shards=") + shards}),
                   fmt::format("shards is {} but was 8; a run goes on as it began", shards));
  const Ended again = run(mpirun(2, resume("one", {"--steps=24"})));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_FALSE(has(again, "whole")) << again.err;
}

}  // namespace
}  // namespace bochner
