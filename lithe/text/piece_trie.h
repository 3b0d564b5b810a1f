// Pieces by their bytes: which of them start a text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// Of each node the bytes that go on, in order, and where they lead. Values are places in the list of pieces.
class PieceTrie {
 public:
  explicit PieceTrie(const std::vector<std::string_view>& pieces) {
    std::vector<int32_t> order(pieces.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return std::pair(pieces[size_t(a)], a) < std::pair(pieces[size_t(b)], b); });
    nodes_.push_back({});
    std::vector<Range> ranges = {{0, order.size(), 0}};  // of `order`, of each node
    for (size_t node = 0; node < nodes_.size(); ++node) grow(node, ranges, pieces, order);
  }

  /// Calls f(length, piece) for the pieces that start `text`, shortest first. Of pieces spelt alike the last counts, as
  /// in Hugging Face's library.
  template <class F>
  void prefixes(std::string_view text, F&& f) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const Node& at = nodes_[node];
      const uint8_t* first = bytes_.data() + at.first;
      const uint8_t* found = std::find(first, first + at.count, uint8_t(text[i]));
      if (found == first + at.count) return;
      node = at.child + uint32_t(found - first);
      if (nodes_[node].piece != no_piece) f(i + 1, nodes_[node].piece);
    }
  }

  /// Bytes of the longest piece that starts `text`; 0 if none does.
  size_t longest(std::string_view text) const {
    size_t longest = 0;
    prefixes(text, [&](size_t length, int32_t) { longest = length; });
    return longest;
  }

 private:
  static constexpr int32_t no_piece = -1;
  struct Node {
    uint32_t first = 0, count = 0, child = 0;  // of bytes_; the node of the first of them
    int32_t piece = no_piece;
  };
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Node> nodes_;
  std::vector<uint8_t> bytes_;

  void grow(size_t node, std::vector<Range>& ranges, const std::vector<std::string_view>& pieces,
            const std::vector<int32_t>& order) {
    auto [begin, end, depth] = ranges[node];
    const auto text = [&](size_t i) { return pieces[size_t(order[i])]; };
    for (; begin < end && text(begin).size() == depth; ++begin) nodes_[node].piece = order[begin];
    nodes_[node].first = uint32_t(bytes_.size());
    nodes_[node].child = uint32_t(nodes_.size());
    while (begin < end) {
      const char byte = text(begin)[depth];
      size_t next = begin;
      while (next < end && text(next)[depth] == byte) ++next;
      bytes_.push_back(uint8_t(byte));
      nodes_.push_back({});
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
    nodes_[node].count = uint32_t(bytes_.size()) - nodes_[node].first;
  }
};

}  // namespace lithe
