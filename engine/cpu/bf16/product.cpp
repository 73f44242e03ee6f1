#include "engine/cpu/bf16/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "engine/cpu/bf16/instructions.h"
#include "engine/cpu/bf16/ordinary.h"
#include "engine/cpu/bf16/pack.h"
#include "engine/error.h"

namespace bochner::cpu {
namespace {

Bf16Order chosen_order() {
  const char* const wanted = std::getenv("BOCHNER_BF16");
  if (wanted == nullptr) return has_bf16_instruction(Bf16Order::tiles) ? Bf16Order::tiles : Bf16Order::pairs;
  const std::string_view name = wanted;
  if (name == "pairs") return Bf16Order::pairs;
  if (name == "tiles") return Bf16Order::tiles;
  fail("BOCHNER_BF16: '{}' is none of pairs, tiles; these are the orders in which products of bf16 add", name);
}

/// The shortest time among some products that together take less than a millisecond.
double seconds_of_product(Bf16Order order, Bf16By by) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kSize = 64;
  const std::vector<bfloat16> factor(static_cast<size_t>(packed_size(kSize, kSize)), bfloat16(1.0F));
  std::vector<float> c(kSize * kSize);
  Clock::duration shortest = Clock::duration::max();
  for (int i = 0; i < 20; ++i) {
    const Clock::time_point begin = Clock::now();
    bf16_product(order, by, kSize, kSize, kSize, factor.data(), factor.data(), c.data(), kSize, false);
    shortest = std::min(shortest, Clock::now() - begin);
  }
  return std::chrono::duration<double>(shortest).count();
}

/// Intel's processors execute vdpbf16ps at half the speed of multiply-adds in f32, AMD's at twice that speed.
Bf16By chosen_way() {
  const Bf16Order order = bf16_order();
  if (!has_bf16_instruction(order)) return Bf16By::ordinary;
  const bool gains = seconds_of_product(order, Bf16By::instruction) < seconds_of_product(order, Bf16By::ordinary);
  return gains ? Bf16By::instruction : Bf16By::ordinary;
}

}  // namespace

Bf16Order bf16_order() {
  static const Bf16Order order = chosen_order();
  return order;
}

bool has_bf16_instruction(Bf16Order order) {
  static const bool pairs = bf16_instructions::has_pairs();
  static const bool tiles = bf16_instructions::has_tiles();
  return order == Bf16Order::pairs ? pairs : tiles;
}

Bf16By bf16_by() {
  static const Bf16By by = chosen_way();
  return by;
}

std::string bf16_description() {
  const Bf16Order order = bf16_order();
  const bool tiles = order == Bf16Order::tiles;
  const std::string instruction = tiles ? "AMX" : "AVX512-BF16";
  const std::string name = tiles ? "tiles" : "pairs";
  if (bf16_by() == Bf16By::instruction) return fmt::format("{}, by {}", name, instruction);
  const std::string why = has_bf16_instruction(order) ? fmt::format(", faster here than {}", instruction) : "";
  return fmt::format("{}, by ordinary instructions{}", name, why);
}

void bf16_product(int64_t rows, int64_t cols, int64_t depth, const bfloat16* a, const bfloat16* b, float* c,
                  int64_t ldc, bool accumulate) {
  bf16_product(bf16_order(), bf16_by(), rows, cols, depth, a, b, c, ldc, accumulate);
}

void bf16_product(Bf16Order order, Bf16By by, int64_t rows, int64_t cols, int64_t depth, const bfloat16* a,
                  const bfloat16* b, float* c, int64_t ldc, bool accumulate) {
  if (by == Bf16By::ordinary) return ordinary_product(order, rows, cols, depth, a, b, c, ldc, accumulate);
  const bool tiles = order == Bf16Order::tiles;
  const auto product = tiles ? bf16_instructions::product_of_tiles : bf16_instructions::product_of_pairs;
  product(rows, cols, depth, a, b, c, ldc, accumulate);
}

}  // namespace bochner::cpu
