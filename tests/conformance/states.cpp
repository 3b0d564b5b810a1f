// States beside decoding: saved, under a tape, brought forward without running.
#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

struct Segments {
  kit::Batch first, second;
};

// Two sequences, cut in two: lengths 4 and 2, then 3 and 1.
Segments segments(const Model& model) {
  Segments out{kit::random_batch({4, 2}, model.config(), 41), kit::random_batch({3, 1}, model.config(), 42)};
  if (reads_source(model.config().architecture)) kit::add_sources(out.first, model.config(), 43);
  return out;
}

// A state that has read the first segment.
std::unique_ptr<DecodeState> begun(const Model& model, const Segments& s) {
  auto state = model.make_state(2, 8);
  if (s.first.source.defined()) model.read_sources(*state, kit::input_of(s.first).sources);
  kit::forward(model, s.first.ids, model.continue_sequences(*state, {4, 2}), state.get());
  return state;
}

Rows continued(const Model& model, const Segments& s, DecodeState& state) {
  return kit::run(model, s.second.ids, model.continue_sequences(state, {3, 1}), &state);
}

NamedTensors copies(const NamedTensors& kept) {
  NamedTensors out;
  for (const auto& [name, tensor] : kept) out[name] = clone(tensor);
  return out;
}

// A new state with what `kept` has.
std::unique_ptr<DecodeState> restored(const Model& model, const NamedTensors& kept) {
  auto state = model.make_state(2, 8);
  state->restore(kept);
  return state;
}

}  // namespace

std::string difference(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return cat(a.size(), " tensors and ", b.size());
  for (const auto& [name, tensor] : a) {
    if (!b.count(name)) return name + " is missing";
    if (const std::string why = kit::bit_difference(tensor, b.at(name)); !why.empty()) return name + ": " + why;
  }
  return "";
}

std::string check_saved_states(const PartCase& c) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    const auto model = build(c, DType::f32, compute);
    const Segments s = segments(*model);
    const auto state = begun(*model, s);
    const NamedTensors kept = copies(state->save());
    const auto again = restored(*model, kept);
    if (const std::string why = difference(kept, again->save()); !why.empty())
      return cat(compute, " saved again: ", why);
    if (state->bytes() != again->bytes()) return cat("bytes ", state->bytes(), ", restored ", again->bytes());
    const Tensor rows = continued(*model, s, *state).x.value(), rows_again = continued(*model, s, *again).x.value();
    if (const std::string why = kit::bit_difference(rows, rows_again); !why.empty())
      return cat(compute, " rows: ", why);
  }
  return "";
}

std::string check_states_on_tape(const PartCase& c) {
  const auto model = build(c, DType::f64, DType::f64);
  const Segments s = segments(*model);
  const auto state = begun(*model, s);
  const NamedTensors kept = copies(state->save());
  const auto rehearsed = [&] {
    const Rehearsal training;  // what is differentiated is the training pass
    return continued(*model, s, *restored(*model, kept)).x.value();
  };
  const Tensor rows = rehearsed();
  try {
    const Tape tape;
    continued(*model, s, *restored(*model, kept));
  } catch (const Error& error) {
    return std::string(error.what()).find("no gradient through its state") != std::string::npos
               ? ""
               : cat("refused, but not as a state without gradients: ", error.what());
  }
  Tape tape;
  const Var taped = continued(*model, s, *restored(*model, kept)).x;
  if (const double far = kit::largest_difference(taped.value(), rows); far > 1e-9)
    return cat("rows under a tape are off by ", far);
  const Tensor weights = kit::normal(rows.shape(), DType::f64, 46);
  tape.backward(taped, weights);
  return check_slopes(
      model->parameters(),
      [&] {
        const Tensor y = rehearsed();
        double sum = 0;
        for (int64_t i = 0; i < y.numel(); ++i) sum += value_at(y, i) * value_at(weights, i);
        return sum;
      },
      [](const Parameter& p) {
        const Tensor gradient = p.master.grad();
        return gradient.defined() ? kit::values(gradient) : std::vector<double>(size_t(p.master.value().numel()), 0.0);
      });
}

std::string check_skipping(const PartCase& part) {
  if (!part.info().causal) return "";
  const auto alone = build_mixer(part, Sight::causal);
  const Sequences first({0, 4, 6}), second({0, 3, 4}, {4, 2});
  const Tensor x = kit::normal({6, alone->width}, DType::f32, 44), y = kit::normal({4, alone->width}, DType::f32, 45);
  const NoGrad no_grad;
  NamedTensors kept[2];
  for (const bool skips : {false, true}) {
    const auto state = alone->mixer->make_state({2, 8, DType::f32, Device::cpu});
    if (!state) return "";
    try {
      Pass before, behind;
      give_columns(before, *alone->mixer, first);
      give_columns(behind, *alone->mixer, second);
      alone->mixer->forward({x, first, state.get(), before});
      const SubLayerInput next{y, second, state.get(), behind};
      skips ? alone->mixer->skip(next) : void(alone->mixer->forward(next));
    } catch (const Error& error) {
      if (std::string(error.what()).find("decode through a model") != std::string::npos) return "";
      throw;
    }
    kept[skips] = copies(state->save());
  }
  return difference(kept[0], kept[1]);
}

}  // namespace lithe::conformance
