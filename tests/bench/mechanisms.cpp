// Time and memory of attention mechanisms as a Markdown table: forward and backward on given Q, K, V.
//
//   mechanisms [NAME ...] [--length 16384] [--heads 8] [--dim 64] [--features 128] [--threads 2]
//
// Without names, it measures linear-elu and all mechanisms that approximate a kernel by random features. "beyond" is
// the peak memory of tensors other than Q, K, V, the output's gradient and the mechanism's own, as a multiple of the
// size of Q, K, V and their three gradients.
#include <fmt/core.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>

#include "engine/allocator.h"
#include "engine/parallel.h"
#include "engine/stopwatch.h"
#include "layers/attention/mechanism.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header
namespace po = boost::program_options;

bool is_random_features(const std::string& name) {
  return name == "linear-elu" || name.starts_with("performer") || name.ends_with("-prf") || name.ends_with("-rks");
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> names;
  int64_t length = 16384;
  int64_t heads = 8;
  int64_t dim = 64;
  int count = 2;
  int64_t features = 128;
  po::options_description described("mechanisms [NAME ...]");
  described.add_options()("help", "this text")                     //
      ("name", po::value(&names), "also without --name")           //
      ("length", po::value(&length)->default_value(length))        //
      ("heads", po::value(&heads)->default_value(heads))           //
      ("dim", po::value(&dim)->default_value(dim))                 //
      ("features", po::value(&features)->default_value(features))  //
      ("threads", po::value(&count)->default_value(count));
  po::positional_options_description places;
  places.add("name", -1);
  po::variables_map given;
  po::store(po::command_line_parser(argc, argv).options(described).positional(places).run(), given);
  if (given.count("help") > 0) {
    fmt::print("tests/bench/mechanisms.cpp says what it prints.\n");
    return 0;
  }
  po::notify(given);
  set_threads(count);
  if (names.empty()) {
    for (const MechanismInfo& info : mechanisms()) {
      if (is_random_features(info.name)) names.push_back(info.name);
    }
  }
  Allocator& allocator = Allocator::of(Device::cpu());
  Generator generator(1);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(normal({1, heads, length, dim}, generator));
  const Tensor dO = normal({1, heads, length, dim}, generator);
  const double unit = 6.0 * static_cast<double>(heads * length * dim) * sizeof(float);
  fmt::print("| mechanism | ms | beyond, MB | multiple |\n|---|---|---|---|\n");
  for (const std::string& name : names) {
    const MechanismOptions options =
        MechanismOptions(name).set_known({{"features", features}}).set_default_length(length);
    const auto mechanism = make_mechanism({}, heads, dim, options, generator);
    double best = 1e30;
    double beyond = 0;
    for (int repeat = 0; repeat < 3; ++repeat) {
      Context context{generator, true};
      const auto held = allocator.stats().current_bytes;
      allocator.reset_peak();
      const Stopwatch watch;
      {
        Tape tape;
        std::vector<Variable> leaves;
        for (const Tensor& x : inputs) leaves.push_back(tape.watch(x));
        const Variable O = mechanism->forward(leaves[0], leaves[1], leaves[2], {}, context);
        const Gradients gradients = tape.gradients({O}, {Variable(dO)}, leaves);
      }
      best = std::min(best, watch.seconds());
      beyond = static_cast<double>(allocator.stats().peak_bytes - held);
    }
    fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} |\n", name, 1e3 * best, beyond / (1 << 20), beyond / unit);
    std::fflush(stdout);
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "mechanisms: {}\n", error.what());
  return 2;
}
