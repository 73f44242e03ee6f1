// `lra --table`: equal to what an independent script (table.py) computes from the same records, in three formats.
#include <gtest/gtest.h>

#include <fstream>

#include "experiments/common/process/arguments.h"
#include "experiments/common/report/table.h"
#include "experiments/common/report/task_tables.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::Ended;
using test::Process;
using test::TemporaryFolder;

constexpr const char* kPaper = BOCHNER_SOURCE_DIR "/experiments/lra/paper.csv";

Ended lra(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BOCHNER_LRA);
  return Process(arguments, folder.path()).wait();
}

/// A run on a few random sequences, as quick as possible.
void train(const TemporaryFolder& folder, std::vector<std::string> more) {
  test::put(folder / "small.ini", "[listops]\nmax-length = 30\n[model]\nfeatures = 4\n");  // for those that have them
  const std::vector<std::string> small = {"--random-data", "--config=small.ini", "--model.layers=1",
                                          "--model.dim=8", "--model.hidden=8",   "--model.classifier=0",
                                          "--batch=40",    "--threads=1",        "--quiet"};
  more.insert(more.begin(), small.begin(), small.end());
  const Ended ended = lra(folder, more);
  ASSERT_EQ(ended.code, 0) << ended.err;
}

std::string by_script(const TemporaryFolder& folder, const std::string& folders) {
  const Ended ended = Process({"/usr/bin/python3", BOCHNER_SOURCE_DIR "/tests/experiments/lra/table.py", kPaper,
                               "listops,pathfinder", "softmax,performer,none", folders},
                              folder.path())
                          .wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  return ended.out;
}

TEST(Table, EqualsThatOfAnIndependentScript) {
  const TemporaryFolder folder;
  train(folder, {"--attention=performer,softmax", "--preset=skyformer", "--steps=2", "--seeds=3", "--out=runs/a"});
  train(folder, {"--attention=performer,none", "--task=pathfinder", "--preset=skyformer", "--steps=2",
                 "--model.classifier=0", "--out=runs/b"});
  train(folder, {"--attention=softmax", "--steps=3", "--out=runs/c"});
  const Ended table = lra(folder, {"--table", "runs"});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(table.out, by_script(folder, "runs"));
  // Performer has SKY's numbers 38.02 and 66.30 for these two of its five tasks.
  for (const char* part : {"## custom with steps = 3, ", "## skyformer with ", "| softmax |", " (3 seeds)",
                           " | 52.16 |", "| test examples | 40 |", "Paper: Skyformer, Table 1 (protocol skyformer)."}) {
    EXPECT_NE(table.out.find(part), std::string::npos) << part << "\n" << table.out;
  }
  // The same runs named separately, some of them twice.
  EXPECT_EQ(lra(folder, {"--table", "runs/c", "runs/a", "runs/b", "runs/a/softmax"}).out, table.out);

  // Cell by cell the same in the other formats.
  const std::string latex = lra(folder, {"--table=runs", "--format=latex"}).out;
  for (const char* part : {"\\begin{tabular}{lrr", "test examples & 40", " $\\pm$ ", "listops \\%"}) {
    EXPECT_NE(latex.find(part), std::string::npos) << part << "\n" << latex;
  }
  const std::string html = lra(folder, {"--table=runs", "--format=html"}).out;
  for (const char* part : {"<td>test examples</td><td>40</td>", ">accuracy % against time<", ">loss against time<",
                           ">test accuracy % against memory<", ">test accuracy % against speed<", "</html>"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }

  const auto mistake = [&](const std::vector<std::string>& arguments, const std::string& says) {
    const Ended ended = lra(folder, arguments);
    EXPECT_EQ(ended.code, 2) << ended.out;
    EXPECT_NE(ended.err.find(says), std::string::npos) << ended.err;
  };
  mistake({"--table", "nothing"}, "--table: there is no folder nothing");
  std::filesystem::create_directory(folder / "empty");
  mistake({"--table", "empty"}, "--table: no finished run of lra in empty");
  std::filesystem::create_directory(folder / "cut");
  std::ofstream(folder / "cut/results.json") << "{\"experiment\":";
  mistake({"--table", "cut"}, "results.json is damaged");
  mistake({"--record=steps", "--attention=softmax,performer"}, "--record: takes what one task and one attention give");
  const std::string whole = lra(folder, {"--table", "runs/c"}).out;
  std::filesystem::remove(folder / "runs/c/metrics.jsonl");
  EXPECT_EQ(lra(folder, {"--table", "runs/c"}).out, whole);
  mistake({"--record=steps", "--init=runs"}, "--record: begins with weights of its own; leave out --init=runs");
  mistake({"--record=steps", "--resume"}, "--record: records the steps of one run; leave out --resume");
  for (const char* option : {"--record=steps", "--out=a", "--steps=3", "--attention=softmax,performer", "--task=text",
                             "--seeds=2", "--bench", "--model.dim=8"}) {
    const std::string given = option;
    mistake({"--table", "runs", given},
            given.substr(0, given.find('=')) + ": leave it out; beside --table it would change nothing");
  }
  train(folder, {"--attention=softmax", "--steps=3", "--out=runs/again"});
  mistake({"--table", "runs"}, "are the same run: custom with ");
  std::filesystem::remove(folder / "runs/again/results.json");
  EXPECT_NE(lra(folder, {"--table", "runs"}).out.find("Not finished, and left out: "), std::string::npos);
  std::filesystem::remove(folder / "runs/again/config.ini");  // its checkpoint remains
  EXPECT_NE(lra(folder, {"--table", "runs"}).out.find("Not finished, and left out: "), std::string::npos);
}

TEST(Table, WordsBehindAnOptionAreItsList) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(with_list({"lra", "--table", "a", "b", "--format=html"}, "table"),
            (Words{"lra", "--table=a,b", "--format=html"}));
  EXPECT_EQ(with_list({"--table=a", "b"}, "table"), (Words{"--table=a", "b"}));
  EXPECT_EQ(with_list({"--table"}, "table"), (Words{"--table"}));
}

TEST(Table, OfARepeatedOptionTheLastOneCounts) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(with_last_alone({"--task", "a,b", "--steps=1", "--task=c"}, "task"), (Words{"--steps=1", "--task=c"}));
  EXPECT_EQ(with_last_alone({"--task", "a", "--steps=1"}, "task"), (Words{"--task", "a", "--steps=1"}));
}

TEST(Table, SpecialCharactersAreEscaped) {
  const Table table{{"", "a|b %"}, {{"x_1 & {y}", "1 ± 2"}, {"#$~^\\", "–"}}};
  EXPECT_EQ(table.markdown(), "|  | a\\|b % |\n| --- | ---: |\n| x_1 & {y} | 1 ± 2 |\n| #$~^\\ | – |\n");
  EXPECT_EQ(table.latex(),
            "\\begin{tabular}{lr}\n\\hline\n & a|b \\% \\\\\n\\hline\nx\\_1 \\& \\{y\\} & 1 $\\pm$ 2 \\\\\n"
            "\\#\\$\\~{}\\^{}\\textbackslash{} & -- \\\\\n\\hline\n\\end{tabular}\n");
}

TEST(Table, ShowsTheBestStepNotTheLast) {
  RunRecord run;
  run.protocol = "p";
  run.task = "t";
  run.attention = "a";
  run.result.test = {{"accuracy", 0.5}};
  run.result.test_last = {{"accuracy", 0.25}};
  EXPECT_EQ(task_tables({run}, {"t"}, {"a"}, PaperTable{}).front().numbers.rows[0][1], "50.00");
}

}  // namespace
}  // namespace bochner
