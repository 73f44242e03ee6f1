// Sequences that are cut into slices, each of which may lie in another process: sequence parallelism.
//
// For a sequence of L tokens, slice k of K has the tokens [k L / K, (k + 1) L / K), rounded up. Work that is done token
// by token needs only its own slice. Work across tokens calls these functions, whose results are the same bits for any
// number of processes:
//
//   sum, largest     over all slices, in the tree of shard_tree.h
//   hand_round       what one slice has, in one slice after the other round a ring (slice_ring.h)
//   sum_round        a sum on such a way, for one slice
//   carry_in, _out   a left fold: slice k goes on from what slice k - 1 has handed over, or from k + 1 on the way back
//
//   SequenceSlices slices(comm, tree);                   // the tree's leaves are the slices
//   slices.run(ids.size(1), [&](SequenceSlice& slice) {  // for each slice that this process holds
//     const Tensor own = slice.cut(ids);
//     const Tensor all = slice.sum(sum_of(own));          // all slices must come to the same questions
//   }, {});
//
// A process that holds several slices runs them in turns, each in a thread of its own; only one runs at a time, until
// it needs something that another slice has not provided yet.
#pragma once

#include <functional>
#include <memory>

#include "engine/comm/shard_tree.h"
#include "engine/comm/slice_ring.h"
#include "engine/math.h"

namespace bochner {

class SequenceSlices;

/// One slice of every sequence of a batch, as seen by the code that runs on its tokens.
class SequenceSlice {
 public:
  /// From the first token to the last, or back.
  enum class Way : unsigned char { forward, back };

  int number() const { return number_; }
  int count() const { return count_; }
  bool is_first() const { return number_ == 0; }
  /// Length of the whole sequences, in tokens.
  int64_t length() const { return length_; }
  int64_t begin() const { return begin_of(number_); }
  int64_t end() const { return begin_of(number_ + 1); }
  /// This slice's part of x (..., length).
  Tensor cut(const Tensor& x) const;

  /// The sum, or the elementwise maximum, of the tensors of all slices: on the CPU, of the same shape and type. All
  /// slices must call it.
  Tensor sum(const Tensor& x);
  Tensor largest(const Tensor& x);
  /// The x of the tour's first slice, which has this shape: a tensor that others may share and nobody may write to. All
  /// slices must call it, with an x of the same type; for slices outside the tour it is undefined.
  Tensor hand_round(const SliceTour& tour, const Tensor& x, const Shape& shape);
  /// In the tour's first slice, the sum of the tensors of its slices, of the same shape and type, added in the order
  /// first + 1, ..., last, first; undefined elsewhere. All slices must call it; outside the tour, x may be undefined.
  Tensor sum_round(const SliceTour& tour, const Tensor& x);
  /// What the slice before this one (after it, on the way back) handed over, of the shape of `start`, on the CPU;
  /// `start` itself for the first slice on the way.
  Tensor carry_in(Way way, const Tensor& start);
  /// Hands x over to the next slice on the way; the last one keeps it. Each carry_in needs one carry_out, in order.
  void carry_out(Way way, const Tensor& x);

 private:
  friend class SequenceSlices;
  SequenceSlice(SequenceSlices& all, int number, int count, int64_t length)
      : all_(all), number_(number), count_(count), length_(length) {}
  int64_t begin_of(int number) const { return ceil_div(number * length_, int64_t{count_}); }
  int neighbour(Way way, bool next) const { return (way == Way::forward) == next ? number_ + 1 : number_ - 1; }

  SequenceSlices& all_;
  int number_;
  int count_;
  int64_t length_;
};

/// The slices of one batch that this process holds.
class SequenceSlices {
 public:
  /// The leaves of the tree are the slices, and all of its processes must run them.
  SequenceSlices(Communicator& comm, const ShardTree& tree);
  ~SequenceSlices();
  SequenceSlices(const SequenceSlices&) = delete;
  SequenceSlices& operator=(const SequenceSlices&) = delete;

  using Body = std::function<void(SequenceSlice&)>;
  /// State that slices of one process would overwrite for each other: `begin` is called before a slice continues, `end`
  /// after it has stopped.
  struct Turns {
    std::function<void(int number)> begin;
    std::function<void(int number)> end;
  };
  /// Runs `body` for each slice that this process holds, on sequences of `length` tokens. An exception of a body is
  /// rethrown here, after the others have ended.
  void run(int64_t length, const Body& body, const Turns& turns);

 private:
  friend class SequenceSlice;
  class Runner;
  struct Question;
  Tensor ask(int number, Question question);
  /// Answers a question that all slices ask together, with one answer for each slice of this process.
  std::vector<Tensor> answer_together(const Question& question, const std::vector<Tensor>& given) const;
  Tensor largest_of_leaves(const std::vector<Tensor>& given) const;
  void send(const Question& question);
  Tensor receive(const Question& question);
  bool holds(int number) const { return number >= held_.begin && number < held_.end; }

  Communicator& comm_;
  const ShardTree& tree_;
  ShardTree::Node held_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace bochner
