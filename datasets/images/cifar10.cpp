#include "datasets/images/cifar10.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/sha256.h"

namespace bochner::images {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRecordsPerFile = 10'000;
constexpr int kTrainFiles = 5;
constexpr const char* kArchive = "cifar-10-binary";
constexpr const char* kSource = "www.cs.toronto.edu/~kriz/cifar.html";

struct Sets {
  std::array<std::optional<Images>, kTrainFiles> train;
  std::optional<Images> test;
};

/// Which file of the set has this name: 0 ... 4 for training, 5 for the test; nothing if it is none of them. A part of
/// the test file may have more text in the middle of its name: test_batch.first1000.bin.
std::optional<int> place_of(std::string_view name) {
  for (const char* ending : {".gz", ".zst"}) {
    if (name.ends_with(ending)) name.remove_suffix(std::string_view(ending).size());
  }
  if (!name.ends_with(".bin")) return std::nullopt;
  for (int i = 0; i < kTrainFiles; ++i) {
    if (name == fmt::format("data_batch_{}.bin", i + 1)) return i;
  }
  return name.starts_with("test_batch.") ? std::optional(kTrainFiles) : std::nullopt;
}

void take(ByteSource& source, std::string_view name, Sets& sets) {
  const std::optional<int> place = place_of(name);
  if (!place) return;
  std::optional<Images>& images = *place == kTrainFiles ? sets.test : sets.train.at(static_cast<size_t>(*place));
  if (images) fail("{}: another file has these images, too; keep one of them", source.name());
  images.emplace();
  read_records(source, *images);
}

void take_archive(const fs::path& path, Sets& sets) {
  ArchiveReader archive(path);
  while (archive.next()) {
    const std::string name = fs::path(archive.name()).filename().string();
    if (!place_of(name)) continue;
    const std::vector<std::byte> bytes = archive.read(kRecordsPerFile * kRecordBytes);
    MemorySource source(bytes, fmt::format("{}: {}", path.string(), shown(archive.name())));
    take(source, name, sets);
  }
}

void take_folder(const fs::path& folder, Sets& sets) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && place_of(entry.path().filename().string())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) take(*open_unpacked(path), path.filename().string(), sets);
}

/// Where the files are if there is no archive.
fs::path unpacked_in(const fs::path& folder) {
  const fs::path below = folder / "cifar-10-batches-bin";
  return fs::is_directory(below) ? below : folder;
}

Sets read_sets(const fs::path& folder) {
  Sets sets;
  if (const auto archive = find_archive(folder, kArchive)) {
    take_archive(*archive, sets);
  } else if (fs::is_directory(folder)) {
    take_folder(unpacked_in(folder), sets);
  }
  return sets;
}

std::vector<CheckedFile> check_archive(const fs::path& path, const std::vector<KnownFile>& files) {
  std::map<std::string, std::string> hashes;  // by name
  try {
    ArchiveReader archive(path);
    while (archive.next()) {
      const std::string name = fs::path(archive.name()).filename().string();
      if (!place_of(name)) continue;
      Sha256 hash;
      hash.update(archive.read(kRecordsPerFile * kRecordBytes));
      hashes[name] = hash.hex();
    }
  } catch (const Error& error) {  // one entry, however many files are affected
    return {{path, FileState::wrong_hash, error.what()}};
  }
  std::vector<CheckedFile> checked;
  for (const KnownFile& file : files) {
    const std::string name = fs::path(file.path).filename().string();
    const auto found = hashes.find(name);
    if (found == hashes.end()) {
      checked.push_back({path / name, FileState::missing, "is missing"});
    } else if (found->second == file.sha256) {
      checked.push_back({path / name, FileState::right, ""});
    } else {
      checked.push_back({path / name, FileState::wrong_hash, "its SHA-256 is not the one it should have"});
    }
  }
  return checked;
}

/// Grey pixels as tokens.
std::shared_ptr<const Dataset> part(const std::string& name, const Images& images, int64_t begin, int64_t end) {
  std::vector<int64_t> offsets;
  std::vector<uint8_t> pixels;
  for (int64_t i = begin; i < end; ++i) {
    offsets.push_back(std::ssize(pixels));
    const uint8_t* const red = images.image(i);
    for (int64_t k = 0; k < kPixels; ++k) pixels.push_back(grey(red[k], red[kPixels + k], red[2 * kPixels + k]));
  }
  offsets.push_back(std::ssize(pixels));
  const auto labels = images.labels.begin();
  return std::make_shared<PackedDataset<uint8_t>>("image " + name, std::move(pixels), std::move(offsets),
                                                  std::vector<int32_t>(labels + begin, labels + end));
}

}  // namespace

std::string cifar10_remedy() {
  return fmt::format("put {}.tar.gz there as it is, or unpacked, from {}", kArchive, kSource);
}

