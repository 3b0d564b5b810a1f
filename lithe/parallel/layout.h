// How a job's ranks divide a model: what `train.parallel` says, and which share one rank has.
#pragma once

#include <memory>
#include <string>

#include "lithe/base/fields.h"
#include "lithe/parallel/communicator.h"

namespace lithe {

/// Section `train.parallel`: into how many shares each dimension of the work is divided. Their product is the number of
/// ranks.
struct ParallelConfig {
  int64_t data = 0, tensor = 1, pipeline = 1, sequence = 1, expert = 1;
  std::string weights = "whole", optimizer_states = "whole", messages = "f32";
  void fields(Fields& f);
  /// Fails (usage) where there are more ranks in all than any job has.
  void validate() const;
  /// Ranks that hold one copy of the model together.
  int64_t model() const { return tensor * pipeline * sequence * expert; }
};

/// Some ranks that work together; `with` is null where they are only planned for, on meta tensors.
struct Group {
  Communicator* with = nullptr;
  int rank = 0, size = 1;
  bool alone() const { return size == 1; }
  bool first() const { return rank == 0; }
};

/// The groups of one rank. Ranks are numbered with tensor innermost, then expert, sequence, pipeline and data, so that
/// those who say most to each other stand on one machine.
class Layout {
 public:
  /// Fails (usage) where the sizes do not multiply to this number of ranks.
  static void check(const ParallelConfig& config, int ranks);
  /// All ranks of the job call it, of a number that check() likes.
  Layout(const ParallelConfig& config, Communicator& all);
  /// The share of model rank `rank` alone, to plan with.
  Layout(const ParallelConfig& config, int rank);
  Layout(const Layout&) = delete;

  const ParallelConfig& config() const { return config_; }
  const Group& data() const { return data_; }
  const Group& tensor() const { return tensor_; }
  const Group& pipeline() const { return pipeline_; }
  const Group& sequence() const { return sequence_; }
  const Group& expert() const { return expert_; }
  const Group& model() const { return model_; }  // all that hold one copy of it
  bool divides_model() const { return config_.model() > 1; }

  /// Models made by this thread while it lives are divided so.
  class Use {
   public:
    explicit Use(const Layout* layout);
    ~Use();
    Use(const Use&) = delete;

   private:
    const Layout* before_;
  };
  /// Of the innermost Use; null: models are whole.
  static const Layout* current();

 private:
  ParallelConfig config_;
  Group data_, tensor_, pipeline_, sequence_, expert_, model_;
  std::vector<std::unique_ptr<Communicator>> made_;

  void place(Communicator* all, int rank);
};

}  // namespace lithe
