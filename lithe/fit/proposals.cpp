#include "lithe/fit/proposals.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lithe/base/log.h"

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
constexpr double kGain = 0.99;         // of the cost, below which an exchange is worth a trial
constexpr double kDrafterShare = 0.5;  // the largest of a drafter
constexpr size_t kMostExits = 4;

// What exchanges are looked at: fewer keys and values, and an output without a matrix.
std::vector<std::string> exchanges_of(const Request& request) {
  if (!request.exchanges.empty()) return request.exchanges;
  return {"model.mixer.heads.type=mqa", "model.mixer.output.type=hadamard"};
}
constexpr double kMargin = 0.97;  // of the budget, that predictions keep: some numbers do not shrink

}  // namespace

Proposals::Proposals(const Workshop& shop, const Request& request)
    : shop_(shop), request_(request), rates_(MachineRates::measured()) {
  const Model& model = shop.before().model();
  shapes_.push_back({1, model.parameters().count(), use_cost(model.config(), shop.shape())});
  for (const auto& [share, config] : shop.shapes(grid_of(request)))
    shapes_.push_back(
        {share, Model(config, {.device = Device::meta}).parameters().count(), use_cost(config, shop.shape())});
  const Shape& whole = shapes_.front();
  for (const std::string& exchange : exchanges_of(request)) {
    const auto config = shop.exchanged_config(exchange);
    if (!config) continue;
    const Shape of{1, Model(*config, {.device = Device::meta}).parameters().count(), use_cost(*config, shop.shape()),
                   exchange};
    const bool cheaper = double(of.parameters) < kGain * double(whole.parameters) ||
                         of.cost.bytes < kGain * whole.cost.bytes || of.cost.flops < kGain * whole.cost.flops;
    if (cheaper || !request.exchanges.empty()) exchanged_.push_back(of);
  }
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
    if (!p.chain.whole() || p.chain.target || !p.chain.way.plain()) continue;
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

const Proposals::Shape* Proposals::shape_of(const Chain& chain) const {
  const std::vector<Shape>& among = chain.exchange.empty() ? shapes_ : exchanged_;
  const auto found = std::find_if(among.begin(), among.end(), [&](const Shape& s) {
    return std::abs(s.share - chain.share) < 1e-9 && s.exchange == chain.exchange;
  });
  return found == among.end() ? nullptr : &*found;
}

Figures Proposals::predicted(const Chain& chain, double ratio) const {
  const Shape *shape = shape_of(chain), &first = shapes_.front();
  const auto numbers = numbers_.find(chain.format);
  if (!shape || numbers == numbers_.end()) return {};
  const Figures& of = numbers->second.measured;
  const double part = double(shape->parameters) / double(first.parameters),
               saved = least(first, chain.format) - least(*shape, chain.format),
               rows = double(of.memory - of.size);  // with the state, that pruning leaves
  Figures out{.latency = own_time_ + ratio * std::max(of.latency - efficiency_ * saved, least(*shape, chain.format)),
              .memory = seen_(int64_t(double(of.size) * part + rows)),
              .size = int64_t(double(of.size) * part)};
  if (chain.way.draft == "pruned") {
    const Figures drafter = predicted({.share = chain.way.draft_share, .format = "int8"}, 1);
    out.size += drafter.size, out.memory += drafter.memory - seen_(0);
  }
  return out;
}

std::vector<Chain> Proposals::smaller() const {
  std::set<double, std::greater<>> shares(request_.shares.begin(), request_.shares.end());
  if (shares.empty())
    for (const char* format : kNumbers) {
      const auto fits = [&](const Shape& s) {
        return predicted({.share = s.share, .format = format}, 1)
            .within(request_.budget.times(s.share < 1 ? kMargin : 1));
      };
      const auto found = std::find_if(shapes_.begin(), shapes_.end(), fits);
      if (found != shapes_.end() && found->share < 1) shares.insert(found->share);
    }
  // Where nothing is predicted to fit, the smallest is the nearest.
  if (shares.empty() && shapes_.size() > 1 &&
      std::none_of(std::begin(kNumbers), std::end(kNumbers),
                   [&](const char* f) { return predicted({.format = f}, 1).within(request_.budget); }))
    shares.insert(shapes_.back().share);
  return pruned(shares);
}

std::vector<Chain> Proposals::pruned(const std::set<double, std::greater<>>& shares) const {
  std::vector<Chain> out;
  for (const double share : shares)
    for (const Chain& chain : in_numbers({.share = share})) out.push_back(chain);
  return out;
}

std::vector<Chain> Proposals::still_smaller(const std::vector<Point>& tried) const {
  std::set<double> old;
  std::set<double, std::greater<>> shares;
  for (const Point& p : tried)
    if (p.chain.exchange.empty()) old.insert(p.chain.share);
  for (const char* format : kNumbers) {
    const Point* last = nullptr;  // the smallest in these numbers
    for (const Point& p : tried)
      if (p.chain.format == format && p.chain.exchange.empty() && p.chain.way.plain())
        if (!last || p.chain.share < last->chain.share || (p.chain.share == last->chain.share && !p.failed.empty()))
          last = &p;
    if (!last) continue;
    const Figures is = last->figures, was = predicted(last->chain, 1);
    const auto fits = [&](const Shape& s) {
      if (s.share >= last->chain.share || old.contains(s.share)) return false;
      Figures f = predicted({.share = s.share, .format = format}, 1);
      f.latency *= std::max(1.0, is.latency / was.latency);
      f.memory += std::max<int64_t>(0, is.memory - was.memory);
      f.size += std::max<int64_t>(0, is.size - was.size);
      return f.within(request_.budget);
    };
    const auto found = std::find_if(shapes_.begin(), shapes_.end(), fits);
    if (found != shapes_.end()) shares.insert(found->share);
  }
  if (shares.empty() && !old.contains(shapes_.back().share)) shares.insert(shapes_.back().share);
  return pruned(shares);
}

std::vector<Chain> Proposals::in_numbers(const Chain& chain) const {
  std::vector<Chain> out;
  for (const char* format : kNumbers) {
    out.push_back(chain);
    out.back().format = format;
    if (out.back().format == "int4") out.back().method = method_;
  }
  return out;
}

std::vector<Chain> Proposals::exchanged() const {
  std::vector<Chain> out;
  for (const Shape& shape : exchanged_)
    for (const Chain& chain : in_numbers({.exchange = shape.exchange})) out.push_back(chain);
  return out;
}

std::vector<Chain> Proposals::ways() const {
  const Model& model = shop_.before().model();
  std::vector<Way> ways;
  for (int64_t beams = shop_.shape().beams / 2; shop_.shape().translates && beams >= 1; beams /= 2)
    ways.push_back({.beams = beams});
  const auto exits = shop_.exits() ? int64_t(model.exits().size()) : 0;
  if (!exits && !model.exits().empty())
    log_info("early exits are not among the chains: they are measured on texts and on tasks of classes or tags");
  if (shop_.drafts()) {
    ways.push_back({.draft = "lookup"});
    if (shapes_.back().share <= kDrafterShare) ways.push_back({.draft = "pruned", .draft_share = shapes_.back().share});
    if (exits) ways.push_back({.draft = cat("exit:", model.exits().front().layer + 1)});
  }
  for (int64_t e = std::max<int64_t>(0, exits - int64_t(kMostExits)); e < exits; ++e)
    ways.push_back({.exit = cat("layer:", model.exits()[size_t(e)].layer + 1)});
  if (exits)
    for (const char* rule : {"entropy:0.3", "entropy:1", "similarity:0.97"}) ways.push_back({.exit = rule});
  std::vector<Chain> out;
  for (const Way& way : ways)
    for (const Chain& chain : in_numbers({.way = way})) out.push_back(chain);
  return out;
}

std::vector<Chain> Proposals::mixed(const std::vector<Point>& points) const {
  const Budget& budget = request_.budget;
  std::vector<Chain> out;
  std::set<double> shares;
  for (const Point& p : points)
    if (p.chain.exchange.empty()) shares.insert(p.chain.share);
  for (const double share : shares) {
    const auto of = [&](const char* format) {
      return std::find_if(points.begin(), points.end(), [&](const Point& p) {
        return p.chain.share == share && p.chain.format == format && p.chain.exchange.empty() && p.chain.way.plain();
      });
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
