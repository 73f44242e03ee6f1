// The arena's protocols at full size: each preset builds the model that its paper describes, and trains for three
// steps.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/sanitizer.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

using test::contents;
using test::Ended;
using test::Process;
using test::TemporaryFolder;

/// What papers say about a model: Table 6 of KL, Section 5 of SKY, the arena's configurations.
struct Sizes {
  int64_t layers, dim, qkv, hidden, classifier;
  int64_t vocabulary, classes;
  int64_t places;  ///< learned positions, including that of CLS; 0: sinusoids
  bool cls;
  bool projection_bias;
  int64_t kernel_parameters = 0;  ///< of the attention, per layer
  /// Heads for two sequences: the arena's has half as many units in a second layer, SKY's sees u, v, u v and u - v.
  enum class Head : unsigned char { one, arena, skyformer } on = Head::one;

  int64_t parameters() const {
    const int64_t projections = 4 * dim * qkv + (projection_bias ? 3 * qkv + dim : 0);
    const int64_t feed_forward = 2 * dim * hidden + hidden + dim;
    const int64_t norms = 2 * 2 * dim;
    const int64_t c = classifier;
    const int64_t head = on == Head::one     ? (dim + 1) * c + (c + 1) * classes
                         : on == Head::arena ? (2 * dim + 1) * c + (c + 1) * (c / 2) + (c / 2 + 1) * classes
                                             : (4 * dim + 1) * c + (c + 1) * classes;
    return vocabulary * dim + places * dim + (cls ? dim : 0) +
           layers * (projections + feed_forward + norms + kernel_parameters) + 2 * dim + head;
  }
};

struct Protocol {
  std::string preset, task, attention;
  Sizes sizes;
};

using Head = Sizes::Head;

// Mixtures in KL: one diagonal and one mean per head (gmm-prf, tied).
const std::vector<Protocol> kProtocols = {
    {"kl", "listops", "gmm-prf", {6, 512, 512, 2048, 2048, 16, 10, 0, true, false, 8 * 64 * 2}},
    {"kl", "text", "gmm-prf", {4, 256, 256, 1024, 1024, 257, 2, 0, true, false, 4 * 64 * 2}},
    {"skyformer", "text", "skyformer", {2, 64, 64, 128, 128, 257, 2, 4000, false, true}},
    {"lra", "text", "performer", {4, 256, 256, 1024, 1024, 257, 2, 0, true, false}},
    {"budget", "text", "performer", {2, 64, 64, 128, 128, 257, 2, 4000, false, true}},
    {"kl", "retrieval", "gmm-prf", {4, 128, 128, 512, 512, 257, 2, 0, true, false, 4 * 32 * 2, Head::arena}},
    {"skyformer", "retrieval", "skyformer", {2, 64, 64, 128, 128, 257, 2, 4000, false, true, 0, Head::skyformer}},
    {"lra", "retrieval", "performer", {4, 128, 128, 512, 512, 257, 2, 0, false, false, 0, Head::arena}},
    {"kl", "image", "gmm-prf", {1, 128, 64, 128, 128, 256, 10, 1025, true, false, 8 * 8 * 2}},
    {"skyformer", "image", "skyformer", {2, 64, 64, 128, 128, 256, 10, 1024, false, true}},
    {"lra", "image", "performer", {1, 128, 64, 128, 128, 256, 10, 1025, true, false}},
    {"budget", "image", "performer", {2, 64, 64, 128, 128, 256, 10, 1024, false, true}},
    {"rotary", "text", "gmm-prf", {2, 64, 64, 128, 128, 257, 2, 0, false, true, 2 * 2 * 32 * 2}},
    {"selfpretrained", "image", "performer", {2, 64, 64, 128, 128, 257, 10, 1024, false, true}},
    {"budget", "films", "performer", {2, 64, 64, 128, 128, 257, 2, 4000, false, true, 0, Head::arena}},
    {"skyformer", "listops", "skyformer", {2, 64, 64, 128, 128, 16, 10, 2000, false, true}},
    {"skyformer", "pathfinder", "skyformer", {2, 64, 64, 128, 128, 256, 2, 1024, false, true}},
    {"lra", "listops", "performer", {4, 512, 512, 1024, 1024, 16, 10, 0, true, false}},
    {"lra", "pathfinder", "softmax", {4, 32, 16, 32, 32, 256, 2, 0, false, false}},
    {"lra", "pathx", "performer", {1, 32, 16, 32, 32, 256, 2, 128 * 128, false, false}},
    {"budget", "listops", "performer", {2, 64, 64, 128, 128, 16, 10, 2000, false, true}},
    {"budget", "pathfinder", "performer", {2, 64, 64, 128, 128, 256, 2, 1024, false, true}},
    {"budget", "retrieval", "performer", {2, 64, 64, 128, 128, 257, 2, 4000, false, true, 0, Head::arena}},
    {"budget", "pathx", "performer", {2, 64, 64, 128, 128, 256, 2, 128 * 128, false, true}},
    {"rotary", "listops", "performer", {2, 64, 64, 128, 128, 16, 10, 0, false, true}},
    {"rotary", "image", "performer", {2, 64, 64, 128, 128, 256, 10, 0, false, true}},
    {"rotary", "pathfinder", "performer", {2, 64, 64, 128, 128, 256, 2, 0, false, true}},
    {"rotary", "pathx", "performer", {2, 64, 64, 128, 128, 256, 2, 0, false, true}},
    {"rotary", "retrieval", "performer", {2, 64, 64, 128, 128, 257, 2, 0, false, true, 0, Head::arena}},
    {"rotary", "films", "performer", {2, 64, 64, 128, 128, 257, 2, 0, false, true, 0, Head::arena}},
    {"selfpretrained", "listops", "performer", {2, 64, 64, 128, 128, 17, 10, 2000, false, true}},
    {"selfpretrained", "text", "performer", {2, 64, 64, 128, 128, 258, 2, 4000, false, true}},
    {"selfpretrained", "films", "performer", {2, 64, 64, 128, 128, 258, 2, 4000, false, true, 0, Head::arena}},
    {"selfpretrained", "retrieval", "performer", {2, 64, 64, 128, 128, 258, 2, 4000, false, true, 0, Head::arena}},
    {"selfpretrained", "pathx", "performer", {2, 64, 64, 128, 128, 257, 2, 128 * 128, false, true}},
    {"selfpretrained", "pathfinder", "performer", {2, 64, 64, 128, 128, 257, 2, 1024, false, true}},
};

