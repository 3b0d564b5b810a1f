// Sums in an order that only their number of terms decides.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace lithe {

/// Of a node of TreeSum's tree, over the terms [begin, end), of which there are two or more: its height above them, and
/// where its left half ends.
inline int tree_level(int64_t begin, int64_t end) { return int(std::bit_width(uint64_t(end - begin - 1))); }
inline int64_t tree_middle(int64_t begin, int64_t end) { return begin + (int64_t(1) << (tree_level(begin, end) - 1)); }

/// The sum of terms along a fixed binary tree over their index: of n terms the first 2^k, the largest such number below
/// n, make the left half, and each half is made likewise. So the sum has the same bits whoever adds up the terms of a
/// subtree. Terms come in order; at most log2(n) + 1 of them and of their sums are kept at a time.
template <class T>
class TreeSum {
 public:
  void add(T term) {
    parts_.push_back({std::move(term), 1});
    while (parts_.size() > 1 && parts_[parts_.size() - 2].terms == parts_.back().terms) join();
  }
  /// The sum of all terms, of which there must be one; none are left.
  T take() {
    while (parts_.size() > 1) join();
    T sum = std::move(parts_.back().sum);
    parts_.clear();
    return sum;
  }

 private:
  struct Part {
    T sum;
    int64_t terms;
  };
  std::vector<Part> parts_;  // subtrees, the largest and leftmost first

  void join() {
    Part right = std::move(parts_.back());
    parts_.pop_back();
    parts_.back().sum += std::move(right.sum);
    parts_.back().terms += right.terms;
  }
};

}  // namespace lithe
