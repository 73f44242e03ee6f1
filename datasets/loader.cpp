#include "datasets/loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/random.h"

namespace bochner {
namespace {

/// The ids and the mask of a batch, padded.
void fill_ids(const Dataset& dataset, const Batch& batch, int64_t width, const LoaderOptions& options) {
  const int sequences = dataset.sequences();
  const auto* lengths = batch.lengths.data<int64_t>();
  auto* ids = batch.ids.data<int64_t>();
  auto* mask = batch.mask.data<bool>();
  for (const int64_t example : batch.examples) {
    for (int s = 0; s < sequences; ++s, ++lengths, ids += width, mask += width) {
      dataset.copy_tokens(example, s, std::span(ids, static_cast<size_t>(*lengths)));
      std::fill(ids + *lengths, ids + width, options.pad_id);
      std::fill(mask, mask + *lengths, true);
      std::fill(mask + *lengths, mask + width, false);
      if (!options.mask_zeros || *lengths == 0) continue;
      std::transform(ids, ids + *lengths, mask, [](int64_t id) { return id != 0; });
      mask[0] = mask[0] || std::find(mask, mask + *lengths, true) == mask + *lengths;
    }
  }
}

void check(const Dataset& dataset, const LoaderOptions& options) {
  const std::string& name = dataset.name();
  if (dataset.size() == 0) fail("loader: {} has no examples", name);
  if (options.batch_size < 1) fail("loader: batch_size {} must be at least 1", options.batch_size);
  if (options.max_length < 0) fail("loader: max_length {} is negative; 0 keeps all tokens", options.max_length);
  if (options.multiple_of < 1) fail("loader: multiple_of {} must be at least 1", options.multiple_of);
  if (options.group_by_length < 0)
    fail("loader: group_by_length {} is negative; 0 groups none", options.group_by_length);
  if (options.prefetch < 0) fail("loader: prefetch {} is negative; 0 makes no batch ahead", options.prefetch);
  if (options.least_length < 0) fail("loader: least_length {} is negative; 0 pads no batch", options.least_length);
  if (options.drop_last && options.batch_size > dataset.size()) {
    fail("loader: {} has {} examples, which do not fill one batch of {}; choose a smaller --batch", name,
         dataset.size(), options.batch_size);
  }
}

}  // namespace

Batch Batch::to(Device device) const {
  return {ids.to(device), mask.to(device), lengths.to(device), labels.to(device), examples, epoch};
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(options) {
  if (dataset_ == nullptr) fail("loader: no data set was given");
  check(*dataset_, options_);
  const int64_t count = dataset_->size();
  steps_ = count / options_.batch_size;
  if (!options_.drop_last && count % options_.batch_size != 0) ++steps_;
}

Loader::~Loader() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

void Loader::set_order(int64_t epoch) {
  if (order_.epoch == epoch) return;
  Generator generator = Generator(options_.seed).fork(static_cast<uint64_t>(epoch));
  const bool is_new = options_.shuffle || order_.examples.empty();
  if (options_.shuffle) {
    order_.examples = permutation(dataset_->size(), generator).to_vector<int64_t>();
  } else if (order_.examples.empty()) {
    order_.examples.resize(static_cast<size_t>(dataset_->size()));
    std::iota(order_.examples.begin(), order_.examples.end(), 0);
  }
  if (is_new && options_.group_by_length > 0) group_by_length(generator);
  order_.epoch = epoch;
}

/// The least number of tokens that the example gets in a batch.
int64_t Loader::width(int64_t example) const {
  int64_t width = 0;
  for (int s = 0; s < dataset_->sequences(); ++s) width = std::max(width, dataset_->length(example, s));
  return options_.max_length > 0 ? std::min(width, options_.max_length) : width;
}

/// Examples that do not fill a batch stay last: if sorted, they would always be the longest.
void Loader::group_by_length(Generator& generator) {
  const int64_t batch = options_.batch_size;
  const int64_t batches = dataset_->size() / batch;
  const auto begin = order_.examples.begin();
  for (int64_t first = 0; first < batches; first += options_.group_by_length) {
    const int64_t last = std::min(first + options_.group_by_length, batches);
    std::stable_sort(begin + first * batch, begin + last * batch,
                     [this](int64_t a, int64_t b) { return width(a) < width(b); });
  }
  if (!options_.shuffle || batches == 0) return;
  const std::vector<int64_t> sorted = order_.examples;
  auto to = begin;
  for (const int64_t from : permutation(batches, generator).to_vector<int64_t>()) {
    to = std::copy_n(sorted.begin() + from * batch, batch, to);
  }
}

Batch Loader::make(int64_t step) {
  Batch batch;
  batch.epoch = step / steps_;
  set_order(batch.epoch);
  const int64_t begin = step % steps_ * options_.batch_size;
  const int64_t end = std::min(begin + options_.batch_size, dataset_->size());
  const int sequences = dataset_->sequences();
  batch.examples.assign(order_.examples.begin() + begin, order_.examples.begin() + end);

  Shape shape = {end - begin};
  if (sequences > 1) shape.push_back(sequences);
  batch.lengths = Tensor::empty(shape, DType::i64);
  batch.labels = Tensor::empty({end - begin}, DType::i64);
  auto* lengths = batch.lengths.data<int64_t>();
  auto* labels = batch.labels.data<int64_t>();
  int64_t width = std::max<int64_t>(1, options_.least_length);  // models cannot take a length of 0
  for (const int64_t example : batch.examples) {
    *labels++ = dataset_->label(example);
    for (int s = 0; s < sequences; ++s) {
      const int64_t length = dataset_->length(example, s);
      *lengths++ = options_.max_length > 0 ? std::min(length, options_.max_length) : length;
    }
    width = std::max(width, this->width(example));
  }
  const int64_t padded = round_up(width, options_.multiple_of);
  width = options_.max_length > 0 ? std::max(width, std::min(padded, options_.max_length)) : padded;
  shape.push_back(width);
  batch.ids = Tensor::empty(shape, DType::i64);
  batch.mask = Tensor::empty(shape, DType::boolean);
  fill_ids(*dataset_, batch, width, options_);
  return batch;
}

Batch Loader::next() {
  if (options_.prefetch == 0) {
    Batch batch = make(step_);
    ++step_;
    return batch;
  }
  if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || failure_ != nullptr; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  BOCHNER_ASSERT(batch.epoch == step_ / steps_);
  ++step_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Loader::go_to(int64_t step) {
  if (step < 0) fail("loader: {} has no batch {}; the first one is 0", dataset_->name(), step);
  {
    const std::scoped_lock lock(mutex_);
    step_ = step;
    ahead_ = step;
    ready_.clear();
    failure_ = nullptr;
    ++moves_;
  }
  changed_.notify_all();
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] {
      return stopping_ || (failure_ == nullptr && static_cast<int64_t>(ready_.size()) < options_.prefetch);
    });
    if (stopping_) return;
    const int64_t step = ahead_;
    const int64_t moves = moves_;
    Batch batch;
    std::exception_ptr failure;
    lock.unlock();
    try {
      batch = make(step);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (moves != moves_) continue;  // go_to() was called meanwhile
    if (failure != nullptr) {
      failure_ = failure;
    } else {
      ready_.push_back(std::move(batch));
      ahead_ = step + 1;
    }
    changed_.notify_all();
  }
}

}  // namespace bochner
