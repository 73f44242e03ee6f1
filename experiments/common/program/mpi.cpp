#include "experiments/common/program/mpi.h"

#include <cstdlib>

#include "engine/error.h"

#ifdef BOCHNER_MPI
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <thread>
#endif

namespace bochner {

bool started_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

#ifndef BOCHNER_MPI

std::string mpi_version() { return "no: it was not found when this was built (Debian: libopenmpi-dev, openmpi-bin)"; }

std::unique_ptr<Communicator> mpi_communicator() {
  fail("MPI: this build has none; install libopenmpi-dev and openmpi-bin and build again, or start one process");
}

#else

namespace {

/// MPI counts in int, so larger messages go in pieces.
constexpr size_t kPiece = size_t{1} << 30;
/// How long a waiting process asks again at once, before it begins to sleep between questions.
constexpr auto kEager = std::chrono::milliseconds(2);
constexpr auto kNap = std::chrono::microseconds(100);

/// While it exists, this thread takes no signals: MPI reads from the memory of other processes (process_vm_readv),
/// which was seen to fail with EFAULT when a signal came meanwhile.
class Undisturbed {
 public:
  Undisturbed() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~Undisturbed() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  sigset_t before_{};
};

class Mpi final : public Communicator {
 public:
  static std::unique_ptr<Mpi> start() {
    int there = 0;
    MPI_Initialized(&there);
    BOCHNER_ASSERT(there == 0);
    int given = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS) fail("MPI: it cannot begin");
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return std::make_unique<Mpi>(rank, size);
  }
  Mpi(int rank, int size) : Communicator(rank, size) {}
  ~Mpi() override { MPI_Finalize(); }

  std::string name() const override { return "MPI"; }

  void sum_in_any_order(std::span<float> values) override {
    for (size_t begin = 0; begin < values.size(); begin += kPiece / sizeof(float)) {
      const size_t count = std::min(values.size() - begin, kPiece / sizeof(float));
      MPI_Request request = MPI_REQUEST_NULL;
      const Undisturbed now;
      MPI_Iallreduce(MPI_IN_PLACE, &values[begin], static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                     &request);
      std::vector<int> others;
      for (int r = 0; r < size(); ++r) {
        if (r != rank()) others.push_back(r);
      }
      std::vector<MPI_Request> requests = {request};
      wait(requests, {}, others);
    }
    // What a ring of processes sends; the library does not tell.
    count_sent(static_cast<int64_t>(values.size_bytes()) * 2 * (size() - 1) / size());
  }

 protected:
  void transport(const std::vector<Outgoing>& out, const std::vector<Incoming>& in) override {
    std::vector<MPI_Request> requests;
    std::vector<int> ranks;
    begin(out, in, requests, ranks);
    wait(requests, ranks, {});
  }

 private:
  static void begin(const std::vector<Outgoing>& out, const std::vector<Incoming>& in,
                    std::vector<MPI_Request>& requests, std::vector<int>& ranks) {
    const Undisturbed now;
    const auto in_pieces = [&](int rank, size_t size, const auto& start) {
      for (size_t at = 0; at < size; at += kPiece) {
        requests.push_back(MPI_REQUEST_NULL);
        ranks.push_back(rank);
        start(at, static_cast<int>(std::min(kPiece, size - at)), &requests.back());
      }
    };
    for (const Incoming& one : in) {
      in_pieces(one.from, one.bytes.size(), [&](size_t at, int count, MPI_Request* request) {
        MPI_Irecv(&one.bytes[at], count, MPI_BYTE, one.from, 0, MPI_COMM_WORLD, request);
      });
    }
    for (const Outgoing& one : out) {
      in_pieces(one.to, one.bytes.size(), [&](size_t at, int count, MPI_Request* request) {
        MPI_Isend(&one.bytes[at], count, MPI_BYTE, one.to, 0, MPI_COMM_WORLD, request);
      });
    }
  }

  /// Until all are done. On a busy machine, a process that waits leaves its core to those that compute.
  void wait(std::vector<MPI_Request>& requests, const std::vector<int>& ranks, std::vector<int> silent) const {
    const auto began = std::chrono::steady_clock::now();
    for (int done = 0;;) {
      {
        const Undisturbed now;
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
      }
      if (done != 0) return;
      const auto waited = std::chrono::steady_clock::now() - began;
      if (waited < kEager) {
        std::this_thread::yield();
        continue;
      }
      if (std::chrono::duration<double>(waited).count() > timeout()) break;
      std::this_thread::sleep_for(kNap);
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      int done = 0;
      MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
      if (done == 0 && std::find(silent.begin(), silent.end(), ranks[i]) == silent.end()) silent.push_back(ranks[i]);
    }
    if (!silent.empty()) fail_silent(silent);  // otherwise the last ones were done just now
  }
};

}  // namespace

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<size_t>(length));
  return all.substr(0, all.find(','));
}

std::unique_ptr<Communicator> mpi_communicator() { return Mpi::start(); }

#endif

}  // namespace bochner
