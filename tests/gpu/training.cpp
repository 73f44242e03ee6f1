// Whole training steps of the bars in docs/gpu/status.md, timed on a card, in bf16: one JSON object per line.
//
//   gpu_training [--small] [--only TEXT] [--once | --profile] [FILE]      also writes the lines to FILE
//
// --small takes the same steps with small models, on the CPU if there is no card, to check that it runs. --only leaves
// out the cases whose name does not contain TEXT; --once makes one step of each, unrecorded, for a profiler.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "autograd/fused/cross_entropy.h"
#include "autograd/optim/optimizer.h"
#include "engine/card.h"
#include "engine/precision.h"
#include "engine/step_graph.h"
#include "engine/trace.h"
#include "layers/models/encoder.h"

namespace bochner {
namespace {

struct Case {
  std::string name;
  const char* attention;
  int64_t layers, dim, heads, hidden, features, batch, length;
  bool recompute = false;
  int rounds = 7;
};

FILE* file = nullptr;
bool once = false;
bool profile = false;

void report(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
  if (file == nullptr) return;
  fmt::print(file, "{}\n", line);
  std::fflush(file);
}

EncoderOptions options_of(const Case& given) {
  EncoderOptions options;
  options.vocabulary = 257;
  options.length = given.length;
  options.classes = 10;
  options.layers = given.layers;
  options.dim = given.dim;
  options.hidden = given.hidden;
  options.dropout = 0;
  options.positions = given.recompute ? EncoderOptions::Positions::sinusoidal : EncoderOptions::Positions::learned;
  options.recompute = given.recompute;
  options.attention.mechanism = MechanismOptions(given.attention)
                                    .set_known({{"features", given.features},
                                                {"length", given.length},
                                                {"redraw", std::string(given.attention).starts_with("gmm") ? 1 : 0}});
  options.attention.heads = given.heads;
  return options;
}

/// Forward, backward and AdamW, in the way experiments/learners/learner.cpp makes a step.
class Training {
 public:
  Training(const Case& given, Device device)
      : device_(device), noise_(2), init_(1), model_(options_of(given), init_), graph_(device, noise_) {
    model_.to(device, DType::f32);
    optimizer_ = std::make_unique<AdamW>(model_.parameters());
    Generator data(3);
    ids_ = integers({given.batch, given.length}, 0, 257, data).to(device);
    labels_ = integers({given.batch}, 0, 10, data).to(device);
    loss_ = Tensor::zeros({}, DType::f64, device);
  }
  void step() {
    optimizer_->prepare(1e-4);
    graph_.run(ids_.shape().str(), [&] {
      Context context{noise_, true};
      {
        Tape tape;
        const Variable loss = cross_entropy(model_.forward(ids_, {}, context), labels_);
        loss_.copy_(loss.value());
        tape.backward(loss);
      }
      optimizer_->apply();
      optimizer_->clear_gradients();
    });
  }
  /// Waits for all steps.
  double loss() const { return loss_.item(); }

 private:
  Device device_;
  Generator noise_, init_;
  SequenceClassifier model_;
  std::unique_ptr<AdamW> optimizer_;
  Tensor ids_, labels_, loss_;
  StepGraph graph_;
};

/// Returns whether it was timed.
bool time(const Case& given, Device device) {
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  try {
    Allocator& memory = Allocator::of(device);
    memory.reset_peak();
    Training training(given, device);
    training.step();  // observed
    if (once) return std::isfinite(training.loss());
    if (profile) {
      set_debug_sync(true);
      trace::start();
      training.step();
      trace::stop();
      set_debug_sync(false);
      fmt::print("{}\n{}\n", given.name, trace::table());
      return true;
    }
    training.step();  // recorded
    training.loss();
    std::vector<double> rounds;
    for (int i = 0; i < given.rounds; ++i) {
      const double begin = seconds();
      for (int step = 0; step < 3; ++step) training.step();
      training.loss();
      rounds.push_back((seconds() - begin) / 3);
    }
    std::sort(rounds.begin(), rounds.end());
    const double median = rounds[rounds.size() / 2];
    report(fmt::format(R"({{"case": "{}", "ms": {:.4f}, "steps_per_s": {:.2f}, "tokens": {}, "peak_bytes": {}, )"
                       R"("loss": {:.6f}}})",
                       given.name, 1e3 * median, 1 / median, given.batch * given.length, memory.stats().peak_bytes,
                       training.loss()));
    return true;
  } catch (const Error& error) {  // for example out of memory: a bar that is not reached
    std::string why = error.what();
    std::replace(why.begin(), why.end(), '"', '\'');
    report(fmt::format(R"({{"skipped": "{}", "how": "ours", "why": "{}"}})", given.name, why));
    return false;
  }
}

}  // namespace
}  // namespace bochner

int main(int count, char** arguments) {
  using namespace bochner;  // NOLINT: a program
  try {
    bool small = false;
    std::string only;
    for (int i = 1; i < count; ++i) {
      const std::string word = arguments[i];
      if (word == "--small") {
        small = true;
      } else if (word == "--once") {
        once = true;
      } else if (word == "--profile") {
        profile = true;
      } else if (word == "--only" && i + 1 < count) {
        only = arguments[++i];
      } else {
        file = std::fopen(word.c_str(), "w");
      }
    }
    Device device = Device::cpu();
    if (!small) {
      device = Device::named("cuda");
      set_precision(Precision::bf16);
    }
    const int64_t text = small ? 40 : 4000;
    const int64_t listops = small ? 40 : 2000;
    const int64_t longest = small ? 130 : 1048576;
    const int64_t batch = small ? 2 : 32;
    const int64_t width = small ? 32 : 256;
    std::vector<Case> cases;
    for (const char* attention : {"softmax", "performer", "gmm-prf"}) {
      cases.push_back({fmt::format("text step {}", attention), attention, 4, width, 4, 4 * width, width, batch, text});
    }
    for (const char* attention : {"softmax", "performer", "skyformer"}) {
      const int64_t features = small ? 16 : 128;
      cases.push_back({fmt::format("listops step {}", attention), attention, 2, 64, 2, 128, features, batch, listops});
    }
    cases.push_back({"longest sequence", "performer", 6, small ? 64 : 512, 8, small ? 64 : 2048, small ? 16 : 256, 1,
                     longest, true, small ? 1 : 2});
    bool all = true;
    for (const Case& one : cases) {
      if (one.name.find(only) != std::string::npos) all = time(one, device) && all;
    }
    if (file != nullptr) std::fclose(file);
    return all ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_training: {}\n", error.what());
    return 1;
  }
}
