// The conformance suite runs on every registered part, without a line per part: the list is read from the Registry when
// the program starts. Here: the models that a part is placed in, and the part built alone.
#pragma once

#include "tests/support/model_kit.h"

namespace lithe::conformance {

/// A part, alone or placed in one of the small models of the suite, with its default options or with sample options
/// (PartInfo::samples).
struct PartCase {
  std::string slot, name, model;
  bool cross = false;          // the model is an encoder_decoder, and the part also (or only) in its cross-attention
  std::string options = "{}";  // YAML
  PartInfo info() const;       // of the form that the options choose
};
PartCase placed(PartCase part, const std::string& model, bool cross = false);
std::ostream& operator<<(std::ostream& out, const PartCase& c);

/// The small models: odd widths, even ones (some parts need pairs of channels), powers of two (some need those).
const std::vector<std::string>& small_models();
/// The configuration of a small model with the part in its slot; of any model `yaml`.
ModelConfig config_of(const PartCase& c);
ModelConfig config_in(const std::string& yaml, const PartCase& c);
std::unique_ptr<Model> build(const PartCase& c, DType dtype, DType compute, Device device = Device::cpu,
                             uint64_t seed = 1);
/// Why the part refuses the small model (it is built on the meta device); empty when it takes it.
std::string refusal(const PartCase& c);

/// Every registered part that has a causal form, in every small model that it takes.
std::vector<PartCase> placed_parts();
/// Every registered part, with its default options and with each of its samples.
std::vector<PartCase> all_parts();
/// Mixers, heads, fields and outputs that have a bidirectional form.
std::vector<PartCase> bidirectional_parts();
/// Mixers, heads, fields and outputs; those that have a cross form; these in every small model that takes them.
std::vector<PartCase> mixing_parts();
std::vector<PartCase> cross_parts();
std::vector<PartCase> placed_cross_parts();

/// A part built outside a model in f64 with generic parameter values: outputs as a function of inputs (rows).
struct Alone {
  std::shared_ptr<kit::Bench> bench = std::make_shared<kit::Bench>();
  std::vector<Tensor> inputs;
  std::function<std::vector<Var>(const std::vector<Var>&)> run;
  std::vector<std::shared_ptr<void>> kept;  // what `run` points to
};
/// At the first width of a short list that the part takes; mixers, heads, fields and outputs causal or not. Fails for a
/// slot that has no line in alone.cpp.
std::unique_ptr<Alone> build_alone(const PartCase& part, bool causal = true);

/// Columns of a treebank that a part reads (kit::tree_columns).
void give_columns(Pass& pass, const lithe::Part& part, const Sequences& sequences);

/// Mixers, heads, fields and outputs: the mixer (attention around all but mixers) built alone.
enum class Sight { causal, bidirectional, cross };
struct AloneMixer {
  AloneMixer(DType dtype, DType compute) : bench(dtype, compute) {}
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
  int64_t width = 0;
};
bool mixes_tokens(const std::string& slot);
std::unique_ptr<AloneMixer> build_mixer(const PartCase& part, Sight sight, DType dtype = DType::f32,
                                        DType compute = DType::f32);

}  // namespace lithe::conformance
