// Beginnings of texts that a decode state keeps, to be gone on from.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lithe {

/// Trees over blocks of tokens. Each beginning that is kept stands in a slot of its own; where slots can forget their
/// last tokens, one serves all beginnings of its text, and none is kept for these. `reader`: who computes the rows, the
/// model itself (null) or with an adapter; each has a tree of its own.
class PrefixTree {
 public:
  PrefixTree(int64_t block, bool forgets) : block_(block), forgets_(forgets) {}

  struct Found {
    int64_t slot, tokens;  // its first tokens are those of the text
  };
  /// The longest beginning of so many whole blocks that is shorter than the text.
  std::optional<Found> find(std::span<const int32_t> text, const void* reader = nullptr);
  /// A slot has the rows of these tokens, whole blocks, or more of them.
  bool has(std::span<const int32_t> tokens, const void* reader = nullptr) const;
  /// The slot has them from now on, in so many bytes. Returns slots that are not needed any more.
  std::vector<int64_t> add(std::span<const int32_t> tokens, int64_t slot, int64_t bytes, const void* reader = nullptr);
  /// Drops what was not asked for for the longest time; its slot.
  std::optional<int64_t> drop_oldest();

  int64_t entries() const { return entries_; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Node {
    Node* above = nullptr;
    std::map<std::vector<int32_t>, std::unique_ptr<Node>> next;
    int64_t slot = -1, bytes = 0;  // -1: none
    uint64_t used = 0;
  };
  int64_t block_;
  bool forgets_;
  std::map<const void*, Node> roots_;  // by the reader
  int64_t entries_ = 0, bytes_ = 0;
  uint64_t clock_ = 0;

  std::vector<int32_t> block_of(std::span<const int32_t> text, size_t number) const;
  int64_t release(Node& node);
  static Node* any_slot(Node* from);
};

}  // namespace lithe
