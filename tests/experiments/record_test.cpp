// What a run records: metrics, TensorBoard events, state.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cmath>

#include "experiments/common/process/build_info.h"
#include "experiments/common/program/run.h"
#include "experiments/common/run/data_record.h"
#include "experiments/common/run/metrics.h"
#include "experiments/common/run/results.h"
#include "experiments/common/run/state.h"
#include "experiments/common/run/stored_run.h"
#include "tests/experiments/events.h"
#include "tests/experiments/process.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::contents;
using test::message_of;

TEST(Metrics, TrainingIsLoggedWhereverItIsEvaluated) {
  const test::TemporaryFolder folder;  // the toy logs every second step
  ASSERT_EQ(test::run_toy(folder, {"--steps=9", "--evaluate-every=3", "--out=a", "--quiet"}).code, 0);
  std::vector<int64_t> logged;
  for (const MetricsLine& line : parse_metrics(contents(folder / "a/metrics.jsonl"))) {
    if (line.split == "train") logged.push_back(line.step);
  }
  EXPECT_EQ(logged, (std::vector<int64_t>{2, 3, 4, 6, 8, 9}));
}

TEST(DataRecord, TheFilesOfAnotherTaskAreRefused) {
  const DataRead digits{"data/mnist/train-labels-idx1-ubyte", 60008,
                        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"};
  const std::vector<std::string> tasks = {"mnist", "fashion-mnist"};
  EXPECT_NO_THROW(require_of_task({digits}, "mnist", tasks));
  EXPECT_NO_THROW(require_of_task({digits}, "csv", {"csv", "covertype"}));
  EXPECT_EQ(
      test::message_of([&] { require_of_task({digits}, "fashion-mnist", tasks); }),
      "data/mnist/train-labels-idx1-ubyte: these are the bytes of mnist, not of fashion-mnist; say --task=mnist, or "
      "name the folder of fashion-mnist with --data");
}

TEST(Metrics, ReadBackToTheSameBits) {
  const Metrics metrics = {{"loss", 0.1 + 0.2}, {"tiny", 5e-324}, {"nan", NAN}, {"inf", -INFINITY}};
  const Metrics back = parse_metrics_json(metrics_json(metrics), "file");
  ASSERT_EQ(back.size(), 4U);
  EXPECT_EQ(back[0], metrics[0]);
  EXPECT_EQ(back[1], metrics[1]);
  EXPECT_TRUE(std::isnan(back[2].second));
  EXPECT_EQ(back[3].second, -INFINITY);
  EXPECT_THROW(parse_metrics_json("{\"loss\": []}", "file"), Error);
  EXPECT_THROW(parse_metrics_json("[", "file"), Error);
}

TEST(Metrics, ACutLineAndLaterStepsAreCutOff) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  std::vector<FileMark> marks;
  {
    MetricsFile file(path, {});
    for (const int64_t step : {10, 20, 30}) {
      file.write(step, "train", {{"loss", 1.0 / static_cast<double>(step)}});
      marks.push_back(file.mark());
    }
  }
  const std::string all = contents(path);
  test::put(path, all + "{\"step\": 40, \"spl");
  EXPECT_EQ(parse_metrics(contents(path)).size(), 3U);
  { const MetricsFile file(path, marks[2]); }
  EXPECT_EQ(contents(path), all);
  {
    MetricsFile file(path, marks[1]);
    file.write(21, "valid", {});
  }
  const auto lines = parse_metrics(contents(path));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1].step, 20);
  EXPECT_EQ(lines[2].split, "valid");
  { const MetricsFile file(path, {}); }
  EXPECT_EQ(contents(path), "");
  // What was changed or cut off before the mark is refused, and left as it is.
  for (const std::string& other : {all.substr(0, 9) + "4" + all.substr(10), all.substr(0, all.size() - 1)}) {
    test::put(path, other);
    EXPECT_THROW(MetricsFile(path, marks[2]), Error);
    EXPECT_EQ(contents(path), other);
  }
  test::put(path, all.substr(0, 40) + std::string(1, '\0') + all.substr(41));  // damage in the middle
  EXPECT_LT(parse_metrics(contents(path)).size(), 3U);
}

TEST(Metrics, WhatALinkLeadsToIsNotCut) {
  const test::TemporaryFolder folder;
  test::put(folder / "victim", "precious");
  std::filesystem::create_symlink("victim", folder / "metrics.jsonl");
  std::filesystem::create_hard_link(folder / "victim", folder / "twin.jsonl");
  for (const char* name : {"metrics.jsonl", "twin.jsonl"}) {
    EXPECT_NE(message_of([&] { MetricsFile(folder / name, {}); }).find("put a file in its place, or remove it"),
              std::string::npos);
  }
  EXPECT_EQ(contents(folder / "victim"), "precious");
}

