// The names of classes in config.json, and the rows of a classifier that belong to them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "layers/models/hugging_face.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;
using Values = std::vector<float>;

const Names kThreeWay = {"entailment", "neutral", "contradiction"};

/// The folder of a model with three classes, whose biases are 0, 1 and 2.
class Labels : public ::testing::Test {
 protected:
  Labels() {
    BertOptions options{.vocabulary = 7, .length = 5, .layers = 1, .dim = 4, .hidden = 4, .classes = 3};
    options.attention.heads = 2;
    Generator init(1);
    Bert bert({}, options, init);
    bert.state().at("classifier.bias").copy_(Tensor::from<float>({0, 1, 2}, {3}));
    weight_ = bert.state().at("classifier.weight").clone();
    save_pretrained(bert, folder_.path());
  }

  void name(const json& id2label) const {
    json config = json::parse(test::contents(folder_ / "config.json"));
    config["id2label"] = id2label;
    test::put(folder_ / "config.json", config.dump());
  }

  /// The biases that a model with the classes `ours` reads from a folder with the classes `theirs`.
  Values read(const Names& theirs, const Names& ours) {
    json id2label = json::object();
    for (size_t i = 0; i < theirs.size(); ++i) id2label[std::to_string(i)] = theirs[i];
    name(id2label);
    BertOptions options = read_bert_options(folder_.path());
    EXPECT_EQ(options.labels, theirs);
    options.labels = ours;
    Generator init(2);
    Bert bert({}, options, init);
    const LoadedTensors loaded = load_pretrained(bert, folder_.path());
    Values bias = bert.state().at("classifier.bias").to_vector<float>();
    for (size_t i = 0; i < bias.size(); ++i) {  // a row of the weights goes where its bias goes
      EXPECT_EQ(bert.state().at("classifier.weight").select(0, static_cast<int64_t>(i)).to_vector<float>(),
                weight_.select(0, static_cast<int64_t>(bias[i])).to_vector<float>());
    }
    const bool same = bias == Values{0, 1, 2};
    EXPECT_EQ(loaded.filled.contains("classifier.weight"), same);
    EXPECT_EQ(loaded.text().find("; classes there in the order ") == std::string::npos, same) << loaded.text();
    return bias;
  }

  test::TemporaryFolder folder_;
  Tensor weight_;
};

TEST_F(Labels, RowsGoToTheClassOfTheirName) {
  EXPECT_EQ(read({"CONTRADICTION", "entailment", "Neutral"}, kThreeWay), (Values{1, 2, 0}));
  EXPECT_EQ(read({"Entailment", "neutral", "contradiction"}, kThreeWay), (Values{0, 1, 2}));
  EXPECT_EQ(read({"LABEL_2", "LABEL_0", "LABEL_1"}, {"0", "1", "2"}), (Values{1, 2, 0}));
}

TEST_F(Labels, RowsStayWhereEitherSideHasOnlyNumbers) {
  EXPECT_EQ(read({"LABEL_0", "LABEL_1", "LABEL_2"}, kThreeWay), (Values{0, 1, 2}));
  EXPECT_EQ(read({"bad", "so-so", "good"}, {"0", "1", "2"}), (Values{0, 1, 2}));
  EXPECT_EQ(read({"bad", "so-so", "good"}, {}), (Values{0, 1, 2}));
}

TEST_F(Labels, OtherNamesAreRefusedWithBothLists) {
  const std::string told = test::message_of([&] { read({"bad", "so-so", "good"}, kThreeWay); });
  EXPECT_NE(told.find("the classes 'bad', 'so-so', 'good', asked for are 'entailment', 'neutral', 'contradiction'"),
            std::string::npos)
      << told;
  name({{"0", "a"}, {"1", "b"}, {"3", "c"}});
  const std::string gap = test::message_of([&] { read_bert_options(folder_.path()); });
  EXPECT_NE(gap.find("config.json: id2label has no name of the label 2"), std::string::npos) << gap;
}

}  // namespace
}  // namespace bochner
