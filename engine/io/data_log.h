// Which data a program read, and their hashes: while a DataLog exists, the bytes of every file that open_unpacked()
// (stream.h) opens are hashed as they are read, so nothing is read twice.
//
//   const DataLog log;
//   const Tensor images = read_idx("mnist/train-images-idx3-ubyte.gz");
//   for (const DataRead& read : log.reads()) fmt::print("{}  {}\n", read.sha256, read.name);
//
// The hash is SHA-256, as publishers and `sha256sum` state it; with the processor's instructions it takes less time
// than parsing does. For a gzip file it is the hash of the unpacked bytes, so packing a file does not change it.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "engine/io/stream.h"

namespace bochner {

struct DataRead {
  std::string name;  ///< the file, as it was named; of data made in memory what they are
  int64_t bytes = 0;
  std::string sha256{};
  bool generated = false;  ///< made in memory: `sha256` is that of their bytes there
  bool whole = true;       ///< was it read to its end? Else these are its first `bytes` bytes

  bool operator==(const DataRead&) const = default;
};

/// Collects what is read while it stands. Where several do, the innermost has it.
class DataLog {
 public:
  DataLog();
  ~DataLog();
  DataLog(const DataLog&) = delete;
  DataLog& operator=(const DataLog&) = delete;

  /// In the order in which reading ended, each once; what was looked into and then read whole, as whole.
  std::vector<DataRead> reads() const;

  static bool stands();
  /// Tells the innermost log, if one stands. Files tell by themselves; this is for what comes from elsewhere.
  static void add(const DataRead& read);

 private:
  DataLog* outer_;
  std::vector<DataRead> reads_;
};

/// Tells of data made in memory, which are these bytes one after the other. Nothing is hashed where no log stands.
void log_generated(const std::string& name, std::initializer_list<Bytes> bytes);

/// `source`, which tells the log at its end, or when it is given up, what was read from it as the file `path`.
std::unique_ptr<ByteSource> logged(std::unique_ptr<ByteSource> source, const std::filesystem::path& path);

}  // namespace bochner