// A value with a million levels would overflow the stack of any code that walks through it.
TEST(Results, DeepValuesAreRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const test::TemporaryFolder folder;
  for (const char* name : {"data", "model", "metrics", "baselines", "files"}) {
    test::put(folder / "results.json", fmt::format(R"({{"experiment": "toy", "{}": {}}})", name, deep));
    EXPECT_EQ(message_of([&] { read_run(folder.path()); }), (folder / "results.json").string() + ": nested too deep");
  }
  EXPECT_THROW(parse_metrics_json(fmt::format(R"({{"loss": {}}})", deep), "file"), Error);
  EXPECT_THROW(parse_data_json(deep, "file"), Error);
  EXPECT_TRUE(parse_metrics(fmt::format(R"({{"step": 1, "split": "train", "loss": {}}})", deep) + "\n").empty());
}

TEST(Results, DamagedOnesAreNamedInWordsOfPeople) {
  const test::TemporaryFolder folder;
  const auto message = [&](const std::string& text) {
    test::put(folder / "results.json", text);
    return message_of([&] { read_run(folder.path()); });
  };
  const std::string file = (folder / "results.json").string();
  const std::string remedy = "; restore the file from a copy, or remove it";
  EXPECT_EQ(message(R"({"schema": 3})"), file + ": key 'xxh3_128' not found" + remedy);
  EXPECT_EQ(message(R"({"experiment": 7})"), file + ": type must be string, but is number" + remedy);
  EXPECT_EQ(message(R"({"experiment": "toy", "task": "a\u001b[31m"})"),
            file + ": the name 'a\\x1b[31m' holds control characters");
  EXPECT_EQ(message_of([] { parse_data_json("[{}]", "f"); }), "f: the list of data is damaged: key 'file' not found");
}

TEST(Results, NameOnlyFilesOfTheirFolder) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  test::put(folder / "outside", "x");
  test::put(folder / "run/config.ini", "x");
  test::put(folder / "run/predictions.tsv", "x");  // may be written again
  ASSERT_EQ(mkfifo((folder / "run/metrics.jsonl").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "run/report.html");
  const auto message = [&](const std::string& name, const std::string& hash = "") {
    return message_of([&] { require_same_files(folder / "run", {{name, hash}}); });
  };
  const std::map<std::string, std::string> all = hashes_of_files(folder / "run");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(message("config.ini", all.at("config.ini")), "no error");
  EXPECT_EQ(message("gone"), "no error");
  for (const std::string& name : {std::string("../outside"), (folder / "outside").string(), std::string("/dev/zero"),
                                  std::string(".."), std::string()}) {
    EXPECT_NE(message(name).find("which is no file in it"), std::string::npos) << name;
  }
  for (const char* name : {"metrics.jsonl", "report.html"}) {
    EXPECT_NE(message(name).find("is no regular file"), std::string::npos) << name;
  }
}

// Values of the CRC catalogue (CRC-32/ISCSI) and of RFC 3720, B.4.
TEST(Events, Crc32cIsThatOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(""), 0U);
}

// The bytes that TensorBoard's own writer produces for these events (tests/golden/tensorboard_events.py).
TEST(Events, RecordsAreThoseOfTensorBoard) {
  const auto hex = [](const std::string& bytes) {
    std::string text;
    for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return text;
  };
  EXPECT_EQ(hex(format_event({.wall_time = 1.5, .step = 300, .tag = "loss/train", .value = 0.25F})),
            "2100000000000000017becf609000000000000f83f10ac022a130a110a0a6c6f73732f747261696e150000803e6c5611a4");
}

TEST(Events, ReadBackAndCutAtAStep) {
  const test::TemporaryFolder folder;
  const auto path = folder / "events.out.tfevents.bochner";
  std::vector<FileMark> marks;
  {
    EventsFile file(path, {});
    for (const int64_t step : {1, 2, 300}) {
      file.write({.wall_time = 1.0, .step = step, .tag = "a/b", .value = 0.5F});
      marks.push_back(file.mark());
    }
  }
  const std::string all = contents(path);
  const test::Events events = test::parse_events(bytes_of(all));
  ASSERT_EQ(events.events.size(), 4U);
  EXPECT_EQ(events.events[0].tag, "");
  EXPECT_EQ(events.events[3].step, 300);
  EXPECT_EQ(events.events[3].tag, "a/b");
  EXPECT_EQ(events.events[3].value, 0.5F);
  EXPECT_EQ(events.ends[3], static_cast<int64_t>(all.size()));
  { const EventsFile file(path, marks[1]); }
  EXPECT_EQ(contents(path), all.substr(0, static_cast<size_t>(events.ends[2])));
  // Wherever it is cut and whichever byte is changed, the records before remain and nothing is read beyond.
  for (size_t cut = 0; cut < all.size(); ++cut) {
    EXPECT_LE(test::parse_events(bytes_of(all.substr(0, cut))).events.size(), 3U);
    std::string changed = all;
    changed[cut] = static_cast<char>(changed[cut] ^ 0x40);
    EXPECT_LE(test::parse_events(bytes_of(changed)).events.size(), 3U) << cut;
  }
}

