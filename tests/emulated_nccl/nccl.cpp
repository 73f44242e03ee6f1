// The functions of NCCL that Bochner uses, for tests without a card: a library with the same names and types that
// carries bytes between processes on one machine, through sockets. Device memory is plain memory here.
//
// Each operation is carried out by a thread, and is in progress (ncclCommGetAsyncError) until it is done, so whatever
// follows it in the order of the emulated card, which runs immediately, must wait for it.
//
// If BOCHNER_EMULATED_NCCL_RECORD names a file, each process adds a line to it when it ends: the number of bytes that
// it has sent.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

enum Result { kSuccess = 0, kSystemError = 2, kInvalidUsage = 5, kRemoteError = 6, kInProgress = 7 };
constexpr auto kPatience = std::chrono::seconds(30);

struct Message {
  int peer;
  char* bytes;
  size_t size;
  size_t done = 0;
};

/// What is sent and received together.
struct Group {
  std::deque<Message> out;
  std::deque<Message> in;
  std::vector<float> all{};  ///< for a sum: the values of all ranks
  float* sum = nullptr;
  size_t count = 0;
};

}  // namespace

struct ncclComm {  // NOLINT: its name in C
  int rank = 0;
  std::vector<int> sockets;  ///< to each rank; -1 to itself
  std::thread worker;
  std::atomic<int> state{kSuccess};
  std::atomic<bool> stops{false};
  size_t sent = 0;  ///< so far, in bytes

  ~ncclComm() {
    stops = true;
    if (worker.joinable()) worker.join();
    for (const int one : sockets) {
      if (one >= 0) close(one);
    }
  }

  /// Moves as much of a message as is possible without waiting; false if the other side is gone.
  bool go_on(Message& message, bool sends) const {
    const int socket = sockets.at(static_cast<size_t>(message.peer));
    char* const at = message.bytes + message.done;
    const size_t left = message.size - message.done;
    const ssize_t moved =
        sends ? ::send(socket, at, left, MSG_DONTWAIT | MSG_NOSIGNAL) : ::recv(socket, at, left, MSG_DONTWAIT);
    if (moved > 0) message.done += static_cast<size_t>(moved);
    if (moved < 0) return errno == EAGAIN || errno == EINTR;
    return moved > 0 || left == 0;
  }

  /// Moves the first message to each rank and from each; returns whether any are left.
  bool go_on(std::deque<Message>& messages, bool sends, bool& alive) const {
    std::vector<bool> busy(sockets.size());
    for (Message& one : messages) {
      if (busy[static_cast<size_t>(one.peer)]) continue;
      alive = alive && go_on(one, sends);
      busy[static_cast<size_t>(one.peer)] = one.done < one.size;
    }
    std::erase_if(messages, [](const Message& one) { return one.done == one.size; });
    return !messages.empty();
  }

