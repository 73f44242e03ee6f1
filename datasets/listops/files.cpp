#include "datasets/listops/files.h"

#include <algorithm>
#include <span>

#include "engine/io/archive.h"
#include "engine/io/file.h"
#include "engine/io/sha256.h"
#include "engine/parallel.h"

namespace bochner::listops {
namespace {

namespace fs = std::filesystem;

/// Increase it whenever the same options give other expressions.
constexpr const char* kVersion = "1";

constexpr int64_t kExamplesPerPiece = 64;
constexpr int64_t kPiecesPerRound = 32;

std::string join(const std::vector<Operator>& operators) {
  constexpr const char* kWords[] = {"MIN", "MAX", "MED", "SM"};
  std::string text;
  for (const Operator op : operators) {
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<int>(op)];
  }
  return text;
}

ManifestFile write_table(const fs::path& folder, const char* name, std::span<const Expression> expressions) {
  AtomicFile file(folder / name);
  Sha256 hash;
  ManifestFile entry = {name, 0, static_cast<int64_t>(expressions.size()), ""};
  const auto put = [&](const std::string& text) {
    file.write(text);
    hash.update(bytes_of(text));
    entry.bytes += static_cast<int64_t>(text.size());
  };
  put("Source\tTarget\n");
  const auto count = static_cast<int64_t>(expressions.size());
  std::vector<std::string> pieces(kPiecesPerRound);
  for (int64_t first = 0; first < count; first += kExamplesPerPiece * kPiecesPerRound) {
    for (std::string& piece : pieces) piece.clear();
    const int64_t rows = std::min(count - first, kExamplesPerPiece * kPiecesPerRound);
    parallel_for(rows, kExamplesPerPiece, [&](int64_t begin, int64_t end) {
      std::string& piece = pieces[static_cast<size_t>(begin / kExamplesPerPiece)];
      for (int64_t i = begin; i < end; ++i) {
        const Expression& expression = expressions[static_cast<size_t>(first + i)];
        expression.write(piece);
        piece += '\t';
        piece += static_cast<char>('0' + expression.value());
        piece += '\n';
      }
    });
    for (const std::string& piece : pieces) put(piece);
  }
  file.commit();
  entry.sha256 = hash.hex();
  return entry;
}

}  // namespace

std::map<std::string, std::string> described(const GeneratorOptions& options) {
  return {{"generator", kVersion},
          {"max_args", fmt::format("{}", options.max_args)},
          {"max_depth", fmt::format("{}", options.max_depth)},
          {"max_length", fmt::format("{}", options.max_length)},
          {"min_length", fmt::format("{}", options.min_length)},
          {"operators", join(options.operators)},
          {"seed", fmt::format("{}", options.seed)},
          {"test", fmt::format("{}", options.test)},
          {"train", fmt::format("{}", options.train)},
          {"valid", fmt::format("{}", options.valid)},
          {"value_probability", fmt::format("{}", options.value_probability)}};
}

namespace {

/// Writes all files into the folder.
Manifest write_all(const fs::path& folder, const GeneratorOptions& options) {
  const std::vector<Expression> expressions = generate(options);
  const std::span<const Expression> all(expressions);
  const auto train = static_cast<size_t>(options.train);
  const auto valid = static_cast<size_t>(options.valid);
  Manifest manifest = {"listops", described(options), {}};
  manifest.files.push_back(write_table(folder, kTrainFile, all.first(train)));
  manifest.files.push_back(write_table(folder, kValidFile, all.subspan(train, valid)));
  manifest.files.push_back(write_table(folder, kTestFile, all.subspan(train + valid)));
  return manifest;
}

Recipe recipe(const GeneratorOptions& options) {
  return {.dataset = "listops",
          .options = described(options),
          .parts = {kTrainFile, kValidFile, kTestFile},
          .parts_in_words = "three files basic_{train,val,test}.tsv",
          .found = fmt::format("{} expressions", options.total()),
          .making = fmt::format("{} + {} + {} expressions with seed {}", options.train, options.valid, options.test,
                                options.seed),
          .make = [options](const fs::path& folder) { return write_all(folder, options); }};
}

}  // namespace

Manifest write_files(const fs::path& folder, const GeneratorOptions& options) {
  return make_data(folder, recipe(options));
}

Ensured ensure_files(const fs::path& folder, const GeneratorOptions& options, const Say& say) {
  check(options);
  return ensure_made(folder, recipe(options), say);
}

int files_in(const fs::path& folder) {
  int files = 0;
  for (const char* name : {kTrainFile, kValidFile, kTestFile}) files += find_packed(folder / name) ? 1 : 0;
  return files;
}

}  // namespace bochner::listops
