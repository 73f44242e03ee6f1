#include "engine/comm/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "engine/comm/silence.h"
#include "engine/error.h"
#include "engine/io/lines.h"

namespace bochner {
namespace {

class Alone final : public Communicator {
 public:
  Alone() : Communicator(0, 1) {}
  std::string name() const override { return "none"; }
  std::unique_ptr<Transfer> begin_sum_in_any_order(std::span<float>) override { return std::make_unique<Nothing>(); }

 protected:
  std::unique_ptr<Transfer> transport(const std::vector<Outgoing>& out, const std::vector<Incoming>& in, int) override {
    BOCHNER_ASSERT(out.empty() && in.empty());
    return std::make_unique<Nothing>();
  }

 private:
  class Nothing final : public Transfer {
   public:
    bool test() override { return true; }
    void wait() override {}
  };
};

std::span<const std::byte> bytes_in(const std::string& text) { return std::as_bytes(std::span(text)); }
std::span<std::byte> place_in(std::string& text) { return std::as_writable_bytes(std::span(text)); }

std::string host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

}  // namespace

Communicator& alone() {
  static Alone one;
  return one;
}

std::string Communicator::who(int rank) const {
  if (places_.empty()) return fmt::format("process {}", rank);
  return fmt::format("process {} ({})", rank, places_.at(static_cast<size_t>(rank)));
}

void Communicator::introduce() {
  if (size_ == 1) return;
  std::string all;
  for (const std::string& place : gather(fmt::format("pid {} on {}", getpid(), host()))) all += place + '\n';
  all = broadcast(all);
  places_.clear();
  for (const std::string_view place : lines_of(all)) places_.emplace_back(place);
}

int Communicator::rank_on_host() const {
  const auto host_of = [&](int rank) {
    const std::string& place = places_.at(static_cast<size_t>(rank));
    return place.substr(place.find(" on "));
  };
  int before = 0;
  for (int r = 0; r < rank_ && size_ > 1; ++r) before += host_of(r) == host_of(rank_) ? 1 : 0;
  return before;
}

void Communicator::set_for_cards(std::unique_ptr<Communicator> one) {
  BOCHNER_ASSERT(one->rank() == rank_ && one->size() == size_);
  one->places_ = places_;
  one->timeout_ = timeout_;
  for_cards_ = std::move(one);
}

void Communicator::set_timeout(double seconds) {
  timeout_ = seconds;
  if (for_cards_) for_cards_->set_timeout(seconds);
}

std::unique_ptr<Communicator::Transfer> Communicator::begin(const std::vector<Outgoing>& out,
                                                            const std::vector<Incoming>& in, int channel) {
  for (const Outgoing& one : out) bytes_sent_ += static_cast<int64_t>(one.bytes.size());
  return transport(out, in, channel);
}

void Communicator::fail_silent(const std::vector<int>& ranks) const {
  std::string names;
  for (const int rank : ranks) names += (names.empty() ? "" : ", ") + who(rank);
  throw Silence(fmt::format("{}: nothing came from {} for {:g} seconds; --process-timeout sets how long to wait",
                            name(), names, timeout_));
}

std::vector<std::string> Communicator::gather(const std::string& text) {
  const auto count = static_cast<size_t>(size_);
  std::vector<std::string> all;
  uint64_t length = text.size();
  const std::span<std::byte> of_length = std::as_writable_bytes(std::span(&length, 1));
  if (!is_first()) {
    exchange({{0, of_length}}, {});
    if (length > 0) exchange({{0, bytes_in(text)}}, {});
    return all;
  }
  std::vector<uint64_t> lengths(count);
  std::vector<Incoming> in;
  for (int r = 1; r < size_; ++r)
    in.push_back({r, std::as_writable_bytes(std::span(&lengths[static_cast<size_t>(r)], 1))});
  exchange({}, in);
  in.clear();
  all.resize(count);
  all[0] = text;
  for (int r = 1; r < size_; ++r) {
    std::string& one = all[static_cast<size_t>(r)];
    one.resize(lengths[static_cast<size_t>(r)]);
    if (!one.empty()) in.push_back({r, place_in(one)});
  }
  exchange({}, in);
  return all;
}

std::string Communicator::broadcast(const std::string& text) {
  if (size_ == 1) return text;
  uint64_t length = text.size();
  const std::span<std::byte> of_length = std::as_writable_bytes(std::span(&length, 1));
  if (is_first()) {
    for (const std::span<const std::byte> bytes : {std::span<const std::byte>(of_length), bytes_in(text)}) {
      std::vector<Outgoing> out;
      for (int r = 1; r < size_ && !bytes.empty(); ++r) out.push_back({r, bytes});
      exchange(out, {});
    }
    return text;
  }
  exchange({}, {{0, of_length}});
  std::string all(length, '\0');
  if (length > 0) exchange({}, {{0, place_in(all)}});
  return all;
}

int64_t Communicator::largest(int64_t mine) {
  if (size_ == 1) return mine;
  for (const std::string& one : gather(std::to_string(mine))) mine = std::max(mine, int64_t{std::stoll(one)});
  return std::stoll(broadcast(std::to_string(mine)));
}

}  // namespace bochner
