#include "engine/io/idx.h"

#include "engine/io/gzip.h"
#include "tests/engine/io/io_test.h"
#include "tests/shared_data.h"

namespace bochner {
namespace {

using test::BadFile;
using test::elements;
using test::expect_refused;
using test::golden;
using test::message_of;
using test::shared_data;
using test::TemporaryFolder;
using test::text;

std::string idx(int type, const std::vector<uint32_t>& sizes, const std::string& data = "") {
  std::string bytes = text(big_bytes(static_cast<uint32_t>(type) << 8 | static_cast<uint32_t>(sizes.size())));
  for (const uint32_t size : sizes) bytes += text(big_bytes(size));
  return bytes + data;
}

TEST(Idx, RoundTripKeepsTypesShapesAndBits) {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::u8, DType::i32, DType::f32, DType::f64}) {
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{5}, Shape{2, 0, 3}, Shape{2, 3, 1}, Shape{1, 1, 1, 1, 1, 1, 1, 3}}) {
      const Tensor tensor = Tensor::arange(shape.size()).view(shape).cast(dtype);
      for (const char* name : {"a", "a.gz"}) {
        write_idx(folder / name, tensor);
        const Tensor back = read_idx(folder / name);
        EXPECT_EQ(back.shape(), shape);
        EXPECT_EQ(back.dtype(), dtype);
        EXPECT_EQ(elements(back), elements(tensor));
      }
      EXPECT_EQ(read_file(folder / "a"), format_idx(tensor));
      EXPECT_EQ(parse_gzip(read_file(folder / "a.gz"), "a.gz", 1 << 20), format_idx(tensor));
    }
  }
}

TEST(Idx, ReadsAndWritesTheLayoutOfMnist) {
  const Tensor images = Tensor::arange(12, DType::u8).view({2, 2, 3});
  EXPECT_EQ(elements(read_idx(golden("images.idx"))), elements(images));
  EXPECT_EQ(text(format_idx(images)), text(read_file(golden("images.idx"))));
}

TEST(Idx, ReadsAllTypes) {
  const auto values = [](int type, uint32_t count, const std::string& data) {
    const Tensor tensor = parse_idx(bytes_of(idx(type, {count}, data)), "f");
    return std::pair(tensor.dtype(), tensor.to_vector<double>());
  };
  using Values = std::vector<double>;
  EXPECT_EQ(values(8, 2, "\x01\xff"), std::pair(DType::u8, Values{1, 255}));
  EXPECT_EQ(values(9, 2, "\x01\xff"), std::pair(DType::i32, Values{1, -1}));
  EXPECT_EQ(values(0xb, 2, std::string("\x01\x00\xff\xfe", 4)), std::pair(DType::i32, Values{256, -2}));
  EXPECT_EQ(values(0xc, 1, "\xff\xff\xff\xfe"), std::pair(DType::i32, Values{-2}));
  EXPECT_EQ(values(0xd, 1, std::string("\x3f\xc0\x00\x00", 4)), std::pair(DType::f32, Values{1.5}));
  EXPECT_EQ(values(0xe, 1, std::string("\xbf\xf8\x00\x00\x00\x00\x00\x00", 8)), std::pair(DType::f64, Values{-1.5}));
}

TEST(Idx, ReadsMnist) {
  const auto path = shared_data("mnist/t10k-labels-idx1-ubyte.gz");
  if (path.empty()) GTEST_SKIP() << "no mnist/t10k-labels-idx1-ubyte.gz in $BOCHNER_DATA or ../shared/data";
  const Tensor labels = read_idx(path);
  EXPECT_EQ(labels.shape(), (Shape{10000}));
  EXPECT_EQ(labels.slice(0, 0, 4).to_vector<int32_t>(), (std::vector<int32_t>{7, 2, 1, 0}));
}

TEST(Idx, RefusesToWriteWhatTheFormatHasNot) {
  EXPECT_EQ(message_of([] { format_idx(Tensor::zeros({2}, DType::i64)); }),
            "idx: the format has no type i64; cast the tensor first");
  EXPECT_EQ(message_of([] { format_idx(Tensor()); }), "idx: no tensor to write; only defined tensors can be saved");
}

