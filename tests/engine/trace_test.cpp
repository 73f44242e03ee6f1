#include "engine/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "engine/ops/bias_activation.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/norm.h"
#include "tests/engine/io/io_test.h"

namespace bochner {
namespace {

void spin(int microseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Trace, RecordsNothingWhileOff) {
  trace::start();
  trace::stop();
  { const trace::Span span("unseen"); }
  EXPECT_TRUE(trace::events().empty());
}

TEST(Trace, OwnTimeLeavesOutTheSpansInside) {
  trace::start();
  {
    const trace::Span outer("outer");
    for (int i = 0; i < 3; ++i) {
      const trace::Span inner("inner");
      spin(2000);
    }
  }
  trace::stop();
  const auto shares = trace::shares();
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_EQ(shares[0].name, "inner");
  EXPECT_EQ(shares[0].count, 3);
  EXPECT_GE(shares[0].seconds, 0.006);
  EXPECT_NEAR(shares[0].share + shares[1].share, 1, 1e-12);
  const auto events = trace::events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_STREQ(events[0].name, "outer");
  EXPECT_NEAR(static_cast<double>(events[0].length_ns) / 1e9, shares[0].seconds + shares[1].seconds, 1e-9);
  EXPECT_NE(trace::table().find("inner"), std::string::npos);
}

TEST(Trace, EachThreadHasItsRowInTheChromeTrace) {
  trace::start();
  { const trace::Span span("here \"quoted\""); }
  std::thread([] { const trace::Span span("there"); }).join();
  trace::stop();
  const auto json = nlohmann::json::parse(trace::chrome_json());
  const auto& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 2U);
  EXPECT_NE(events[0]["tid"], events[1]["tid"]);
  EXPECT_EQ(events[0]["name"], "here \"quoted\"");
  EXPECT_EQ(events[0]["ph"], "X");
  EXPECT_GE(events[0]["dur"].get<double>(), 0);
}

TEST(Trace, AFileThatCouldBeWrittenStaysAsItIs) {
  const test::TemporaryFolder folder;
  folder.put("mine", "kept");
  trace::require_writable(folder / "mine");
  EXPECT_EQ(test::contents(folder / "mine"), "kept");
  EXPECT_THROW(trace::require_writable(folder / "missing" / "file"), Error);
}

TEST(Trace, TellsBackwardFromForward) {
  const Tensor x = Tensor::arange(6, DType::f32).view({2, 3});
  const Tensor labels = Tensor::zeros({2}, DType::i64);
  const Tensor one = Tensor::scalar(1);
  trace::start();
  bias_activation_backward(x, x, bias_activation(x, {}, Activation::relu).select(0, 0), Activation::relu);
  layer_norm_backward(x, x, {}, layer_norm(x, {}, {}).statistics);
  batch_norm_backward(x, x, {}, batch_norm(x, {}, {}, {}).statistics);
  cross_entropy_backward(one, x, labels, cross_entropy(x, labels).rest);
  binary_cross_entropy_backward(one, x, x);
  mean_squared_error_backward(one, x, x);
  trace::stop();
  std::set<std::string> names;
  for (const trace::Event& event : trace::events()) names.insert(event.name);
  for (const char* op : {"bias_activation", "layer_norm", "batch_norm", "cross_entropy"})
    EXPECT_TRUE(names.contains(op));
  for (const char* op :
       {"bias_activation", "layer_norm", "batch_norm", "cross_entropy", "binary_cross_entropy", "mean_squared_error"}) {
    EXPECT_TRUE(names.contains(std::string(op) + "_backward")) << op;
  }
}

}  // namespace
}  // namespace bochner
