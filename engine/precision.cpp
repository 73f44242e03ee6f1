#include "engine/precision.h"

#include <atomic>

#include "engine/error.h"

namespace bochner {
namespace {

std::atomic<Precision> current{Precision::f32};

}  // namespace

Precision precision() { return current; }
void set_precision(Precision precision) { current = precision; }

Precision precision_named(std::string_view name) {
  if (name == "f32") return Precision::f32;
  if (name == "tf32") return Precision::tf32;
  if (name == "bf16") return Precision::bf16;
  fail("precision: '{}' is none of f32, tf32, bf16", name);
}

}  // namespace bochner