std::vector<CheckedFile> check_cifar10(const fs::path& data, const std::vector<KnownFile>& files) {
  const fs::path folder = data / "cifar10";
  if (const auto archive = find_archive(folder, kArchive)) return check_archive(*archive, files);
  std::vector<CheckedFile> checked;
  for (const KnownFile& file : files) {
    const std::string name = fs::path(file.path).filename().string();
    checked.push_back(check_file(unpacked_in(folder), {name, file.bytes, file.sha256}));
  }
  return checked;
}

bool has_cifar10_test(const fs::path& folder) {
  if (find_archive(folder, kArchive)) return true;
  if (!fs::is_directory(folder)) return false;
  const fs::directory_iterator files(unpacked_in(folder));
  return std::any_of(begin(files), end(files), [](const fs::directory_entry& entry) {
    return place_of(entry.path().filename().string()) == kTrainFiles;
  });
}

void read_records(ByteSource& source, Images& images) {
  int64_t records = 0;
  for (;;) {
    const std::vector<std::byte> record = read_up_to(source, kRecordBytes);
    const int64_t offset = records * kRecordBytes;
    if (record.empty()) break;
    if (std::ssize(record) < kRecordBytes) {
      fail_at(source.name(), offset, "record {} has {} of its {} bytes; the file is cut: fetch it again from {}",
              records + 1, record.size(), kRecordBytes, kSource);
    }
    if (records == kRecordsPerFile) {
      fail_at(source.name(), offset, "holds more than {} records; is it a file of CIFAR-10?", kRecordsPerFile);
    }
    const auto* const bytes = reinterpret_cast<const uint8_t*>(record.data());
    if (bytes[0] >= kClasses) {
      fail_at(source.name(), offset, "record {} has the class {}, outside 0 ... {}; is it a file of CIFAR-10?",
              records + 1, bytes[0], kClasses - 1);
    }
    images.labels.push_back(bytes[0]);
    images.pixels.insert(images.pixels.end(), bytes + 1, bytes + kRecordBytes);
    ++records;
  }
  if (records == 0) fail_at(source.name(), 0, "holds no image");
}

Task task() {
  return {.name = "image", .classes = kClasses, .vocabulary = 256, .max_length = kPixels, .image_width = kSide};
}

const std::vector<std::string>& cifar10_classes() {
  static const std::vector<std::string> names = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                 "dog",      "frog",       "horse", "ship", "truck"};
  return names;
}

ImageSets read_cifar10(const TaskOptions& options) {
  Sets files = read_sets(options.folder);
  ImageSets sets;
  Images& train = sets.train;
  for (size_t i = 0; i < kTrainFiles; ++i) {
    std::optional<Images>& file = files.train[i];
    const int64_t count = file ? file->count() : 0;
    if (count < kRecordsPerFile && !options.partial.taken) {
      fail("{}: data_batch_{}.bin {}; {}{}", options.folder.string(), i + 1,
           file ? fmt::format("holds {} of {} images", count, kRecordsPerFile) : "is missing", cifar10_remedy(),
           file ? ", or take what is there with " + options.partial.option : "");
    }
    if (!file) continue;
    train.pixels.insert(train.pixels.end(), file->pixels.begin(), file->pixels.end());
    train.labels.insert(train.labels.end(), file->labels.begin(), file->labels.end());
    file.reset();
  }
  if (!files.test) {
    fail("{}: test_batch.bin is missing; {}", options.folder.string(), cifar10_remedy());
  }
  sets.test = std::move(*files.test);
  sets.classes = cifar10_classes();
  if (train.count() < kPublishedTrain) {
    sets.remarks.push_back(
        fmt::format("data_batch_*.bin: only {} of the {} published training images", train.count(), kPublishedTrain));
  }
  if (sets.test.count() < kPublishedTest) {
    sets.remarks.push_back(
        fmt::format("test_batch.bin: only {} of the {} published test images", sets.test.count(), kPublishedTest));
  }
  return sets;
}

TaskData load_task(const TaskOptions& options, const Say& say) {
  const ImageSets sets = read_cifar10(options);
  const int64_t all = sets.train.count();
  const int64_t valid = all / 10;
  if (valid < 1) fail("{}: {} training images are too few to hold some out", options.folder.string(), all);
  TaskData data{.task = task(),
                .train = part("train", sets.train, 0, all - valid),
                .valid = part("valid", sets.train, all - valid, all),
                .test = part("test", sets.test, 0, sets.test.count())};
  data.remarks = sets.remarks;
  say(fmt::format("image: {} + {} + {} images in {}", all - valid, valid, sets.test.count(), options.folder.string()));
  return data;
}

}  // namespace bochner::images
