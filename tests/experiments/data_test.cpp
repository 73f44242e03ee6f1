// `data check` and `data make`, through the program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "datasets/listops/files.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "tests/experiments/process.h"
#include "tests/tar.h"

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

TEST(Data, CheckTellsSomeReviewsFromADamagedArchive) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data/imdb");
  const std::string some = test::tar_of(std::map<std::string, std::string>{{"aclImdb/train/neg/0_1.txt", "bad"}});
  test::put(folder / "data/imdb/aclImdb_v1.tar", some);
  const Ended part = run_data(folder, {"check"});
  EXPECT_EQ(part.code, 0) << part.err;
  EXPECT_NE(line_of(part.out, "imdb").find("incomplete 0 of 4 files"), std::string::npos) << part.out;
  EXPECT_NE(part.out.find("\n  data/imdb/train-reviews: holds 1 of the 25000 reviews that are published\n"
                          "  data/imdb/test-reviews: is missing\n"),
            std::string::npos)
      << part.out;
  test::put(folder / "data/imdb/aclImdb_v1.tar", some.substr(0, 514));
  const Ended cut = run_data(folder, {"check"});
  EXPECT_EQ(cut.err, "error: 1 of the files found are broken; remove them and get them again\n");
  const size_t told = cut.out.find("\n  data/imdb/aclImdb_v1.tar: ");
  ASSERT_NE(told, std::string::npos) << cut.out;
  EXPECT_EQ(cut.out.find("aclImdb_v1.tar: ", told + 20), std::string::npos) << cut.out;
}

TEST(Data, CheckSaysOfEachTaskOfTheArenaWhatTheTaskSaysItself) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data");
  const std::string check = run_data(folder, {"check", "--data=data"}).out;
  const std::vector<std::pair<const char*, const char*>> lines = {{"text", "imdb"},
                                                                  {"films", "films (of imdb)"},
                                                                  {"retrieval", "retrieval"},
                                                                  {"image", "cifar10 (test)"},
                                                                  {"image", "cifar10 (training)"},
                                                                  {"pathfinder", "pathfinder"},
                                                                  {"pathx", "pathx"}};
  for (const auto& [task, set] : lines) {
    const Ended ended =
        test::Process({BOCHNER_LRA, std::string("--task=") + task, "--data=data", "--steps=0"}, folder.path()).wait();
    EXPECT_EQ(ended.code, 2) << task;
    const size_t remedy = ended.err.find("; ");  // after what is missing
    ASSERT_NE(remedy, std::string::npos) << ended.err;
    const std::string says = ended.err.substr(remedy + 2, ended.err.size() - remedy - 3);
    EXPECT_GT(says.size(), 40U);
    EXPECT_NE(line_of(check, set).find("missing"), std::string::npos) << check;
    EXPECT_NE(line_of(check, set).find(": " + says), std::string::npos) << says << "\n" << line_of(check, set);
  }
  EXPECT_NE(line_of(check, "listops").find("or by its first use"), std::string::npos);
}

TEST(Data, CheckFindsWhatNoHashIsKnownOf) {
  const TemporaryFolder folder;
  for (const char* name : {"retrieval", "cifar10"})
    std::filesystem::create_directories(folder / (std::string("data/") + name));
  for (const char* part : {"train", "eval", "test"}) {
    test::put(folder / fmt::format("data/retrieval/new_aan_pairs.{}.tsv", part), "1.0\t1\t2\ta\tb\n");
  }
  test::put(folder / "data/cifar10/test_batch.first1000.bin", "");
  test::put(folder / "data/cifar10/data_batch_1.bin", "no images");
  for (const char* part : {"metadata", "imgs"})
    std::filesystem::create_directories(folder / "data/pathfinder32/curv_contour_length_14" / part);
  const std::string check = run_data(folder, {"check", "--data=data"}).out;
  for (const char* set : {"retrieval", "cifar10 (test)", "pathfinder"}) {
    EXPECT_NE(line_of(check, set).find(" found "), std::string::npos) << set << "\n" << check;
  }
  EXPECT_NE(line_of(check, "pathx").find("missing"), std::string::npos) << check;
  EXPECT_NE(line_of(check, "cifar10 (training)").find("BROKEN"), std::string::npos) << check;
  std::filesystem::remove(folder / "data/retrieval/new_aan_pairs.eval.tsv");
  EXPECT_NE(line_of(run_data(folder, {"check", "--data=data"}).out, "retrieval").find("missing"), std::string::npos);
}

TEST(Data, CheckSaysOfListOpsWithoutAManifestWhatMakingAndTheTaskDo) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data/listops");
  const std::string table = "Source\tTarget\n7\t7\n";
  test::put(folder / "data/listops/basic_train.tsv", table);
  const auto check = [&] { return line_of(run_data(folder, {"check"}).out, "listops"); };
  EXPECT_NE(check().find("missing    data/listops: there are 1 of its 3 files, without a manifest; add the others, or "
                         "remove them to have all made"),
            std::string::npos)
      << check();
  const std::string refused = run_data(folder, {"make"}).err;
  EXPECT_NE(refused.find("holds 1 of the three files"), std::string::npos) << refused;
  for (const char* name : {"basic_val.tsv.gz", "basic_test.tsv.gz"}) {
    write_file_atomically(folder / "data/listops" / name, format_gzip(bytes_of(table)));
  }
  EXPECT_NE(check().find("found      data/listops: taken as they are with --listops.found"), std::string::npos);
  const std::string left = run_data(folder, {"make"}).out;
  EXPECT_NE(left.find("have no manifest; left as they are"), std::string::npos) << left;
  const std::vector<std::string> train = {BOCHNER_LRA,      "--listops.found", "--model.layers=1",
                                          "--model.dim=16", "--steps=1",       "--model.hidden=16",
                                          "--threads=1",    "--batch=1",       "--data=data"};
  const Ended taken = test::Process(train, folder.path()).wait();
  EXPECT_EQ(taken.code, 0) << taken.err;
}

