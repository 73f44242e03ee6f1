#include "engine/io/safetensors.h"

#include <cmath>
#include <limits>

#include "tests/engine/io/io_test.h"

namespace bochner {
namespace {

using test::BadFile;
using test::elements;
using test::expect_refused;
using test::golden;
using test::largest_allocation;
using test::message_of;
using test::TemporaryFolder;
using test::text;

constexpr DType kAllTypes[] = {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8, DType::boolean};

/// A tensor whose elements differ as far as the type allows.
Tensor sample(const Shape& shape, DType dtype) {
  return Tensor::arange(shape.size(), DType::i64).view(shape).cast(dtype);
}

void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(elements(a), elements(b));
}

/// A file from another writer: the header as given, then the data.
std::string file_of(const std::string& json, const std::string& data = "") {
  return text(little_bytes<uint64_t>(json.size())) + json + data;
}

TensorMap some_tensors() {
  return {{"layer.0.weight", sample({3, 2}, DType::f32)},
          {"layer.0.bias", sample({3}, DType::bf16)},
          {"mask", sample({2}, DType::boolean)},
          {"nothing", sample({0, 4}, DType::i64)},
          {"step", Tensor::scalar(7, DType::i64)}};
}

TEST(Safetensors, RoundTripKeepsAllTypesShapesAndBits) {
  TensorMap tensors;
  for (const DType dtype : kAllTypes) {
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{1}, Shape{3, 0, 2}, Shape{5}, Shape{2, 3, 1}, Shape{1, 1, 1, 1, 1, 1, 1, 3}}) {
      tensors[fmt::format("{} {}", name_of(dtype), shape.str())] = sample(shape, dtype);
    }
  }
  tensors["special"] = Tensor::from<float>({NAN, -0.F, INFINITY, std::numeric_limits<float>::denorm_min()}, {4});
  tensors["transposed"] = sample({2, 3}, DType::i32).transpose(0, 1);
  tensors["every second"] = sample({9}, DType::f64).slice(0, 1, 9, 2);
  const Metadata metadata = {{"config", "[a]\nb = \"größe\" \\ \x01"}, {"", ""}};
  const TemporaryFolder folder;
  write_safetensors(folder / "f", tensors, metadata);
  const Safetensors file = read_safetensors(folder / "f");
  EXPECT_EQ(file.metadata, metadata);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    SCOPED_TRACE(name);
    expect_same(file.tensors.at(name), tensor);
  }
  EXPECT_EQ(folder.names(), std::set<std::string>{"f"});
  EXPECT_EQ(read_file(folder / "f"), format_safetensors(tensors, metadata));
}

TEST(Safetensors, NoTensorsAtAllRoundTrip) {
  const Safetensors file = parse_safetensors(format_safetensors({}, {}), "f");
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_TRUE(file.metadata.empty());
}

TEST(Safetensors, WritesThisLayout) {
  const std::string bytes = text(format_safetensors(
      {{"b", Tensor::from<float>({1.F}, {1})}, {"a", Tensor::from<uint8_t>({2, 3}, {2, 1})}}, {{"key", "value"}}));
  // The digits are those of `xxhsum -H2`, an independent implementation: of the elements 00 00 80 3f and 02 03, and of
  // everything before them with the digits of the header's hash set to '0'.
  const std::string json =
      R"({"__metadata__":{"bochner.hash":"xxh3_128","bochner.hash.header":"e0e51f5fb1d047d18bab2cc96b4b7636",)"
      R"("bochner.hash.tensor.a":"a42e2d285ac546d842397b5bd37a77cf","bochner.hash.tensor.b":"e6f9acca6893caeb591ef4e963e120d4","key":"value"},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[2,1],"data_offsets":[4,6]}})";
  EXPECT_EQ(bytes, file_of(json + std::string((8 - json.size() % 8) % 8, ' '), std::string("\0\0\x80\x3f\2\3", 6)));
}

