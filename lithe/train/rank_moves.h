// Tensors on their way from rank to rank.
#pragma once

#include "lithe/base/tree_sum.h"
#include "lithe/train/rank_sum.h"

namespace lithe {

inline constexpr size_t kSmallMessage = size_t(1) << 16;  // bytes; smaller tensors go together

/// Moves that all ranks concerned know, in the same order. What is undefined at `from` stays as it is at `to`. Begins
/// when it is made; carry() and end() wait for what the stage before has sent.
class RankSum::Moving {
 public:
  Moving(const RankSum& ranks, std::vector<Move> moves);
  /// Ranks know what comes, have room for it, and send it.
  void carry();
  /// It has come.
  void end();
  void poke();

 private:
  const RankSum& ranks_;
  std::vector<Move> moves_;
  // What each tensor is: 0 for none, else 1 + its type. One message a pair of ranks.
  std::map<int, std::vector<uint8_t>> told_, heard_;
  // Small tensors go together: a message costs more than their bytes.
  std::map<int, std::vector<std::byte>> packs_, unpacks_;
  std::vector<const Move*> small_in_;
  std::vector<std::unique_ptr<Communicator::Request>> sent_, coming_;

  Tensor arrived(const Move& move, DType dtype) const;
  void wait_for_coming();
};

/// The sum of `left` and `right`, parts of which lie on the ranks below a node, in some slots.
class RankSum::Joining {
 public:
  struct Place {
    int64_t begin, middle, end, count;
  };
  /// `left` and `right` must outlive it.
  Joining(const RankSum& ranks, std::vector<size_t> slots, Gradients& left, Gradients& right, const Place& at);
  /// After Moving::end(): this rank's part. `sum` may be `left` or `right`.
  void add_into(Gradients& sum);

 private:
  const RankSum& ranks_;
  std::vector<size_t> slots_;
  Gradients &left_, &right_;
  Place at_;
  std::vector<Tensor> lefts_, rights_;  // that come

  std::vector<Move> moves();

 public:
  Moving moving;
};

template <class Visit>
void RankSum::each_shared(int64_t begin, int64_t end, int64_t count, Visit&& visit) const {
  if (rank_of(begin, count) == rank_of(end - 1, count)) return;
  visit(begin, end);
  const int64_t middle = tree_middle(begin, end);
  each_shared(begin, middle, count, visit);
  each_shared(middle, end, count, visit);
}

/// b joins a.
void add_gradient(Tensor& a, Tensor b);

/// A gradient in another type; itself where it has that.
Tensor in_dtype(Tensor gradient, DType dtype);

}  // namespace lithe
