#include "engine/parallel.h"

#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/error.h"

namespace bochner {
namespace {

/// How often a thread looks for work before it sleeps. This takes up to 100 microseconds, longer than most serial parts
/// between two loops of a training step.
constexpr int kLooks = 2000;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// A function of OpenMP, which OpenBLAS may have loaded into this process.
template <class Function>
Function* openmp(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// If OMP_PROC_BIND or OMP_PLACES is set, OpenMP binds the first thread to the first of its places before main begins,
/// and every thread that it starts would stay there too. Lets the calling thread run on all places.
void leave_place() {
  const auto count_of = openmp<int()>("omp_get_num_places");
  const auto size_of = openmp<int(int)>("omp_get_place_num_procs");
  const auto read = openmp<void(int, int*)>("omp_get_place_proc_ids");
  if (count_of == nullptr || size_of == nullptr || read == nullptr || count_of() == 0) return;
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int place = 0; place < count_of(); ++place) {
    std::vector<int> numbers(static_cast<size_t>(size_of(place)));
    read(place, numbers.data());
    for (const int core : numbers) CPU_SET(static_cast<size_t>(core), &all);
  }
  sched_setaffinity(0, sizeof all, &all);
}

int cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int threads_at_first() {
  leave_place();
  int count = 0;
  if (const char* wanted = std::getenv("OMP_NUM_THREADS")) std::from_chars(wanted, wanted + std::strlen(wanted), count);
  return count > 0 ? count : cores();
}

int& team_size() {
  static int count = threads_at_first();
  return count;
}

thread_local bool inside_piece = false;

/// One loop: threads take the next piece until there are none left.
class Work {
 public:
  Work(int64_t pieces, int helpers, void (*body)(const void*, int64_t), const void* context)
      : pieces_(pieces), helpers_(helpers), body_(body), context_(context) {}

  bool wants(int helper) const { return helper < helpers_; }

  void take_part() {
    inside_piece = true;
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < pieces_;) {
      try {
        body_(context_, i);
      } catch (...) {
        const std::lock_guard lock(failing_);
        if (!failure_) failure_ = std::current_exception();
      }
    }
    inside_piece = false;
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const int64_t pieces_;
  const int helpers_;
  void (*const body_)(const void*, int64_t);
  const void* const context_;
  alignas(64) std::atomic<int64_t> next_{0};
  std::mutex failing_;
  std::exception_ptr failure_;
};

/// The threads besides the caller. A helper announces itself in `inside_` before it reads `work_`, and the caller
/// clears `work_` before it reads `inside_`: so either the helper sees that the loop is over, or the caller waits for
/// it. Helpers sleep until the process ends, and a Team is never destroyed: after a fork there are no threads to join.
class Team {
 public:
  /// Returns false without running if another thread of this program is in a loop.
  bool try_run(Work& work, int helpers) {
    const std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn) return false;
    for (; helpers_ < helpers; ++helpers_) std::thread([this, index = helpers_] { help(index); }).detach();
    work_.store(&work);
    round_.fetch_add(1);
    round_.notify_all();
    work.take_part();
    work_.store(nullptr);
    for (int looks = 0; inside_.load() != 0; ++looks) {
      if (looks < kLooks) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
    return true;
  }

 private:
  void help(int index) {
    for (uint32_t seen = 0;;) {
      inside_.fetch_add(1);
      Work* const work = work_.load();
      if (work != nullptr && work->wants(index)) work->take_part();
      inside_.fetch_sub(1);
      seen = next_round(seen);
    }
  }

  /// Waits until the round is no longer `seen`, and returns it.
  uint32_t next_round(uint32_t seen) {
    for (int looks = 0; looks < kLooks; ++looks) {
      if (const uint32_t now = round_.load(); now != seen) return now;
      pause();
    }
    round_.wait(seen);
    return round_.load();
  }

  std::mutex turn_;
  std::atomic<Work*> work_{nullptr};
  alignas(64) std::atomic<uint32_t> round_{0};
  alignas(64) std::atomic<int> inside_{0};
  int helpers_ = 0;
};
static_assert(std::is_trivially_destructible_v<Team>);

}  // namespace

int threads() { return team_size(); }

void set_threads(int count) {
  if (count < 0) fail("threads: {} is negative; 0 chooses one per core", count);
  int& size = team_size();  // first, as it frees this thread for all cores
  size = count == 0 ? cores() : count;
}

void parallel::run(int64_t pieces, void (*body)(const void* context, int64_t piece), const void* context) {
  const int helpers = static_cast<int>(std::min<int64_t>(pieces, threads())) - 1;
  if (helpers > 0 && !inside_piece) {
    static Team team;
    Work work(pieces, helpers, body, context);
    if (team.try_run(work, helpers)) return work.rethrow();
  }
  for (int64_t i = 0; i < pieces; ++i) body(context, i);
}

}  // namespace bochner
