// Reads event files of TensorBoard back (experiments/common/run/events.h).
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/error.h"
#include "engine/io/bytes.h"
#include "experiments/common/run/events.h"

namespace bochner::test {

/// The events of a file up to the first damaged record, such as a crash leaves.
struct Events {
  std::vector<ScalarEvent> events;
  std::vector<int64_t> ends;  ///< of each record, in bytes
};

enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

inline uint64_t read_varint(ByteReader& reader) {
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

inline ScalarEvent parse_event(Bytes bytes) {
  constexpr int kWallTime = 1, kStep = 2, kSummary = 5, kSummaryValue = 1, kTag = 1, kSimpleValue = 2;
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

inline Events parse_events(Bytes bytes) {
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

}  // namespace bochner::test
