// What the backend needs of a driver: memory, copies, a stream. There are two: device/ (the CUDA runtime) and emulated/
// (plain memory and loops of the CPU, for tests without a card). All functions work on the current device of the thread
// unless they take an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace bochner::cuda {

/// The one kind of error that a kernel can report: an index or label out of range. It is in device memory.
struct Fault {
  int32_t raised = 0;
  const char* op = nullptr;  ///< a literal of the host, passed to the kernels
  int64_t place = 0, value = 0, bound = 0;
};

/// The recorded work of a device, which can be replayed as a whole. Its destructor waits for the device.
class Recording {
 public:
  virtual ~Recording() = default;
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual void replay() = 0;
};

namespace platform {

/// The number of devices, and the reason if there is none.
int count(std::string& reason);
std::string describe();

int current();
void use(int index);

/// Null if there is not enough memory.
void* allocate(size_t bytes);
void release(void* pointer);
struct Memory {
  size_t free, total;
};
Memory memory();

/// Bytes of shared memory that one block may have.
size_t shared_limit();
/// Whether there are tensor cores that multiply bf16 (sm_80 and later).
bool has_bf16();
/// Whether the kernels may let four warps multiply together (parts/warp_group.h): they were built for sm_90a, and run
/// on it.
bool has_warp_groups();

/// In stream order; from and to are plain host memory. `upload` has read `from` when it returns; `download` waits.
void upload(const void* from, void* to, size_t bytes);
/// Like upload. While recording, it becomes part of the record, with the current bytes.
void upload_constant(const void* from, void* to, size_t bytes);
void download(const void* from, void* to, size_t bytes);
void copy(const void* from, void* to, size_t bytes);
void copy_peer(const void* from, int from_device, void* to, int to_device, size_t bytes);
void clear(void* to, size_t bytes);
void set_bytes(void* to, unsigned char value, size_t bytes);
/// Waits for the current device.
void synchronize();
/// An Error in the name of `op` if a launch or an earlier kernel has failed.
void check_launch(const char* op);

/// Where kernels of the current device report faults.
Fault* fault();

/// From here to end_recording(), kernels, copies within the device and clear() are recorded instead of run; waiting,
/// uploading and downloading are not allowed. One device at a time.
void begin_recording();
std::unique_ptr<Recording> end_recording();
/// Ends a failed recording, if there is one.
void abandon_recording() noexcept;
bool is_recording();

#if defined(BOCHNER_CUDA_EMULATED)
/// Runs the work of a device immediately, or keeps it while recording.
void submit(std::function<void()> work);
#endif

}  // namespace platform
}  // namespace bochner::cuda
