// Times training steps and compares them with the least time that they could take on this CPU or GPU, for `--bench` of
// every experiment.
#pragma once

#include <string>

#include "engine/device.h"
#include "experiments/common/run/trainer.h"

namespace bochner {

struct BenchResult {
  int64_t steps = 0;
  double median_seconds = 0, shortest_seconds = 0;
  double flops = 0, bytes = 0;           ///< of a step, counted by engine/work.h
  double peak_flops = 0, bandwidth = 0;  ///< per second, measured along with the steps
  int64_t peak_memory_bytes = 0;         ///< of the device that trains
  int64_t system_allocations = 0;        ///< during the timed steps
  int processes = 1;
  int64_t bytes_sent = 0;  ///< in a step, by the process that sends the most

  /// The least time of a step: the longer of its arithmetic and its memory traffic, each at the machine's limit.
  double least_seconds() const;
};

/// Runs some steps of a model on `device` to warm up, then as many as fit into about `seconds`, at least 5. They change
/// the model. All processes that train it must call this; the times are those of the first process. On a GPU, these
/// steps are replayed where possible, and the table of ops comes from a few more steps, which wait for each op.
BenchResult bench_steps(Trainable& model, Device device = Device::cpu(), double seconds = 5,
                        Communicator& comm = alone());

/// The result in words, with each op's share of the time.
std::string bench_text(const BenchResult& result, Device device = Device::cpu());

}  // namespace bochner
