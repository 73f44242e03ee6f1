// `data check` and `data make`, through the program.
#include <gtest/gtest.h>

#include "datasets/listops/files.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::TemporaryFolder;

Ended run_data(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BOCHNER_DATA_PROGRAM);
  return test::Process(arguments, folder.path()).wait();
}

/// The line that begins with the name of the set.
std::string line_of(const std::string& text, const std::string& set) {
  const size_t begin = ("\n" + text).find("\n" + set + " ");
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Data, CheckTellsWhatIsMissingRightAndBroken) {
  const TemporaryFolder folder;
  const Ended nothing = run_data(folder, {"check"});
  EXPECT_EQ(nothing.code, 0) << nothing.err;
  EXPECT_NE(line_of(nothing.out, "listops").find("./run data make --data data"), std::string::npos) << nothing.out;
  EXPECT_NE(line_of(nothing.out, "mnist").find("missing    0 of 4 files; put train-images-idx3-ubyte, "),
            std::string::npos)
      << nothing.out;

  listops::write_files(folder / "data/listops-5-30",
                       {.min_length = 5, .max_length = 30, .train = 20, .valid = 5, .test = 5});
  const Ended made = run_data(folder, {"check"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_NE(line_of(made.out, "listops-5-30").find("right      3 of 3 files"), std::string::npos) << made.out;

  std::filesystem::remove(folder / "data/listops-5-30/basic_val.tsv");
  const Ended incomplete = run_data(folder, {"check", "--data=data"});
  EXPECT_EQ(incomplete.code, 0) << incomplete.err;
  EXPECT_NE(line_of(incomplete.out, "listops-5-30").find("incomplete 2 of 3 files"), std::string::npos);
  EXPECT_NE(incomplete.out.find("  data/listops-5-30/basic_val.tsv: is missing\n"), std::string::npos);

  std::string text = contents(folder / "data/listops-5-30/basic_test.tsv");
  text[text.size() - 2] = static_cast<char>(text[text.size() - 2] == '1' ? '2' : '1');
  test::put(folder / "data/listops-5-30/basic_test.tsv", text);
  const Ended broken = run_data(folder, {"check"});
  EXPECT_EQ(broken.code, 2);
  EXPECT_NE(line_of(broken.out, "listops-5-30").find("BROKEN"), std::string::npos) << broken.out;
  EXPECT_NE(broken.out.find("basic_test.tsv: its SHA-256 is not the one it should have\n"), std::string::npos);
  EXPECT_EQ(broken.err, "error: 1 of the files found are broken; remove them and get them again\n");
}

TEST(Data, ABrokenManifestHidesNothingElse) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    listops::write_files(folder / "data" / name,
                         {.min_length = 5, .max_length = 30, .train = 20, .valid = 5, .test = 5});
  }
  test::put(folder / "data/a/manifest.json", "garbage");
  const Ended ended = run_data(folder, {"check"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.out.find("\n  data/a/manifest.json: no manifest: not JSON at byte 1\n"), std::string::npos)
      << ended.out;
  EXPECT_NE(line_of(ended.out, "a").find("BROKEN"), std::string::npos) << ended.out;
  EXPECT_NE(line_of(ended.out, "b").find("right      3 of 3 files"), std::string::npos) << ended.out;
  EXPECT_NE(line_of(ended.out, "mnist").find("missing"), std::string::npos) << ended.out;
}

TEST(Data, MistakesAreToldInOneLine) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_data(folder, {"chek"}).err,
            "error: data: there is no command 'chek'; did you mean 'check'? Valid: check, make, show\n");
  EXPECT_EQ(run_data(folder, {"check", "--dta=x"}).err,
            "error: --dta: there is no such option; did you mean --data?\n");
  test::put(folder / "file", "");
  EXPECT_EQ(run_data(folder, {"check", "--data=file"}).err, "error: --data: file is no folder\n");
  EXPECT_EQ(run_data(folder, {"--data=file"}).err, "error: data: say `data check` or `data make` before the options\n");
  EXPECT_EQ(run_data(folder, {"make", "fashion-mnist"}).err,
            "error: data: Fashion-MNIST is fetched with apt, by `./run data make fashion-mnist --data DIR`\n");
  const Ended help = run_data(folder, {});
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(help.out.starts_with("Usage: ./run data check|make")) << help.out;
  const Ended make = run_data(folder, {"make", "--data=file"});
  EXPECT_EQ(make.code, 2);
  EXPECT_EQ(make.err, "error: file/listops: the folder cannot be made: Not a directory\n");
}

}  // namespace
}  // namespace bochner
