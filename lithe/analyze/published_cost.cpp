#include <algorithm>

#include "lithe/analyze/memory_formulas.h"
#include "lithe/analyze/model_cost.h"
#include "lithe/parts/common/key_value_heads.h"

namespace lithe::analyze {
namespace {

std::optional<MixerKind> kind_of(const PartChoice& mixer) {
  // The formulas are of every pair of tokens, each layer with a map of its own.
  const auto is_another = [](const std::string& type, const char* usual) { return !type.empty() && type != usual; };
  if (is_another(option(mixer, "field"), "full") || is_another(option(mixer, "map"), "own")) return std::nullopt;
  if (mixer.type == "attention")  // one head's narrow output and heads without projections have no formula
    return option(mixer, "heads.output") == "narrow" ? std::nullopt : mixer_kind(option(mixer, "heads"));
  if (mixer.type == "mlp" && option(mixer, "match") == "wide") return std::nullopt;
  if (mixer.type == "approx" && option(mixer, "mode") == "full") return MixerKind::approx_full;
  return mixer_kind(mixer.type);
}

}  // namespace

PublishedCost published_cost(const ModelConfig& config, const PartChoice& mixer, const CostOptions& options) {
  const std::optional<MixerKind> kind = kind_of(mixer);
  const std::optional<OutputKind> output = output_kind(option(mixer, "output"));
  if (!kind || !output) return {};
  const int64_t heads = std::max<int64_t>(1, option_integer(mixer, "num_attention_heads"));
  const bool split = option(config.residual, "streams") == "split";  // sub-layers have half
  const MixerShape s{.width = split ? config.hidden_size / 2 : config.hidden_size,
                     .heads = heads,
                     .head_dim = option_integer(mixer, "head_dim"),
                     .kv_heads = grouped_heads(option_integer(mixer, "heads.num_key_value_heads"), heads)};
  const Work work{.batch = double(options.batch), .length = double(options.length)};
  const double item = double(size_of(options.compute));
  PublishedCost cost;
  int64_t parameters = mixer_parameters(*kind, s) + output_parameters(*output, s);
  if (option(mixer, "attention_bias") == "true") parameters += projected_columns(*kind, s);
  if (option(mixer, "output_bias") == "true" && *output == OutputKind::dense) parameters += s.width;
  cost.parameters = double(parameters);
  constexpr Convention c = Convention::published;
  cost.prefill_flops = prefill_flops(*kind, s, work, c) + output_flops(*output, s, work.batch * work.length);
  cost.decode_flops = decode_flops(*kind, s, work, c) + output_flops(*output, s, work.batch);
  if (const auto bytes = activation_bytes(*kind, s, work, c)) cost.activation_bytes = *bytes * item / 2;
  cost.cache_bytes = cache_bytes(*kind, s, work, item);
  return cost;
}

}  // namespace lithe::analyze
