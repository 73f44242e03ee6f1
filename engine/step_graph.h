// A training step as one launch. Called op by op, a card idles between the small ones; a step whose shapes come back is
// recorded instead (stream capture, CUDA graphs) and from then on replayed as a whole. All other steps, and all on the
// CPU, run op by op. Results are the same bytes either way.
//
//   StepGraph graph(device, noise);
//   for (...) {
//     const Batch batch = place.put(loader.next());   // in memory that stays where it is
//     optimizer.prepare(rate);
//     graph.run(batch.ids.shape().str(), [&] { forward, backward, optimizer.apply(); });
//   }
//
// A replay repeats what was done to memory, without the host's code. So what changes from step to step has to lie on
// the device, where the caller puts it before run(): the batch, the optimizer's numbers. The place in the stream of
// `noise` is moved on here. Tensors that outlive a step, parameters and what the step leaves behind, must stay where
// they are; call clear() where they were replaced, and make their tapes within the step: a replay counts no versions
// (Tensor::version). What the step itself makes and frees lies in memory of its own.
//
// The first step of each key runs op by op under observation. It is not recorded, and the next one is observed again,
// where it moved values between host and device, drew random numbers on the host or from another stream, or where
// code in it raised an objection.
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
  enum class Ran : uint8_t { op_by_op, recorded, replayed };

  /// `noise` is the one generator that steps draw from.
  StepGraph(Device device, Generator& noise);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Makes a step. `key` names all that a step's calls depend on and that differs between steps: the shapes. With spans
  /// of ops, work counts, debug-sync or memory guards asked for, every step runs op by op.
  Ran run(const std::string& key, const std::function<void()>& step);
  /// Why the latest step that was observed cannot be recorded; empty where it can.
  const std::string& objection() const { return objection_; }
  /// Forgets all recordings.
  void clear();

  // ---- for code within steps; without effect elsewhere

  /// A replay would not do what this code does.
  static void object(const char* reason);
  /// This code moves `counter`, one i64 of the CPU, on by one, and does something else where it finds `limit` or more:
  /// a replay moves it as often, and the step runs op by op where the counter has come that far.
  static void count(const Tensor& counter, int64_t limit);
  /// For kernels that draw: while a step is recorded, the address on its device of how far the stream of `place` has
  /// moved on at a replay; else null.
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
