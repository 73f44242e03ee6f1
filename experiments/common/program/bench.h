// Times training steps and compares them with the least time that they could take on this CPU or card, for `--bench` of
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
  double peak_flops = 0, bandwidth = 0;  ///< per second, measured beside the steps
  int64_t peak_memory_bytes = 0;         ///< of the device that trains
  int64_t system_allocations = 0;        ///< during the timed steps
  int processes = 1;
  int64_t bytes_sent = 0;  ///< in a step, by the process that sends most

  /// The least time of a step: the longer one of its arithmetic and its memory traffic, each at the machine's limit.
  double least_seconds() const;
};

/// Runs some steps of a model on `device` to warm up, then as many as fit into about `seconds`, at least 5. They change
/// the model. All processes that train it must call it; the times are those of the first one. On a card these steps are
/// replayed where they can be, and the table of ops is of a few more, which wait for each op.
BenchResult bench_steps(Trainable& model, Device device = Device::cpu(), double seconds = 5,
                        Communicator& comm = alone());

/// The result in words, with the share of time of each op.
std::string bench_text(const BenchResult& result, Device device = Device::cpu());

}  // namespace bochner
