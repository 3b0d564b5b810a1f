#include "lithe/analyze/memory_formulas.h"
#include "lithe/analyze/model_cost.h"

namespace lithe::analyze {
namespace {

const Node& option(const Node& options, const char* key) {
  static const Node none;
  const Node* found = options.find(key);
  return found ? *found : none;
}
std::string type_of(const Node& part) { return part.is_map() ? option(part, "type").text() : part.text(); }
int64_t integer(const Node& node, int64_t otherwise) {
  return node.is_scalar() && !node.text().empty() ? std::stoll(node.text()) : otherwise;
}
bool is_on(const Node& node) { return node.text() == "true"; }

std::optional<MixerKind> kind_of(const PartChoice& mixer) {
  const Node &heads = option(mixer.options, "heads"), &field = option(mixer.options, "field"),
             &map = option(mixer.options, "map");
  const auto is_another = [](const std::string& type, const char* usual) { return !type.empty() && type != usual; };
  // The formulas are of every pair of tokens, each layer with a map of its own.
  if (is_another(type_of(field), "full") || is_another(map.text(), "own")) return std::nullopt;
  if (mixer.type == "attention")  // one head's narrow output and heads without projections have no formula
    return option(heads, "output").text() == "narrow" ? std::nullopt : mixer_kind(type_of(heads));
  if (mixer.type == "mlp" && option(mixer.options, "match").text() == "wide") return std::nullopt;
  if (mixer.type == "approx" && option(mixer.options, "mode").text() == "full") return MixerKind::approx_full;
  return mixer_kind(mixer.type);
}

}  // namespace

PublishedCost published_cost(const ModelConfig& config, const PartChoice& mixer, const CostOptions& options) {
  const std::optional<MixerKind> kind = kind_of(mixer);
  const std::optional<OutputKind> output = output_kind(type_of(option(mixer.options, "output")));
  if (!kind || !output) return {};
  const int64_t heads = integer(option(mixer.options, "num_attention_heads"), 1);
  const int64_t kv = integer(option(option(mixer.options, "heads"), "num_key_value_heads"), 0);
  const bool split = option(config.residual.options, "streams").text() == "split";  // sub-layers have half
  const MixerShape s{.width = split ? config.hidden_size / 2 : config.hidden_size,
                     .heads = heads,
                     .head_dim = integer(option(mixer.options, "head_dim"), 0),
                     .kv_heads = kv          ? kv
                                 : heads % 2 ? 1
                                             : heads / 2};
  const Work work{.batch = double(options.batch), .length = double(options.length)};
  const double item = double(size_of(options.compute));
  PublishedCost cost;
  int64_t parameters = mixer_parameters(*kind, s) + output_parameters(*output, s);
  if (is_on(option(mixer.options, "attention_bias"))) parameters += projected_columns(*kind, s);
  if (is_on(option(mixer.options, "output_bias")) && *output == OutputKind::dense) parameters += s.width;
  cost.parameters = double(parameters);
  constexpr Convention c = Convention::published;
  cost.prefill_flops = prefill_flops(*kind, s, work, c) + output_flops(*output, s, work.batch * work.length);
  cost.decode_flops = decode_flops(*kind, s, work, c) + output_flops(*output, s, work.batch);
  if (const auto bytes = activation_bytes(*kind, s, work, c)) cost.activation_bytes = *bytes * item / 2;
  cost.cache_bytes = cache_bytes(*kind, s, work, item);
  return cost;
}

}  // namespace lithe::analyze
