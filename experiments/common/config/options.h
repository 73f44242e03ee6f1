// The options that every experiment has. An experiment's config struct holds one RunOptions and sets its defaults and
// the names that --task and --attention may take.
//
//   struct Config {
//     RunOptions run{.task = "text", .attention = "softmax", .steps = 5000, .batch = 32,
//                    .tasks = {"text", "listops"}, .attentions = attention_names()};
//     void fields(Fields& f) { run.fields(f); ... }
//   };
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/common/config/fields.h"

namespace bochner {

/// LoaderOptions::group_by_length when batches hold texts of similar lengths.
inline constexpr int64_t kGroupedBatches = 50;

struct RunOptions {
  std::string task{};
  std::string preset{};
  std::string config{};
  std::string attention = "none";
  int64_t steps = 1000;
  double seconds = 0;
  int64_t batch = 32;
  int64_t accumulate = 1;
  bool group_by_length = false;  ///< this and the next are options of programs that learn texts (length_fields)
  int64_t pad_to_multiple_of = 1;
  int shards = 0;
  int sequence_shards = 1;
  std::string reduce = "exact";
  std::string processes = "auto";
  double process_timeout = 600;
  uint64_t seed = 1;
  int seeds = 1;
  int threads = 0;
  std::string device = "cpu";
  std::string precision = "f32";
  bool debug_sync = false;
  bool graphs = true;
  std::string data = "data";
  std::string out{};
  bool resume = false;
  double checkpoint_every = 0;
  std::string init{};
  std::string evaluate{};
  std::string predict{};
  bool quiet = false;
  std::string log_level = "info";
  bool dump_config = false;
  std::string trace{};
  bool bench = false;
  bool help = false;
  bool version = false;

  // The values that the options above may have, set by the experiment.
  std::vector<std::string> tasks;
  std::vector<std::string> attentions = {"none"};

  void fields(Fields& f);
  /// --group-by-length and --pad-to-multiple-of, for programs whose examples differ in length.
  void length_fields(Fields& f);
  /// kGroupedBatches; 0 if the option is off.
  int64_t batches_grouped_by_length() const { return group_by_length ? kGroupedBatches : 0; }
};

}  // namespace bochner
