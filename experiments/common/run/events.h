// TensorBoard event files: TFRecords (https://www.tensorflow.org/tutorials/load_data/tfrecord) of Event messages
// (tensorflow/core/util/event.proto) that hold one scalar each. Written by hand: four fields need no protobuf library.
//
//   record  = length (u64)  crc(length) (u32)  bytes  crc(bytes) (u32), least significant byte first
//   crc(x)  = ((c >> 15) | (c << 17)) + 0xa282ead8 with c = CRC-32C of x
//   Event   = 1: wall time (double)  2: step (varint)  3: "brain.Event:2" (first event)  5: Summary
//   Summary = 1: Value = { 1: tag (string)  2: value (float) }
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "experiments/common/run/append_file.h"

namespace bochner {

/// Now.
double seconds_since_1970();

/// CRC-32C (Castagnoli), and the masked form that a TFRecord holds.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

struct ScalarEvent {
  double wall_time = 0;  ///< seconds_since_1970()
  int64_t step = 0;
  std::string tag{};  ///< `loss/train`; empty for the event that opens a file
  float value = 0;
};

/// One record.
std::string format_event(const ScalarEvent& event);

class EventsFile {
 public:
  /// Continues after `keep` (AppendFile); an empty mark begins a new file.
  EventsFile(const std::filesystem::path& path, const FileMark& keep);
  void write(const ScalarEvent& event) { file_.append(format_event(event)); }
  void sync() { file_.sync(); }
  FileMark mark() const { return file_.mark(); }

 private:
  AppendFile file_;
};

}  // namespace bochner
