// Devices, memory and errors of the CUDA backend.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/ops/binary.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/embedding.h"
#include "engine/ops/feed_forward.h"
#include "engine/ops/index.h"
#include "engine/ops/linear.h"
#include "engine/ops/norm.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"
#include "engine/random.h"
#include "tests/card.h"
#if defined(BOCHNER_CUDA)
#include "engine/cuda/runtime/runtime.h"
#include "engine/loop.h"

namespace bochner::cuda {
void copy(const Loop& loop, DType to, DType from);  // the kernel itself, which engine/ops/copy.cpp calls
}
#endif

namespace bochner {
namespace {

TEST(Card, AskingForOneThatIsNotThereIsAnErrorWithTheReason) {
  const std::string reason = testing_card::missing();
  if (reason.empty()) {
    EXPECT_THROW(Device::named("cuda:63"), Error);
    return;
  }
  EXPECT_EQ(reason.rfind("device: cuda", 0), 0U) << reason;
  EXPECT_GT(reason.size(), std::string("device: cuda: ").size()) << reason;
  EXPECT_THROW(Tensor::zeros({2}, DType::f32, Device::cuda()), Error);
}

TEST(Card, TensorsGoThereAndBack) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t count : {0, 1, 7, 1023, 4097, 3000000}) {  // the last is more than a slab of pinned memory
    Generator generator(1);
    const Tensor x = normal({count}, generator);
    EXPECT_EQ(x.to(Device::cuda()).to_vector<float>(), x.to_vector<float>());
  }
  const Tensor x = Tensor::arange(24).view({2, 3, 4});
  const Tensor there = Tensor::zeros({4, 3, 2}, DType::f32, Device::cuda());
  there.transpose(0, 2).copy_(x);  // other strides and another type
  EXPECT_EQ(there.transpose(0, 2).to_vector<double>(), x.to_vector<double>());
}

TEST(Card, CountsThere) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t count : {0, 1, 255, 70000}) {
    for (const DType dtype : {DType::i64, DType::f32, DType::boolean}) {
      const Tensor there = Tensor::arange(count, dtype, Device::cuda());
      EXPECT_EQ(there.to_vector<double>(), Tensor::arange(count, dtype).to_vector<double>());
    }
  }
  EXPECT_EQ(Tensor::arange(4).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(Card, ConversionsAgreeWithTheCpus) {
  BOCHNER_NEEDS_CARD();
  const Tensor x = Tensor::from<double>({-3.7, -0.0, 0.0, 0.3, 1.0, 2.5, 100.25, 3.0e38}, {8});
  for (const DType a : {DType::f32, DType::f64, DType::bf16}) {
    for (const DType b : {DType::f32, DType::f64, DType::bf16, DType::boolean}) {
      EXPECT_EQ(x.cast(a).to(Device::cuda()).cast(b).to_vector<double>(), x.cast(a).cast(b).to_vector<double>())
          << name_of(a) << " to " << name_of(b);
    }
  }
  const Tensor n = Tensor::from<int64_t>({-5, 0, 1, 127, 200, -1}, {6});
  for (const DType a : {DType::i32, DType::i64, DType::u8}) {
    for (const DType b : {DType::f32, DType::i32, DType::i64, DType::u8, DType::boolean}) {
      EXPECT_EQ(n.cast(a).to(Device::cuda()).cast(b).to_vector<double>(), n.cast(a).cast(b).to_vector<double>())
          << name_of(a) << " to " << name_of(b);
    }
  }
}

TEST(Card, TransposedCopiesAreExact) {
  BOCHNER_NEEDS_CARD();
  for (const Shape& shape : {Shape{33, 65}, Shape{8, 8}, Shape{3, 31, 70}, Shape{1, 40, 9}, Shape{2, 3, 17, 9}}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::u8}) {
      const Tensor x = Tensor::arange(shape.size()).cast(dtype).view(shape).transpose(-1, -2);
      EXPECT_EQ(x.contiguous().to(Device::cuda()).transpose(-1, -2).contiguous().to_vector<double>(),
                x.transpose(-1, -2).contiguous().to_vector<double>())
          << shape.str();
    }
  }
}

