// A training step as one launch. When ops are called one by one, a GPU idles between small ones. A step whose shapes
// recur is therefore recorded (stream capture, CUDA graphs) and from then on replayed as a whole. All other steps, and
// all steps on the CPU, run op by op. Results are the same bytes either way.
//
//   StepGraph graph(device, noise);
//   for (...) {
//     const Batch batch = place.put(loader.next());   // in memory that stays where it is
//     optimizer.prepare(rate);
//     graph.run(batch.ids.shape().str(), [&] { forward, backward, optimizer.apply(); });
//   }
//
// A replay repeats what was done to memory, without the host's code. So whatever changes from step to step must be on
// the device, where the caller puts it before run(): the batch and the optimizer's numbers. The StepGraph itself
// advances the place in the stream of `noise`. Tensors that outlive a step, such as parameters, must stay where they
// are; call clear() if they were replaced. Make their tapes within the step, since a replay does not count versions
// (Tensor::version). What the step itself makes and frees has its own memory.
//
// The first step of each key runs op by op and is observed. If it moved values between host and device, drew random
// numbers on the host or from another stream, or if its code raised an objection, it is not recorded, and the next step
// is observed again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/random.h"

namespace bochner {

class StepGraph {
 public:
  /// How a step ran.
  enum class Mode : uint8_t { op_by_op, recorded, replayed };

  /// `noise` is the only generator that steps draw from.
  StepGraph(Device device, Generator& noise);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Runs a step. `key` names everything that differs between steps and changes their calls: the shapes. If spans of
  /// ops, work counts, debug-sync or memory guards are switched on, every step runs op by op.
  Mode run(const std::string& key, const std::function<void()>& step);
  /// Why the last observed step cannot be recorded; empty if it can.
  const std::string& objection() const { return objection_; }
  /// Forgets all recordings.
  void clear();

  // ---- for code within steps; without effect elsewhere

  /// Says that a replay would not do what this code does.
  static void object(const char* reason);
  /// This code adds one to `counter`, one i64 on the CPU, and takes another path once the counter is `limit` or more. A
  /// replay adds the same number, and from the limit on the step runs op by op.
  static void count(const Tensor& counter, int64_t limit);
  /// For kernels that draw random numbers: while a step is recorded, the device address of the number of words by which
  /// a replay advances the stream of `place`; otherwise null.
  static const uint64_t* shift(const Generator& place);

 private:
  struct Counter {
    Tensor counter;
    int64_t limit;
    int64_t times;  ///< in a step

    bool holds() const;
  };
  struct Entry;
  struct Watch;
  class Observation;

  bool may_record() const;
  void record(Entry& entry, const std::function<void()>& step);
  void replay(Entry& entry);
  void make_room();

  static thread_local Watch* watch_;

  Device device_;
  Generator& noise_;
  uint64_t seed_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  std::string objection_;
  uint64_t runs_ = 0;
  Tensor shift_;  ///< one i64 on the device
  int pool_ = 0;  ///< of the device's allocator, shared by all recordings
};

}  // namespace bochner
