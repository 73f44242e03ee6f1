#include "experiments/common/run/events.h"

#include <array>
#include <bit>
#include <chrono>

#include "engine/io/bytes.h"

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

}  // namespace

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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

EventsFile::EventsFile(const std::filesystem::path& path, const FileMark& keep) : file_(path, keep) {
  if (keep.bytes == 0) write({.wall_time = seconds_since_1970(), .step = 0, .tag = ""});
}

}  // namespace bochner
