// Images prepared as by Pillow and transformers (tests/golden/images.py), bit for bit; how sets are divided.
#include "datasets/images/preparation.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/io/idx.h"
#include "engine/io/sha256.h"
#include "tests/files.h"
#include "tests/message_of.h"

namespace bochner::images {
namespace {

using nlohmann::json;
using test::message_of;
using test::TemporaryFolder;

json golden(const char* part) {
  std::ifstream file(BOCHNER_SOURCE_DIR "/tests/golden/images.json");
  return json::parse(file).at(part);
}

TEST(Resizer, EqualsPillow) {
  for (const json& one : golden("resized")) {
    const auto from = one.at("from").get<int64_t>();
    const auto to = one.at("to").get<int64_t>();
    const auto pixels = one.at("pixels").get<std::vector<uint8_t>>();
    const Resizer resizer(from, to, one.at("filter") == "bicubic" ? Filter::bicubic : Filter::bilinear);
    std::vector<uint8_t> resized(static_cast<size_t>(to * to));
    resizer.run(pixels.data(), 1, resized.data());
    const std::string where = fmt::format("{} {} -> {}", one.at("filter").get<std::string>(), from, to);
    if (one.contains("resized")) {
      EXPECT_EQ(resized, one.at("resized").get<std::vector<uint8_t>>()) << where;
    }
    Sha256 hash;
    hash.update(std::as_bytes(std::span(resized)));
    EXPECT_EQ(hash.hex(), one.at("sha256").get<std::string>()) << where;
  }
  EXPECT_NE(message_of([] { Resizer(0, 4, Filter::bilinear); }).find("resize: from 0 to 4 pixels"), std::string::npos);
}

TEST(Preparation, EqualsTransformers) {
  for (const json& one : golden("prepared")) {
    const TemporaryFolder folder;
    folder.put("preprocessor_config.json", one.at("config").dump());
    const Preparation preparation = read_preparation(folder.path(), 7, 3);
    const Images images{
        .channels = 3, .side = 5, .pixels = one.at("pixels").get<std::vector<uint8_t>>(), .labels = {0}};
    const Tensor values = prepared(images, {0}, preparation);
    ASSERT_EQ(values.shape(), (Shape{1, 3, 7, 7}));
    EXPECT_EQ(values.to_vector<float>(), one.at("values").get<std::vector<float>>()) << one.at("config");
    // What is written can be read again.
    folder.put("preprocessor_config.json", preparation_text(preparation));
    EXPECT_EQ(prepared(images, {0}, read_preparation(folder.path(), 7, 3)).to_vector<float>(),
              values.to_vector<float>());
  }
}

TEST(Preparation, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_preparation(folder.path(), 32, 1).mean, (std::vector<double>{0.5}));
  const auto refused = [&](const char* text, const char* message) {
    folder.put("preprocessor_config.json", text);
    EXPECT_NE(message_of([&] { (void)read_preparation(folder.path(), 32, 3); }).find(message), std::string::npos)
        << text << message_of([&] { (void)read_preparation(folder.path(), 32, 3); });
  };
  refused(R"({"size": 224})", "images of 224 pixels, but config.json beside it says image_size 32");
  refused(R"({"size": {"height": 32, "width": 31}})", "known here are an equal height and width");
  refused(R"({"size": {"shortest_edge": 32}})", "known here are an equal height and width");
  refused(R"({"resample": 0})", "resample is 0; known here are 2 (bilinear) and 3 (bicubic)");
  refused(R"({"image_mean": [0.5]})", "image_mean is [0.5], but the model has 3 channels");
  refused(R"({"image_std": [1, 0, 1]})", "image_std must be above 0");
  refused(R"({"image_std": [1, 1e-50, 1]})", "image_std must be above 0");
  refused(R"({"image_mean": [1e300, 0, 0]})", "image_mean or image_std is too large for float32");
  refused(R"({"do_center_crop": true})", "do_center_crop is true");
  refused(R"({"do_resize": false})", "do_resize is false");
  refused("[]", "preprocessor_config.json");
  const Images colour{.channels = 3, .side = 1, .pixels = {1, 2, 3}, .labels = {0}};
  EXPECT_NE(message_of([&] { (void)prepared(colour, {0}, read_preparation("", 1, 1)); }).find("images of 3 channels"),
            std::string::npos);
}

TEST(Preparation, GreyImagesAreRepeatedInEachChannel) {
  const Images grey{.channels = 1, .side = 2, .pixels = {0, 255, 51, 102}, .labels = {0}};
  const std::vector<float> values = prepared(grey, {0}, {.side = 2}).to_vector<float>();
  const std::vector<float> plane(values.begin(), values.begin() + 4);
  EXPECT_EQ(plane[0], -1);
  EXPECT_EQ(plane[1], 1);
  EXPECT_NEAR(plane[2], -0.6, 1e-6);
  for (int c = 1; c < 3; ++c) EXPECT_EQ(std::vector<float>(values.begin() + 4 * c, values.begin() + 4 * c + 4), plane);
}

TEST(Augmentation, MovesOverBlackAndMirrors) {
  Images image{.channels = 1, .side = 3, .pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .labels = {0}};
  const auto changed = [&](const Change& change) {
    Preparation bytes{.side = 3, .channels = 1, .scale = 1};
    bytes.mean = {0};
    bytes.deviation = {1};
    return prepared(image, {0}, bytes, {change}).to_vector<float>();
  };
  EXPECT_EQ(changed({}), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(changed({.down = 1, .right = -1}), (std::vector<float>{0, 4, 5, 0, 7, 8, 0, 0, 0}));
  EXPECT_EQ(changed({.mirrored = true}), (std::vector<float>{3, 2, 1, 6, 5, 4, 9, 8, 7}));
  EXPECT_EQ(changed({.right = 1, .mirrored = true}), (std::vector<float>{0, 3, 2, 0, 6, 5, 0, 9, 8}));
}

TEST(Augmentation, EachWayIsDrawnEquallyOften) {
  std::map<std::pair<int64_t, int64_t>, int> places;
  int mirrored = 0;
  constexpr int kDraws = 9000;
  for (int i = 0; i < kDraws; ++i) {
    const Change change = drawn({.crop = 1, .flip = true}, Generator(1).fork(static_cast<uint64_t>(i)));
    ++places[{change.down, change.right}];
    mirrored += change.mirrored ? 1 : 0;
  }
  ASSERT_EQ(places.size(), 9U);
  for (const auto& [place, count] : places) EXPECT_NEAR(count, 1000, 4 * 30);  // sqrt(n p (1 - p)) = 29.8
  EXPECT_NEAR(mirrored, kDraws / 2, 4 * 47.5);
  EXPECT_FALSE(drawn({.crop = 3}, Generator(1)).mirrored);
}

/// Image i is of class i % 3 and holds i.
ImageSets three_classes() {
  ImageSets sets;
  for (int i = 0; i < 12; ++i) {
    Images& set = i < 10 ? sets.train : sets.test;
    set.channels = set.side = 1;
    set.pixels.push_back(static_cast<uint8_t>(i));
    set.labels.push_back(static_cast<uint8_t>(i % 3));
  }
  sets.classes = {"a", "b", "c"};
  return sets;
}

TEST(ImageSets, AShareOfEachClassValidates) {
  const ImageSets sets = hold_out(three_classes(), 0.5);
  EXPECT_EQ(sets.train.pixels, (std::vector<uint8_t>{0, 1, 2, 6, 7, 8}));
  EXPECT_EQ(sets.valid.pixels, (std::vector<uint8_t>{3, 4, 5, 9}));
  EXPECT_EQ(sets.valid.labels, (std::vector<uint8_t>{0, 1, 2, 0}));
  EXPECT_NE(message_of([] { hold_out(three_classes(), 0.01); }).find("too few to hold 0.01 of each class out"),
            std::string::npos);
}

TEST(ImageSets, ClassesAndTheFirstOfEachAreChosen) {
  const ImageSets sets = of_classes(three_classes(), {"c", "a"});
  EXPECT_EQ(sets.train.pixels, (std::vector<uint8_t>{0, 2, 3, 5, 6, 8, 9}));
  EXPECT_EQ(sets.train.labels, (std::vector<uint8_t>{1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(sets.test.pixels, (std::vector<uint8_t>{11}));
  EXPECT_EQ(sets.classes, (std::vector<std::string>{"c", "a"}));
  EXPECT_EQ(sets.remarks, (std::vector<std::string>{"of 3 classes only 2: c, a; tested on 1 images"}));
  const ImageSets few = first_of_each(sets, 2);
  EXPECT_EQ(few.train.pixels, (std::vector<uint8_t>{0, 2, 3, 5}));
  EXPECT_EQ(few.remarks.back(), "learnt from the first 2 training images of each class");
  EXPECT_NE(message_of([&] { first_of_each(sets, 4); }).find("there are 3 training images of c, not 4"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              of_classes(sets, {"a", "d"});
            }).find("there is no class 'd'; there are c, a"),
            std::string::npos);
  EXPECT_NE(message_of([&] { of_classes(sets, {"a", "a"}); }).find("a comes twice"), std::string::npos);
  EXPECT_NE(message_of([&] { of_classes(sets, {"a"}); }).find("a alone leaves nothing"), std::string::npos);
}

TEST(ImageSets, MnistIsReadAndChecked) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, int64_t count, int64_t side, uint8_t label) {
    write_idx(folder / (name + "-images-idx3-ubyte").c_str(), Tensor::full({count, side, side}, 7, DType::u8));
    write_idx(folder / (name + "-labels-idx1-ubyte.gz").c_str(), Tensor::full({count}, label, DType::u8));
  };
  write("train", 5, 4, 9);
  write("t10k", 2, 4, 3);
  const ImageSets sets = read_mnist(folder.path(), "mnist");
  EXPECT_EQ(sets.train.count(), 5);
  EXPECT_EQ(sets.train.channels, 1);
  EXPECT_EQ(sets.train.side, 4);
  EXPECT_EQ(sets.test.labels, (std::vector<uint8_t>{3, 3}));
  write("t10k", 2, 5, 3);
  EXPECT_NE(
      message_of([&] { read_mnist(folder.path(), "mnist"); }).find("test images have 25 pixels, training images 16"),
      std::string::npos);
  write("t10k", 2, 4, 10);
  EXPECT_NE(message_of([&] { read_mnist(folder.path(), "mnist"); }).find("label 0, counted from 0, is 10"),
            std::string::npos);
}

}  // namespace
}  // namespace bochner::images
