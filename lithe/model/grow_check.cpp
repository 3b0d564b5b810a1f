#include "lithe/model/grow_check.h"

#include <algorithm>
#include <cmath>

namespace lithe {
namespace {

constexpr double kSame = 1e-4;                         // rounding in f32 of sums that are taken in another order
constexpr int64_t kMostParameters = int64_t(1) << 24;  // of a model that is made for the question alone

// Weights under which nothing is zero or one by chance, as the initial ones may be.
void randomise(Model& model) {
  for (Parameter& p : model.parameters().all()) {
    const Tensor x = p.numbers();
    const RandomKey key{.seed = 1, .purpose = purpose_of("grow." + p.name)};
    const double scale = x.shape().rank() == 2 ? 1 / std::sqrt(double(std::max<int64_t>(1, x.dim(0)))) : 0.3;
    for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, scale * random_normal(key, uint64_t(i)));
    p.assign(x);
  }
  model.parameters().refresh_views();
}

// Of random weights; none: the model is too large, or cannot be made.
std::optional<double> difference_when_grown(const ModelConfig& config, const KeptGrowth& how) {
  const ModelConfig larger = how.grown(config);
  if (Model(larger, {.device = Device::meta}).parameters().count() > kMostParameters) return std::nullopt;
  const ModelOptions exact{.dtype = DType::f64, .compute = DType::f64};
  Model from(config, exact), to(larger, exact);
  randomise(from);
  if (how.layers)
    grow_depth(from, to, true);
  else
    grow_width(from, to, 0, 0);
  try {
    if (how.compared && larger.token_width <= 1) return difference_of_predictions(from, to);
  } catch (const Error&) {  // a head that needs more than tokens
  }
  return std::nullopt;
}

// What could not be made or compared tells nothing of the part.
bool changes(const ModelConfig& config, const KeptGrowth& how) {
  try {
    return difference_when_grown(config, how).value_or(0) > kSame;
  } catch (const Error&) {
    return false;
  }
}

// The smallest model of this kind, of parts that grow in every way.
ModelConfig plainest(const ModelConfig& config) {
  ModelConfig out;
  out.architecture = config.architecture;
  out.vocab_size = config.vocab_size, out.token_width = config.token_width, out.num_labels = config.num_labels;
  out.hidden_size = config.hidden_size, out.max_position_embeddings = config.max_position_embeddings;
  out.num_hidden_layers = 1;
  const auto part = [](const char* yaml, const char* slot) {
    return read_part(parse_yaml(yaml, "grow"), slot, slot, "model", ModelConfig::standard(slot));
  };
  out.position = part("{type: none}", "position");
  out.mixer = part(config.hidden_size % 2 ? "{type: attention, num_attention_heads: 1}"
                                          : "{type: attention, num_attention_heads: 2}",
                   "mixer");
  out.ffn = part("{type: relu}", "ffn");
  out.norm = part("{type: layer}", "norm");
  out.residual = part("{type: pre}", "residual");
  out.stack = part("{type: plain}", "stack");
  out.head = part(sees_ahead(config.architecture) ? "{type: mlm}" : "{type: lm}", "head");
  out.tie_word_embeddings = false;
  return out;
}

// "field random" of a mixer that grows without it; else the mixer itself.
std::string part_within(const ModelConfig& with, const PartChoice& mixer, const KeptGrowth& how) {
  for (const char* option : {"field", "heads", "output", "memory"}) {
    const Node* given = mixer.options.find(option);
    if (!given) continue;
    ModelConfig without = with;
    without.mixer.options.erase(option);
    const Node* type = given->is_map() ? given->find("type") : given;
    if (type && !changes(without, how)) return cat(".", option, " ", type->text());
  }
  return " " + mixer.type;
}

// The first part that alone makes the difference, by its key; empty: none does.
std::string changing_part(const ModelConfig& config, const KeptGrowth& given) {
  const KeptGrowth how{.width = given.width, .layers = given.layers ? 2 : 0};
  const ModelConfig plain = plainest(config);
  if (changes(plain, how)) return "";
  ModelConfig with = plain;
  const auto one = [&](const char* key, PartChoice ModelConfig::*slot) {
    with = plain;
    with.*slot = config.*slot;
    return changes(with, how) ? cat("model.", key, " ", (config.*slot).type) : std::string();
  };
  const std::pair<const char*, PartChoice ModelConfig::*> slots[] = {
      {"position", &ModelConfig::position},   {"residual", &ModelConfig::residual}, {"norm", &ModelConfig::norm},
      {"embedding", &ModelConfig::embedding}, {"stack", &ModelConfig::stack},       {"head", &ModelConfig::head}};
  for (const auto& [key, slot] : slots)
    if (std::string found = one(key, slot); !found.empty()) return found;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string name = config.layer_name(i), at = name.empty() ? "model" : "model.layers." + name;
    for (const SubLayerConfig& sub : config.layer(i).sub_layers) {
      with = plain;
      const bool mixer = sub.kind == SubLayerConfig::Kind::mixer;
      (mixer ? with.mixer : with.ffn) = sub.part;
      if (changes(with, how))
        return mixer ? cat(at, ".mixer", part_within(with, sub.part, how)) : cat(at, ".ffn ", sub.part.type);
    }
  }
  return "";
}

}  // namespace

void check_grown_alike(const ModelConfig& config, const KeptGrowth& how, double apart, const char* operation) {
  if (!(apart > kSame)) return;
  const std::string part = changing_part(config, how);
  fail_usage(operation, "the larger model would predict otherwise (by ", apart,
             " of the largest logit): ", part.empty() ? "some part of it" : part,
             how.layers ? " does not add zero when its output is zero; leave zero_new_residual (--zero-new-residual) "
                          "out, or choose another part"
                        : " does not grow wider; choose another part, or grow deeper");
}

void check_growth(const ModelConfig& config, const KeptGrowth& how, const char* operation) {
  const NoGrad no_grad;
  check_grown_alike(config, how, difference_when_grown(config, how).value_or(0), operation);
}

}  // namespace lithe
