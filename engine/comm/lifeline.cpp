#include "engine/comm/lifeline.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "engine/error.h"

namespace bochner {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// In seconds:
constexpr double kBetweenSigns = 1;  ///< from one sign of life to the next
/// How long the first process waits, when another one ends by an error, for the same error of its own; and one process
/// for another that reports a loss before it (turn_of).
constexpr double kGrace = 1.5;
constexpr double kConnecting = 10;      ///< for all processes to connect
constexpr double kParting = 10;         ///< for the others to leave too
constexpr uint32_t kLongest = 1 << 16;  ///< bytes of a message

// What is sent: one of these, the length of the text that follows (u32), and the text. That of an error begins with a
// byte for its code.
constexpr char kAlive = 'a';
constexpr char kFarewell = 'f';
constexpr char kError = 'e';

/// The first may not be lost alone, as its machine held others, too. So 1, 2, 4, 8, ... report its loss, one kGrace
/// after the other, where those before them have not ended them meanwhile. The rest end in silence with the next of
/// these.
bool speaks(int rank) { return rank == 0 || std::has_single_bit(static_cast<unsigned>(rank)); }
double turn_of(int rank) { return rank <= 1 ? 0 : kGrace * std::bit_width(static_cast<unsigned>(rank - 1)); }

double since(Clock::time_point then) { return Seconds(Clock::now() - then).count(); }

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

sockaddr_in address_of(in_addr_t address, int port) {
  sockaddr_in full{};
  full.sin_family = AF_INET;
  full.sin_addr.s_addr = address;
  full.sin_port = htons(static_cast<uint16_t>(port));
  return full;
}

/// Waits until something can be read (or written), for so many seconds.
bool ready(int descriptor, short events, double seconds) {
  pollfd one{descriptor, events, 0};
  return ::poll(&one, 1, static_cast<int>(seconds * 1000)) == 1;
}

/// The addresses of this machine, its own one first.
std::string own_addresses() {
  std::string all = "127.0.0.1";
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::memcpy(&address, one->ifa_addr, sizeof address);
    char text[INET_ADDRSTRLEN] = {};
    if (inet_ntop(AF_INET, &address.sin_addr, text, sizeof text) != nullptr && !std::string(text).starts_with("127.")) {
      all += fmt::format(" {}", text);
    }
  }
  freeifaddrs(list);
  return all;
}

std::string new_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

/// Reads exactly so many bytes, or returns less.
std::string read_exactly(int descriptor, size_t count, double seconds) {
  std::string text;
  const auto began = Clock::now();
  while (text.size() < count && since(began) < seconds && ready(descriptor, POLLIN, seconds - since(began))) {
    char bytes[128];
    const ssize_t got = ::recv(descriptor, bytes, std::min(sizeof bytes, count - text.size()), 0);
    if (got <= 0) break;
    text.append(bytes, static_cast<size_t>(got));
  }
  return text;
}

/// Five digits: who is at the other end.
constexpr size_t kRankDigits = 5;

/// The connections to all other processes, where they show the token; fewer if some do not come in time.
std::vector<std::pair<int, Socket>> accept_all(int door, int count, const std::string& token) {
  std::vector<std::pair<int, Socket>> all;
  const auto began = Clock::now();
  while (std::ssize(all) < count && since(began) < kConnecting && ready(door, POLLIN, kConnecting - since(began))) {
    Socket one(::accept(door, nullptr, nullptr));
    if (one.get() < 0) continue;
    const std::string said = read_exactly(one.get(), token.size() + kRankDigits, 2);
    if (said.size() != token.size() + kRankDigits || !said.starts_with(token)) continue;
    all.emplace_back(std::atoi(said.c_str() + token.size()), std::move(one));
  }
  return all;
}

/// A connection to the first process at one of its addresses; none if there is no way.
Socket connect_to(const std::string& places, int port, const std::string& token, int rank) {
  std::istringstream words(places);
  for (std::string word; words >> word;) {
    in_addr address{};
    if (inet_pton(AF_INET, word.c_str(), &address) != 1) continue;
    Socket one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_in full = address_of(address.s_addr, port);
    const bool at_once = ::connect(one.get(), reinterpret_cast<const sockaddr*>(&full), sizeof full) == 0;
    if (!at_once && (errno != EINPROGRESS || !ready(one.get(), POLLOUT, 2))) continue;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(one.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) continue;
    const std::string hello = token + fmt::format("{:0{}}", rank, kRankDigits);
    if (::send(one.get(), hello.data(), hello.size(), MSG_NOSIGNAL) == std::ssize(hello)) return one;
  }
  return Socket();
}

}  // namespace