#if !defined(BOCHNER_CUDA)

TEST(Devices, WithoutKernelsTheErrorSaysHowToBuildThem) {
  try {
    Device::named("cuda:1");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "device: cuda:1: the CUDA kernels are not built, as no card or no nvcc was found, or BOCHNER_CUDA=OFF; "
        "`./run --cuda NAME ...` builds them (or cmake -DBOCHNER_CUDA=ON)");
  }
}

#endif

#if defined(BOCHNER_CUDA)

TEST(Card, MemoryIsKeptAndCounted) {
  BOCHNER_NEEDS_CARD();
  Allocator& memory = Allocator::of(Device::cuda());
  const MemoryStats before = memory.stats();
  {
    const Tensor a = Tensor::empty({1 << 20}, DType::f32, Device::cuda());
    EXPECT_GE(memory.stats().current_bytes, before.current_bytes + (4 << 20));
  }
  EXPECT_EQ(memory.stats().current_bytes, before.current_bytes);
  const int64_t asked = memory.stats().system_allocations;
  for (int i = 0; i < 100; ++i) {
    const Tensor a = Tensor::empty({1 << 20}, DType::f32, Device::cuda());
    const Tensor b = Tensor::empty({7}, DType::f32, Device::cuda());
  }
  EXPECT_EQ(memory.stats().system_allocations, asked);
  memory.reset_peak();
  EXPECT_EQ(memory.stats().peak_bytes, memory.stats().current_bytes);
}

