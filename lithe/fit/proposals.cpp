#include "lithe/fit/proposals.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace lithe::fit {
namespace {

// Shares that the cost model looks at.
std::vector<double> grid_of(const Request& request) {
  std::vector<double> out = request.shares;
  if (out.empty())
    for (int i = 19; i >= 4; --i) out.push_back(i / 20.0);
  std::sort(out.rbegin(), out.rend());
  return out;
}

constexpr const char* kNumbers[] = {"f32", "int8", "int4"};
constexpr double kMargin = 0.97;  // of the budget, that predictions keep: some numbers do not shrink

}  // namespace

Proposals::Proposals(const Workshop& shop, const Request& request)
    : shop_(shop), request_(request), rates_(MachineRates::measured()) {
  const Model& model = shop.before().model();
  shapes_.push_back({1, model.parameters().count(), use_cost(model.config(), shop.shape())});
  for (const auto& [share, config] : shop.shapes(grid_of(request)))
    shapes_.push_back(
        {share, Model(config, {.device = Device::meta}).parameters().count(), use_cost(config, shop.shape())});
}

std::vector<Chain> Proposals::whole() const {
  return {{},
          {.format = "bf16"},
          {.format = "int8"},
          {.format = "int4"},
          {.format = "int4", .method = "gptq"},
          {.format = "int4", .method = "awq"}};
}

double Proposals::least(const Shape& shape, const std::string& format) const {
  const double part = double(shape.parameters) / double(shapes_.front().parameters);
  return rates_.least_seconds(shape.cost, format, numbers_.at(format).weights * part,
                              numbers_.at("f32").weights * part);
}

void Proposals::learn(const std::vector<Point>& whole, const std::function<int64_t(int64_t)>& seen, double own_time) {
  seen_ = seen, own_time_ = own_time;
  double least_change = INFINITY;
  for (const Point& p : whole) {
    if (p.chain.share < 1 || p.chain.target) continue;
    if (p.chain.format == "int4") {
      if (p.change >= least_change) continue;
      least_change = p.change;
      method_ = p.chain.method;
    }
    numbers_[p.chain.format] = {p.figures, double(p.figures.size)};
  }
  // What of the time grows with the work: the slope over the numbers that it was measured in, between none and all.
  double xy = 0, xx = 0, mean_x = 0, mean_y = 0;
  for (const auto& [format, n] : numbers_) {
    mean_x += least(shapes_.front(), format) / double(numbers_.size());
    mean_y += n.measured.latency / double(numbers_.size());
  }
  for (const auto& [format, n] : numbers_) {
    const double x = least(shapes_.front(), format) - mean_x;
    xy += x * (n.measured.latency - mean_y), xx += x * x;
  }
  const double most = mean_x > 0 ? mean_y / mean_x : 1;
  efficiency_ = xx > 0 ? std::clamp(xy / xx, std::min(1.0, most), most) : most;
}

const Proposals::Shape* Proposals::shape_of(double share) const {
  const auto found =
      std::find_if(shapes_.begin(), shapes_.end(), [&](const Shape& s) { return std::abs(s.share - share) < 1e-9; });
  return found == shapes_.end() ? nullptr : &*found;
}

Figures Proposals::predicted(const Chain& chain) const {
  const Shape *shape = shape_of(chain.share), &first = shapes_.front();
  const auto numbers = numbers_.find(chain.format);
  if (!shape || numbers == numbers_.end()) return {};
  const Figures& of = numbers->second.measured;
  const double part = double(shape->parameters) / double(first.parameters),
               saved = least(first, chain.format) - least(*shape, chain.format),
               rows = double(of.memory - of.size);  // with the state, that pruning leaves
  return {.latency = own_time_ + std::max(of.latency - efficiency_ * saved, least(*shape, chain.format)),
          .memory = seen_(int64_t(double(of.size) * part + rows)),
          .size = int64_t(double(of.size) * part)};
}

std::vector<Chain> Proposals::smaller() const {
  std::set<double, std::greater<>> shares(request_.shares.begin(), request_.shares.end());
  if (shares.empty())
    for (const char* format : kNumbers) {
      const auto fits = [&](const Shape& s) {
        return predicted({.share = s.share, .format = format}).within(request_.budget.times(s.share < 1 ? kMargin : 1));
      };
      const auto found = std::find_if(shapes_.begin(), shapes_.end(), fits);
      if (found != shapes_.end() && found->share < 1) shares.insert(found->share);
    }
  // Where nothing is predicted to fit, the smallest is the nearest.
  if (shares.empty() && shapes_.size() > 1 &&
      std::none_of(std::begin(kNumbers), std::end(kNumbers),
                   [&](const char* f) { return predicted({.format = f}).within(request_.budget); }))
    shares.insert(shapes_.back().share);
  std::vector<Chain> out;
  for (const double share : shares)
    for (const char* format : kNumbers)
      out.push_back({.share = share, .format = format, .method = std::string(format) == "int4" ? method_ : "nearest"});
  return out;
}

std::vector<Chain> Proposals::mixed(const std::vector<Point>& points) const {
  const Budget& budget = request_.budget;
  std::vector<Chain> out;
  std::set<double> shares;
  for (const Point& p : points) shares.insert(p.chain.share);
  for (const double share : shares) {
    const auto of = [&](const char* format) {
      return std::find_if(points.begin(), points.end(),
                          [&](const Point& p) { return p.chain.share == share && p.chain.format == format; });
    };
    const auto few = of("int4"), many = of("f32");
    if (few == points.end() || many == points.end()) continue;
    int64_t target = budget.size ? budget.size : many->figures.size;
    // What the system sees grows with the bytes of the weights.
    if (budget.memory)
      while (target > few->figures.size && seen_(target + few->figures.memory - few->figures.size) > budget.memory)
        target -= std::max<int64_t>(target / 100, 1);
    if (target > few->figures.size * 21 / 20 && target < many->figures.size * 19 / 20)
      out.push_back({.share = share, .format = "mixed", .target = target});
  }
  // Without a budget of bytes: half way between 4 and 8 bits, for the front.
  if (!budget.size && !budget.memory) {
    const auto size = [&](const char* format) { return numbers_.at(format).measured.size; };
    out.push_back({.format = "mixed", .target = (size("int4") + size("int8")) / 2});
  }
  return out;
}

Json Proposals::rates_json() const {
  return {{"f32_operations", rates_.f32},     {"bf16_operations", rates_.bf16},
          {"int8_operations", rates_.int8},   {"bytes_from_memory", rates_.memory},
          {"bytes_from_cache", rates_.cache}, {"seconds_a_least_second", efficiency_}};
}

}  // namespace lithe::fit
