#include "lithe/text/word_cache.h"

#include "lithe/base/threads.h"
#include "lithe/text/word_table.h"

namespace lithe {
namespace {

constexpr size_t longest_cached = 64;        // bytes; longer words seldom come back
constexpr size_t most_cached = 1 << 17;      // words
constexpr int64_t pieces_per_thread = 8192;  // below, another thread costs more than it saves

}  // namespace

/// Ids of words seen before. For one thread at a time.
class WordCache {
 public:
  void encode(const WordModel& model, std::string_view word, std::vector<int32_t>& ids) {
    if (word.size() > longest_cached) return model.encode(word, ids);
    const uint64_t hash = hash_word(word);
    if (const Range* known = ranges_.find(word, hash)) {
      ids.insert(ids.end(), ids_.begin() + known->begin, ids_.begin() + known->end);
      return;
    }
    if (ranges_.size() == most_cached) {
      ranges_.clear();
      ids_.clear();
    }
    const uint32_t begin = uint32_t(ids_.size());
    model.encode(word, ids_);
    ranges_.insert(word, hash) = {begin, uint32_t(ids_.size())};
    ids.insert(ids.end(), ids_.begin() + begin, ids_.end());
  }

 private:
  struct Range {
    uint32_t begin, end;
  };
  WordTable<Range> ranges_;
  std::vector<int32_t> ids_;
};

WordEncoder::WordEncoder() = default;
WordEncoder::~WordEncoder() = default;

std::unique_ptr<WordCache> WordEncoder::borrow() const {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<WordCache>();
  auto cache = std::move(free_.back());
  free_.pop_back();
  return cache;
}

void WordEncoder::give_back(std::unique_ptr<WordCache> cache) const {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(cache));
}

void WordEncoder::encode(const WordModel& model, std::span<const std::string_view> pieces,
                         std::vector<int32_t>& ids) const {
  std::vector<std::vector<int32_t>> parts(static_cast<size_t>(threads()));
  parallel_for(int64_t(pieces.size()), pieces_per_thread, [&](int64_t begin, int64_t end, int thread) {
    auto cache = borrow();
    std::vector<int32_t>& out = thread == 0 ? ids : parts[size_t(thread)];
    for (int64_t i = begin; i < end; ++i) cache->encode(model, pieces[size_t(i)], out);
    give_back(std::move(cache));
  });
  for (const auto& part : parts) ids.insert(ids.end(), part.begin(), part.end());
}

}  // namespace lithe
