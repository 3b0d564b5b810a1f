// Where chains are made and measured; what is made is kept, and found again by a later call.
#pragma once

#include "lithe/compress/measured_model.h"
#include "lithe/compress/quantize.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/fit/fit.h"

namespace lithe::fit {

/// Tokens drafted at a time.
inline constexpr int64_t kDrafted = 4;

class Workshop {
 public:
  Workshop(const Request& request, const std::function<void(const Path& to)>& companions);

  const Path& work() const { return work_; }
  const UseShape& shape() const { return shape_; }
  const Recipe& recipe() const { return recipe_; }
  const MeasuringData& data() const { return data_; }
  /// What chains must not lose: "chrF" of translators; "cosine" of encoders that predict masked words no better than
  /// chance, such as imported sentence encoders; else "loss".
  std::string quality() const { return shape_.translates ? "chrF" : lines_.empty() ? "loss" : "cosine"; }
  /// Tokens of the data, as many as a use takes.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  /// The model before all.
  const MeasuredModel& before() const { return before_; }

  /// The chain's point, made and measured where it is not there already; none where pruning cannot reach its share, or
  /// (stopped) a signal asked to stop. Figures of memory are the ledger's (Use::peak).
  std::optional<Point> point(const Chain& chain, bool& stopped);
  /// What rounding each matrix of the model alone changes, of the chain's share; kept.
  std::vector<MatrixBits> bits(const Chain& chain);
  /// The directory with the model that the chain rounds: that of the run, pruned or with a part exchanged, and `steps`
  /// of training after that. None as above.
  std::optional<Path> base(const Chain& chain, int64_t steps, bool& stopped);
  /// The model of `from` in the chain's numbers, in the directory `to`, and its drafter, if it has one, which was
  /// trained for `steps` after pruning. False as `stopped` above.
  bool round_into(const Path& from, const Chain& chain, const Path& to, int64_t steps);
  /// How good and how fast the translator of a directory is.
  Translated translated(const Path& directory, const std::string& weights, const Chain& chain) const;
  /// The lines or the text of a real use.
  std::string text() const;
  /// The shapes that pruning to each share would leave, by norms, without training; shares that cannot be reached are
  /// left out.
  std::vector<std::pair<double, ModelConfig>> shapes(const std::vector<double>& shares) const;
  /// The model that an override of section model makes. Where it is not for this model, changes nothing, or leaves less
  /// than 1 % of the numbers in place: none for a proposal, and an error (usage) for one of Request::exchanges.
  std::optional<ModelConfig> exchanged_config(const std::string& override_) const;
  /// Whether tokens can be drafted for the model.
  bool drafts() const;
  /// Whether its exits, if it has some, can be measured: on text, or on a task of classes.
  bool exits() const;

 private:
  const Request& request_;
  std::function<void(const Path& to)> companions_;
  Path work_;
  std::vector<std::string> set_;  // keys of the recipe that are other than the run's
  Recipe recipe_;                 // with the data that are measured on and learnt from
  MeasuringData data_;
  UseShape shape_;
  std::vector<int32_t> tokens_;
  std::vector<TextPair> pairs_;                        // of translators
  std::map<Path, std::vector<double>> without_exits_;  // losses of batches of the model in a directory, by no rule
  std::map<Path, std::vector<int32_t>> greedy_;        // greedy_tokens() of the model in a directory, by no rule
  std::vector<double> chrf_;                           // of each, before all
  std::vector<std::string> lines_;                     // whose vectors are compared
  Tensor vectors_;                                     // of each, before all
  MeasuredModel before_;
  mutable std::map<std::string, ModelConfig> exchanged_configs_;  // exchanged_config() by override

  std::string weights_of(const Chain& chain) const;  // the file that its model is read from, as Request::weights
  InputMoments moments(const Model& model) const;
  std::optional<Path> pruned(double share, int64_t steps, bool& stopped);
  std::optional<Path> exchanged(const Chain& chain, int64_t steps, bool& stopped);
  void write_exchanged_run(const Chain& chain, const Path& to) const;
  const std::vector<double>& losses_without_exits(const Path& directory, const Model& model);
  const std::vector<int32_t>& greedy_without_exits(const Path& directory, const Model& model);
  std::optional<Path> numbers(const Chain& chain, const Path& from, bool& stopped);
  void judge_translations(Point& point);
  Tensor vectors(const Model& model) const;
  void judge_vectors(Point& point, const Model& model);
  bool judge_way(Point& point, bool& stopped);
  void judge_exit_of_task(Point& point, const Model& model);
  const HeldOutTask* task_of_classes() const;
  void keep(const Point& point) const;
  std::optional<Point> kept(const Chain& chain) const;
};

}  // namespace lithe::fit
