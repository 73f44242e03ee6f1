#include "experiments/common/process/mpi.h"

#include <cstdlib>

#include "engine/comm/silence.h"
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

/// MPI counts in int, so larger messages are sent in pieces.
constexpr size_t kPiece = size_t{1} << 30;
/// How long a waiting process polls without pause, before it begins to sleep between polls.
constexpr double kEager = 0.002;
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

  std::unique_ptr<Transfer> begin_sum_in_any_order(std::span<float> values) override {
    auto requests = std::make_unique<Requests>(*this);
    for (size_t begin = 0; begin < values.size(); begin += kPiece / sizeof(float)) {
      const size_t count = std::min(values.size() - begin, kPiece / sizeof(float));
      const Undisturbed now;
      MPI_Iallreduce(MPI_IN_PLACE, &values[begin], static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                     requests->add(kAll));
    }
    // What a ring of processes sends; the library does not report it.
    count_sent(static_cast<int64_t>(values.size_bytes()) * 2 * (size() - 1) / size());
    return requests;
  }

 protected:
  std::unique_ptr<Transfer> transport(const std::vector<Outgoing>& out, const std::vector<Incoming>& in,
                                      int channel) override {
    auto requests = std::make_unique<Requests>(*this);
    const Undisturbed now;
    const auto in_pieces = [&](int rank, size_t size, const auto& start) {
      for (size_t at = 0; at < size; at += kPiece) {
        start(at, static_cast<int>(std::min(kPiece, size - at)), requests->add(rank));
      }
    };
    for (const Incoming& one : in) {
      in_pieces(one.from, one.bytes.size(), [&](size_t at, int count, MPI_Request* request) {
        MPI_Irecv(&one.bytes[at], count, MPI_BYTE, one.from, channel, MPI_COMM_WORLD, request);
      });
    }
    for (const Outgoing& one : out) {
      in_pieces(one.to, one.bytes.size(), [&](size_t at, int count, MPI_Request* request) {
        MPI_Isend(&one.bytes[at], count, MPI_BYTE, one.to, channel, MPI_COMM_WORLD, request);
      });
    }
    return requests;
  }

 private:
  /// In place of a rank: all other processes.
  static constexpr int kAll = -1;

  /// MPI has no thread of its own: a transfer makes progress only while this process polls it.
  class Requests final : public Transfer {
   public:
    explicit Requests(const Mpi& comm) : comm_(comm) {}

    /// The slot for one more request, which `rank` must answer; valid until the next one is added.
    MPI_Request* add(int rank) {
      ranks_.push_back(rank);
      requests_.push_back(MPI_REQUEST_NULL);
      return &requests_.back();
    }

    bool test() override {
      int done = 0;
      const Undisturbed now;
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
      return done != 0;
    }

    /// On a busy machine, a waiting process leaves its core to those that compute.
    void wait() override {
      Waiting waiting;
      while (!test()) {
        const double waited = waiting.seconds();
        if (waited < kEager) {
          std::this_thread::yield();
          continue;
        }
        if (waited > comm_.timeout()) return fail_if_silent();
        std::this_thread::sleep_for(kNap);
      }
    }

   private:
    void fail_if_silent() {
      std::vector<int> silent;
      for (size_t i = 0; i < requests_.size(); ++i) {
        int done = 0;
        MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
        if (done != 0) continue;
        for (int r = 0; r < comm_.size(); ++r) {
          const bool concerned = ranks_[i] == r || (ranks_[i] == kAll && r != comm_.rank());
          if (concerned && std::find(silent.begin(), silent.end(), r) == silent.end()) silent.push_back(r);
        }
      }
      if (!silent.empty()) comm_.fail_silent(silent);  // otherwise the last ones have just finished
    }

    const Mpi& comm_;
    std::vector<MPI_Request> requests_;
    std::vector<int> ranks_;
  };
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
