// NCCL: GPUs send to each other from the memory of one to that of another, not through CPU memory. The library is
// NVIDIA's libnccl.so.2. It is looked up when a program asks for it, so no build needs it; BOCHNER_NCCL names another
// file.
//
//   comm.set_for_cards(nccl_communicator(comm, Device::cuda(0)));  // in each process, which comm has introduced
//   comm.for_cards()->exchange(...)                                // of bytes in the memory of this process's card
#pragma once

#include <memory>
#include <string>

#include "engine/comm/communicator.h"
#include "engine/device.h"

namespace bochner {

/// `2.21.5`, or `no: ` and the reason.
std::string nccl_version();

/// An Error that says what to do if there is no such library.
void require_nccl();

/// Whether several processes may use one GPU: with NCCL 2.30 or later, if NCCL_MULTI_RANK_GPU_ENABLE is 1.
bool nccl_shares_cards();

/// The same processes as `by`, each with its own `card`; all of them must call it. An Error if NCCL fails to start.
///
/// Transfers are queued with the GPU's work in the order in which they are begun. Channels make no difference, so all
/// processes must begin transfers in the same order. test() is true at once, as later work on the GPU finds the bytes.
/// wait() waits for the GPU. NCCL does not say which process is silent, so an Error after timeout() seconds names all
/// others, and nothing can be sent after it.
std::unique_ptr<Communicator> nccl_communicator(Communicator& by, Device card);

}  // namespace bochner
