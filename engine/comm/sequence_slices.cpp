#include "engine/comm/sequence_slices.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "engine/comm/messages.h"
#include "engine/error.h"
#include "engine/ops/reduce.h"

namespace bochner {
namespace {

/// Ends the thread of a slice when another one has failed.
struct Ended {};

}  // namespace

struct SequenceSlices::Question {
  enum class Kind : unsigned char { sum, largest, hand_round, sum_round, send, receive };
  Kind kind;
  Tensor x;          ///< what is given; of receive: where it goes
  int other = 0;     ///< the slice to send to or to receive from
  SliceTour tour{};  ///< of what goes round
  Shape shape{};     ///< of what is handed round

  bool is_of_all() const { return kind != Kind::send && kind != Kind::receive; }
};

/// Several slices in turns. Only one thread goes on at a time: that of a slice, or the caller's, which answers what the
/// slices ask and does all that is sent.
class SequenceSlices::Runner {
 public:
  Runner(SequenceSlices& all, int64_t length, const Body& body, const Turns& turns)
      : all_(all), body_(body), turns_(turns) {
    for (int i = all.held_.begin; i < all.held_.end; ++i) {
      ones_.emplace_back(SequenceSlice(all, i, all.tree_.shards(), length));
    }
    try {
      for (One& one : ones_) one.thread = std::thread([this, &one] { live(one); });
    } catch (const std::system_error& error) {
      end();
      fail(
          "--sequence-shards: {} slices in one process need as many threads, which the system does not give: {}; "
          "take fewer, or more processes",
          ones_.size(), error.what());
    }
  }
  ~Runner() { end(); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  void run() {
    while (std::any_of(ones_.begin(), ones_.end(), [](const One& one) { return one.state != State::done; })) {
      bool any = false;
      for (One& one : ones_) {
        if (!can_go_on(one)) continue;
        go_on(one);
        any = true;
      }
      if (!any) answer();
    }
  }

  /// In the thread of the slice.
  Tensor ask(int number, Question question) {
    One& one = of(number);
    one.question = std::move(question);
    one.state = State::asks;
    give(callers_);
    take(one.turn);
    if (ends_) throw Ended();
    return std::exchange(one.answer, Tensor());
  }

 private:
  enum class State : unsigned char { ready, asks, done };
  /// Whether one thread may go on. Each waits for its own, so that none wakes in vain.
  struct Turn {
    bool given = false;
    std::condition_variable changed;
  };
  struct One {
    explicit One(const SequenceSlice& of) : slice(of) {}
    SequenceSlice slice;
    State state = State::ready;
    Question question{};
    Tensor answer;
    std::exception_ptr failure;
    Turn turn;
    std::thread thread;
  };

  One& of(int number) { return ones_.at(static_cast<size_t>(number - all_.held_.begin)); }

  void live(One& one) {
    take(one.turn);
    try {
      if (!ends_) body_(one.slice);
    } catch (const Ended&) {  // another one failed
    } catch (...) {
      one.failure = std::current_exception();
    }
    one.state = State::done;
    give(callers_);
  }

  /// Ends the threads that there are.
  void end() {
    ends_ = true;
    for (One& one : ones_) {
      if (!one.thread.joinable()) continue;
      if (one.state != State::done) let_go_on(one);
      one.thread.join();
    }
  }

  /// In the caller's thread, which waits until the slice asks or is done.
  void let_go_on(One& one) {
    give(one.turn);
    take(callers_);
  }
  void give(Turn& turn) {
    const std::lock_guard lock(mutex_);
    turn.given = true;
    turn.changed.notify_one();
  }
  void take(Turn& turn) {
    std::unique_lock lock(mutex_);
    turn.changed.wait(lock, [&] { return turn.given; });
    turn.given = false;
  }

  bool can_go_on(One& one) {
    if (one.state != State::asks) return one.state == State::ready;
    if (one.question.kind != Question::Kind::receive || !all_.holds(one.question.other)) return false;
    std::deque<Tensor>& box = boxes_[{one.question.other, one.slice.number()}];
    if (box.empty()) return false;
    one.answer = std::move(box.front());
    box.pop_front();
    return true;
  }

  void go_on(One& one) {
    const int number = one.slice.number();
    if (turns_.begin) turns_.begin(number);
    let_go_on(one);
    if (turns_.end) turns_.end(number);
    if (one.failure) std::rethrow_exception(one.failure);
    if (one.state != State::asks || one.question.kind != Question::Kind::send) return;
    if (all_.holds(one.question.other)) {
      boxes_[{number, one.question.other}].push_back(std::move(one.question.x));
    } else {
      all_.send(one.question);
    }
    one.state = State::ready;
  }

  /// When none can go on: what all ask together, or what comes from another process.
  void answer() {
    for (One& one : ones_) {
      if (one.state != State::asks || one.question.kind != Question::Kind::receive) continue;
      if (all_.holds(one.question.other)) continue;
      one.answer = all_.receive(one.question);
      one.state = State::ready;
      return;
    }
    std::vector<Tensor> given;
    for (One& one : ones_) {
      BOCHNER_ASSERT(one.state == State::asks && one.question.is_of_all());
      BOCHNER_ASSERT(one.question.kind == ones_.front().question.kind);
      given.push_back(std::move(one.question.x));
    }
    std::vector<Tensor> answers = all_.answer_together(ones_.front().question, given);
    for (size_t i = 0; i < ones_.size(); ++i) {
      ones_[i].answer = std::move(answers[i]);
      ones_[i].state = State::ready;
    }
  }

  SequenceSlices& all_;
  const Body& body_;
  const Turns& turns_;
  std::deque<One> ones_;
  std::map<std::pair<int, int>, std::deque<Tensor>> boxes_;  ///< what slices of this process have sent each other
  std::mutex mutex_;
  Turn callers_;
  bool ends_ = false;
};

SequenceSlices::SequenceSlices(Communicator& comm, const ShardTree& tree)
    : comm_(comm), tree_(tree), held_(tree.leaves_of(comm.rank())) {}

SequenceSlices::~SequenceSlices() = default;

void SequenceSlices::run(int64_t length, const Body& body, const Turns& turns) {
  if (held_.is_leaf()) {
    SequenceSlice slice(*this, held_.begin, tree_.shards(), length);
    if (turns.begin) turns.begin(held_.begin);
    body(slice);
    if (turns.end) turns.end(held_.begin);
    return;
  }
  struct Running {
    std::unique_ptr<Runner>& runner;
    ~Running() { runner.reset(); }
  } running{runner_};
  runner_ = std::make_unique<Runner>(*this, length, body, turns);
  runner_->run();
}

Tensor SequenceSlices::ask(int number, Question question) {
  if (runner_) return runner_->ask(number, std::move(question));
  switch (question.kind) {
    case Question::Kind::send:
      send(question);
      return {};
    case Question::Kind::receive:
      return receive(question);
    default:
      return answer_together(question, {question.x}).front();
  }
}

std::vector<Tensor> SequenceSlices::answer_together(const Question& question, const std::vector<Tensor>& given) const {
  if (question.kind == Question::Kind::hand_round) {
    return hand_round(comm_, tree_, question.tour, given, question.shape);
  }
  if (question.kind == Question::Kind::sum_round) return sum_round(comm_, tree_, question.tour, given);
  const Tensor found =
      question.kind == Question::Kind::sum ? tree_.sum_of_leaves(comm_, given) : largest_of_leaves(given);
  std::vector<Tensor> answers{found};
  while (answers.size() < given.size()) answers.push_back(found.clone());
  return answers;
}

Tensor SequenceSlices::largest_of_leaves(const std::vector<Tensor>& given) const {
  // A row for each slice, and 0 in those of the others: x + 0 is x.
  std::vector<Tensor> rows;
  for (const Tensor& one : given) {
    rows.push_back(Tensor::zeros({tree_.shards(), one.size()}, one.dtype()));
    const int64_t row = held_.begin + static_cast<int64_t>(rows.size()) - 1;
    rows.back().slice(0, row, row + 1).copy_(one.reshape({1, one.size()}));
  }
  return amax(tree_.sum_of_leaves(comm_, rows), {0}, false).reshape(given.front().shape());
}

void SequenceSlices::send(const Question& question) { send_to(comm_, tree_.holder_of(question.other), question.x); }

Tensor SequenceSlices::receive(const Question& question) {
  receive_from(comm_, tree_.holder_of(question.other), question.x);
  return question.x;
}

Tensor SequenceSlice::cut(const Tensor& x) const { return x.slice(x.rank() - 1, begin(), end()); }

Tensor SequenceSlice::sum(const Tensor& x) {
  return all_.ask(number_, {SequenceSlices::Question::Kind::sum, x.contiguous()});
}

Tensor SequenceSlice::largest(const Tensor& x) {
  return all_.ask(number_, {SequenceSlices::Question::Kind::largest, x.contiguous()});
}

Tensor SequenceSlice::hand_round(const SliceTour& tour, const Tensor& x, const Shape& shape) {
  return all_.ask(number_, {.kind = SequenceSlices::Question::Kind::hand_round, .x = x, .tour = tour, .shape = shape});
}

Tensor SequenceSlice::sum_round(const SliceTour& tour, const Tensor& x) {
  return all_.ask(number_, {.kind = SequenceSlices::Question::Kind::sum_round, .x = x.contiguous(), .tour = tour});
}

Tensor SequenceSlice::carry_in(Way way, const Tensor& start) {
  const int from = neighbour(way, false);
  if (from < 0 || from >= count_) return start;
  return all_.ask(number_, {SequenceSlices::Question::Kind::receive, start.clone(), from});
}

void SequenceSlice::carry_out(Way way, const Tensor& x) {
  const int to = neighbour(way, true);
  if (to < 0 || to >= count_) return;
  all_.ask(number_, {SequenceSlices::Question::Kind::send, x.contiguous(), to});
}

}  // namespace bochner