TEST(Safetensors, ReadsFilesOfOtherWriters) {
  const Safetensors file = read_safetensors(golden("numpy.safetensors"));
  EXPECT_EQ(file.metadata, (Metadata{{"format", "np"}, {"note", "größe \"and\" \\ \n end"}}));
  EXPECT_EQ(file.tensors.size(), 13U);
  const auto values = [&](const char* name, DType dtype, const Shape& shape) {
    const Tensor& tensor = file.tensors.at(name);
    EXPECT_EQ(tensor.dtype(), dtype) << name;
    EXPECT_EQ(tensor.shape(), shape) << name;
    return tensor.to_vector<double>();
  };
  using Values = std::vector<double>;
  EXPECT_EQ(values("f32", DType::f32, {1, 3}), (Values{1.5, -2, 3.25}));
  EXPECT_EQ(values("f64", DType::f64, {2}), (Values{1e300, -0.0}));
  EXPECT_EQ(values("i32", DType::i32, {}), (Values{-7}));
  EXPECT_EQ(values("i64", DType::i64, {2, 1}), (Values{1099511627776, -1}));
  EXPECT_EQ(values("u8", DType::u8, {3}), (Values{0, 255, 7}));
  EXPECT_EQ(values("bool", DType::boolean, {2}), (Values{1, 0}));
  EXPECT_EQ(values("f16", DType::f32, {4}), (Values{0.5, -65504, std::ldexp(1, -24), INFINITY}));
  EXPECT_EQ(values("i8", DType::i32, {2}), (Values{-128, 127}));
  EXPECT_EQ(values("i16", DType::i32, {2}), (Values{-32768, 32767}));
  EXPECT_EQ(values("u16", DType::i32, {1}), (Values{65535}));
  EXPECT_EQ(values("u32", DType::i64, {1}), (Values{4294967295}));
  EXPECT_EQ(values("empty", DType::f32, {0, 3}), Values{});
  EXPECT_EQ(values("größe", DType::f32, {2}), (Values{1, 1}));
}

TEST(Safetensors, ReadsHandWrittenHeaders) {
  EXPECT_TRUE(parse_safetensors(bytes_of(file_of("{}")), "f").tensors.empty());
  EXPECT_TRUE(parse_safetensors(bytes_of(file_of("{ \"__metadata__\" : { } }   \n")), "f").metadata.empty());
  const std::string json =
      R"({"b":{"data_offsets":[2,4],"shape":[2],"dtype":"U8"},"none":{"dtype":"F64","shape":[0,9],"data_offsets":[2,2]},)"
      R"("\u0061\/":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"c":{"dtype":"BOOL","shape":[1],"data_offsets":[1,2]}})";
  const Safetensors file = parse_safetensors(bytes_of(file_of(json, std::string("\x05\x00\x06\x07", 4))), "f");
  EXPECT_EQ(file.tensors.at("a/").item(), 5);
  EXPECT_EQ(file.tensors.at("b").to_vector<int32_t>(), (std::vector<int32_t>{6, 7}));
  EXPECT_EQ(file.tensors.at("c").item(), 0);
  EXPECT_EQ(file.tensors.at("none").shape(), (Shape{0, 9}));
}

TEST(Safetensors, TensorsCanBeReadOneByOne) {
  const TemporaryFolder folder;
  const TensorMap tensors = some_tensors();
  write_safetensors(folder / "f", tensors, {{"config", "x"}});
  const SafetensorsFile file(folder / "f");
  EXPECT_EQ(file.tensor_names(),
            (std::vector<std::string>{"layer.0.bias", "layer.0.weight", "mask", "nothing", "step"}));
  EXPECT_EQ(file.shape("layer.0.weight"), (Shape{3, 2}));
  EXPECT_EQ(file.dtype("layer.0.bias"), DType::bf16);
  EXPECT_EQ(file.metadata(), (Metadata{{"config", "x"}}));
  EXPECT_TRUE(file.contains("mask"));
  expect_same(file.read("mask"), tensors.at("mask"));
  EXPECT_EQ(
      message_of([&] { file.read("layer.1.weight"); }),
      (folder / "f").string() +
          ": holds no tensor 'layer.1.weight'; of its 5 tensors the nearest in order are 'layer.0.weight' 'mask'");
}

TEST(Safetensors, EveryChangeOfEveryByteIsNoticedAndATensorIsNamed) {
  const TensorMap tensors = {
      {"first", sample({3}, DType::f32)}, {"second", sample({2}, DType::boolean)}, {"third", sample({3}, DType::u8)}};
  const std::string good = text(format_safetensors(tensors, {{"config", "steps = 3"}}));
  const size_t data = good.size() - 17;
  for (size_t i = 0; i < good.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      const std::string message = message_of([&] { parse_safetensors(bytes_of(bad), "f"); });
      ASSERT_TRUE(message.starts_with("f: offset ")) << message << " at byte " << i << " changed by " << change;
      if (i < data) continue;
      const char* tensor = i < data + 12 ? "'first'" : i < data + 14 ? "'second'" : "'third'";
      ASSERT_NE(message.find(tensor), std::string::npos) << message << " at byte " << i;
      ASSERT_NE(message.find("do not match their hash"), std::string::npos) << message << " at byte " << i;
    }
  }
}

