// Beside another objective: a hard-concrete gate on each head, hidden unit, expert or sub-layer, and a penalty on gates
// that are open [Louizos et al. 2018; TB 6.4.7(2)]. The gates multiply what a unit adds to the rows; without a tape
// they have no noise. `lithe prune --by gates` takes out the units whose gates are lowest.
#include <algorithm>

#include "lithe/model/prunable.h"
#include "lithe/objective/label_count.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/hard_concrete.h"

namespace lithe {
namespace {

struct GatesConfig {
  std::vector<std::string> units{"heads", "ffn"};
  double penalty = 0.01, beta = 2.0 / 3, start = 2, rate = 10;
  void fields(Fields& f) {
    f("units", units, "units that have a gate", one_of({"heads", "ffn", "experts", "sub_layers", "layers"}));
    f("penalty", penalty, "lambda: weight of the L0 penalty, the probability of each gate to be open", at_least(0));
    f("beta", beta, "temperature of the hard-concrete gates", between(0.01, 10));
    f("start", start, "initial log alpha of the gates", between(-20, 20));
    f("rate", rate, "log alpha is start + rate * the learned number; a larger rate makes gates learn faster",
      between(0.001, 1e4));
  }
};

// Gates of one group in this step.
class GroupGates {
 public:
  GroupGates(Parameter* learned, const GatesConfig& config, std::string name)
      : learned_(learned), start_(config.start), rate_(config.rate), purpose_(purpose_of("gates." + name)) {
    form_.beta = config.beta;
  }
  Var log_alpha() const {
    const Var scaled = scale(learned_->var(), rate_);
    const Tensor start = empty_like(scaled.value());
    for (int64_t i = 0; !start.is_meta() && i < start.numel(); ++i) set_value(start, i, start_);
    return add(scaled, Var(start));
  }
  Var gates() const {
    std::vector<double> u;
    const StepContext& step = step_context();
    const RandomKey key{.seed = step.seed, .step = step.step, .purpose = purpose_};
    for (int64_t i = 0; training() && i < learned_->master.value().numel(); ++i)
      u.push_back(std::clamp(random_uniform(key, uint64_t(i)), 1e-6, 1 - 1e-6));
    return hard_concrete(form_, log_alpha(), u);
  }
  const HardConcrete& form() const { return form_; }

 private:
  HardConcrete form_;
  Parameter* learned_;
  double start_, rate_;
  uint32_t purpose_;
};

// A parameter's numbers times the gates of its elements.
class GateView final : public View {
 public:
  GateView(std::shared_ptr<View> inner, std::shared_ptr<const GroupGates> gates, Tensor units)
      : inner_(std::move(inner)), gates_(std::move(gates)), units_(std::move(units)) {}
  void refresh(const Tensor& master) override {
    if (inner_) inner_->refresh(master);
  }
  Var read(const Var& master) const override {
    return gate_elements(inner_ ? inner_->read(master) : master, gates_->gates(), units_);
  }
  int64_t bytes() const override { return units_.bytes() + (inner_ ? inner_->bytes() : 0); }

 private:
  std::shared_ptr<View> inner_;
  std::shared_ptr<const GroupGates> gates_;
  Tensor units_;
};

class Gates final : public Objective {
 public:
  Gates(const Scope& scope, const GatesConfig& config, const Args& args) : config_(config) {
    // What a pass reads of the parameters changes, not their numbers.
    if (args.model) build(scope, const_cast<Model&>(*args.model));  // NOLINT
  }
  bool beside() const override { return true; }
  void prepare(const LessonFacts&, ModelConfig&) const override {}

  Var loss(const Ran& ran, const Targets& targets, const LossTerms& terms) const override {
    const int64_t labelled = count_labels(targets);
    const double share = terms.scale * double(labelled);  // of this batch in its step
    Var total;
    for (const auto& gates : gates_) {
      const Var penalty = gate_penalty(gates->form(), gates->log_alpha(), share * config_.penalty);
      total = total.defined() ? add(total, penalty) : penalty;
    }
    if (terms.sums) {
      terms.sums->labels = labelled;
      terms.sums->loss = total.value().is_meta() ? 0 : value_at(total.value(), 0) / terms.scale;
    }
    (void)ran;
    return total;
  }

 private:
  GatesConfig config_;
  std::vector<std::shared_ptr<const GroupGates>> gates_;

  void build(const Scope& scope, Model& model) {
    std::set<PruneUnit> units;
    for (const std::string& unit : config_.units) units.insert(prune_unit_named(unit));
    std::vector<std::string> left;
    for (const PruneGroup& group : prune_groups(model, units, left)) {
      const std::string name = group.name() + "." + name_of(group.unit);
      Parameter* learned = (scope / name).parameter("log_alpha", {Axis(group.count)}, InitRole::zeros);
      const auto gates = std::make_shared<const GroupGates>(learned, config_, name);
      gates_.push_back(gates);
      for (Parameter& p : model.parameters().all())
        if (const Tensor of = units_of(model, p, group); of.defined())
          p.view = std::make_shared<GateView>(p.view, gates, of);
    }
  }

  // The unit of each element; none where the group has no part in what this parameter adds.
  static Tensor units_of(Model& model, Parameter& p, const PruneGroup& group) {
    if (!p.joins) return {};
    Tensor out;
    for (int64_t i = 0; i < group.count; ++i) {
      const std::vector<Parameter*> of_unit = joining(model, group, i);
      if (std::ranges::find(of_unit, &p) == of_unit.end()) continue;
      if (!out.defined()) {
        const MemoryScope memory(MemoryClass::weights);
        out = empty(p.master.shape(), DType::i32, model.device());
        for (int64_t e = 0; !out.is_meta() && e < out.numel(); ++e) set_value(out, e, -1);
      }
      if (out.is_meta()) return out;
      const auto elements = elements_of(p, group, i);
      const Slice slice = elements ? *elements : Slice::of(p.axes, {});
      const Tensor mine = empty(slice.shape(), DType::i32);
      for (int64_t e = 0; e < mine.numel(); ++e) set_value(mine, e, double(i));
      slice.put(out, mine);
    }
    return out;
  }
};

}  // namespace

void register_objective_gates(Registry& registry) {
  registry.add<Objective, Gates, GatesConfig>(
      "gates", {.summary = "L0 gates, beside another objective: learn which heads and hidden units a model needs",
                .source = "Louizos et al. 2018; TB 6.4.7(2)"});
}

}  // namespace lithe
