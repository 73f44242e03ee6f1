#include "experiments/common/run/events.h"

#include <array>
#include <bit>
#include <chrono>

#include "engine/error.h"

namespace bochner {
namespace {

constexpr std::string_view kFileVersion = "brain.Event:2";
constexpr int kWallTime = 1;
constexpr int kStep = 2;
constexpr int kVersion = 3;
constexpr int kSummary = 5;
constexpr int kSummaryValue = 1;
constexpr int kTag = 1;
constexpr int kSimpleValue = 2;

enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1U) != 0 ? 0x82f63b78U : 0U);
    table[i] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = crc_table();

template <class T>
std::string little(T value) {
  const auto bytes = little_bytes(value);
  return std::string(text_of(bytes));
}

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7fU) | 0x80U);
  return text += static_cast<char>(value);
}

std::string key(int field, WireType wire) {
  return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

std::string message(int field, std::string_view bytes) {
  return key(field, WireType::bytes).append(varint(bytes.size())).append(bytes);
}

std::string record(std::string_view bytes) {
  const std::string length = little<uint64_t>(bytes.size());
  return std::string(length).append(little(masked_crc32c(length))).append(bytes).append(little(masked_crc32c(bytes)));
}

uint64_t read_varint(ByteReader& reader) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = reader.little<uint8_t>("a varint");
    value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
  reader.fail_here("a varint has more than 64 bits");
}

/// Calls f(field, wire, number or bytes) for each field of a message.
template <class F>
void for_each_field(Bytes bytes, const F& f) {
  ByteReader reader(bytes, "event");
  while (reader.remaining() > 0) {
    const uint64_t tag = read_varint(reader);
    const auto wire = static_cast<WireType>(tag & 7U);
    const auto field = static_cast<int>(std::min<uint64_t>(tag >> 3, 1U << 29));
    switch (wire) {
      case WireType::varint:
        f(field, wire, read_varint(reader), Bytes());
        break;
      case WireType::fixed64:
        f(field, wire, reader.little<uint64_t>("a double"), Bytes());
        break;
      case WireType::fixed32:
        f(field, wire, reader.little<uint32_t>("a float"), Bytes());
        break;
      case WireType::bytes: {
        const uint64_t length = read_varint(reader);
        if (length > static_cast<uint64_t>(reader.remaining())) reader.fail_here("a field passes the end");
        f(field, wire, uint64_t{0}, reader.take(static_cast<int64_t>(length), "a field"));
        break;
      }
      default:
        reader.fail_here("unknown wire type {}", tag & 7U);
    }
  }
}

ScalarEvent parse_event(Bytes bytes) {
  ScalarEvent event;
  for_each_field(bytes, [&](int field, WireType wire, uint64_t number, Bytes inside) {
    if (field == kWallTime && wire == WireType::fixed64) event.wall_time = std::bit_cast<double>(number);
    if (field == kStep && wire == WireType::varint) event.step = static_cast<int64_t>(number);
    if (field != kSummary || wire != WireType::bytes) return;
    for_each_field(inside, [&](int part, WireType part_wire, uint64_t, Bytes value) {
      if (part != kSummaryValue || part_wire != WireType::bytes) return;
      for_each_field(value, [&](int leaf, WireType leaf_wire, uint64_t bits, Bytes text) {
        if (leaf == kTag && leaf_wire == WireType::bytes) event.tag = std::string(text_of(text));
        if (leaf == kSimpleValue && leaf_wire == WireType::fixed32) {
          event.value = std::bit_cast<float>(static_cast<uint32_t>(bits));
        }
      });
    });
  });
  return event;
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t c = ~uint32_t{0};
  for (const char byte : bytes) c = kCrcTable[(c ^ static_cast<uint8_t>(byte)) & 0xffU] ^ (c >> 8);
  return ~c;
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t c = crc32c(bytes);
  return ((c >> 15) | (c << 17)) + 0xa282ead8U;
}

std::string format_event(const ScalarEvent& event) {
  std::string bytes = key(kWallTime, WireType::fixed64).append(little(std::bit_cast<uint64_t>(event.wall_time)));
  bytes.append(key(kStep, WireType::varint)).append(varint(static_cast<uint64_t>(event.step)));
  if (event.tag.empty()) return record(bytes.append(message(kVersion, kFileVersion)));
  const std::string value = message(kTag, event.tag)
                                .append(key(kSimpleValue, WireType::fixed32))
                                .append(little(std::bit_cast<uint32_t>(event.value)));
  return record(bytes.append(message(kSummary, message(kSummaryValue, value))));
}

Events parse_events(Bytes bytes) {
  Events result;
  ByteReader reader(bytes, "events");
  try {
    while (reader.remaining() > 0) {
      const Bytes length_bytes = reader.take(8, "the length of a record");
      const uint64_t length = ByteReader(length_bytes, "events").little<uint64_t>("the length of a record");
      if (reader.little<uint32_t>("a checksum") != masked_crc32c(text_of(length_bytes))) break;
      if (length > static_cast<uint64_t>(reader.remaining())) break;
      const Bytes data = reader.take(static_cast<int64_t>(length), "a record");
      if (reader.little<uint32_t>("a checksum") != masked_crc32c(text_of(data))) break;
      result.events.push_back(parse_event(data));
      result.ends.push_back(reader.offset());
    }
  } catch (const Error&) {
    return result;  // the damaged end of a file that a crash cut short
  }
  return result;
}

EventsFile::EventsFile(const std::filesystem::path& path, const FileMark& keep) : file_(path, keep) {
  if (keep.bytes == 0) write({.wall_time = now_seconds(), .step = 0, .tag = ""});
}

}  // namespace bochner