TEST(Idx, RefusesBadFiles) {
  const std::string good = idx(8, {2, 2, 3}, "abcdefghijkl");
  const std::string packed = text(format_gzip(bytes_of(good)));
  std::vector<BadFile> files = {
      {"an empty file", "", "the file is empty, the magic number of an IDX file should stand at its start"},
      {"text", "label,pixel1\n", "offset 0: the magic number 6c616265 is not 0000TTRR"},
      {"little-endian", std::string("\3\x08\0\0", 4), "the magic number 03080000 is not"},
      {"first byte not zero", std::string("\1\0\x08\1\0\0\0\0", 8), "the magic number 01000801 is not"},
      {"second byte not zero", std::string("\0\1\x08\1\0\0\0\0", 8), "the magic number 00010801 is not"},
      {"type 0", idx(0, {1}, "x"), "the magic number 00000001 is not"},
      {"type 7", idx(7, {1}, "x"), "the magic number 00000701 is not"},
      {"type 10", idx(10, {1}, "x"), "the magic number 00000a01 is not"},
      {"type 15", idx(15, {1}, "x"), "the magic number 00000f01 is not"},
      {"type 255", idx(255, {1}, "x"), "the magic number 0000ff01 is not"},
      {"rank 9", idx(8, std::vector<uint32_t>(9, 1), "x"), "offset 4: the array has 9 axes"},
      {"rank 255", idx(8, std::vector<uint32_t>(255, 1), "x"), "offset 4: the array has 255 axes"},
      {"rank 255 without sizes", std::string("\0\0\x08\xff", 4), "offset 4: the file ends within its 255 sizes"},
      {"an overflow", idx(8, {0xffffffff, 0xffffffff}), "whose bytes overflow 63 bits"},
      {"an overflow of doubles", idx(0xe, {0x80000000, 0x40000000}), "whose bytes overflow 63 bits"},
      {"an overflow hidden by a 0", idx(8, {0, 0xffffffff, 0xffffffff}), "overflow 63 bits"},
      {"an overflow after widening", idx(9, {0xffffffff, 0x7fffffff}), "overflow 63 bits"},
      {"an exabyte", idx(8, {0x40000000, 0x40000000}, "x"),
       "takes 1152921504606846976 bytes, more than the 4294967296"},
      {"4 GB", idx(8, {0xffffffff}, "x"), "takes 4294967295 bytes, only 1 follow; the file is cut short"},
      {"one element missing", idx(8, {2, 2}, "abc"), "offset 12: the array (2, 2) takes 4 bytes, only 3 follow"},
      {"one byte too many", idx(8, {2, 2}, "abcde"), "offset 16: bytes follow the last element of the array (2, 2)"},
      {"bytes for a size of 0", idx(8, {0}, "a"), "offset 8: bytes follow the last element"},
      {"bytes behind a scalar", idx(8, {}, "ab"), "offset 5: bytes follow the last element of the array ()"},
      {"packed, wrong checksum", packed.substr(0, packed.size() - 8) + "abcd" + packed.substr(packed.size() - 4),
       "wrong checksum"},
      {"packed text", text(format_gzip(bytes_of("hello"))), "the magic number 68656c6c is not"},
      {"packed, one byte too many", text(format_gzip(bytes_of(good + "x"))), "bytes follow the last element"},
      {"a packed bomb", text(format_gzip(bytes_of(idx(8, {1}, std::string(30 << 20, '\0'))), 9)),
       "bytes follow the last"},
  };
  for (size_t size = 1; size < good.size(); ++size) {
    const char* telling = size < 4    ? "cut short"
                          : size < 16 ? "the file ends within its 3 sizes"
                                      : "the file is cut short";
    files.push_back({fmt::format("cut to {} bytes", size), good.substr(0, size), telling});
  }
  for (size_t size = 2; size < packed.size(); ++size) {
    files.push_back({fmt::format("packed, cut to {} bytes", size), packed.substr(0, size), "cut short"});
  }
  expect_refused(files, [](Bytes bytes, std::string_view file) { parse_idx(bytes, file); });
}

}  // namespace
}  // namespace bochner
