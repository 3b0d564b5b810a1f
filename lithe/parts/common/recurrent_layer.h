// Recurrent layers in place of attention [TB 6.4.5(2)]: the common ground of elman, lstm and gru.
#pragma once

#include "lithe/nn/registry.h"
#include "lithe/ops/recurrent.h"
#include "lithe/parts/common/directions.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/recurrent_state.h"

namespace lithe {

struct RecurrentConfig {
  bool two_biases = true;
  PartChoice output{"none", {}};
  void fields(Fields& f) {
    f("two_biases", two_biases,
      "a bias on the input product and one on the recurrent product, as in PyTorch; false: one bias");
    f.part("output", "output", output, "maps the hidden states to rows");
  }
};

/// Rows that both directions read end in a map of both hidden rows, 2 d to d.
class RecurrentLayer : public Mixer {
 public:
  Var forward(const SubLayerInput& in) const override {
    std::vector<Tensor> states;
    if (in.state) states = static_cast<RecurrentState&>(*in.state).advance(in.sequences);
    const Var onward = run(onward_, in.x, in.sequences, states);
    if (!backward_.from_rows.weight) return output_->forward(onward);
    const std::vector<int64_t> turned = turned_rows(in.sequences);
    const Var back = pick_rows(run(backward_, pick_rows(in.x, turned), in.sequences, {}), turned);
    return output_->forward(add(join_onward_(onward), join_back_(back)));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<RecurrentState>(name_, shape, Shape{recurrent_state(kind_, width_)}, true);
  }
  // h, and c of an lstm: d or 2d scalars; in f32 at least.
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return int64_t(tokens.size()) * recurrent_state(kind_, width_) * size_of(wide_of(dtype));
  }

 protected:
  RecurrentLayer(const char* name, kernels::RecurrentCell kind, const Scope& scope, const RecurrentConfig& config,
                 const Args& args)
      : name_(name), kind_(kind), width_(args.hidden_size) {
    const int64_t d = width_;
    onward_ = Direction(args.causal ? scope : scope / "onward", kind, d, config.two_biases);
    if (!args.causal) {
      backward_ = Direction(scope / "backward", kind, d, config.two_biases);
      join_onward_ = Linear(scope / "join" / "onward", Axis::hidden(d), Axis::hidden(d), false);
      join_back_ = Linear(scope / "join" / "backward", Axis::hidden(d), Axis::hidden(d), false);
    }
    output_ = Registry::instance().make<Output>(config.output, scope / "output",
                                                {.context = Axis::hidden(d), .hidden_size = d, .bias = false});
  }

 private:
  struct Direction {
    Linear from_rows;
    Parameter *weight = nullptr, *bias = nullptr;
    Direction() = default;
    Direction(const Scope& scope, kernels::RecurrentCell kind, int64_t d, bool two_biases)
        : from_rows(scope / "rows", Axis::hidden(d), gates(kind, d), true),
          weight((scope / "recurrent").parameter("weight", {Axis::hidden(d), gates(kind, d)}, InitRole::matrix)) {
      if (two_biases) bias = (scope / "recurrent").parameter("bias", {gates(kind, d)}, InitRole::zeros);
      const Tensor& start = from_rows.bias->master.value();  // an lstm remembers at first
      for (int64_t c = d; c < 2 * d && kind == kernels::RecurrentCell::lstm && !start.is_meta(); ++c)
        set_value(start, c, 1);
    }
    static Axis gates(kernels::RecurrentCell kind, int64_t d) {
      return Axis(kernels::gates_of(kind)) * Axis::hidden(d);
    }
  };
  const char* name_;
  kernels::RecurrentCell kind_;
  int64_t width_;
  Direction onward_, backward_;
  Linear join_onward_, join_back_;
  std::unique_ptr<Output> output_;

  Var run(const Direction& by, const Var& x, const Sequences& sequences, const std::vector<Tensor>& states) const {
    return recurrent(kind_, by.from_rows(x), by.weight->var(), var_or_none(by.bias), sequences, states);
  }
};

}  // namespace lithe
