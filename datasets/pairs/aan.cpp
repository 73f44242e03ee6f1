#include "datasets/pairs/aan.h"

#include <algorithm>
#include <vector>

#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/csv.h"

namespace bochner::pairs {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = 10'000;  ///< that the Long Range Arena reads of a document
constexpr int kColumns = 5;
constexpr const char* kSource = "storage.googleapis.com/long-range-arena/lra_release.gz";
constexpr const char* kFolder = "tsv_data";  ///< of the tables, in that archive
constexpr const char* kParts[] = {"train", "eval", "test"};

int32_t label_of(const CsvReader& table) {
  if (table[0] == "0.0" || table[0] == "0") return 0;
  if (table[0] == "1.0" || table[0] == "1") return 1;
  table.fail_in(0, "the label {} is neither 0.0 nor 1.0", shown(table[0]));
}

fs::path plain_file(const fs::path& folder, const std::string& part) {
  return folder / fmt::format("new_aan_pairs.{}.tsv", part);
}

}  // namespace

std::string aan_remedy() {
  return fmt::format(
      "put {} as it is into the folder of all data (--data), or the tables of its folder {} there, or learn from pairs "
      "of reviews with --task=films",
      kSource, kFolder);
}

std::optional<fs::path> aan_table(const fs::path& folder, const std::string& part) {
  return find_packed(plain_file(folder, part));
}

ArenaFolder find_aan(const fs::path& data) {
  const ArenaFolder own{data / "retrieval"};
  return holds_anything(own.folder) ? own : arena_folder(data, kFolder).value_or(own);
}

std::shared_ptr<const text::ByteTexts> read_aan(const fs::path& path, const std::string& name, int64_t max_length) {
  const auto texts = std::make_shared<text::Texts>();
  std::vector<int64_t> which;
  std::vector<int32_t> labels;
  CsvOptions options = CsvOptions::tsv();
  options.ragged = true;  // so that a row with a wrong number of fields is reported here
  CsvReader table(path, options);
  const auto kept = static_cast<size_t>(std::min(max_length, kMostBytes));
  while (table.next()) {
    if (table.size() != kColumns) {
      table.fail_in(std::min(table.size(), kColumns + 1) - 1,
                    "the row has {} fields, not {}: label, two numbers, two texts", table.size(), kColumns);
    }
    if (std::ssize(labels) == kPublishedTrain) {
      table.fail_in(0, "more rows than the {} of the largest table that is published", kPublishedTrain);
    }
    labels.push_back(label_of(table));
    for (const int column : {3, 4}) {
      if (table[column].empty()) table.fail_in(column, "the document is empty");
      which.push_back(texts->count());
      texts->add(table[column].substr(0, kept));
    }
  }
  if (labels.empty()) fail("{}: row 1: the file holds no pairs", path.string());
  return std::make_shared<const text::ByteTexts>(name, texts, std::move(which), std::move(labels), 2);
}

Task aan_task(const AanOptions& options) {
  if (options.max_length < 1) fail("retrieval: max_length {} must be at least 1", options.max_length);
  return {.name = "retrieval",
          .classes = 2,
          .vocabulary = text::kByteVocabulary,
          .max_length = options.max_length,
          .sequences = 2};
}

TaskData load_aan(const AanOptions& options, const Say& say) {
  TaskData data;
  data.task = aan_task(options);
  const fs::path& folder = options.place.folder;
  // 256 KiB for each paper of each pair.
  constexpr int64_t kMostOfSet = (kPublishedTrain + kPublishedValid + kPublishedTest) * 2 * (int64_t{256} << 10);
  ArenaSet set{kFolder, {}, "three files new_aan_pairs.{train,eval,test}.tsv", kMostOfSet};
  for (const char* part : kParts) set.parts.push_back(plain_file("", part).string());
  copy_from_arena(options.place, set, say);
  const auto part = [&](const char* file, const char* name, int64_t published) -> std::shared_ptr<const Dataset> {
    const std::optional<fs::path> found = aan_table(folder, file);
    if (!found) fail("{}: is missing; {}", plain_file(folder, file).string(), aan_remedy());
    const fs::path& path = *found;
    auto pairs = read_aan(path, std::string("retrieval ") + name, options.max_length);
    if (pairs->size() < published) {
      const std::string what = fmt::format("{} of the {} published pairs", pairs->size(), published);
      if (!options.partial.taken) {
        fail("{}: row {}: the file ends here: {}; fetch it again from {}, or take what is there with {}", path.string(),
             pairs->size(), what, kSource, options.partial.option);
      }
      data.remarks.push_back(fmt::format("{}: only {}", name, what));
    }
    return pairs;
  };
  data.train = part("train", "train", kPublishedTrain);
  data.valid = part("eval", "valid", kPublishedValid);
  data.test = part("test", "test", kPublishedTest);
  say(fmt::format("retrieval: {} + {} + {} pairs in {}", data.train->size(), data.valid->size(), data.test->size(),
                  folder.string()));
  return data;
}

}  // namespace bochner::pairs
