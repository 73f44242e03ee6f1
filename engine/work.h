// The amount of work in a computation: floating-point operations of matrix products, and bytes of the tensors made.
// With the speed of a machine, they give the least time that it could take. When off, this costs one relaxed load per
// op.
//
//   work::start();
//   step();
//   const work::Amount amount = work::stop();
//   const double least = std::max(amount.flops / peak, amount.bytes / bandwidth);
#pragma once

#include <atomic>

namespace bochner::work {

struct Amount {
  double flops =
      0;  ///< multiplications and additions in the equations, not counting what backward computes a second time
  double bytes = 0;  ///< of every new tensor, written once and read once
};

namespace detail {
inline std::atomic<bool> counting{false};
inline std::atomic<double> flops{0};
inline std::atomic<double> bytes{0};
inline thread_local bool is_within = false;  ///< a CountedAs
}  // namespace detail

inline void start() {
  detail::flops = 0;
  detail::bytes = 0;
  detail::counting = true;
}

inline Amount stop() {
  detail::counting = false;
  return {detail::flops, detail::bytes};
}

inline bool is_counted() { return detail::counting.load(std::memory_order_relaxed); }
inline void add_flops(double count) {
  if (is_counted() && !detail::is_within) detail::flops.fetch_add(count, std::memory_order_relaxed);
}
inline void add_bytes(double count) {
  if (is_counted()) detail::bytes.fetch_add(count, std::memory_order_relaxed);
}

/// Adds the operations of one op. Until this ends, products on this thread, of which its kernel consists, add none.
class CountedAs {
 public:
  explicit CountedAs(double flops) : outer_(detail::is_within) {
    add_flops(flops);
    detail::is_within = true;
  }
  ~CountedAs() { detail::is_within = outer_; }
  CountedAs(const CountedAs&) = delete;
  CountedAs& operator=(const CountedAs&) = delete;

 private:
  bool outer_;
};

}  // namespace bochner::work
