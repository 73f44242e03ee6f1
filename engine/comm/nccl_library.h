// The NCCL functions in use, looked up by name when the first of them is needed. Names, types and numbers are those of
// its public header, nccl.h, of version 2.7 and all later ones.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace bochner::nccl {

struct UniqueId {
  std::array<char, 128> bytes;
};
using Comm = struct ncclComm*;
using Stream = void*;  ///< cudaStream_t
/// A C enum, like all that follow.
using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kInProgress = 7;
inline constexpr int kBytes = 1;    ///< ncclUint8
inline constexpr int kFloat32 = 7;  ///< ncclFloat32
inline constexpr int kSum = 0;      ///< ncclSum

struct Library {
  Result (*get_version)(int* version);
  Result (*get_unique_id)(UniqueId* id);
  Result (*init_rank)(Comm* comm, int ranks, UniqueId id, int rank);
  Result (*destroy)(Comm comm);
  Result (*abort)(Comm comm);
  Result (*get_async_error)(Comm comm, Result* error);
  const char* (*error_text)(Result result);
  Result (*group_start)();
  Result (*group_end)();
  Result (*send)(const void* from, size_t count, int type, int to_rank, Comm comm, Stream stream);
  Result (*receive)(void* to, size_t count, int type, int from_rank, Comm comm, Stream stream);
  Result (*all_reduce)(const void* from, void* to, size_t count, int type, int op, Comm comm, Stream stream);

  /// 22105 of 2.21.5
  int code() const;
  /// `2.21.5`
  std::string version() const;
  /// An Error in the name of `what` unless the result is kSuccess.
  void check(Result result, const char* what) const;
};

/// An Error says where the library was looked for, and what to do.
const Library& library();

}  // namespace bochner::nccl
