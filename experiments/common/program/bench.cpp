#include "experiments/common/program/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "engine/allocator.h"
#include "engine/cpu/parts/limits.h"
#include "engine/precision.h"
#include "engine/trace.h"
#include "engine/work.h"

namespace bochner {
namespace {

constexpr int64_t kWarmUp = 3;
constexpr size_t kFewest = 5;

/// Runs a step and waits for it.
void make_step(Trainable& model, int64_t step) { model.step(step).loss.item(); }

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

double BenchResult::least_seconds() const { return std::max(flops / peak_flops, bytes / bandwidth); }

BenchResult bench_steps(Trainable& model, double seconds, Communicator& comm) {
  Allocator& allocator = Allocator::of(Device::cpu());
  int64_t step = 0;
  for (; step < kWarmUp; ++step) make_step(model, step);
  work::start();
  make_step(model, step++);
  const work::Amount amount = work::stop();

  const int64_t allocations = allocator.stats().system_allocations;
  std::vector<double> times;
  trace::start();
  int64_t sent = 0;
  const auto goes_on = [&, begin = seconds_now()] {  // by the clock of the first process
    const bool mine = times.size() < kFewest || seconds_now() - begin < seconds;
    return comm.broadcast(mine ? "yes" : "no") == "yes";
  };
  for (; goes_on(); ++step) {
    const double start = seconds_now();
    const int64_t before = comm.bytes_sent();
    make_step(model, step);
    times.push_back(seconds_now() - start);
    sent = comm.bytes_sent() - before;
  }
  trace::stop();
  std::sort(times.begin(), times.end());
  return {.steps = static_cast<int64_t>(times.size()),
          .median_seconds = times[times.size() / 2],
          .shortest_seconds = times.front(),
          .flops = amount.flops,
          .bytes = amount.bytes,
          .peak_flops = precision() == Precision::bf16 ? cpu::bf16_product_peak() : cpu::multiply_add_peak(),
          .bandwidth = cpu::copy_bandwidth(),
          .peak_memory_bytes = allocator.stats().peak_bytes,
          .system_allocations = allocator.stats().system_allocations - allocations,
          .processes = comm.size(),
          .bytes_sent = comm.largest(sent)};
}

std::string bench_text(const BenchResult& result) {
  const double least = result.least_seconds();
  return fmt::format(
             "a training step: {:.2f} ms (median of {}; shortest {:.2f} ms), peak memory {:.1f} MB, {} system "
             "allocations\n"
             "at least {:.2f} ms on this machine: {:.3g} GFLOP at {:.0f} GFLOP/s take {:.2f} ms, {:.3g} GB at {:.1f} "
             "GB/s take {:.2f} ms; the step is at {:.0f} % of this limit\n",
             1e3 * result.median_seconds, result.steps, 1e3 * result.shortest_seconds,
             static_cast<double>(result.peak_memory_bytes) / (1 << 20), result.system_allocations, 1e3 * least,
             1e-9 * result.flops, 1e-9 * result.peak_flops, 1e3 * result.flops / result.peak_flops, 1e-9 * result.bytes,
             1e-9 * result.bandwidth, 1e3 * result.bytes / result.bandwidth, 100 * least / result.median_seconds) +
         (result.processes > 1
              ? fmt::format("{} processes; one sends at most {} bytes in a step; the limit is that of its "
                            "own work\n",
                            result.processes, result.bytes_sent)
              : "") +
         trace::table();
}

}  // namespace bochner
