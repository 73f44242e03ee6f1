// platform.h implemented by the CUDA runtime.
#include "engine/cuda/parts/platform.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/cuda/parts/check.h"
#include "engine/cuda/parts/stream.h"
#include "engine/cuda/runtime/queue.h"

namespace bochner::cuda {
namespace platform {
namespace {

constexpr int kMost = 64;

/// Copies from the host go through pinned memory and their own stream, so that they run alongside kernels:
/// host -> pinned -> slab on the device (copy stream) -> destination (compute stream).
class Staging {
 public:
  static constexpr size_t kSlab = size_t{4} << 20;

  explicit Staging(cudaStream_t compute) : compute_(compute) {
    check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "stream");
    for (Slab& slab : slabs_) {
      check(cudaMallocHost(&slab.pinned, kSlab), "pinned memory");
      check(cudaMalloc(&slab.memory, kSlab), "staging memory");
      check(cudaEventCreateWithFlags(&slab.arrived, cudaEventDisableTiming), "event");
      check(cudaEventCreateWithFlags(&slab.consumed, cudaEventDisableTiming), "event");
    }
  }

  void upload(const char* from, char* to, size_t bytes) {
    for (size_t done = 0; done < bytes; done += kSlab) {
      const size_t part = std::min(kSlab, bytes - done);
      Slab& slab = slabs_[next_];
      next_ = (next_ + 1) % slabs_.size();
      check(cudaEventSynchronize(slab.consumed), "upload");
      std::memcpy(slab.pinned, from + done, part);
      check(cudaMemcpyAsync(slab.memory, slab.pinned, part, cudaMemcpyHostToDevice, copies_), "upload");
      check(cudaEventRecord(slab.arrived, copies_), "upload");
      check(cudaStreamWaitEvent(compute_, slab.arrived, 0), "upload");
      check(cudaMemcpyAsync(to + done, slab.memory, part, cudaMemcpyDeviceToDevice, compute_), "upload");
      check(cudaEventRecord(slab.consumed, compute_), "upload");
    }
  }

 private:
  struct Slab {
    void* pinned = nullptr;
    void* memory = nullptr;
    cudaEvent_t arrived = nullptr;
    cudaEvent_t consumed = nullptr;
  };
  cudaStream_t compute_;
  cudaStream_t copies_ = nullptr;
  std::array<Slab, 8> slabs_;
  size_t next_ = 0;
};

/// The state of a device in use. It is never destroyed, since the driver may be gone before static objects are.
struct Context {
  std::mutex mutex;
  cudaStream_t stream = nullptr;
  Fault* fault = nullptr;
  std::unique_ptr<Staging> staging;
  size_t shared_limit = 0;
  bool has_bf16 = false;
  bool has_warp_groups = false;
  void* pinned = nullptr;        ///< for downloads
  std::vector<void*> constants;  ///< pinned, belonging to the current recording
  bool recording = false;
};

Context& context() {
  static std::mutex mutex;
  static Context* contexts[kMost] = {};
  const int index = current();
  const std::lock_guard lock(mutex);
  if (contexts[index] == nullptr) {
    auto made = std::make_unique<Context>();
    check(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking), "stream");
    void* fault = nullptr;
    check(cudaMalloc(&fault, sizeof(Fault)), "memory");
    made->fault = static_cast<Fault*>(fault);
    check(cudaMemsetAsync(made->fault, 0, sizeof(Fault), made->stream), "memory");
    int bytes = 0;
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, index), "device");
    made->shared_limit = static_cast<size_t>(bytes);
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), "device");
    made->has_bf16 = major >= 8;
#if defined(BOCHNER_SM90A)
    made->has_warp_groups = major == 9;
#endif
    check(cudaMallocHost(&made->pinned, Staging::kSlab), "pinned memory");
    made->staging = std::make_unique<Staging>(made->stream);
    contexts[index] = made.release();
  }
  return *contexts[index];
}

thread_local int current_device = -1;

/// A CUDA graph of the stream of one device.
class Graph final : public Recording {
 public:
  Graph(cudaGraphExec_t graph, int device, cudaStream_t stream, std::vector<void*> constants)
      : graph_(graph), device_(device), stream_(stream), constants_(std::move(constants)) {}
  ~Graph() override {
    // The next call reports a failure here.
    use(device_);
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaGraphExecDestroy(graph_));
    for (void* one : constants_) static_cast<void>(cudaFreeHost(one));
  }
  void replay() override { check(cudaGraphLaunch(graph_, stream_), "step graph"); }

 private:
  cudaGraphExec_t graph_;
  int device_;
  cudaStream_t stream_;
  std::vector<void*> constants_;
};

}  // namespace

