#include "engine/io/npy.h"

#include "tests/engine/io/io_test.h"

namespace bochner {
namespace {

using test::BadFile;
using test::elements;
using test::expect_refused;
using test::golden;
using test::message_of;
using test::TemporaryFolder;
using test::text;

/// A file of version 1 with this header and these data.
std::string npy(const std::string& header, const std::string& data = "") {
  return "\x93NUMPY" + std::string("\1\0", 2) + text(little_bytes(static_cast<uint16_t>(header.size()))) + header +
         data;
}

std::string dictionary(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

TEST(Npy, RoundTripKeepsTypesShapesAndBits) {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{1}, Shape{3, 0, 2}, Shape{5}, Shape{2, 3, 1}, Shape{1, 1, 1, 1, 1, 1, 1, 3}}) {
      const Tensor tensor = Tensor::arange(shape.size()).view(shape).cast(dtype);
      write_npy(folder / "a.npy", tensor);
      EXPECT_EQ(std::filesystem::file_size(folder / "a.npy") % 64, bytes_of(tensor).size() % 64);
      const Tensor back = read_npy(folder / "a.npy");
      EXPECT_EQ(back.shape(), shape);
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(elements(back), elements(tensor));
      EXPECT_EQ(read_file(folder / "a.npy"), format_npy(tensor));
    }
  }
  const Tensor turned = Tensor::arange(6, DType::f64).view({2, 3}).transpose(0, 1);
  EXPECT_EQ(parse_npy(format_npy(turned), "f").to_vector<double>(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(Npy, WritesWhatNumpyWrites) {
  const Tensor ramp = Tensor::arange(6, DType::f32).view({2, 3});
  EXPECT_EQ(text(format_npy(ramp)), text(read_file(golden("c_order_v1.npy"))));
  EXPECT_EQ(text(format_npy(Tensor::scalar(2.5, DType::f64))), text(read_file(golden("scalar.npy"))));
  EXPECT_EQ(text(format_npy(Tensor::zeros({3, 0}, DType::i32))), text(read_file(golden("empty.npy"))));
  EXPECT_EQ(text(format_npy(Tensor::from<bool>({true, false}, {2, 1}))), text(read_file(golden("bool.npy"))));
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const auto expect = [](const char* name, DType dtype, const Shape& shape, const std::vector<double>& values) {
    const Tensor tensor = read_npy(golden(name));
    EXPECT_EQ(tensor.dtype(), dtype) << name;
    EXPECT_EQ(tensor.shape(), shape) << name;
    EXPECT_EQ(tensor.to_vector<double>(), values) << name;
    EXPECT_TRUE(tensor.is_contiguous()) << name;
  };
  expect("c_order_v1.npy", DType::f32, {2, 3}, {0, 1, 2, 3, 4, 5});
  expect("fortran_order_v2.npy", DType::f32, {2, 3}, {0, 1, 2, 3, 4, 5});
  expect("i64_v3.npy", DType::i64, {2}, {-1, 1099511627776});
  expect("bool.npy", DType::boolean, {2, 1}, {1, 0});
  expect("f16.npy", DType::f32, {2}, {0.5, -2});
  expect("scalar.npy", DType::f64, {}, {2.5});
  expect("empty.npy", DType::i32, {3, 0}, {});
}

TEST(Npy, ReadsOtherFormsOfTheHeader) {
  const auto shape = [](const std::string& header, size_t bytes) {
    return parse_npy(bytes_of(npy(header, std::string(bytes, '\1'))), "f").shape();
  };
  EXPECT_EQ(shape("{\"shape\":(2L,3L),\"fortran_order\":True,\"descr\":\"|u1\"}", 6), (Shape{2, 3}));
  EXPECT_EQ(shape(" {'fortran_order' :False , 'descr':'=i2','shape':(\n1 ,\n) ,} \n", 2), (Shape{1}));
  EXPECT_EQ(shape(dictionary("<u1", "()"), 1), (Shape{}));
  const Tensor turned = parse_npy(bytes_of(npy(dictionary("|i1", "(3, 1, 2)", "True"), "\1\2\3\4\5\6")), "f");
  EXPECT_EQ(turned.shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(turned.to_vector<int32_t>(), (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
}

TEST(Npy, RefusesToWriteWhatNumpyHasNot) {
  EXPECT_EQ(message_of([] { format_npy(Tensor::zeros({2}, DType::bf16)); }),
            "npy: NumPy has no type bf16; cast the tensor to f32 first");
  EXPECT_EQ(message_of([] { format_npy(Tensor()); }), "npy: no tensor to write; only defined tensors can be saved");
}

TEST(Npy, RefusesBadFiles) {
  const std::string good = text(read_file(golden("i64_v3.npy")));
  std::vector<BadFile> files = {
      {"an empty file", "", "the file is empty, the magic number of an npy file should stand at its start"},
      {"a zip (npz)", "PK\3\4" + std::string(20, 'x'), "offset 0: it does not begin with \\x93NUMPY"},
      {"a magic number in small letters", "\x93numpy\1", "offset 0: it does not begin with \\x93NUMPY"},
      {"version 0", "\x93NUMPY" + std::string(20, '\0'), "offset 6: npy version 0.0"},
      {"version 4", "\x93NUMPY\4" + std::string(20, '\0'), "offset 6: npy version 4.0"},
      {"version 1.1", "\x93NUMPY\1\1" + std::string(20, '\0'), "offset 6: npy version 1.1"},
      {"a header of 4 GB", "\x93NUMPY" + std::string("\2\0\xff\xff\xff\xff{}", 8),
       "offset 12: the npy header takes 4294967295 bytes, at most 65535"},
      {"a header beyond the file", "\x93NUMPY" + std::string("\1\0\xff\xff{}", 6),
       "offset 10: the npy header should take 65535 bytes, only 2 follow"},
      {"an empty header", npy(""), "offset 10: the npy header has its end instead of '{'"},
      {"no dictionary", npy("[]"), "offset 10: the npy header has '[' instead of '{'"},
      {"an unclosed dictionary", npy("{"), "has its end instead of a string"},
      {"an empty dictionary", npy("{}"), "offset 12: the npy header has no key 'descr'"},
      {"no shape", npy("{'descr': '<f4', 'fortran_order': False}"), "has no key 'shape'"},
      {"no order", npy("{'descr': '<f4', 'shape': ()}", "abcd"), "has no key 'fortran_order'"},
      {"a key twice", npy("{'shape': (1,), 'shape': (1,)"), "the key 'shape' for the second time"},
      {"an unknown key", npy("{'names': 1}"), "the unknown key 'names'"},
      {"a number as key", npy("{1: 2}"), "'1' instead of a string"},
      {"no colon", npy("{'shape' (1,)}"), "'(' instead of ':'"},
      {"no comma", npy("{'shape': (1,) 'descr': '<f4'}"), "''' instead of a comma or a closing brace"},
      {"a string without end", npy("{'descr': '<f4}"), "a string without end"},
      {"a truth value of another language", npy("{'fortran_order': true}"), "'t' instead of True or False"},
      {"a number as truth value", npy("{'fortran_order': 0}"), "'0' instead of True or False"},
      {"a list as shape", npy("{'shape': [1]}"), "'[' instead of '('"},
      {"an unclosed shape", npy("{'shape': (1,"), "its end instead of a size"},
      {"shape without comma", npy("{'shape': (1 2)}"), "'2' instead of a comma or a closing bracket"},
      {"a negative size", npy("{'shape': (-1,)}"), "'-' instead of a size"},
      {"a fraction", npy("{'shape': (1.5,)}"), "'.' instead of a comma"},
      {"a name as size", npy("{'shape': (n,)}"), "'n' instead of a size"},
      {"nested shape", npy("{'shape': ((1,),)}"), "'(' instead of a size"},
      {"deep nesting", npy("{'shape': " + std::string(60000, '(')), "'(' instead of a size"},
      {"a size of 64 bits", npy("{'shape': (9223372036854775808,)}"), "a size that does not fit 64 bits"},
      {"text behind the dictionary", npy(dictionary("|u1", "()") + "x", "a"), "'x' behind the dictionary"},
      {"a zero byte behind the dictionary", npy(dictionary("|u1", "()") + std::string(1, '\0'), "a"),
       "'\\x00' behind the dictionary"},
      {"escape codes in a key", npy("{'\x1b[2J': 1}"), "the unknown key '\\x1b[2J'"},
      {"records", npy("{'descr': [('a', '<f4')]}"), "an array of records"},
      {"Python objects", npy(dictionary("|O", "(1,)"), "x"), "has the type '|O'; Python objects are not read"},
      {"big-endian numbers", npy(dictionary(">f4", "(1,)"), "abcd"), "has the type '>f4'; it is big-endian"},
      {"complex numbers", npy(dictionary("<c8", "(1,)"), "abcdefgh"), "has the type '<c8'; known are <f4"},
      {"text", npy(dictionary("<U1", "(1,)"), "abcd"), "has the type '<U1'"},
      {"64-bit unsigned integers", npy(dictionary("<u8", "(1,)"), "abcdefgh"), "has the type '<u8'"},
      {"no type", npy(dictionary("", "(1,)"), "a"), "has the type ''"},
      {"a type of another length", npy(dictionary("<f16", "(1,)"), std::string(16, 'a')), "has the type '<f16'"},
      {"nine axes", npy(dictionary("|u1", "(1,1,1,1,1,1,1,1,1)"), "a"), "the array has 9 axes"},
      {"an overflow", npy(dictionary("|u1", "(4294967296, 4294967296)")), "whose bytes overflow 63 bits"},
      {"an overflow to the right size", npy(dictionary("<f4", "(4611686018427387905,)"), "abcd"), "overflow 63 bits"},
      {"an overflow hidden by a 0", npy(dictionary("|u1", "(4611686018427387904, 4, 0)")), "overflow 63 bits"},
      {"more data than there are", npy(dictionary("<f4", "(1000, 1000, 1000)"), "abcd"),
       "the array takes 4000000000 bytes, 4 follow the header; the file is cut short"},
      {"an exabyte", npy(dictionary("|u1", "(1152921504606846976,)"), "abcd"), "takes 1152921504606846976 bytes"},
      {"one byte too many", npy(dictionary("<f4", "(1,)"), "abcde"),
       "the array takes 4 bytes, 5 follow the header; the file is damaged or holds several arrays"},
      {"data for a size of 0", npy(dictionary("<f4", "(0,)"), "a"), "the array takes 0 bytes, 1 follow"},
      {"a bool of 2", npy(dictionary("|b1", "(2,)"), "\1\2"), "the array holds the bool 2, only 0 and 1 are allowed"},
  };
  for (size_t size = 1; size < good.size(); ++size) {
    const char* telling = size < 6 ? "the magic number" : size < 12 ? "cut short" : "bytes, ";
    files.push_back({fmt::format("cut to {} bytes", size), good.substr(0, size), telling});
  }
  expect_refused(files, [](Bytes bytes, std::string_view file) { parse_npy(bytes, file); });
}

}  // namespace
}  // namespace bochner
