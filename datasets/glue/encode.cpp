#include "datasets/glue/encode.h"

#include <algorithm>
#include <numeric>

#include "engine/error.h"
#include "engine/math.h"
#include "engine/parallel.h"

namespace bochner::glue {
namespace {

// Rows that one thread encodes in turn; each piece has its own Encoder, which takes a megabyte.
constexpr int64_t kRowsPerPiece = 4096;

struct Piece {
  std::vector<int32_t> tokens;
  std::vector<int64_t> lengths;
  std::vector<int32_t> first;
  int64_t cut = 0;
  int64_t replaced = 0;  ///< places that were not UTF-8
};

class PieceEncoder {
 public:
  PieceEncoder(const Table& table, const Wordpiece& tokenizer, int64_t longest)
      : table_(table), longest_(longest), encoder_(tokenizer) {}

  Piece run(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) add(row);
    return std::move(piece_);
  }

 private:
  Encoding encode(int64_t row, int64_t longest) {
    const std::string_view first = table_.sentence(row);
    if (table_.sentences == 1) return encoder_.encode(first, {.longest = longest});
    return encoder_.encode_pair(first, table_.sentence(row, 1), {.longest = longest});
  }

  void add(int64_t row) {
    const int64_t replaced = encoder_.replaced();
    Encoding encoding = encode(row, 0);
    piece_.replaced += encoder_.replaced() - replaced;  // counted once, even if a row is encoded again
    if (static_cast<int64_t>(encoding.ids.size()) > longest_) {
      encoding = encode(row, longest_);
      ++piece_.cut;
    }
    const auto ones = std::count(encoding.types.begin(), encoding.types.end(), uint8_t{1});
    piece_.first.push_back(static_cast<int32_t>(static_cast<std::ptrdiff_t>(encoding.ids.size()) - ones));
    piece_.lengths.push_back(static_cast<int64_t>(encoding.ids.size()));
    piece_.tokens.insert(piece_.tokens.end(), encoding.ids.begin(), encoding.ids.end());
  }

  const Table& table_;
  int64_t longest_;
  Wordpiece::Encoder encoder_;
  Piece piece_;
};

}  // namespace

Encoded encode(const Table& table, const Wordpiece& tokenizer, int64_t longest, const Say& say) {
  const int64_t special = table.sentences == 1 ? 2 : 3;
  if (longest < special) {
    fail("{}: {} tokens at most leave no place for [CLS] and [SEP]; choose at least {}", table.name, longest, special);
  }
  std::vector<Piece> pieces(static_cast<size_t>(ceil_div(table.size(), kRowsPerPiece)));
  parallel_for(table.size(), kRowsPerPiece, [&](int64_t begin, int64_t end) {
    pieces[static_cast<size_t>(begin / kRowsPerPiece)] = PieceEncoder(table, tokenizer, longest).run(begin, end);
  });
  Encoded encoded;
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets = {0};
  int64_t replaced = 0;
  for (const Piece& piece : pieces) {
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    for (const int64_t length : piece.lengths) offsets.push_back(offsets.back() + length);
    encoded.first.insert(encoded.first.end(), piece.first.begin(), piece.first.end());
    encoded.cut += piece.cut;
    replaced += piece.replaced;
  }
  std::vector<int32_t> labels = table.labels;
  labels.resize(static_cast<size_t>(table.size()), 0);
  encoded.tokens = std::make_shared<const PackedDataset<int32_t>>(table.name, std::move(tokens), std::move(offsets),
                                                                  std::move(labels));
  encoded.scores = table.scores;
  if (encoded.cut > 0) {
    say(fmt::format("{}: {} of {} rows have more than {} tokens and were cut", table.name, encoded.cut, table.size(),
                    longest));
  }
  if (replaced > 0) say(fmt::format("{}: {}", table.name, told_of_replaced(replaced)));
  return encoded;
}

Tensor types_of(const Encoded& encoded, const Batch& batch) {
  const int64_t length = batch.ids.size(1);
  Tensor types = Tensor::zeros({batch.size(), length}, DType::i64);
  const auto* lengths = batch.lengths.data<int64_t>();
  for (int64_t i = 0; i < batch.size(); ++i) {
    const int64_t first = encoded.first[static_cast<size_t>(batch.examples[static_cast<size_t>(i)])];
    auto* row = types.data<int64_t>() + i * length;
    std::fill(row + first, row + lengths[i], 1);
  }
  return types;
}

}  // namespace bochner::glue