  void carry(const std::shared_ptr<Group>& group) {
    if (worker.joinable()) worker.join();
    if (state == kSuccess) state = kInProgress;
    for (const Message& one : group->out) sent += one.size;
    worker = std::thread([this, group] {
      bool alive = state == kInProgress;
      for (bool left = true; alive && left && !stops;) {
        left = go_on(group->out, true, alive);
        left = go_on(group->in, false, alive) || left;
        if (left) std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      for (size_t i = 0; i < group->count && alive && !stops; ++i) {
        float sum = 0;
        for (size_t at = i; at < group->all.size(); at += group->count) sum += group->all[at];
        group->sum[i] = sum;
      }
      state = alive ? kSuccess : kRemoteError;
    });
  }
};

namespace {

struct UniqueId {
  std::array<char, 128> bytes;
};

thread_local int depth = 0;
thread_local std::vector<std::pair<ncclComm*, std::shared_ptr<Group>>> groups;

Group& group_of(ncclComm* comm) {
  for (auto& [of, group] : groups) {
    if (of == comm) return *group;
  }
  return *groups.emplace_back(comm, std::make_shared<Group>()).second;
}

sockaddr_un place_of(const UniqueId& id, int rank, socklen_t& size) {
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  const std::string name = std::string(id.bytes.data()) + "-" + std::to_string(rank);
  std::memcpy(place.sun_path + 1, name.data(), name.size());  // after a 0: a name that is not a file
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return place;
}

bool connect_to_lower_ranks(ncclComm& comm, const UniqueId& id) {
  const auto began = std::chrono::steady_clock::now();
  for (int r = 0; r < comm.rank; ++r) {
    const int one = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    comm.sockets[static_cast<size_t>(r)] = one;
    socklen_t size = 0;
    const sockaddr_un place = place_of(id, r, size);
    while (connect(one, reinterpret_cast<const sockaddr*>(&place), size) != 0) {
      if (std::chrono::steady_clock::now() - began > kPatience) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (send(one, &comm.rank, sizeof comm.rank, MSG_NOSIGNAL) != sizeof comm.rank) return false;
  }
  return true;
}

bool accept_higher_ranks(ncclComm& comm, int door) {
  for (int left = static_cast<int>(comm.sockets.size()) - comm.rank - 1; left > 0; --left) {
    pollfd one{door, POLLIN, 0};
    if (poll(&one, 1, std::chrono::milliseconds(kPatience).count()) != 1) return false;
    const int peer = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
    int rank = -1;
    if (peer < 0 || recv(peer, &rank, sizeof rank, MSG_WAITALL) != sizeof rank) return false;
    comm.sockets.at(static_cast<size_t>(rank)) = peer;
  }
  return true;
}

}  // namespace

extern "C" {

int ncclGroupStart() {
  ++depth;
  return kSuccess;
}

int ncclGroupEnd() {
  if (depth == 0) return kInvalidUsage;
  if (--depth > 0) return kSuccess;
  for (auto& [comm, group] : groups) comm->carry(group);
  groups.clear();
  return kSuccess;
}

int ncclGetVersion(int* version) {
  const char* const asked = std::getenv("BOCHNER_EMULATED_NCCL_VERSION");
  *version = asked == nullptr ? 22105 : std::atoi(asked);
  return kSuccess;
}

const char* ncclGetErrorString(int result) {
  switch (result) {
    case kSystemError:
      return "unhandled system error";
    case kInvalidUsage:
      return "invalid usage";
    case kRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "no error";
  }
}

int ncclGetUniqueId(UniqueId* id) {
  *id = {};
  std::random_device random;
  const std::string name = "emulated-nccl-" + std::to_string(getpid()) + "-" + std::to_string(random());
  std::memcpy(id->bytes.data(), name.data(), name.size());
  return kSuccess;
}

int ncclCommInitRank(ncclComm** made, int ranks, UniqueId id, int rank) {
  auto comm = std::make_unique<ncclComm>();
  comm->rank = rank;
  comm->sockets.assign(static_cast<size_t>(ranks), -1);
  const int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t size = 0;
  const sockaddr_un place = place_of(id, rank, size);
  const bool all = bind(door, reinterpret_cast<const sockaddr*>(&place), size) == 0 && listen(door, ranks) == 0 &&
                   connect_to_lower_ranks(*comm, id) && accept_higher_ranks(*comm, door);
  close(door);
  if (!all) return kSystemError;
  *made = comm.release();
  return kSuccess;
}

int ncclCommDestroy(ncclComm* comm) {
  if (comm->worker.joinable()) comm->worker.join();
  if (const char* const file = std::getenv("BOCHNER_EMULATED_NCCL_RECORD")) {
    std::ofstream(file, std::ios::app) << std::to_string(comm->sent) + '\n';
  }
  delete comm;  // NOLINT: made for C
  return kSuccess;
}

int ncclCommAbort(ncclComm* comm) {
  delete comm;  // NOLINT
  return kSuccess;
}

int ncclCommGetAsyncError(ncclComm* comm, int* state) {
  *state = comm->state;
  return kSuccess;
}

int ncclSend(const void* from, size_t count, int type, int to, ncclComm* comm, void*) {
  if (type != 1) return kInvalidUsage;
  ncclGroupStart();
  group_of(comm).out.push_back({to, static_cast<char*>(const_cast<void*>(from)), count});  // NOLINT: it is only read
  return ncclGroupEnd();
}

int ncclRecv(void* to, size_t count, int type, int from, ncclComm* comm, void*) {
  if (type != 1) return kInvalidUsage;
  ncclGroupStart();
  group_of(comm).in.push_back({from, static_cast<char*>(to), count});
  return ncclGroupEnd();
}

/// For floats, in place.
int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, ncclComm* comm, void*) {
  if (type != 7 || op != 0 || from != to || depth > 0) return kInvalidUsage;
  ncclGroupStart();
  Group& group = group_of(comm);
  const size_t ranks = comm->sockets.size();
  group.sum = static_cast<float*>(to);
  group.count = count;
  group.all.resize(count * ranks);
  for (size_t r = 0; r < ranks; ++r) {
    float* const place = group.all.data() + r * count;
    const int peer = static_cast<int>(r);
    if (peer == comm->rank) {
      std::memcpy(place, to, count * sizeof(float));
    } else {
      group.out.push_back({peer, static_cast<char*>(to), count * sizeof(float)});
      group.in.push_back({peer, reinterpret_cast<char*>(place), count * sizeof(float)});
    }
  }
  return ncclGroupEnd();
}

}  // extern "C"
