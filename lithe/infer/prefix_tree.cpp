#include "lithe/infer/prefix_tree.h"

#include <utility>

#include "lithe/base/error.h"

namespace lithe {

std::vector<int32_t> PrefixTree::block_of(std::span<const int32_t> text, size_t number) const {
  const auto part = text.subspan(number * size_t(block_), size_t(block_));
  return {part.begin(), part.end()};
}

// Leaves always have a slot.
PrefixTree::Node* PrefixTree::any_slot(Node* from) {
  while (from->slot < 0 && !from->next.empty()) from = from->next.begin()->second.get();
  return from->slot < 0 ? nullptr : from;
}

std::optional<PrefixTree::Found> PrefixTree::find(std::span<const int32_t> text, const void* reader) {
  Node *node = &roots_[reader], *best = nullptr;
  int64_t tokens = 0;
  for (size_t n = 0; int64_t(n + 1) * block_ < int64_t(text.size()); ++n) {
    const auto at = node->next.find(block_of(text, n));
    if (at == node->next.end()) break;
    node = at->second.get();
    if (!forgets_ && node->slot < 0) continue;
    best = forgets_ ? any_slot(node) : node;
    tokens = int64_t(n + 1) * block_;
  }
  if (!best) return std::nullopt;
  best->used = ++clock_;
  return Found{best->slot, tokens};
}

bool PrefixTree::has(std::span<const int32_t> tokens, const void* reader) const {
  const auto root = roots_.find(reader);
  if (root == roots_.end()) return false;
  const Node* node = &root->second;
  for (size_t n = 0; n < tokens.size() / size_t(block_); ++n) {
    const auto at = node->next.find(block_of(tokens, n));
    if (at == node->next.end()) return false;
    node = at->second.get();
  }
  return forgets_ || node->slot >= 0;
}

int64_t PrefixTree::release(Node& node) {
  --entries_;
  bytes_ -= node.bytes;
  node.bytes = 0;
  return std::exchange(node.slot, -1);
}

std::vector<int64_t> PrefixTree::add(std::span<const int32_t> tokens, int64_t slot, int64_t bytes, const void* reader) {
  check(!tokens.empty() && int64_t(tokens.size()) % block_ == 0 && !has(tokens, reader), "prefixes", tokens.size(),
        " tokens are no blocks of ", block_, ", or are kept already");
  std::vector<int64_t> freed;
  Node* node = &roots_[reader];
  for (size_t n = 0; n < tokens.size() / size_t(block_); ++n) {
    std::unique_ptr<Node>& next = node->next[block_of(tokens, n)];
    if (!next) {
      next = std::make_unique<Node>();
      next->above = node;
    }
    node = next.get();
    if (forgets_ && node->slot >= 0) freed.push_back(release(*node));
  }
  node->slot = slot;
  node->bytes = bytes;
  node->used = ++clock_;
  ++entries_;
  bytes_ += bytes;
  return freed;
}

std::optional<int64_t> PrefixTree::drop_oldest() {
  Node* oldest = nullptr;
  std::vector<Node*> open;
  for (auto& [reader, root] : roots_) open.push_back(&root);
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (node->slot >= 0 && (!oldest || node->used < oldest->used)) oldest = node;
    for (const auto& [tokens, next] : node->next) open.push_back(next.get());
  }
  if (!oldest) return std::nullopt;
  const int64_t slot = release(*oldest);
  for (Node* node = oldest; node->above && node->next.empty() && node->slot < 0;) {
    Node* above = node->above;
    for (auto at = above->next.begin(); at != above->next.end(); ++at)
      if (at->second.get() == node) {
        above->next.erase(at);
        break;
      }
    node = above;
  }
  return slot;
}

}  // namespace lithe
