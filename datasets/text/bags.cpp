#include "datasets/text/bags.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "engine/random.h"

namespace bochner::text {
namespace {

constexpr uint32_t kBuckets = uint32_t{1} << 18;
constexpr int kEpochs = 4;
constexpr double kRate = 0.1;

/// A sparse vector, in the order of indices.
using Vector = std::vector<std::pair<uint32_t, float>>;

bool in_word(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c > 127;
}

/// The indices of all words or bytes, one for each occurrence.
std::vector<uint32_t> places_in(std::string_view text, Bag bag) {
  std::vector<uint32_t> places;
  if (bag == Bag::bytes) {
    for (const char c : text) places.push_back(static_cast<unsigned char>(c));
    return places;
  }
  constexpr uint64_t kBasis = 0xcbf29ce484222325;  // FNV-1a
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = kBasis;
  for (size_t i = 0; i <= text.size(); ++i) {
    const auto c = i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(' ');
    if (in_word(c)) {
      hash = (hash ^ static_cast<uint64_t>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c)) * kPrime;
    } else if (hash != kBasis) {
      places.push_back(static_cast<uint32_t>((hash >> 40) ^ hash) % kBuckets);
      hash = kBasis;
    }
  }
  return places;
}

Vector counted(std::vector<uint32_t> places) {
  std::sort(places.begin(), places.end());
  Vector counts;
  for (const uint32_t place : places) {
    if (counts.empty() || counts.back().first != place) counts.emplace_back(place, 0.0F);
    counts.back().second += 1;
  }
  return counts;
}

/// The vectors of the texts that a data set uses, by their number; empty for others.
class Vectors {
 public:
  Vectors(const ByteTexts& data, Bag bag, int64_t max_length) : data_(data), vectors_(texts_of(data)) {
    for (int64_t i = 0; i < data.size(); ++i) {
      for (int s = 0; s < data.sequences(); ++s) {
        Vector& vector = vectors_[static_cast<size_t>(data.number(i, s))];
        if (!vector.empty()) continue;
        vector = counted(places_in(data.text(i, s).substr(0, static_cast<size_t>(max_length)), bag));
      }
    }
  }

  /// How many texts have each index, and how many texts there are.
  std::pair<std::vector<float>, float> frequencies() const {
    std::vector<float> having(kBuckets, 0.0F);
    float texts = 0;
    for (const Vector& vector : vectors_) {
      texts += vector.empty() ? 0.0F : 1.0F;
      for (const auto& [place, count] : vector) having[place] += 1;
    }
    return {having, texts};
  }

  /// Turns counts into vectors of norm 1; `weights` of the indices, or none.
  void scale(const std::vector<float>& weights) {
    for (Vector& vector : vectors_) {
      double square = 0;
      for (auto& [place, value] : vector) {
        value = std::log1p(value) * (weights.empty() ? 1.0F : weights[place]);
        square += static_cast<double>(value) * value;
      }
      const auto length = static_cast<float>(std::sqrt(std::max(square, 1e-12)));
      for (auto& [place, value] : vector) value /= length;
    }
  }

  /// The features of an example.
  void features(int64_t example, Vector& features) const {
    features.clear();
    const Vector& u = vectors_[static_cast<size_t>(data_.number(example, 0))];
    if (data_.sequences() == 1) {
      features = u;
      return;
    }
    const Vector& v = vectors_[static_cast<size_t>(data_.number(example, 1))];
    float cosine = 0;
    auto a = u.begin();
    auto b = v.begin();
    while (a != u.end() || b != v.end()) {
      if (b == v.end() || (a != u.end() && a->first < b->first)) {
        features.emplace_back(kBuckets + a->first, a->second);
        ++a;
      } else if (a == u.end() || b->first < a->first) {
        features.emplace_back(kBuckets + b->first, b->second);
        ++b;
      } else {
        cosine += a->second * b->second;
        features.emplace_back(a->first, a->second * b->second);
        features.emplace_back(kBuckets + a->first, std::abs(a->second - b->second));
        ++a;
        ++b;
      }
    }
    features.emplace_back(2 * kBuckets, cosine);
  }

 private:
  static size_t texts_of(const ByteTexts& data) {
    int64_t most = -1;
    for (int64_t i = 0; i < data.size(); ++i) {
      for (int s = 0; s < data.sequences(); ++s) most = std::max(most, data.number(i, s));
    }
    return static_cast<size_t>(most + 1);
  }

  const ByteTexts& data_;
  std::vector<Vector> vectors_;
};

/// w x + b
class Regression {
 public:
  double score(const Vector& x) const {
    double sum = bias_.weight;
    for (const auto& [place, value] : x) sum += static_cast<double>(cells_[place].weight) * value;
    return sum;
  }

  void learn(const Vector& x, bool label) {
    const double error = (label ? 1.0 : 0.0) - 1 / (1 + std::exp(-score(x)));  // d log p / d score
    for (const auto& [place, value] : x) move(cells_[place], error * value);
    move(bias_, error);
  }

 private:
  struct Cell {
    float weight = 0;
    float squares = 0;  ///< of gradients
  };

  static void move(Cell& cell, double gradient) {
    cell.squares += static_cast<float>(gradient * gradient);
    if (cell.squares > 0) cell.weight += static_cast<float>(kRate * gradient / std::sqrt(cell.squares));
  }

  std::vector<Cell> cells_ = std::vector<Cell>(2 * size_t{kBuckets} + 1);
  Cell bias_;
};

}  // namespace

double bag_accuracy(const ByteTexts& train, const ByteTexts& test, Bag bag, int64_t max_length) {
  BOCHNER_ASSERT(train.sequences() == test.sequences() && train.sequences() <= 2);
  if (train.size() == 0 || test.size() == 0) fail("bag of {}: no examples", bag == Bag::bytes ? "bytes" : "words");
  Vectors learnt(train, bag, max_length);
  Vectors asked(test, bag, max_length);
  std::vector<float> weights;
  if (bag == Bag::words) {
    const auto [having, texts] = learnt.frequencies();
    for (const float count : having) weights.push_back(std::log((texts + 1) / (count + 1)));
  }
  learnt.scale(weights);
  asked.scale(weights);
  Regression regression;
  Vector features;
  Generator random(0);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Tensor order = permutation(train.size(), random);
    for (int64_t i = 0; i < train.size(); ++i) {
      const int64_t example = order.data<int64_t>()[i];
      learnt.features(example, features);
      regression.learn(features, train.label(example) == 1);
    }
  }
  int64_t right = 0;
  for (int64_t i = 0; i < test.size(); ++i) {
    asked.features(i, features);
    right += (regression.score(features) > 0) == (test.label(i) == 1) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

}  // namespace bochner::text
