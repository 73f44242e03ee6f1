#include "engine/comm/nccl.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/card.h"
#include "engine/comm/nccl_library.h"
#include "engine/comm/silence.h"
#include "engine/error.h"

namespace bochner {
namespace {

/// How long a waiting process sleeps between questions.
constexpr auto kNap = std::chrono::microseconds(20);

class Nccl final : public Communicator {
 public:
  Nccl(Communicator& by, Device card) : Communicator(by.rank(), by.size()), nccl_(nccl::library()), card_(card) {
    nccl::UniqueId id{};
    if (is_first()) nccl_.check(nccl_.get_unique_id(&id), "a name for these processes");
    const std::string told = by.broadcast({id.bytes.data(), id.bytes.size()});
    std::copy(told.begin(), told.end(), id.bytes.begin());
    queue_of(card_);  // makes it the current one of this thread, which NCCL takes
    nccl_.check(nccl_.init_rank(&comm_, size(), id, rank()), "it cannot begin");
  }
  ~Nccl() override {
    if (comm_ != nullptr) nccl_.destroy(comm_);
  }

  std::string name() const override { return "NCCL " + nccl_.version(); }

  std::unique_ptr<Transfer> begin_sum_in_any_order(std::span<float> values) override {
    require_alive();
    nccl_.check(nccl_.all_reduce(values.data(), values.data(), values.size(), nccl::kFloat32, nccl::kSum, comm_,
                                 queue_of(card_)),
                "a sum");
    count_sent(static_cast<int64_t>(values.size_bytes()) * 2 * (size() - 1) / size());  // as in a ring of processes
    until_taken();
    return std::make_unique<InTurn>(*this);
  }

 protected:
  std::unique_ptr<Transfer> transport(const std::vector<Outgoing>& out, const std::vector<Incoming>& in, int) override {
    require_alive();
    void* const queue = queue_of(card_);
    nccl_.check(nccl_.group_start(), "a transfer");
    try {
      for (const Outgoing& one : out) {
        nccl_.check(nccl_.send(one.bytes.data(), one.bytes.size(), nccl::kBytes, one.to, comm_, queue), "to send");
      }
      for (const Incoming& one : in) {
        nccl_.check(nccl_.receive(one.bytes.data(), one.bytes.size(), nccl::kBytes, one.from, comm_, queue),
                    "to receive");
      }
    } catch (...) {
      nccl_.group_end();  // else later calls would be queued and never made
      throw;
    }
    nccl_.check(nccl_.group_end(), "a transfer");
    until_taken();
    return std::make_unique<InTurn>(*this);
  }

 private:
  class InTurn final : public Transfer {
   public:
    explicit InTurn(Nccl& comm) : comm_(comm) {}
    bool test() override { return true; }
    void wait() override {
      comm_.until([this] { return is_idle(comm_.card_); });
    }

   private:
    Nccl& comm_;
  };

  void require_alive() const {
    if (comm_ == nullptr) fail("NCCL: nothing can be sent any more after an error");
  }

  /// What NCCL has begun comes to its place in the card's work when it is no longer in progress.
  void until_taken() {
    until([] { return true; });
  }

  /// Waits until NCCL has nothing in progress and `done`.
  template <class Done>
  void until(const Done& done) {
    require_alive();
    Waiting waiting;
    for (;;) {
      nccl::Result state = nccl::kSuccess;
      nccl_.check(nccl_.get_async_error(comm_, &state), "its state");
      if (state == nccl::kSuccess && done()) return;
      if (state != nccl::kSuccess && state != nccl::kInProgress) {
        give_up();
        nccl_.check(state, "a transfer");
      }
      if (waiting.seconds() > timeout()) {
        give_up();
        std::vector<int> others;
        for (int r = 0; r < size(); ++r) {
          if (r != rank()) others.push_back(r);
        }
        fail_silent(others);
      }
      std::this_thread::sleep_for(kNap);
    }
  }

  /// Takes what waits for others out of the card's work, which could not end otherwise.
  void give_up() { nccl_.abort(std::exchange(comm_, nullptr)); }

  const nccl::Library& nccl_;
  Device card_;
  nccl::Comm comm_ = nullptr;
};

}  // namespace

std::string nccl_version() {
  try {
    return nccl::library().version();
  } catch (const Error& error) {
    return fmt::format("no: {}", error.what());
  }
}

void require_nccl() { nccl::library(); }

bool nccl_shares_cards() {
  const char* const asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return asked != nullptr && std::string_view(asked) == "1" && nccl::library().code() >= 23000;
}

std::unique_ptr<Communicator> nccl_communicator(Communicator& by, Device card) {
  return std::make_unique<Nccl>(by, card);
}

}  // namespace bochner