TEST(Card, AskingForTooMuchMemoryTellsTheBytesAskedAndFree) {
  BOCHNER_NEEDS_CARD();
  std::string message;
  try {
    Tensor::empty({int64_t{1} << 48}, DType::u8, Device::cuda());
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_EQ(message.rfind("memory: cuda:0: 281474976710656 bytes are wanted, ", 0), 0U) << message;
  EXPECT_NE(message.find(" are free, "), std::string::npos) << message;
  EXPECT_EQ(Tensor::full({3}, 1, DType::f32, Device::cuda()).to_vector<float>(), std::vector<float>(3, 1.0F));
}

#if defined(BOCHNER_CUDA_EMULATED)

TEST(EmulatedCards, SeveralAreAddressedByTheirIndex) {
  ::setenv("BOCHNER_EMULATED_CARDS", "2", 1);
  {
    const Device second = Device::named("cuda:1");
    EXPECT_THROW(Device::named("cuda:2"), Error);
    const int64_t before = Allocator::of(Device::cuda()).stats().current_bytes;
    const Tensor x = Tensor::arange(1000).cast(DType::f32);
    const Tensor there = x.to(second);
    EXPECT_EQ(there.device(), second);
    EXPECT_EQ(Allocator::of(Device::cuda()).stats().current_bytes, before);
    EXPECT_EQ(add(there, there).to_vector<double>(), add(x, x).to_vector<double>());
    const Tensor first = there.to(Device::cuda());  // from card to card
    EXPECT_EQ(first.to_vector<double>(), x.to_vector<double>());
    EXPECT_THROW(add(first, there), Error);
  }
  ::unsetenv("BOCHNER_EMULATED_CARDS");
}

TEST(EmulatedCards, NoneIsAnErrorWithTheReason) {
  ::setenv("BOCHNER_EMULATED_CARDS", "0", 1);
  EXPECT_EQ(testing_card::missing(), "device: cuda: BOCHNER_EMULATED_CARDS is 0");
  EXPECT_EQ(cuda::description(), "BOCHNER_EMULATED_CARDS is 0");
  ::unsetenv("BOCHNER_EMULATED_CARDS");
  EXPECT_EQ(testing_card::missing(), "");
}

#endif

TEST(Card, GuardsSeeAWriteOutside) {
  BOCHNER_NEEDS_CARD();
  cuda::set_guards(true);
  const int64_t before = cuda::broken_guards();
  {
    const Tensor x = Tensor::zeros({3}, DType::f32, Device::cuda());
    static_cast<void>(exp(x).to_vector<float>());
  }
  EXPECT_EQ(cuda::broken_guards(), before);
  {
    const Tensor x = Tensor::zeros({3}, DType::f32, Device::cuda());
    const Tensor beyond = Tensor::full({1}, 1, DType::f32, Device::cuda());
    // Four bytes after the block, as a wrong kernel might write.
    Loop loop;
    loop.rank = 1;
    loop.size = 1;
    loop.sizes[0] = 1;
    loop.strides[0][0] = loop.strides[1][0] = 1;
    loop.data = {static_cast<float*>(x.raw()) + 3, beyond.raw(), nullptr, nullptr};
    cuda::begin(0);
    cuda::copy(loop, DType::f32, DType::f32);
    cuda::end("test");
  }
  EXPECT_EQ(cuda::broken_guards(), before + 1);
  cuda::set_guards(false);
}

TEST(Card, AnOperandOnAnotherDeviceIsAnErrorThatNamesItsOp) {
  BOCHNER_NEEDS_CARD();
  const Tensor here = Tensor::zeros({4, 4});
  const Tensor there = Tensor::zeros({4, 4}, DType::f32, Device::cuda());
  const Tensor row = Tensor::zeros({4});
  const Tensor ids = Tensor::zeros({4}, DType::i64);
  const auto message = [&](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { embedding(there, ids); }),
            "embedding: an operand, i64 (4,) cpu, is not on cuda:0, where the others are; move it with to()");
  EXPECT_EQ(message([&] { where(here.cast(DType::boolean), there, there); }),
            "where: an operand, bool (4, 4) cpu, is not on cuda:0, where the others are; move it with to()");
  EXPECT_EQ(message([&] { take(there, ids); }),
            "take: an operand, i64 (4,) cpu, is not on cuda:0, where the others are; move it with to()");
  EXPECT_THROW(there + here, Error);
  EXPECT_THROW(cross_entropy(there, ids), Error);
  EXPECT_THROW(binary_cross_entropy(there, here), Error);
  EXPECT_THROW(softmax_backward(here, there), Error);
  EXPECT_THROW(bias_activation(there, row, Activation::relu), Error);
  EXPECT_THROW(layer_norm(there, row, {}), Error);
  EXPECT_THROW(layer_norm_backward(there, there, {}, {row, row}), Error);
  EXPECT_THROW(linear(there, {.w = there, .b = row}), Error);
  EXPECT_THROW(linear(there, {.w = there}, here), Error);
  EXPECT_THROW(feed_forward(there, {.w1 = there, .w2 = here}), Error);
}

TEST(Card, AnIndexOutOfRangeIsAnErrorThatNamesItsOp) {
  BOCHNER_NEEDS_CARD();
  const Tensor table = Tensor::zeros({4, 3}, DType::f32, Device::cuda());
  const Tensor bad = Tensor::from<int64_t>({0, 9}, {2}, Device::cuda());
  const auto message = [&](const auto& call) -> std::string {
    try {
      call();
      cuda::synchronize(0);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { embedding(table, bad); }).rfind("embedding: the index at 1 is 9, outside [0, 4)", 0), 0U);
  EXPECT_EQ(message([&] { take(table, bad); }).rfind("take: the index at 1 is 9, outside [0, 4)", 0), 0U);
  EXPECT_EQ(message([&] { static_cast<void>(exp(table)); }), "");  // reported once
  cuda::set_debug_sync(true);
  EXPECT_THROW(embedding(table, bad), Error);
  cuda::set_debug_sync(false);
}

#endif

}  // namespace
}  // namespace bochner
