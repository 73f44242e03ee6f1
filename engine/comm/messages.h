// Tensors as messages between processes. They are contiguous and on the CPU, or on a GPU if the Communicator transfers
// GPU memory; a tensor without elements is not sent at all.
#pragma once

#include "engine/comm/communicator.h"
#include "engine/tensor.h"

namespace bochner {

inline std::span<std::byte> message_of(const Tensor& x) {
  return {static_cast<std::byte*>(x.raw()), static_cast<size_t>(x.size()) * size_of(x.dtype())};
}

inline void send_to(Communicator& comm, int rank, const Tensor& x) {
  if (x.size() > 0) comm.exchange({{rank, message_of(x)}}, {});
}

/// Receives into x, which must have the shape and type of what is sent.
inline void receive_from(Communicator& comm, int rank, const Tensor& x) {
  if (x.size() > 0) comm.exchange({}, {{rank, message_of(x)}});
}

}  // namespace bochner