/// The connections of this process, and the thread that looks after them.
class Lifeline::Watch {
 public:
  Watch(const Communicator& comm, std::vector<std::pair<int, Socket>> sockets, Loss on_loss, double patience)
      : comm_(comm), on_loss_(std::move(on_loss)), patience_(patience) {
    for (auto& [rank, socket] : sockets) peers_.push_back({rank, std::move(socket)});
    // Signals are for the thread that trains.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { look(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Watch() {
    leave(kFarewell);
    thread_.join();
  }

  /// Tells the others, and waits until they have parted, too.
  void leave(char how, const Failure& failure = {}) {
    std::unique_lock lock(mutex_);
    if (leaving_ == 0) {
      leaving_ = how;
      failure_ = failure;
    }
    parted_.wait(lock, [&] { return done_; });
  }

 private:
  struct Peer {
    int rank;
    Socket socket;
    std::string unread = {};
    Clock::time_point heard = Clock::now();  ///< or when its connection was seen to end
    bool farewell = false;
    bool gone = false;
    Failure error = {};  ///< by which it ended
    Clock::time_point failed = {};
  };

  void look() {
    auto signed_at = Clock::now();
    Clock::time_point left_at;
    bool told = false;
    auto turn = Clock::now();
    for (;;) {
      std::vector<pollfd> waiting;
      for (const Peer& peer : peers_) waiting.push_back({peer.gone ? -1 : peer.socket.get(), POLLIN, 0});
      ::poll(waiting.data(), waiting.size(), 50);
      for (size_t i = 0; i < peers_.size(); ++i) {
        if (waiting[i].revents != 0) listen_to(peers_[i]);
      }
      // Others have given up a process that was frozen, or are about to.
      if (since(turn) > patience_ - 2 * kBetweenSigns) {
        woke_ = Clock::now();
        for (Peer& peer : peers_) peer.heard = *woke_;
      }
      turn = Clock::now();
      if (since(signed_at) > kBetweenSigns) {
        for (Peer& peer : peers_) send(peer, kAlive, "");
        signed_at = Clock::now();
      }
      const std::lock_guard lock(mutex_);
      if (leaving_ == 0) {
        judge();
        continue;
      }
      if (!told) {
        for (Peer& peer : peers_) {
          leaving_ == kError ? send_error(peer, failure_) : send(peer, kFarewell, "");
        }
        told = true;
        left_at = Clock::now();
      }
      // The first reports the error and ends the others, as long as it lives.
      if (leaving_ == kError && !comm_.is_first() && !peers_.front().farewell && !lost_) {
        judge();
        continue;
      }
      const bool parted = std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
        return peer.gone || peer.farewell || peer.failed != Clock::time_point{};
      });
      if (parted || since(left_at) > kParting) {
        done_ = true;
        parted_.notify_all();
        return;
      }
    }
  }

  static void send(Peer& peer, char kind, const std::string& text) {
    if (peer.gone) return;
    const auto length = static_cast<uint32_t>(text.size());
    std::string frame(1, kind);
    frame.append(reinterpret_cast<const char*>(&length), sizeof length);
    frame += text;
    size_t sent = 0;
    while (sent < frame.size()) {
      const ssize_t now =
          ::send(peer.socket.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (now > 0) {
        sent += static_cast<size_t>(now);
      } else if (sent == 0) {
        return;  // one heartbeat less; the next one tells, too
      } else if (errno != EINTR && !(errno == EAGAIN && ready(peer.socket.get(), POLLOUT, kBetweenSigns))) {
        return part(peer);  // what follows would be read as the rest of this
      }
    }
  }

  static void part(Peer& peer) {
    peer.gone = true;
    peer.heard = Clock::now();
  }

  /// What the first one says of it to the others is its code.
  void send_error(Peer& peer, const Failure& failure) const {
    std::string text(1, static_cast<char>(failure.code));
    if (!comm_.is_first()) text += failure.message.substr(0, kLongest - 1);
    send(peer, kError, text);
  }

  static void listen_to(Peer& peer) {
    char bytes[4096];
    const ssize_t got = ::recv(peer.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return part(peer);
    peer.heard = Clock::now();
    peer.unread.append(bytes, static_cast<size_t>(got));
    for (;;) {
      uint32_t length = 0;
      if (peer.unread.size() < 1 + sizeof length) return;
      std::memcpy(&length, peer.unread.data() + 1, sizeof length);
      if (length > kLongest || (peer.unread[0] == kError && length == 0)) return part(peer);
      if (peer.unread.size() < 1 + sizeof length + length) return;
      if (peer.unread[0] == kFarewell) peer.farewell = true;
      if (peer.unread[0] == kError && peer.failed == Clock::time_point{}) {
        const std::string text = peer.unread.substr(1 + sizeof length, length);
        peer.error = {text.at(0), text.substr(1)};
        peer.failed = Clock::now();
      }
      peer.unread.erase(0, 1 + sizeof length + length);
    }
  }

  /// Whether another process is lost, while this one is at work.
  void judge() {
    const double turn = turn_of(comm_.rank());
    const auto told = [&](const std::string& text) {
      return Failure{Failure::kRunning, speaks(comm_.rank()) ? text : ""};
    };
    for (const Peer& peer : peers_) {
      const bool failed = peer.failed != Clock::time_point{};
      if (woke_ && since(*woke_) < kGrace && (failed || peer.gone)) return lose({Failure::kRunning, ""});  // it told
      const std::string who = comm_.who(peer.rank);
      if (failed) {
        if (!comm_.is_first()) return lose({peer.error.code, ""});
        if (since(peer.failed) > kGrace) {
          return lose({peer.error.code, fmt::format("{}: {}", who, peer.error.message)});
        }
      } else if (peer.gone && !peer.farewell) {
        if (since(peer.heard) < turn) continue;
        return lose(told(who + " has ended: it was killed, or has crashed"));
      } else if (!peer.gone && since(peer.heard) > patience_ + turn) {
        return lose(told(fmt::format("{} gave no sign of life for {:g} seconds: it is frozen, or its machine is gone",
                                     who, patience_)));
      }
    }
  }

  void lose(const Failure& failure) {
    if (lost_) return;
    lost_ = true;
    on_loss_(failure, [this, failure] {
      if (!comm_.is_first()) return;
      for (Peer& peer : peers_) send_error(peer, failure);
    });
  }

  const Communicator& comm_;
  Loss on_loss_;
  double patience_;
  std::vector<Peer> peers_;
  std::mutex mutex_;
  std::condition_variable parted_;
  char leaving_ = 0;
  Failure failure_ = {};
  std::optional<Clock::time_point> woke_;  ///< when this process went on after it was frozen
  bool done_ = false;
  bool lost_ = false;
  std::thread thread_;
};

Lifeline::Lifeline(Communicator& comm, Loss on_loss, double patience) {
  std::vector<std::pair<int, Socket>> sockets;
  std::string told;
  Socket door;
  if (comm.is_first()) {
    door = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in place = address_of(htonl(INADDR_ANY), 0);
    socklen_t size = sizeof place;
    auto* const named = reinterpret_cast<sockaddr*>(&place);
    if (door.get() >= 0 && ::bind(door.get(), named, size) == 0 && ::listen(door.get(), comm.size()) == 0 &&
        ::getsockname(door.get(), named, &size) == 0) {
      told = fmt::format("{} {} {}", new_token(), ntohs(place.sin_port), own_addresses());
    }
  }
  told = comm.broadcast(told);
  std::istringstream words(told);
  std::string token;
  std::string places;
  int port = 0;
  words >> token >> port;
  std::getline(words, places);
  bool complete = port > 0;
  if (complete && comm.is_first()) {
    sockets = accept_all(door.get(), comm.size() - 1, token);
    complete = std::ssize(sockets) == comm.size() - 1;
  } else if (complete) {
    sockets.emplace_back(0, connect_to(places, port, token, comm.rank()));
    complete = sockets.front().second.get() >= 0;
  }
  if (comm.any(!complete)) return;
  watch_ = std::make_unique<Watch>(comm, std::move(sockets), std::move(on_loss), patience);
}

Lifeline::~Lifeline() = default;

void Lifeline::leave() {
  if (watch_) watch_->leave(kFarewell);
}

void Lifeline::leave_in_error(const Failure& failure) {
  if (watch_) watch_->leave(kError, failure);
}

}  // namespace bochner