TEST(State, ComesBackFromItsFile) {
  const test::TemporaryFolder folder;
  State state;
  state.tensors["w"] = Tensor::from({1.F, 2.F, 3.F}, {3});
  state.set("step", int64_t{-7});
  state.set("rate", 0.1);
  state.set("noise", Generator(18446744073709551615ULL, 12));
  state.set("text", std::string("a\nb"));
  std::string bytes;
  for (int byte = 1; byte < 256; ++byte) bytes += static_cast<char>(byte);
  state.set("path", bytes);  // a name that is not UTF-8
  state.set("name", std::string("\xc3\xa9"));
  state.save(folder / "checkpoint");
  const State back = State::load(folder / "checkpoint");
  EXPECT_EQ(back.integer("step"), -7);
  EXPECT_EQ(back.real("rate"), 0.1);
  EXPECT_EQ(back.generator("noise"), Generator(18446744073709551615ULL, 12));
  EXPECT_EQ(back.text("text"), "a\nb");
  EXPECT_EQ(back.text("path"), bytes);
  EXPECT_EQ(back.text("name"), "\xc3\xa9");
  EXPECT_EQ(State::values_of(SafetensorsFile(folder / "checkpoint")).values, state.values);
  const Tensor to = Tensor::zeros({3});
  back.copy_to("w", to);
  EXPECT_EQ(to.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_THROW(back.copy_to("w", Tensor::zeros({4})), Error);
  EXPECT_THROW(back.copy_to("w", Tensor::zeros({3}, DType::f64)), Error);
  EXPECT_THROW(back.copy_to("v", to), Error);
  EXPECT_THROW(static_cast<void>(back.integer("text")), Error);
  EXPECT_THROW(static_cast<void>(back.generator("step")), Error);
  EXPECT_EQ(message_of([&] { static_cast<void>(back.integer("text")); }),
            back.file + ": the value 'text' is damaged: 'a\\x0ab'");
  EXPECT_THROW(static_cast<void>(back.text("none")), Error);
  EXPECT_THROW(static_cast<void>(back.count("step")), Error);
}

TEST(State, ACheckpointWithANegativeCountIsRefused) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(test::run_toy(folder, {"--out=a", "--quiet"}).code, 0);
  std::filesystem::remove(folder / "a/results.json");
  const State good = State::load(folder / "a/checkpoint-last");
  for (const char* name : {"run.step", "run.loss_count", "run.correct", "run.judged", "run.samples"}) {
    State bad = good;
    bad.set(name, int64_t{-1});
    bad.save(folder / "a/checkpoint-last");
    const test::Ended ended = test::run_toy(folder, {"--out=a", "--resume"});
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(fmt::format("the value '{}' is damaged: -1 is below 0", name)), std::string::npos)
        << ended.err;
  }
}

TEST(BuildInfo, AdviceOnlyWhereACoreTypeIsLost) {
  EXPECT_EQ(blas_advice("Haswell", "Haswell", "SkylakeX"),
            "OpenBLAS, which factors matrices here, uses Haswell kernels where the CPU could use SkylakeX: "
            "OPENBLAS_CORETYPE=Haswell is set; unset it");
  EXPECT_NE(blas_advice("Prescott", nullptr, "Haswell").find("set OPENBLAS_CORETYPE=Haswell"), std::string::npos);
  EXPECT_EQ(blas_advice("SkylakeX", nullptr, "Cooperlake"), "");
  EXPECT_EQ(blas_advice("Zen", nullptr, "Haswell"), "");
  EXPECT_EQ(blas_advice("Nehalem", nullptr, ""), "");
}

TEST(Runs, Names) {
  RunOptions options;
  options.task = "adult";
  EXPECT_EQ(run_name(options), "adult-seed1");
  options.attention = "gmm-rks";
  options.preset = "kl";
  EXPECT_EQ(run_name(options), "adult-gmm-rks-kl-seed1");
}

}  // namespace
}  // namespace bochner
