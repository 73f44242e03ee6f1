// Which data a program read, and their hashes: while a DataLog exists, the bytes of every file that open_unpacked()
// (stream.h) opens are hashed as they are read, so nothing is read twice.
//
//   const DataLog log;
//   const Tensor images = read_idx("mnist/train-images-idx3-ubyte.gz");
//   for (const DataRead& read : log.reads()) fmt::print("{}  {}\n", read.sha256, read.name);
//
// The hash is SHA-256, as publishers and `sha256sum` give it; with the processor's SHA instructions it takes less time
// than parsing. For a gzip file it is the hash of the decompressed bytes, so compressing a file does not change it.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "engine/io/stream.h"

namespace bochner {

struct DataRead {
  std::string name;  ///< the file name as given, or a description of data made in memory
  int64_t bytes = 0;
  std::string sha256{};
  bool generated = false;  ///< made in memory: `sha256` is the hash of the bytes in memory
  bool whole = true;       ///< whether it was read to its end; if not, this is about its first `bytes` bytes

  bool operator==(const DataRead&) const = default;
};

/// Collects what is read while it exists. If several exist, the innermost one collects.
class DataLog {
 public:
  DataLog();
  ~DataLog();
  DataLog(const DataLog&) = delete;
  DataLog& operator=(const DataLog&) = delete;

  /// In the order in which reading ended, each file once; a file that was first read in part and then whole is listed
  /// as whole.
  std::vector<DataRead> reads() const;

  /// Whether there is a log.
  static bool is_active();
  /// Adds to the innermost log, if there is one. Files are added without it; this is for data from elsewhere.
  static void add(const DataRead& read);

 private:
  DataLog* outer_;
  std::vector<DataRead> reads_;
};

/// Adds data made in memory, the concatenation of these bytes. Nothing is hashed if there is no log.
void log_generated(const std::string& name, std::initializer_list<Bytes> bytes);

/// A source that reads `source` and, at its end or when it is destroyed, adds what was read from the file `path` to the
/// log.
std::unique_ptr<ByteSource> logged(std::unique_ptr<ByteSource> source, const std::filesystem::path& path);

}  // namespace bochner