TEST(Safetensors, EveryFlippedBitOfAFileWithoutTensorsIsNoticed) {
  const std::string good = text(format_safetensors({}, {}));
  for (size_t i = 0; i < good.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      ASSERT_NE(message_of([&] { parse_safetensors(bytes_of(bad), "f"); }), "no error")
          << "byte " << i << " changed by " << change;
    }
  }
}

TEST(Safetensors, EveryCutAndEveryMissingOrDoubledByteIsNoticed) {
  const TemporaryFolder folder;
  const std::string good = text(format_safetensors(some_tensors(), {{"config", "x"}}));
  for (size_t i = 0; i < good.size(); ++i) {
    const std::string cut = good.substr(0, i);
    ASSERT_NE(message_of([&] { parse_safetensors(bytes_of(cut), "f"); }), "no error") << i;
    const std::string missing = good.substr(0, i) + good.substr(i + 1);
    ASSERT_NE(message_of([&] { parse_safetensors(bytes_of(missing), "f"); }), "no error") << i;
    const std::string doubled = good.substr(0, i) + good[i] + good.substr(i);
    ASSERT_NE(message_of([&] { parse_safetensors(bytes_of(doubled), "f"); }), "no error") << i;
  }
  write_file_atomically(folder / "f", good.substr(0, good.size() - 1));
  EXPECT_NE(message_of([&] { read_safetensors(folder / "f"); }).find("the file ends here, inside tensor 'mask'"),
            std::string::npos);
}

TEST(Safetensors, RefusesToWriteWhatCanNotBeRead) {
  const Tensor x = Tensor::scalar(1);
  EXPECT_EQ(message_of([&] {
              format_safetensors({{"__metadata__", x}});
            }),
            "safetensors: the tensor name '__metadata__' is taken; rename the tensor");
  EXPECT_EQ(message_of([&] {
              format_safetensors({{"x", Tensor()}});
            }),
            "safetensors: 'x' is no tensor; only defined tensors can be saved");
  EXPECT_EQ(message_of([&] {
              format_safetensors({{"x", x}}, {{"bochner.hash.tensor.x", "0"}});
            }),
            "safetensors: the metadata key 'bochner.hash.tensor.x' is taken; rename it");
  for (const Metadata& metadata : {Metadata{{"key", "\xff"}}, Metadata{{"\xc3", "value"}}}) {
    EXPECT_NE(message_of([&] { format_safetensors({{"x", x}}, metadata); }).find("not UTF-8"), std::string::npos);
  }
  EXPECT_NE(message_of([&] { format_safetensors({{"\xff", x}}); }).find("not UTF-8"), std::string::npos);
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]}";
}
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets,
                const std::string& data = "") {
  return file_of("{\"x\":" + entry(dtype, shape, offsets) + "}", data);
}
std::string two(const std::string& first, const std::string& second, const std::string& data) {
  return file_of("{\"a\":" + entry("U8", "2", first) + ",\"b\":" + entry("U8", "2", second) + "}", data);
}

