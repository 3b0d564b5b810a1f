#include "lithe/nn/pass.h"

#include "lithe/autograd/piece.h"
#include "lithe/ops/basic.h"

namespace lithe {

const char* name_of(Tap::Kind kind) {
  switch (kind) {
    case Tap::Kind::rows: return "rows";
    case Tap::Kind::row_of: return "rows of tokens";
    case Tap::Kind::input: return "mixer's input";
    case Tap::Kind::queries: return "queries";
    case Tap::Kind::keys: return "keys";
    case Tap::Kind::values: return "values";
    case Tap::Kind::map: return "attention weights";
    case Tap::Kind::map_logits: return "attention logits";
    case Tap::Kind::context: return "heads' results";
    case Tap::Kind::received: return "received attention";
  }
  return "";
}

void Statistic::add(const std::vector<double>& values, double weight_of_values) {
  if (sums.empty()) sums.resize(values.size(), 0);
  check(sums.size() == values.size(), "pass", "a statistic of ", sums.size(), " numbers was given ", values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += weight_of_values * values[i];
  weight += weight_of_values;
}

std::vector<double> Statistic::means() const {
  std::vector<double> out = sums;
  for (double& value : out) value = weight > 0 ? value / weight : 0;
  return out;
}

Pass& Pass::nowhere() {
  thread_local Pass pass;
  pass.notes_ = std::make_shared<Notes>();
  return pass;
}

const Tensor* Pass::given(const std::string& name) const {
  const auto found = shared_->columns.find(name);
  return found == shared_->columns.end() ? nullptr : &found->second;
}

void Pass::add_loss(const std::string& name, const Var& loss) const {
  check(loss.shape() == Shape{1}, "pass", "loss '", name, "' must be a scalar [1], got ", loss.shape());
  Var& sum = notes_->losses[name];
  sum = sum.defined() ? add(sum, loss) : loss;
}

void Pass::add_statistic(const std::string& name, const std::vector<double>& values, double weight) const {
  // Two parts of a layer may show the same of different numbers of things.
  const auto found = notes_->statistics.find({name, layer_});
  const bool other = found != notes_->statistics.end() && found->second.sums.size() != values.size();
  notes_->statistics[{other ? cat(name, "_of_", values.size()) : name, layer_}].add(values, weight);
}

void Pass::take_statistics(const Statistics& from, const std::string& before) const {
  for (const auto& [key, statistic] : from)
    notes_->statistics[{before + key.first, key.second}].add(statistic.means(), statistic.weight);
}

void Pass::put(Tap::Kind kind, const Var& x, int64_t sequence) const {
  notes_->taps[{kind, layer_, sequence}] = reshape(x, x.shape());
}

Var Pass::get(Tap tap) const {
  for (const auto& notes : {notes_, around_}) {
    if (!notes) continue;
    const auto found = notes->taps.find(tap);
    if (found != notes->taps.end()) return tap.layer == layer_ ? found->second : from_outside(found->second);
  }
  return {};
}

Var Pass::embedded() const { return from_outside(shared_->embedded); }

Var Pass::reference() const {
  const auto at = size_t(layer_);
  return layer_ >= 0 && at < shared_->references.size() ? from_outside(shared_->references[at]) : Var();
}

Pass Pass::of_source(const std::string& name) const {
  Pass& pass = shared_->of_sources[name];
  if (shared_->statistics) pass.want_statistics();
  return pass;
}

std::optional<Rows> Pass::source(const std::string& name) const {
  const auto found = shared_->sources.find(name);
  if (found == shared_->sources.end()) return std::nullopt;
  const Rows& source = found->second;
  return Rows{from_outside(source.x), source.sequences, from_outside(source.embedded), source.shortened};
}

Pass Pass::within(int64_t layer) const {
  Pass pass = *this;
  pass.layer_ = layer;
  return pass;
}

Pass Pass::apart(int64_t layer) const {
  Pass pass = within(layer);
  pass.around_ = notes_;
  pass.notes_ = std::make_shared<Notes>();
  return pass;
}

std::vector<Var> Pass::noted() const {
  std::vector<Var> out;
  for (const auto& [name, loss] : notes_->losses) out.push_back(loss);
  for (const auto& [tap, x] : notes_->taps) out.push_back(x);
  return out;
}

void Pass::take(const Pass& from, const std::vector<Var>& vars, size_t begin) const {
  for (const auto& [name, loss] : from.notes_->losses) add_loss(name, vars[begin++]);
  for (const auto& [tap, x] : from.notes_->taps) notes_->taps[tap] = vars[begin++];
  take_statistics(from.notes_->statistics);
}

}  // namespace lithe