int count(std::string& reason) {
  static const std::pair<int, std::string> found = [] {
    int cards = 0;
    const cudaError_t code = cudaGetDeviceCount(&cards);
    if (code == cudaSuccess && cards > 0) return std::pair(std::min(cards, kMost), std::string());
    static_cast<void>(cudaGetLastError());
    if (code == cudaErrorInsufficientDriver || code == cudaErrorStubLibrary) {
      return std::pair(0, std::string("no driver, or one older than this build's CUDA"));
    }
    if (code == cudaErrorNoDevice || code == cudaSuccess) {
      return std::pair(0, std::string("this machine has no CUDA device"));
    }
    return std::pair(0, fmt::format("the driver says {}: {}", cudaGetErrorName(code), cudaGetErrorString(code)));
  }();
  reason = found.second;
  return found.first;
}

std::string describe() {
  int runtime = 0;
  int driver = 0;
  check(cudaRuntimeGetVersion(&runtime), "device");
  check(cudaDriverGetVersion(&driver), "device");
  std::string text = fmt::format("CUDA {}.{}, driver for {}.{}", runtime / 1000, runtime % 1000 / 10, driver / 1000,
                                 driver % 1000 / 10);
  std::string reason;
  for (int i = 0; i < count(reason); ++i) {
    cudaDeviceProp card{};
    check(cudaGetDeviceProperties(&card, i), "device");
    text += fmt::format(", {} (sm_{}{}, {} GB)", card.name, card.major, card.minor,
                        (card.totalGlobalMem + 500000000) / 1000000000);
  }
  return text;
}

int current() {
  if (current_device < 0) use(0);
  return current_device;
}

void use(int index) {
  if (current_device == index) return;
  check(cudaSetDevice(index), "device");
  current_device = index;
}

void* allocate(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  check(code, "memory");
  return memory;
}

void release(void* pointer) { check(cudaFree(pointer), "memory"); }

Memory memory() {
  Memory result{};
  check(cudaMemGetInfo(&result.free, &result.total), "memory");
  return result;
}

size_t shared_limit() { return context().shared_limit; }

bool has_bf16() { return context().has_bf16; }

bool has_warp_groups() { return context().has_warp_groups; }

void upload(const void* from, void* to, size_t bytes) {
  Context& own = context();
  const std::lock_guard lock(own.mutex);
  own.staging->upload(static_cast<const char*>(from), static_cast<char*>(to), bytes);
}

void upload_constant(const void* from, void* to, size_t bytes) {
  Context& own = context();
  if (!own.recording) return upload(from, to, bytes);
  void* kept = nullptr;
  check(cudaMallocHost(&kept, bytes), "pinned memory");
  own.constants.push_back(kept);
  std::memcpy(kept, from, bytes);
  check(cudaMemcpyAsync(to, kept, bytes, cudaMemcpyHostToDevice, own.stream), "upload");
}

void download(const void* from, void* to, size_t bytes) {
  Context& own = context();
  const std::lock_guard lock(own.mutex);
  for (size_t done = 0; done < bytes; done += Staging::kSlab) {
    const size_t part = std::min(Staging::kSlab, bytes - done);
    check(cudaMemcpyAsync(own.pinned, static_cast<const char*>(from) + done, part, cudaMemcpyDeviceToHost, own.stream),
          "download");
    check(cudaStreamSynchronize(own.stream), "download");
    std::memcpy(static_cast<char*>(to) + done, own.pinned, part);
  }
}

void copy(const void* from, void* to, size_t bytes) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()), "copy");
}

void copy_peer(const void* from, int from_device, void* to, int to_device, size_t bytes) {
  // Each device has its own stream, so this waits for both.
  use(from_device);
  synchronize();
  use(to_device);
  if (bytes > 0) check(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream()), "copy");
  synchronize();
}

void clear(void* to, size_t bytes) { set_bytes(to, 0, bytes); }

void set_bytes(void* to, unsigned char value, size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(to, value, bytes, stream()), "clear");
}

void synchronize() { check(cudaStreamSynchronize(context().stream), "synchronize"); }

void check_launch(const char* op) { check(cudaGetLastError(), op); }

Fault* fault() { return context().fault; }

// Relaxed, since the allocator may request memory from the driver meanwhile.
void begin_recording() {
  Context& own = context();
  check(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeRelaxed), "step graph");
  own.recording = true;
}

std::unique_ptr<Recording> end_recording() {
  Context& own = context();
  own.recording = false;
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(own.stream, &graph), "step graph");
  cudaGraphExec_t ready = nullptr;
  const cudaError_t code = cudaGraphInstantiateWithFlags(&ready, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  check(code, "step graph");
  return std::make_unique<Graph>(ready, current(), own.stream, std::exchange(own.constants, {}));
}

void abandon_recording() noexcept {
  Context& own = context();
  if (own.recording) {
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(own.stream, &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  }
  own.recording = false;
  static_cast<void>(cudaGetLastError());
  for (void* one : std::exchange(own.constants, {})) static_cast<void>(cudaFreeHost(one));
}

bool is_recording() { return context().recording; }

}  // namespace platform

cudaStream_t stream() { return platform::context().stream; }

void* queue(int index) {
  platform::use(index);
  return stream();
}

bool is_idle(int index) {
  platform::use(index);
  const cudaError_t state = cudaStreamQuery(stream());
  if (state == cudaErrorNotReady) return false;
  check(state, "synchronize");
  return true;
}

}  // namespace bochner::cuda