TEST(ArenaPresets, TrainThreeStepsAtFullSize) {
  if (kAddressSanitizer) GTEST_SKIP() << "half a minute of matrix products takes too long under sanitizers";
  const TemporaryFolder folder;
  for (const auto& [preset, task, attention, sizes] : kProtocols) {
    const std::string name = preset + "." + task;
    const Ended ended = Process({BOCHNER_LRA, "--preset=" + preset, "--task=" + task, "--attention=" + attention,
                                 "--random-data", "--steps=3", "--batch=1", "--out=" + name, "--quiet"},
                                folder.path())
                            .wait();
    ASSERT_EQ(ended.code, 0) << name << ": " << ended.err;
    const auto results = nlohmann::json::parse(contents(folder / (name + "/results.json")));
    EXPECT_EQ(results["parameters"], sizes.parameters()) << name;
    EXPECT_EQ(results["steps"], 3);
    EXPECT_EQ(results["overrides"]["random-data"], "true");
    fmt::print("{:22} {:10} {:>9} parameters, {:5.2f} s a step of one sequence, peak memory {:.0f} MiB\n", name,
               attention, sizes.parameters(), results["train_seconds"].get<double>() / 3,
               results["peak_memory_bytes"].get<double>() / (1 << 20));
  }
}

TEST(ArenaPresets, SelfPretrainingNamesMaskedTokensAndHandsTheTrunkOver) {
  if (kAddressSanitizer) GTEST_SKIP() << "matrix products of this size take too long under sanitizers";
  const TemporaryFolder folder;
  for (const std::string task : {"listops", "image"}) {
    const auto train = [&](std::vector<std::string> more) {
      more.insert(more.begin(), {BOCHNER_LRA, "--preset=selfpretrained", "--task=" + task, "--attention=performer",
                                 "--random-data", "--steps=3", "--batch=2", "--quiet"});
      return Process(more, folder.path()).wait();
    };
    const Ended tokens = train({"--learn=masked-tokens", "--out=" + task + "-tokens"});
    ASSERT_EQ(tokens.code, 0) << tokens.err;
    const auto learnt = nlohmann::json::parse(contents(folder / (task + "-tokens/results.json")));
    EXPECT_EQ(learnt["steps"], 3);
    const Ended classes = train({"--init=" + task + "-tokens", "--out=" + task});
    ASSERT_EQ(classes.code, 0) << classes.err;
    EXPECT_EQ(nlohmann::json::parse(contents(folder / (task + "/results.json")))["init"]["run"], learnt["run"]);
  }
}

// The table counts the features of one Gaussian; `features` those of both.
TEST(ArenaPresets, OfKlHaveTheFeaturesOfItsTable7) {
  const TemporaryFolder folder;
  const std::vector<std::string> tasks = {"listops", "text", "retrieval", "image"};
  const std::map<std::string, std::array<int, 4>> table = {{"gmm-rks", {2 * 256, 2 * 128, 2 * 64, 2 * 128}},
                                                           {"fastfood-rks", {64, 64, 32, 8}},
                                                           {"generative-rks", {256, 256, 128, 128}},
                                                           {"gmm-prf", {2 * 256, 2 * 256, 2 * 128, 2 * 128}},
                                                           {"fastfood-prf", {64, 64, 32, 8}},
                                                           {"generative-prf", {128, 128, 64, 8}}};
  for (const auto& [attention, features] : table) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      const std::string both = tasks[i] + " " + attention;
      const Ended ended =
          Process({BOCHNER_LRA, "--preset=kl", "--task=" + tasks[i], "--attention=" + attention, "--dump-config"},
                  folder.path())
              .wait();
      ASSERT_EQ(ended.code, 0) << both << ended.err;
      EXPECT_NE(ended.out.find("\nfeatures = " + std::to_string(features[i]) + "\n"), std::string::npos) << both;
      EXPECT_NE(ended.out.find("\nmixture = tied\n"), std::string::npos) << both;
    }
  }
}

TEST(ArenaPresets, AreRefusedForTasksThatTheirPapersDoNotHave) {
  const TemporaryFolder folder;
  const Ended ended = Process({BOCHNER_LRA, "--preset=kl", "--task=pathfinder", "--dump-config"}, folder.path()).wait();
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("'kl' has no settings for the task 'pathfinder'; it has listops, text, retrieval, image"),
            std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace bochner
