// Where chains are made and measured; what is made is kept, and found again by a later call.
#pragma once

#include "lithe/compress/measured_model.h"
#include "lithe/compress/quantize.h"
#include "lithe/fit/fit.h"

namespace lithe::fit {

class Workshop {
 public:
  Workshop(const Request& request, const std::function<void(const Path& to)>& companions);

  const Path& work() const { return work_; }
  const UseShape& shape() const { return shape_; }
  const Recipe& recipe() const { return recipe_; }
  const MeasuringData& data() const { return data_; }
  /// Tokens of the data, as many as a use takes.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  /// The model before all.
  const MeasuredModel& before() const { return before_; }

  /// The chain's point, made and measured where it is not there already; none where pruning cannot reach its share, or
  /// (stopped) a signal asked to stop. Figures of memory are the ledger's (Use::peak).
  std::optional<Point> point(const Chain& chain, bool& stopped);
  /// What rounding each matrix of the model alone changes, of the chain's share; kept.
  std::vector<MatrixBits> bits(const Chain& chain);
  /// The directory with the model of the chain's share; `steps` of training after pruning. None as above.
  std::optional<Path> pruned(double share, int64_t steps, bool& stopped);
  /// The model of `from` in the chain's numbers, in the directory `to`.
  void round_into(const Path& from, const Chain& chain, const Path& to);
  /// The shapes that pruning to each share would leave, by norms, without training; shares that cannot be reached are
  /// left out.
  std::vector<std::pair<double, ModelConfig>> shapes(const std::vector<double>& shares) const;

 private:
  const Request& request_;
  std::function<void(const Path& to)> companions_;
  Path work_;
  std::vector<std::string> set_;  // keys of the recipe that are other than the run's
  Recipe recipe_;                 // with the data that are measured on and learnt from
  MeasuringData data_;
  UseShape shape_;
  std::vector<int32_t> tokens_;
  MeasuredModel before_;

  InputMoments moments(const Model& model) const;
};

}  // namespace lithe::fit