TEST(Safetensors, RefusesBadFiles) {
  const std::string ours = text(format_safetensors({{"x", Tensor::from<float>({1}, {1})}}, {}));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string bytes = ours;
    return bytes.replace(bytes.find(from), from.size(), to);
  };
  std::vector<BadFile> files = {
      {"an empty file", "", "the file is empty, the length of the header should stand at its start"},
      {"the length cut", "\x08\0\0", "offset 0: the length of the header takes 8 bytes, only"},
      {"nothing behind the length", text(little_bytes<uint64_t>(8)), "should take 8 bytes, only 0 follow"},
      {"no header", text(little_bytes<uint64_t>(0)), "does not begin with '{'"},
      {"a huge header length", text(little_bytes<uint64_t>(UINT64_MAX)) + "{}",
       "the header length 18446744073709551615 is above 100000000"},
      {"a header length just above the limit", text(little_bytes<uint64_t>(100'000'001)) + "{}", "is above 100000000"},
      {"a header length just below the limit", text(little_bytes<uint64_t>(100'000'000)) + "{}", "only 2 follow"},
      {"a pickle", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", "is above 100000000"},
      {"a pointer of Git LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"},
      {"a blank before the header", file_of(" {}"), "does not begin with '{'"},
      {"a byte order mark", file_of("\xef\xbb\xbf{}"), "does not begin with '{'"},
      {"an array", file_of("[]"), "does not begin with '{'"},
      {"an unclosed object", file_of("{\"x\":{"), "safetensors header: not JSON: "},
      {"no JSON", file_of("{x}"), "offset 10: safetensors header: not JSON: "},
      {"text behind the object", file_of("{}{}"), "not JSON: "},
      {"a zero byte as padding", file_of(std::string("{}\0", 3)), "offset 10: safetensors header: a zero byte"},
      {"text behind a zero byte", file_of(std::string("{}\0{}", 5)), "offset 10: safetensors header: a zero byte"},
      {"a comment", file_of("{}//x"), "not JSON: "},
      {"a trailing comma", file_of("{\"__metadata__\":{},}"), "not JSON: "},
      {"a number too large", file_of("{\"x\":1e999}"), "safetensors header: not JSON: 'number overflow"},
      {"no UTF-8", file_of("{\"\xff\":1}"), "not JSON: "},
      {"half a surrogate pair", file_of(R"({"\ud800":1})"), "not JSON: "},
      {"a control character in a name", file_of("{\"a\nb\":1}"), "not JSON: "},
      {"a number as tensor", file_of("{\"x\":1}"), "the entry 'x' is the number 1, it must be an object"},
      {"null as tensor", file_of("{\"x\":null}"), "the entry 'x' is null, it must be an object"},
      {"a string as tensor", file_of("{\"x\":\"y\"}"), "the entry 'x' is the string 'y', it must be an object"},
      {"an array as tensor", file_of("{\"x\":[]}"), "the entry 'x' is an array, it must be an object"},
      {"deep nesting of arrays", file_of("{\"x\":" + std::string(100000, '[')), "the entry 'x' is an array"},
      {"deep nesting of objects", file_of("{\"x\":{\"shape\":" + std::string(1000, '{')),
       "'shape' in tensor 'x' is an object"},
      {"deep nesting of named objects", file_of([] {
         std::string json = "{";
         for (int i = 0; i < 10000; ++i) json += "\"dtype\":{";
         return json;
       }()),
       "'dtype' in tensor 'dtype' is an object, it must be a string"},
      {"nested shape", file_of(R"({"x":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "x"),
       "the shape of tensor 'x' is an array, it must be a non-negative integer"},
      {"metadata as list", file_of(R"({"__metadata__":[]})"), "the entry '__metadata__' is an array"},
      {"a number in the metadata", file_of(R"({"__metadata__":{"step":3}})"),
       "'step' in __metadata__ is the number 3, it must be a string"},
      {"an object in the metadata", file_of(R"({"__metadata__":{"a":{}}})"), "'a' in __metadata__ is an object"},
      {"a name twice", file_of("{\"x\":" + entry("U8", "1", "0,1") + ",\"x\":" + entry("U8", "1", "1,2") + "}", "ab"),
       "'x' stands here for the second time"},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})"),
       "'__metadata__' stands here for the second"},
      {"a metadata key twice", file_of(R"({"__metadata__":{"a":"1","a":"2"}})"),
       "'a' stands here for the second time in __metadata__"},
      {"dtype twice", file_of(R"({"x":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})", "x"),
       "'dtype' stands here for the second time in tensor 'x'"},
      {"no dtype", file_of(R"({"x":{"shape":[1],"data_offsets":[0,1]}})", "x"), "tensor 'x' lacks its \"dtype\""},
      {"no shape", file_of(R"({"x":{"dtype":"U8","data_offsets":[0,1]}})", "x"), "tensor 'x' lacks its \"shape\""},
      {"no offsets", file_of(R"({"x":{"dtype":"U8","shape":[1]}})", "x"), "tensor 'x' lacks its \"data_offsets\""},
      {"an unknown key", file_of(R"({"x":{"type":"U8"}})"), "tensor 'x' has the unknown key 'type'"},
      {"a key with escape codes", file_of(R"({"x":{"\u001b[31m":"U8"}})"), "the unknown key '\\x1b[31m'"},
      {"an unknown dtype", one("F8_E4M3", "1", "0,1", "x"), "tensor 'x' has the dtype 'F8_E4M3', known are F32, F64"},
      {"a dtype in small letters", one("f32", "1", "0,4", "abcd"), "has the dtype 'f32'"},
      {"no dtype name", one("", "1", "0,4", "abcd"), "has the dtype ''"},
      {"a number as dtype", file_of(R"({"x":{"dtype":1}})"), "'dtype' in tensor 'x' is the number 1"},
      {"one offset", one("U8", "1", "0", "x"), "data_offsets of tensor 'x' are 1 numbers, not two"},
      {"three offsets", one("U8", "1", "0,1,1", "x"), "data_offsets of tensor 'x' are 3 numbers, not two"},
      {"a negative size", one("U8", "-1", "0,1", "x"), "the shape of tensor 'x' is a negative number"},
      {"a fraction", one("U8", "1.0", "0,1", "x"), "the shape of tensor 'x' is the number '1.0'"},
      {"an exponent", one("U8", "1e3", "0,1", "x"), "the shape of tensor 'x' is the number '1e3'"},
      {"a size of 64 bits", one("U8", "18446744073709551615", "0,1", "x"), "18446744073709551615 in the shape of"},
      {"a size of 65 bits", one("U8", "18446744073709551616", "0,1", "x"), "is the number '18446744073709551616'"},
      {"a product that overflows", one("U8", "4294967296,4294967296", "0,0"), "whose bytes overflow 63 bits"},
      {"a product that overflows to the right size", one("F32", "4611686018427387905", "0,4", "abcd"),
       "whose bytes overflow 63 bits"},
      {"an overflow hidden by a 0", one("U8", "0,4611686018427387904,4611686018427387904", "0,0"), "overflow 63 bits"},
      {"an overflow after widening", one("U32", "2000000000000000000", "0,8000000000000000000", "x"),
       "overflow 63 bits"},
      {"nine axes", one("U8", "1,1,1,1,1,1,1,1,1", "0,1", "x"), "tensor 'x' has 9 axes"},
      {"a tensor of an exabyte", one("U8", "1152921504606846976", "0,1152921504606846976", "x"),
       "the file ends here, inside tensor 'x'"},
      {"a tensor of 4 GB", one("F32", "1000,1000,1000", "0,4000000000", "x"), "the file ends here, inside tensor 'x'"},
      {"offsets too small for the shape", one("F32", "2", "0,4", "abcd"),
       "takes 8 bytes, but its data_offsets are [0, 4]"},
      {"offsets too large for the shape", one("F32", "1", "0,8", "abcdefgh"), "takes 4 bytes, but its data_offsets"},
      {"offsets in the wrong order", one("U8", "1", "1,0", "x"), "takes 1 bytes, but its data_offsets are [1, 0]"},
      {"the first byte left out", one("U8", "1", "1,2", "ab"), "begins at byte 1 of the data, but the data begin at 0"},
      {"overlapping tensors", two("0,2", "1,3", "abc"), "tensor 'b' begins at byte 1 of the data, but 'a' ends at 2"},
      {"the same bytes twice", two("0,2", "0,2", "ab"), "tensor 'b' begins at byte 0 of the data, but 'a' ends at 2"},
      {"a gap", two("0,2", "3,5", "abcde"), "tensor 'b' begins at byte 3 of the data, but 'a' ends at 2"},
      {"offsets beyond the file", one("U8", "1", "9223372036854775806,9223372036854775807", "x"), "begins at byte"},
      {"data cut short", two("0,2", "2,4", "abc"), "the file ends here, inside tensor 'b'"},
      {"bytes behind the last tensor", one("U8", "1", "0,1", "xy"), "1 bytes follow the last tensor"},
      {"bytes though there is no tensor", file_of("{}", "xy"), "2 bytes follow the last tensor"},
      {"a bool of 2", one("BOOL", "3", "0,3", std::string("\1\0\2", 3)), "tensor 'x' holds the bool 2, only 0 and 1"},
      {"a changed element", ours.substr(0, ours.size() - 1) + "\x40",
       "the 4 bytes of tensor 'x' do not match their hash"},
      {"a changed name", replaced("\"x\"", "\"y\""), "the header does not match its hash"},
      {"an upper-case digit", replaced("\"xxh3_128\"", "\"XXH3_128\""), "the header does not match its hash"},
      {"no hash of the header", file_of(R"({"__metadata__":{"bochner.hash":"xxh3_128"}})"),
       "the metadata hold bochner.hash keys, but not as Bochner writes them"},
      {"only a hash of a tensor", file_of(R"({"__metadata__":{"bochner.hash.tensor.x":""}})"),
       "but not as Bochner writes"},
      {"a short hash of the header", file_of(R"({"__metadata__":{"bochner.hash.header":"00"}})"), "but not as Bochner"},
  };
  expect_refused(files, [](Bytes bytes, std::string_view file) { parse_safetensors(bytes, file); });
}

TEST(Safetensors, BadFilesOnDiskAreRefusedWithoutAHugeAllocation) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "f", one("F32", "1000,1000,1000", "0,4000000000", "x"));
  std::string message;
  EXPECT_LE(largest_allocation([&] { message = message_of([&] { read_safetensors(folder / "f"); }); }), 1 << 17);
  EXPECT_TRUE(message.starts_with((folder / "f").string() + ": offset ")) << message;
}

}  // namespace
}  // namespace bochner
