// What the ranks of a job send each other in a step: gradients, added along the tree of micro-batches wherever these
// run.
#pragma once

#include <algorithm>
#include <map>
#include <memory>

#include "lithe/model/tensor_stream.h"
#include "lithe/nn/module.h"
#include "lithe/parallel/layout.h"

namespace lithe {

/// Gradients of the parameters of a model and of its objective, in their order; none where nothing arrived. A parameter
/// that follows means has three: its gradient (none), the sums and the counts.
struct Gradients {
  std::vector<Tensor> of;
  /// Adds in place, and takes over those that only the other has.
  Gradients& operator+=(Gradients&& other);
};

/// A tensor and the rank that can read it.
struct PlacedTensor {
  PendingTensor tensor;
  int rank = 0;
};
/// Calls `write` on the first rank with all tensors, while the others send theirs, which `write` must read once, in the
/// order of names. `ranks` null: all are here.
void with_all_tensors(Communicator* ranks, const std::map<std::string, PlacedTensor>& all,
                      const std::function<void(const std::map<std::string, PendingTensor>&)>& write);

/// Contiguous parts of the micro-batches of a step, one a rank. The tree over their index is TreeSum's; where a subtree
/// lies in several parts, its ranks share out the parameters among themselves, so that each adds a part of the numbers.
class RankSum {
 public:
  /// `ranks` null: this is a plan of rank `rank` of `size`, and nothing is sent. `parameters` must outlive this.
  /// `config`: with optimizer_states sharded each rank keeps the gradients of its share alone, and moves these
  /// parameters for all (ZeRO-1), with weights sharded it also keeps no others of layers (ZeRO-3); with messages bf16
  /// every gradient that goes to another rank is rounded.
  RankSum(Communicator* ranks, int rank, int size, const std::vector<Parameters*>& parameters,
          const ParallelConfig& config = {});

  int rank() const { return rank_; }
  int size() const { return size_; }
  Communicator* ranks() const { return ranks_; }

  /// The first micro-batch of a rank, of `count`. Rank `size` would begin at their end.
  int64_t first_of(int rank, int64_t count) const { return count * rank / size_; }

  /// The sum of the gradients below [begin, middle) and [middle, end), of which each of those ranks holds a part. All
  /// ranks below call it. Returns this rank's part.
  Gradients join(Gradients left, Gradients right, int64_t begin, int64_t middle, int64_t end, int64_t count) const;

  /// No rank has micro-batches behind a sum that it shares with others, as where their number is that of the ranks
  /// times a power of two.
  bool joins_last(int64_t count) const;

  /// A node of the tree, and what its left half gave here.
  struct Node {
    int64_t begin = 0, middle = 0, end = 0;
    Gradients left;
  };
  /// The rest of a step's sum, from this rank's last micro-batch up to the root and out to all ranks, for one group of
  /// parameters after another: messages of the groups that are there go while the backward pass makes the next. Every
  /// rank begins the same groups in the same order. Where a message is waited for depends on that order alone, so that
  /// memory and sums are the same each time.
  class Ascent {
   public:
    /// `path`: from the root down to the node of that micro-batch, of the `count` of a step.
    Ascent(const RankSum& ranks, std::vector<Node> path, int64_t count);
    ~Ascent();
    /// The last micro-batch's gradients in these slots (the places in Gradients). Groups before it go a stage on.
    void begin(std::vector<size_t> slots, Gradients leaf);
    /// Messages go on; nothing is waited for.
    void poke();
    /// The whole sum, everywhere; of sharded ones this rank's part, and what moves means.
    Gradients end();

   private:
    struct Group;
    const RankSum& ranks_;
    std::vector<Node> path_;
    int64_t count_;
    std::vector<int> levels_;  // of the tree, at which some ranks join
    Gradients sum_;
    std::vector<std::unique_ptr<Group>> groups_;

    bool advance(Group& group);
    void join(Group& group, int level);
    void take_joined(Group& group);
    void spread(Group& group);
  };

  /// What this rank has sent or taken, whichever is more, in all moves so far; counted in a plan.
  struct Traffic {
    int64_t messages = 0, bytes = 0;
  };
  Traffic traffic() const { return {std::max(sent_.messages, taken_.messages), std::max(sent_.bytes, taken_.bytes)}; }

  bool sharded() const { return sharded_ && size_ > 1; }
  /// The ranks share out the weights of layers, too (ZeRO-3); and this parameter among them: only its mover keeps it.
  bool shares_weights() const { return weights_ && size_ > 1; }
  bool apart(const Parameter& parameter) const;
  /// Every rank gets these parameters, of which it has memory, from those that keep them.
  void bring(const std::vector<Parameter*>& parameters) const;
  /// The rank that moves a parameter; this one where they are not sharded.
  int mover_of(const Parameter& parameter) const;
  /// Every rank gets the parameters from those that moved them.
  void share_moved() const;
  /// Every rank's numbers, in the order of ranks; this one's alone in a plan.
  std::vector<std::vector<double>> numbers_of_all(const std::vector<double>& mine) const;

 private:
  struct Slot {
    Shape shape;
    DType dtype;
    int share = 0;  // of the slots that learn: the rank that holds the whole sum
    bool learns = true;
    const Parameter* moved = nullptr;  // by this gradient; null: what is gathered for means
  };
  // A tensor that goes from rank to rank. At `to` it is put where `tensor` points, into what is there or into a new
  // one.
  struct Move {
    Tensor* tensor;
    size_t slot;
    int from, to;
  };
  Communicator* ranks_;
  int rank_, size_;
  bool sharded_, rounded_, weights_;
  std::vector<Slot> slots_;
  std::map<const Parameter*, size_t> slot_of_;
  mutable Traffic sent_, taken_;

  class Moving;
  class Joining;

  int rank_of(int64_t micro_batch, int64_t count) const;
  /// visit(begin, end) of every node below [begin, end) whose micro-batches lie on several ranks, from above.
  template <class Visit>
  void each_shared(int64_t begin, int64_t end, int64_t count, Visit&& visit) const;
  /// What a message of a slot has; and a gradient as it goes into one.
  DType message_dtype(size_t slot) const;
  Tensor rounded(size_t slot, Tensor gradient) const;
  int owner(size_t slot, int64_t begin, int64_t end, int64_t count) const;
  void count(const std::vector<Move>& moves) const;
  void run(std::vector<Move> moves) const;
};

}  // namespace lithe
