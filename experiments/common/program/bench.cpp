#include "experiments/common/program/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/allocator.h"
#include "engine/card.h"
#include "engine/cpu/parts/limits.h"
#include "engine/ops/matmul.h"
#include "engine/stopwatch.h"
#include "engine/trace.h"
#include "engine/work.h"

namespace bochner {
namespace {

constexpr int64_t kWarmUp = 3;
constexpr size_t kFewest = 5;
constexpr int64_t kTraced = 5;

/// Runs a step and waits for it.
void make_step(Trainable& model, int64_t step) { model.step(step).loss.item(); }

/// The shortest of some runs of `f` on a GPU, in seconds; the host waits for each.
template <class F>
double shortest(Device device, const F& f) {
  double least = 1e30;
  for (int i = 0; i < 5; ++i) {
    const Stopwatch watch;
    f();
    synchronize(device);
    least = std::min(least, watch.seconds());
  }
  return least;
}

/// The limits of the device: operations of products in this run's precision, and bytes read and written.
void measure_limits(Device device, BenchResult& result) {
  if (device.is_cpu()) {
    result.peak_flops = cpu::product_peak();
    result.bandwidth = cpu::copy_bandwidth();
    return;
  }
  constexpr int64_t n = 8192;  // 256 MiB: more than any cache
  Generator generator(1);
  const Tensor x = uniform({n, n}, generator, -1, 1, DType::f32, device);
  Tensor y = Tensor::empty_like(x);
  result.bandwidth = 8.0 * n * n / shortest(device, [&] { y.copy_(x); });
  result.peak_flops = 2.0 * n * n * n / shortest(device, [&] { matmul(x, x); });
}

}  // namespace

double BenchResult::least_seconds() const { return std::max(flops / peak_flops, bytes / bandwidth); }

BenchResult bench_steps(Trainable& model, Device device, double seconds, Communicator& comm) {
  model.prepare();
  Allocator& allocator = Allocator::of(device);
  allocator.reset_peak();  // of what was timed before, if this is one of several
  BenchResult result;
  int64_t step = 0;
  for (; step < kWarmUp; ++step) make_step(model, step);
  work::start();
  make_step(model, step++);
  const work::Amount amount = work::stop();
  result.flops = amount.flops;
  result.bytes = amount.bytes;

  // On the CPU, spans cost nothing compared with an op; on a GPU they would make all steps run op by op.
  if (device.is_cpu()) trace::start();
  const int64_t allocations = allocator.stats().system_allocations;
  std::vector<double> times;
  const auto goes_on = [&, whole = Stopwatch()] {  // by the clock of the first process
    const bool mine = times.size() < kFewest || whole.seconds() < seconds;
    return comm.broadcast(mine ? "yes" : "no") == "yes";
  };
  for (; goes_on(); ++step) {
    const Stopwatch watch;
    const int64_t before = comm.bytes_sent();
    make_step(model, step);
    times.push_back(watch.seconds());
    result.bytes_sent = comm.bytes_sent() - before;
  }
  std::sort(times.begin(), times.end());
  result.steps = static_cast<int64_t>(times.size());
  result.median_seconds = times[times.size() / 2];
  result.shortest_seconds = times.front();
  result.system_allocations = allocator.stats().system_allocations - allocations;
  result.peak_memory_bytes = allocator.stats().peak_bytes;
  if (!device.is_cpu()) {
    trace::start();
    set_debug_sync(true);
    for (const int64_t end = step + kTraced; step < end; ++step) make_step(model, step);
    set_debug_sync(false);
  }
  trace::stop();
  measure_limits(device, result);
  result.processes = comm.size();
  result.bytes_sent = comm.largest(result.bytes_sent);
  return result;
}

std::string bench_text(const BenchResult& result, Device device) {
  const double least = result.least_seconds();
  return fmt::format(
             "a training step: {:.2f} ms (median of {}; shortest {:.2f} ms), peak memory {:.1f} MiB, {} system "
             "allocations\n"
             "at least {:.2f} ms on this {}: {:.3g} GFLOP at {:.0f} GFLOP/s take {:.2f} ms, {:.3g} GB at {:.1f} "
             "GB/s take {:.2f} ms; the step is at {:.0f} % of this limit\n",
             1e3 * result.median_seconds, result.steps, 1e3 * result.shortest_seconds,
             static_cast<double>(result.peak_memory_bytes) / (1 << 20), result.system_allocations, 1e3 * least,
             device.is_cpu() ? "machine" : "card", 1e-9 * result.flops, 1e-9 * result.peak_flops,
             1e3 * result.flops / result.peak_flops, 1e-9 * result.bytes, 1e-9 * result.bandwidth,
             1e3 * result.bytes / result.bandwidth, 100 * least / result.median_seconds) +
         (result.processes > 1
              ? fmt::format("{} processes; one sends at most {} bytes in a step; the limit is that of its "
                            "own work\n",
                            result.processes, result.bytes_sent)
              : "") +
         (device.is_cpu() ? "" : "each op alone, waited for, which adds to small ones:\n") + trace::table();
}

}  // namespace bochner
