// Kernels as function objects, and teams: the threads that work together on one piece.
//
//   template <class T>
//   struct RowSum {                          // y[row] = sum of row `row` of x
//     int64_t columns; const T* x; T* y;
//     template <class Team>
//     BOCHNER_DEVICE void operator()(const Team& team) const {
//       T sum = 0;
//       for (int64_t i = team.rank(); i < columns; i += team.size()) sum += x[team.index() * columns + i];
//       sum = team.sum(sum);                 // the same in every thread, in a fixed order
//       if (team.rank() == 0) y[team.index()] = sum;
//     }
//   };
//   launch_rows(rows, columns, RowSum<T>{columns, x, y});      // a warp or a block for each row
//
// A team is a block, a warp or, if the backend is emulated on the CPU, the single thread of a loop: so the logic of
// each kernel runs, and is tested, without a card. No result may depend on the number of threads in a team.
#pragma once

#include <cstdint>

#include "engine/cuda/parts/platform.h"
#include "engine/error.h"
#include "engine/math.h"

#if defined(__CUDACC__)
#include "engine/cuda/parts/check.h"
#include "engine/cuda/parts/stream.h"
#define BOCHNER_DEVICE __device__
#else
#include <vector>

#include "engine/parallel.h"
#define BOCHNER_DEVICE
#endif

namespace bochner::cuda {

struct Plus {
  template <class T>
  BOCHNER_DEVICE T operator()(const T& a, const T& b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  BOCHNER_DEVICE T operator()(const T& a, const T& b) const {
    return a > b ? a : b;
  }
};

/// Reports the first fault; later ones are dropped.
BOCHNER_DEVICE inline void raise(Fault* fault, const char* op, int64_t place, int64_t value, int64_t bound) {
#if defined(__CUDACC__)
  if (atomicCAS(&fault->raised, 0, 1) != 0) return;
#else
  if (fault->raised != 0) return;
  fault->raised = 1;
#endif
  fault->op = op;
  fault->place = place;
  fault->value = value;
  fault->bound = bound;
}

#if defined(__CUDACC__)

template <class T, class Op>
__device__ T warp_reduce(T value, const Op& op) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(0xFFFFFFFFU, value, step));
  return value;
}

class WarpTeam {
 public:
  __device__ explicit WarpTeam(int64_t index) : index_(index) {}
  __device__ int64_t index() const { return index_; }
  __device__ int rank() const { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static constexpr int size() { return 32; }
  __device__ void sync() const { __syncwarp(); }
  template <class T, class Op>
  __device__ T reduce(T value, const Op& op) const {
    return warp_reduce(value, op);
  }
  template <class T>
  __device__ T sum(T value) const {
    return reduce(value, Plus{});
  }
  template <class T>
  __device__ T max(T value) const {
    return reduce(value, Larger{});
  }

 private:
  int64_t index_;
};

class BlockTeam {
 public:
  __device__ int64_t index() const { return blockIdx.x; }
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return static_cast<int>(blockDim.x); }
  __device__ void sync() const { __syncthreads(); }
  /// The shared memory that the launch asked for, aligned to 16.
  template <class T>
  __device__ T* shared() const {
    extern __shared__ __align__(16) unsigned char bochner_shared[];
    return reinterpret_cast<T*>(bochner_shared);
  }
  template <class T, class Op>
  __device__ T reduce(T value, const Op& op) const {
    __shared__ T parts[32];
    const int warps = static_cast<int>(blockDim.x) / 32;
    value = warp_reduce(value, op);
    __syncthreads();  // all threads have read the parts of the previous call
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    T total = parts[0];
    for (int i = 1; i < warps; ++i) total = op(total, parts[i]);
    return total;
  }
  template <class T>
  __device__ T sum(T value) const {
    return reduce(value, Plus{});
  }
  template <class T>
  __device__ T max(T value) const {
    return reduce(value, Larger{});
  }
};

template <class F>
__global__ void run_threads(const F f, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) f(i);
}
template <class F>
__global__ void run_warps(const F f, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (i < count) f(WarpTeam(i));
}
/// For how many blocks a multiprocessor must have enough registers: F::kResident, if a kernel defines it.
template <class F>
constexpr int resident_blocks() {
  if constexpr (requires { F::kResident; }) {
    return F::kResident;
  } else {
    return 1;
  }
}
template <class F, int threads>
__global__ void __launch_bounds__(threads, resident_blocks<F>()) run_blocks(const F f) {
  f(BlockTeam());
}

/// f(i) for i in [0, count), one thread each.
template <class F>
void launch_threads(int64_t count, const F& f) {
  constexpr int kThreads = 256;
  if (count > 0) {
    run_threads<<<static_cast<unsigned>(ceil_div(count, kThreads)), kThreads, 0, stream()>>>(f, count);
  }
}
/// f(team) with team.index() in [0, count), one warp each.
template <class F>
void launch_warps(int64_t count, const F& f) {
  constexpr int kThreads = 128;
  if (count > 0) run_warps<<<static_cast<unsigned>(ceil_div(count, 4)), kThreads, 0, stream()>>>(f, count);
}
/// f(team) with team.index() in [0, count), one block of `threads` each, with the given number of bytes of shared
/// memory.
template <int threads, class F>
void launch_blocks(int64_t count, size_t shared, const F& f) {
  if (count == 0) return;
  if (shared > (size_t{48} << 10)) {
    check(cudaFuncSetAttribute(run_blocks<F, threads>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)),
          "shared memory of a block");
  }
  run_blocks<F, threads><<<static_cast<unsigned>(count), threads, shared, stream()>>>(f);
}

#else

class HostTeam {
 public:
  HostTeam(int64_t index, void* shared) : index_(index), shared_(shared) {}
  int64_t index() const { return index_; }
  static constexpr int rank() { return 0; }
  static constexpr int size() { return 1; }
  void sync() const {}
  template <class T>
  T* shared() const {
    return static_cast<T*>(shared_);
  }
  template <class T, class Op>
  T reduce(T value, const Op&) const {
    return value;
  }
  template <class T>
  T sum(T value) const {
    return value;
  }
  template <class T>
  T max(T value) const {
    return value;
  }

 private:
  int64_t index_;
  void* shared_;
};

/// Runs the work of a device immediately, or keeps it while a step is recorded.
template <class Work>
void submit(const Work& work) {
#if defined(BOCHNER_CUDA_EMULATED)
  platform::submit(work);
#else
  work();  // for tests of tiles, in builds without an emulated device
#endif
}

template <class F>
void launch_threads(int64_t count, const F& f) {
  submit([=] {
    parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i);
    });
  });
}
template <class F>
void launch_warps(int64_t count, const F& f) {
  submit([=] {
    parallel_for(count, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(HostTeam(i, nullptr));
    });
  });
}
template <int threads, class F>
void launch_blocks(int64_t count, size_t shared, const F& f) {
  BOCHNER_ASSERT(shared <= platform::shared_limit());
  submit([=] {
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      // A new block of exactly that size, full of NaN, so that a sanitizer or the result reveals a wrong access.
      for (int64_t i = begin; i < end; ++i) {
        std::vector<uint64_t> memory(ceil_div(shared, 8), ~uint64_t{0});
        f(HostTeam(i, memory.data()));
      }
    });
  });
}

#endif

/// One row of `columns` elements per team: warps for short rows, blocks for long ones. Without shared memory.
template <class F>
void launch_rows(int64_t rows, int64_t columns, const F& f) {
  if (columns <= 1024) {
    launch_warps(rows, f);
  } else {
    launch_blocks<256>(rows, 0, f);
  }
}

}  // namespace bochner::cuda
