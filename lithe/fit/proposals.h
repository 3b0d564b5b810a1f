// Which chains are worth a trial: from the cost model, the machine's rates and what the whole model was measured at.
#pragma once

#include <functional>
#include <set>

#include "lithe/fit/workshop.h"

namespace lithe::fit {

class Proposals {
 public:
  /// Measures the machine, and the cost of the model and of its pruned shapes.
  Proposals(const Workshop& shop, const Request& request);

  /// The model itself, and it in all numbers and by all methods.
  std::vector<Chain> whole() const;
  /// Parts that are exchanged, those by which the model gets cheaper: in f32, int8 and the better int4.
  std::vector<Chain> exchanged() const;
  /// Ways to use the model as it is, in 8 bits and in the better int4: early exits, drafts, fewer beams.
  std::vector<Chain> ways() const;
  /// From what those were measured at (memory: Use::peak). `seen`: that as the system sees it.
  /// `own_time`: what the program takes beside the model.
  void learn(const std::vector<Point>& whole, const std::function<int64_t(int64_t)>& seen, double own_time);
  /// Pruned ones: in each numbers the largest share that is predicted to fit, or Request::shares, in f32, int8 and the
  /// better int4.
  std::vector<Chain> smaller() const;
  /// Where nothing that was tried fits: in each numbers the largest share below those that were tried that is predicted
  /// to fit when predictions are as far off as they were for the smallest of them; else the smallest share.
  std::vector<Chain> still_smaller(const std::vector<Point>& tried) const;
  /// With bits by matrix: as many bytes as the budget leaves, where 4 or 8 bits everywhere leave some over.
  std::vector<Chain> mixed(const std::vector<Point>& points) const;
  /// By the cost model; zeros where it says nothing. `ratio`: Point::ratio.
  Figures predicted(const Chain& chain, double ratio) const;
  Json rates_json() const;

 private:
  struct Shape {
    double share = 1;
    int64_t parameters = 0;
    kernels::Cost cost;
    std::string exchange = {};
  };
  struct Numbers {  // of the whole model
    Figures measured;
    double weights = 0;  // bytes of the file
  };
  const Workshop& shop_;
  const Request& request_;
  MachineRates rates_;
  std::vector<Shape> shapes_;  // the whole first, then pruned ones
  std::vector<Shape> exchanged_;
  std::map<std::string, Numbers> numbers_;
  std::string method_ = "nearest";  // of the better int4
  double efficiency_ = 1;           // seconds that a least second takes
  std::function<int64_t(int64_t)> seen_;
  double own_time_ = 0;

  double least(const Shape& shape, const std::string& format) const;
  const Shape* shape_of(const Chain& chain) const;
  std::vector<Chain> in_numbers(const Chain& chain) const;
  // Pruned to each of these shares, in all numbers.
  std::vector<Chain> pruned(const std::set<double, std::greater<>>& shares) const;
};

}  // namespace lithe::fit
