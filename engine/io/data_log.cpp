#include "engine/io/data_log.h"

#include <algorithm>
#include <mutex>

#include "engine/io/sha256.h"

namespace bochner {
namespace {

std::mutex mutex;                  // NOLINT: guards the log and what is in it
DataLog* innermost_log = nullptr;  // NOLINT

class LoggedSource final : public ByteSource {
 public:
  LoggedSource(std::unique_ptr<ByteSource> source, const std::filesystem::path& path)
      : source_(std::move(source)), path_(path.string()) {}
  ~LoggedSource() override {
    if (!ended_ && bytes_ > 0) tell(false);
  }

  const std::string& name() const override { return source_->name(); }
  size_t read(std::span<std::byte> to) override {
    const size_t count = source_->read(to);
    hash_.update(to.first(count));
    bytes_ += static_cast<int64_t>(count);
    if (count == 0 && !to.empty() && !ended_) {
      ended_ = true;
      tell(true);
    }
    return count;
  }

 private:
  void tell(bool whole) const { DataLog::add({path_, bytes_, hash_.hex(), false, whole}); }

  std::unique_ptr<ByteSource> source_;
  std::string path_;
  Sha256 hash_;
  int64_t bytes_ = 0;
  bool ended_ = false;
};

}  // namespace

DataLog::DataLog() {
  const std::lock_guard lock(mutex);
  outer_ = innermost_log;
  innermost_log = this;
}

DataLog::~DataLog() {
  const std::lock_guard lock(mutex);
  innermost_log = outer_;
}

std::vector<DataRead> DataLog::reads() const {
  const std::lock_guard lock(mutex);
  return reads_;
}

bool DataLog::is_active() {
  const std::lock_guard lock(mutex);
  return innermost_log != nullptr;
}

void DataLog::add(const DataRead& read) {
  const std::lock_guard lock(mutex);
  if (innermost_log == nullptr) return;
  std::vector<DataRead>& reads = innermost_log->reads_;
  const auto same = [&](const DataRead& other) { return other.name == read.name && other.generated == read.generated; };
  if (!read.whole && std::any_of(reads.begin(), reads.end(), same)) return;  // is listed already
  std::erase_if(reads, [&](const DataRead& other) { return same(other) && (!other.whole || other == read); });
  reads.push_back(read);
}

void log_generated(const std::string& name, std::initializer_list<Bytes> bytes) {
  if (!DataLog::is_active()) return;
  DataRead made{.name = name, .generated = true};
  Sha256 hash;
  for (const Bytes part : bytes) {
    hash.update(part);
    made.bytes += static_cast<int64_t>(part.size());
  }
  made.sha256 = hash.hex();
  DataLog::add(made);
}

std::unique_ptr<ByteSource> logged(std::unique_ptr<ByteSource> source, const std::filesystem::path& path) {
  return std::make_unique<LoggedSource>(std::move(source), path);
}

}  // namespace bochner
