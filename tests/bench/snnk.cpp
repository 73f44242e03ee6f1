// The time that SNNK layers save, and the speed of reading tables. All cases are timed in turn, round after round, so
// that other load on the machine affects all of them alike; trust the ratios.
//
//   snnk [--file TABLE.csv] [rounds]
//
//   layer    512 -> 512 for a batch of 1024, forward and backward of weights and input:
//            relu(Linear), and Snnk of 16 features
//   network  inference after the first layer of 54-512-512-7:
//            Linear + ReLU + Linear, Snnk + Linear, and the bundle
//   step     one training step of 54-512-512-7 with AdamW and the loader, plain and with the SNNK layer
//   table    bytes per second of read_table without its cache, and its time with the cache
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/unary.h"
#include "autograd/optim/optimizer.h"
#include "datasets/tables/tabular.h"
#include "engine/parallel.h"
#include "engine/stopwatch.h"
#include "layers/models/mlp.h"

namespace bochner {
namespace {

constexpr int64_t kBatch = 1024;
constexpr int64_t kWidth = 512;

struct Case {
  std::string name;
  std::function<void()> run;
  std::vector<double> milliseconds = {};
};

void race(std::vector<Case>& cases, int rounds) {
  for (int round = -2; round < rounds; ++round) {
    for (Case& one : cases) {
      const Stopwatch watch;
      one.run();
      const double milliseconds = 1e3 * watch.seconds();
      if (round >= 0) one.milliseconds.push_back(milliseconds);
    }
  }
  for (Case& one : cases) {
    std::sort(one.milliseconds.begin(), one.milliseconds.end());
    const double least = one.milliseconds.front();
    const double median = one.milliseconds[one.milliseconds.size() / 2];
    fmt::print("{:<30} {:9.3f} ms least {:9.3f} median   {:6.2f} times as fast as the first by least\n", one.name,
               least, median, cases.front().milliseconds.front() / least);
  }
}

void forward_backward(const std::function<Variable(const Variable&)>& layer, const Tensor& x, const Tensor& g) {
  Tape tape;
  const Variable at = tape.watch(x);
  const Variable y = layer(at);
  tape.backward(std::vector<Variable>{y}, Gradients{Variable(g)});
}

/// A network in training, with its own rows.
struct Training {
  Training(const TableSplit& rows, std::optional<SnnkOptions> snnk)
      : init(1),
        noise(2),
        network({}, options(std::move(snnk)), init),
        loader(rows, kBatch, 3),
        optimizer(network.parameters(), {.weight_decay = 0.01}) {}

  static MlpOptions options(std::optional<SnnkOptions> snnk) {
    MlpOptions result{.inputs = 54, .hidden = {kWidth, kWidth}, .outputs = 7};
    result.snnk = std::move(snnk);
    return result;
  }
  void step() {
    const TableBatch batch = loader.next();
    Context context{noise, true};
    {
      Tape tape;
      tape.backward(cross_entropy(network.forward(batch.x, context), batch.labels));
    }
    optimizer.step(1e-3);
    optimizer.clear_gradients();
  }

  Generator init, noise;
  Mlp network;
  TableLoader loader;
  AdamW optimizer;
};

void all(int rounds, const std::string& file) {
  Generator generator(1);
  const Tensor h = normal({kBatch, kWidth}, generator);
  const Tensor g = normal({kBatch, kWidth}, generator);
  Linear linear({}, kWidth, kWidth, generator);
  const SnnkOptions options{.activation = "relu", .features = 16};
  Snnk snnk({}, linear, options, generator);
  std::vector<Case> layer = {{"layer relu(Linear)",
                              [&] {
                                forward_backward([&](const Variable& x) { return relu(linear.forward(x)); }, h, g);
                                linear.clear_gradients();
                              }},
                             {"layer Snnk 16", [&] {
                                forward_backward([&](const Variable& x) { return snnk.forward(x); }, h, g);
                                snnk.clear_gradients();
                              }}};
  race(layer, rounds);

  Linear output({}, kWidth, 7, generator);
  const Bundle bundle({}, {&snnk, &output});
  std::vector<Case> tail = {{"network relu(Linear), Linear", [&] { output.forward(relu(linear.forward(h))); }},
                            {"network Snnk 16, Linear", [&] { output.forward(snnk.forward(h)); }},
                            {"network bundled", [&] { bundle.forward(h); }}};
  race(tail, rounds);

  TableSplit rows;
  rows.features = normal({20 * kBatch, 54}, generator);
  rows.labels = integers({20 * kBatch}, 0, 7, generator);
  Training plain(rows, {});
  Training with(rows, options);
  std::vector<Case> step = {{"step 54-512-512-7", [&] { plain.step(); }}, {"step with Snnk 16", [&] { with.step(); }}};
  race(step, rounds);

  if (file.empty()) return;
  std::vector<Case> table = {{"table", [&] { read_table(file, {.cache = false}); }},
                             {"table from the cache beside it", [&] { read_table(file); }}};
  race(table, std::min(rounds, 10));
  fmt::print("table: {:.0f} MB/s by least, {} threads\n",
             static_cast<double>(std::filesystem::file_size(file)) / 1e3 / table[0].milliseconds.front(), threads());
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  std::string file;
  int rounds = 200;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help") {
      fmt::print("Usage: snnk [--file TABLE.csv] [rounds]\n");
      return 0;
    }
    if (word == "--file" && i + 1 < argc) {
      file = argv[++i];
    } else if ((rounds = std::atoi(argv[i])) < 1) {
      fmt::print(stderr, "Usage: snnk [--file TABLE.csv] [rounds]\n");
      return 2;
    }
  }
  try {
    bochner::all(rounds, file);
  } catch (const std::exception& error) {
    fmt::print(stderr, "snnk: {}\n", error.what());
    return 1;
  }
  return 0;
}
