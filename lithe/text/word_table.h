// A hash table from words (byte strings) to values, made for millions of short words.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

inline uint64_t hash_word(std::string_view word) {
  uint64_t hash = word.size() * 0x9E3779B97F4A7C15ull;
  const auto mix = [&](uint64_t part) {
    const __uint128_t product = __uint128_t(hash ^ part) * 0xA0761D6478BD642Full;
    hash = uint64_t(product) ^ uint64_t(product >> 64);
  };
  size_t i = 0;
  uint64_t part = 0;
  for (; i + 8 <= word.size(); i += 8) std::memcpy(&part, word.data() + i, 8), mix(part);
  if (i < word.size())
    part = 0, std::memcpy(&part, word.data() + i, word.size() - i), mix(part ^ 0xE7037ED1A0B428DBull);
  return hash;
}

/// Open addressing; words are copied into one arena. Entries keep the order of insertion.
template <class Value>
class WordTable {
 public:
  size_t size() const { return entries_.size(); }
  size_t arena_bytes() const { return arena_.size(); }
  std::string_view word(size_t entry) const { return {arena_.data() + entries_[entry].offset, entries_[entry].length}; }
  const Value& value(size_t entry) const { return entries_[entry].value; }

  const Value* find(std::string_view word) const { return find(word, hash_word(word)); }
  const Value* find(std::string_view word, uint64_t hash) const {
    if (slots_.empty()) return nullptr;
    const uint32_t slot = slots_[slot_of(word, hash)];
    return slot ? &entries_[slot - 1].value : nullptr;
  }
  /// The word's value, Value{} when it is new. Valid until the next call.
  Value& insert(std::string_view word) { return insert(word, hash_word(word)); }
  Value& insert(std::string_view word, uint64_t hash) {
    if (slots_.size() < 2 * (entries_.size() + 1)) grow();
    uint32_t& slot = slots_[slot_of(word, hash)];
    if (slot == 0) {
      entries_.push_back({hash, arena_.size(), word.size(), Value{}});
      arena_ += word;
      slot = uint32_t(entries_.size());
    }
    return entries_[slot - 1].value;
  }
  void clear() {
    entries_.clear();
    arena_.clear();
    slots_.clear();
  }

 private:
  struct Entry {
    uint64_t hash;
    uint64_t offset, length;
    Value value;
  };
  std::vector<uint32_t> slots_;  // 1 + entry, 0: free
  std::vector<Entry> entries_;
  std::string arena_;

  size_t slot_of(std::string_view word, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
      if (slots_[at] == 0) return at;
      const Entry& entry = entries_[slots_[at] - 1];
      if (entry.hash == hash && entry.length == word.size() &&
          std::memcmp(arena_.data() + entry.offset, word.data(), word.size()) == 0)
        return at;
    }
  }
  void grow() {
    slots_.assign(slots_.empty() ? 1024 : 2 * slots_.size(), 0);
    const size_t mask = slots_.size() - 1;
    for (size_t i = 0; i < entries_.size(); ++i) {
      size_t at = entries_[i].hash & mask;
      while (slots_[at]) at = (at + 1) & mask;
      slots_[at] = uint32_t(i + 1);
    }
  }
};

}  // namespace lithe
