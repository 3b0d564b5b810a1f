#include "lithe/base/error.h"
#include "lithe/data/batches.h"

namespace lithe {

Prefetcher::Prefetcher(const BatchSource& order, int64_t epoch, int64_t index, int64_t depth)
    : Prefetcher([&order](int64_t e, int64_t i) { return order.batch(e, i); }, order.batches_per_epoch(), epoch, index,
                 depth) {}

Prefetcher::Prefetcher(BatchFn make, int64_t batches_per_epoch, int64_t epoch, int64_t index, int64_t depth)
    : make_(std::move(make)),
      batches_per_epoch_(batches_per_epoch),
      epoch_(epoch),
      index_(index),
      depth_(size_t(depth)) {
  check(depth >= 1, "prefetch", "depth must be at least 1, got ", depth);
  check(epoch >= 0 && index >= 0 && index < batches_per_epoch, "prefetch", "batch ", index, " of epoch ", epoch,
        " does not exist; an epoch has ", batches_per_epoch);
  thread_ = std::thread([this] { work(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch Prefetcher::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || error_; });
  if (ready_.empty()) std::rethrow_exception(error_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Prefetcher::work() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || ready_.size() < depth_; });
      if (stop_) return;
    }
    try {
      Batch batch = make_(epoch_, index_);
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(batch));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    changed_.notify_all();
    if (error_) return;
    if (++index_ == batches_per_epoch_) {
      index_ = 0;
      ++epoch_;
    }
  }
}

}  // namespace lithe