TEST(Data, TasksReadTheArenasArchiveAsItIs) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "data");
  std::map<std::string, std::string> files;
  const std::string inner = "lra_release/lra_release/";
  for (const char* part : {"train", "eval", "test"}) {
    files[fmt::format("{}tsv_data/new_aan_pairs.{}.tsv", inner, part)] = "1.0\t1\t2\ta\tb\n0.0\t1\t2\tc\td\n";
  }
  for (const char* part : {"train", "val", "test"}) {
    files[fmt::format("{}listops-1000/basic_{}.tsv", inner, part)] =
        "Source\tTarget\r\n( ( [MAX 1 ) ] )\t1\r\n( ( [MIN 2 ) ] )\t2\r\n";
  }
  write_file_atomically(folder / "data/lra_release.gz", format_gzip(bytes_of(test::tar_of(files))));
  const auto check = [&] { return run_data(folder, {"check", "--data=data"}).out; };
  const std::string before = check();
  for (const char* set : {"retrieval", "pathfinder", "pathx", "listops (published)"}) {
    EXPECT_NE(line_of(before, set).find("found      data/lra_release.gz: "), std::string::npos) << set << "\n"
                                                                                                << before;
  }
  const auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> command = {BOCHNER_LRA,      "--data=data",       "--model.layers=1",
                                        "--model.dim=16", "--model.hidden=16", "--steps=1",
                                        "--threads=1",    "--batch=2",         "--model.classifier=0"};
    command.insert(command.end(), more.begin(), more.end());
    return test::Process(command, folder.path()).wait();
  };
  const Ended pairs = train({"--task=retrieval", "--retrieval.partial", "--out=pairs"});
  ASSERT_EQ(pairs.code, 0) << pairs.err;
  const Ended expressions = train({"--task=listops", "--listops.found", "--out=expressions"});
  ASSERT_EQ(expressions.code, 0) << expressions.err;
  const Ended images = train({"--task=pathfinder", "--out=images"});
  EXPECT_EQ(images.code, 2);
  EXPECT_NE(images.err.find("data/lra_release.gz: holds no pathfinder32/curv_contour_length_14"), std::string::npos)
      << images.err;
  const std::string after = check();
  for (const char* set : {"tsv_data", "listops-1000"}) {
    EXPECT_NE(line_of(after, inner + set).find("right      3 of 3 files"), std::string::npos) << after;
  }
  EXPECT_EQ(line_of(after, "retrieval") + line_of(after, "listops (published)"), "");
}

TEST(Data, MakingImagesThatIsInterruptedSaysWhatBecomesOfThem) {
  const TemporaryFolder folder;
  const auto make = [&](const char* count) {
    return std::vector<std::string>{
        BOCHNER_DATA_PROGRAM, "make", "pathfinder", "--size=16", "--difficulty=easy", std::string("--count=") + count};
  };
  test::Process process(make("1000000"), folder.path());
  const std::filesystem::path set = folder / "data/pathfinder16/curv_contour_length_3";
  while (!std::filesystem::exists(set / ".making/imgs/0/sample_0.png")) usleep(1000);
  process.kill(SIGTERM);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 75);
  EXPECT_EQ(ended.err, "warning: interrupted; the next start removes the images that were drawn until now\n");
  const Ended again = test::Process(make("10"), folder.path()).wait();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_FALSE(std::filesystem::exists(set / ".making"));
  EXPECT_TRUE(std::filesystem::exists(set / "imgs/0/sample_9.png"));
  EXPECT_FALSE(std::filesystem::exists(set / "imgs/0/sample_10.png"));
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
  EXPECT_NE(ended.out.find("\n  data/a/manifest.json: no manifest: parse error at line 1, column 1: "),
            std::string::npos)
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
  EXPECT_TRUE(help.out.starts_with("Usage: ./run data check [")) << help.out;
  EXPECT_NE(help.out.find("./run data make listops|pathfinder|films|fashion-mnist"), std::string::npos) << help.out;
  EXPECT_NE(run_data(folder, {"check", "--seed=1"}).err.find("seed"), std::string::npos);
  for (const char* command : {"check", "make"}) {
    EXPECT_TRUE(run_data(folder, {command, "--version"}).out.starts_with("bochner ")) << command;
  }
  EXPECT_TRUE(run_data(folder, {"--version"}).out.starts_with("bochner "));
  const Ended make = run_data(folder, {"make", "--data=file"});
  EXPECT_EQ(make.code, 2);
  EXPECT_EQ(make.err, "error: file/listops: the folder cannot be made: Not a directory\n");
}

}  // namespace
}  // namespace bochner
