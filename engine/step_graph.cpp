#include "engine/step_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/precision.h"
#include "engine/trace.h"
#include "engine/work.h"
#if defined(BOCHNER_CUDA)
#include "engine/cuda/parts/platform.h"
#include "engine/cuda/runtime/runtime.h"
#endif

namespace bochner {

/// What is observed of a step on this thread.
struct StepGraph::Watch {
  uint64_t seed;
  const uint64_t* shift = nullptr;  ///< while recording
  std::string objection{};
  std::vector<Counter> counters{};
};

/// Makes a watch the current one.
class StepGraph::Observation {
 public:
  explicit Observation(Watch& watch) : before_(std::exchange(watch_, &watch)) {}
  ~Observation() { watch_ = before_; }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  Watch* before_;
};

thread_local StepGraph::Watch* StepGraph::watch_ = nullptr;

bool StepGraph::Counter::holds() const { return *counter.data<int64_t>() + times - 1 < limit; }

void StepGraph::object(const char* reason) {
  if (watch_ == nullptr) return;
  if (watch_->shift != nullptr) fail("step graph: a step that could be recorded before now {}", reason);
  if (watch_->objection.empty()) watch_->objection = reason;
}

void StepGraph::count(const Tensor& counter, int64_t limit) {
  if (watch_ == nullptr) return;
  for (Counter& one : watch_->counters) {
    if (!one.counter.shares_storage(counter)) continue;
    ++one.times;
    one.limit = std::min(one.limit, limit);
    return;
  }
  watch_->counters.push_back({counter, limit, 1});
}

const uint64_t* StepGraph::shift(const Generator& place) {
  if (watch_ == nullptr) return nullptr;
  if (place.seed() != watch_->seed) object("draws random numbers of another stream");
  return watch_->shift;
}

#if defined(BOCHNER_CUDA)

namespace {

constexpr size_t kMostRecordings = 64;

}  // namespace

/// The steps of one key.
struct StepGraph::Entry {
  std::unique_ptr<cuda::Recording> recording{};
  bool can_be_recorded = false;
  std::vector<Counter> counters{};
  uint64_t begin = 0, words = 0;  ///< of the stream, when it was recorded
  uint64_t latest = 0;            ///< index of its latest run

  bool holds() const {
    return std::all_of(counters.begin(), counters.end(), [](const Counter& one) { return one.holds(); });
  }
};

bool StepGraph::may_record() const {
  return device_.is_cuda() && !trace::detail::recording && !work::is_counted() && !cuda::debug_sync() &&
         !cuda::guards() && watch_ == nullptr;
}

StepGraph::Mode StepGraph::run(const std::string& key, const std::function<void()>& step) {
  if (!may_record()) {
    step();
    return Mode::op_by_op;
  }
  if (noise_.seed() != seed_) clear();
  seed_ = noise_.seed();
  std::unique_ptr<Entry>& found = entries_[key + "/" + std::to_string(static_cast<int>(precision()))];
  if (found == nullptr) found = std::make_unique<Entry>();
  Entry& entry = *found;
  entry.latest = ++runs_;
  if (entry.recording != nullptr && entry.holds()) {
    replay(entry);
    return Mode::replayed;
  }
  if (entry.recording == nullptr && entry.can_be_recorded && entry.holds()) {
    record(entry, step);
    return Mode::recorded;
  }
  Watch watch{seed_};
  {
    const Observation observation(watch);
    step();
  }
  objection_ = watch.objection;
  if (entry.recording == nullptr) {
    entry.can_be_recorded = objection_.empty();
    entry.counters = std::move(watch.counters);
  }
  return Mode::op_by_op;
}

void StepGraph::record(Entry& entry, const std::function<void()>& step) {
  make_room();
  if (!shift_.defined()) shift_ = Tensor::empty({1}, DType::i64, device_);
  if (pool_ == 0) pool_ = cuda::make_pool(device_.index);
  Watch watch{seed_, reinterpret_cast<const uint64_t*>(shift_.data<int64_t>())};
  entry.begin = noise_.offset();
  cuda::begin(device_.index);
  cuda::use_pool(device_.index, pool_);
  try {
    const Observation observation(watch);
    cuda::platform::begin_recording();
    step();
    entry.recording = cuda::platform::end_recording();
  } catch (...) {
    entry.can_be_recorded = false;
    cuda::platform::abandon_recording();
    cuda::use_pool(device_.index, 0);
    throw;
  }
  cuda::use_pool(device_.index, 0);
  entry.words = noise_.offset() - entry.begin;
  entry.counters = std::move(watch.counters);
  shift_.fill_(0);  // the code of the step has advanced everything else
  entry.recording->replay();
}

void StepGraph::replay(Entry& entry) {
  shift_.copy_(Tensor::from<int64_t>({static_cast<int64_t>(noise_.offset() - entry.begin)}, {1}));
  cuda::begin(device_.index);
  entry.recording->replay();
  cuda::end("step graph");
  noise_.set_offset(noise_.offset() + entry.words);
  for (const Counter& one : entry.counters) *one.counter.data<int64_t>() += one.times;
}

void StepGraph::make_room() {
  std::map<uint64_t, Entry*> by_age;
  for (auto& [key, entry] : entries_) {
    if (entry->recording != nullptr) by_age[entry->latest] = entry.get();
  }
  if (by_age.size() >= kMostRecordings) by_age.begin()->second->recording.reset();
}

void StepGraph::clear() {
  entries_.clear();
  if (pool_ != 0) cuda::drop_pool(device_.index, std::exchange(pool_, 0));
}

#else

struct StepGraph::Entry {};

StepGraph::Mode StepGraph::run(const std::string&, const std::function<void()>& step) {
  step();
  return Mode::op_by_op;
}

void StepGraph::clear() {}

#endif

StepGraph::StepGraph(Device device, Generator& noise) : device_(device), noise_(noise), seed_(noise.seed()) {}

StepGraph::~StepGraph() { clear(); }

}  // namespace bochner
