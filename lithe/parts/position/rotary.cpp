// Rotary positions [TB 6.6; Su et al. 2021]: pairs of each head's query and key channels turn by
// position * base^(-2c/d_r), so that q_i . k_j depends on i - j only. d_r channels turn, the whole head or its first
// part (GPT-NeoX, Phi). Frequencies may be scaled for longer texts than those of the first training: all alike (linear
// [Chen et al. 2023]), the slow ones (llama3 [Dubey et al. 2024]), the slow ones with larger logits (yarn [Peng et
// al. 2023]), each by a number of its own (longrope [Ding et al. 2024]), or by a larger base (dynamic).
#include "lithe/ops/rotary.h"

#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct RotaryConfig : RotaryScaling {
  double base = 10000, attention_factor = 0;
  std::string layout = "half";
  int64_t rotary_dim = 0;
  std::vector<double> short_factor, long_factor;
  void fields(Fields& f) {
    f("base", base, "rope_theta: the base of the frequencies", at_least(1));
    f("layout", layout, "pairs of channels: half (c, c+d_h/2; Llama, GPT-NeoX) or interleaved (2c, 2c+1; GPT-J)",
      one_of({"half", "interleaved"}));
    f("rotary_dim", rotary_dim, "number of channels of a head that rotate, the first ones; 0: all", at_least(0));
    f("scaling", scaling,
      "rope_scaling for longer texts: linear divides all frequencies by `factor`; llama3 and yarn divide only low "
      "frequencies; factors divides each by its number in frequency_factors; longrope by its number in short_factor if "
      "max_position_embeddings is at most original_max_position_embeddings, else in long_factor; dynamic (NTK) raises "
      "the base with max_position_embeddings",
      one_of({"none", "linear", "llama3", "yarn", "factors", "longrope", "dynamic"}));
    f("factor", factor, "scaling: by how much longer texts may become", at_least(1));
    f("original_max_position_embeddings", original_max_position_embeddings,
      "llama3, yarn, longrope, dynamic: longest sequence of the first training, in tokens", at_least(0));
    f("low_freq_factor", low_freq_factor,
      "llama3: frequencies with fewer rotations than this in original_max_position_embeddings are divided by factor",
      at_least(0));
    f("high_freq_factor", high_freq_factor,
      "llama3: frequencies with more rotations than this stay; those between are interpolated", at_least(0));
    f("beta_fast", beta_fast,
      "yarn: frequencies with more rotations than this in original_max_position_embeddings stay", at_least(0));
    f("beta_slow", beta_slow, "yarn: frequencies with fewer rotations than this are divided by factor", at_least(0));
    f("truncate", truncate, "yarn: round the limits between these ranges to whole channels");
    f("short_factor", short_factor, "longrope: divisors for short texts, one per pair of channels");
    f("long_factor", long_factor, "longrope: divisors for long texts, one per pair of channels");
    f("frequency_factors", frequency_factors, "factors: divisors, one per pair of channels");
    f("attention_factor", attention_factor,
      "yarn, longrope: factor on queries and keys; 0: 1 + ln(factor) / 10, or with longrope the root of "
      "1 + ln(factor) / ln(original_max_position_embeddings)",
      at_least(0));
  }
};

class Rotary final : public Position {
 public:
  Rotary(const Scope& scope, const RotaryConfig& config, const Args& args)
      : config_(config),
        longest_(args.max_position_embeddings),
        longer_(longest_ > config.original_max_position_embeddings) {
    scope.couples({Dimension::head_width});  // angles by place
    const bool by_length = config.scaling == "longrope" || config.scaling == "dynamic";
    const bool by_turns = by_length || config.scaling == "llama3" || config.scaling == "yarn";
    check_usage(!by_turns || config.original_max_position_embeddings > 0, "rotary", "scaling ", config.scaling,
                " needs original_max_position_embeddings, the tokens of the texts of the first training");
    check_usage(config.scaling != "llama3" || config.high_freq_factor > config.low_freq_factor, "rotary",
                "high_freq_factor ", config.high_freq_factor, " must be above low_freq_factor ",
                config.low_freq_factor);
    check_usage(config.scaling != "none" || config.factor == 1, "rotary", "factor ", config.factor,
                " does nothing without scaling; set scaling: linear, llama3, yarn, longrope or dynamic");
    if (config.scaling == "yarn")
      gain_ = config.attention_factor ? config.attention_factor : 1 + 0.1 * std::log(config.factor);
    if (config.scaling == "longrope") {
      const double length = std::log(double(config.original_max_position_embeddings));
      gain_ = config.attention_factor ? config.attention_factor : std::sqrt(1 + std::log(config.factor) / length);
      config_.scaling = "factors";
      given_ = longer_ ? "long_factor" : "short_factor";
      config_.frequency_factors = longer_ ? config.long_factor : config.short_factor;
    }
    if (by_length && !longer_) limit_ = config.original_max_position_embeddings;
    if (config.scaling == "dynamic" && longer_) limit_ = longest_;
  }
  Var turn(const Var& x, const Sequences& sequences, int64_t head_dim) const override {
    const int64_t turned = turned_of(head_dim);
    const Rotation how{.head_dim = head_dim,
                       .base = base(turned),
                       .interleaved = config_.layout == "interleaved",
                       .rotary_dim = config_.rotary_dim,
                       .frequencies = scaled() ? frequencies(turned) : nullptr};
    const Var y = rotate(x, sequences.positions(), how);
    return gain_ == 1 ? y : turned == head_dim ? scale(y, gain_) : gained(y, turned, head_dim);
  }
  std::shared_ptr<const kernels::KeyTurn> key_turn(int64_t head_dim) const override {
    if (gain_ != 1) return nullptr;
    const int64_t turned = turned_of(head_dim);
    return std::make_shared<kernels::KeyTurn>(
        kernels::KeyTurn{scaled() ? *frequencies(turned) : rotary_frequencies(base(turned), turned, {}),
                         config_.layout == "interleaved"});
  }
  bool turns() const override { return true; }
  std::vector<int64_t> partners(int64_t head_dim) const override {
    const int64_t turned = turned_of(head_dim), half = turned / 2;
    std::vector<int64_t> out;
    for (int64_t c = 0; c < head_dim; ++c)
      out.push_back(c >= turned ? c : config_.layout == "interleaved" ? c ^ 1 : c < half ? c + half : c - half);
    return out;
  }
  int64_t limit() const override { return limit_; }
  void check_head_dim(int64_t head_dim) const override {
    check_usage(config_.rotary_dim || head_dim % 2 == 0, "rotary", "needs an even head_dim, got ", head_dim,
                "; give another num_attention_heads or head_dim");
    check_usage(config_.rotary_dim % 2 == 0 && config_.rotary_dim <= head_dim, "rotary",
                "rotary_dim must be even and at most head_dim ", head_dim, ", got ", config_.rotary_dim);
    const int64_t pairs = turned_of(head_dim) / 2;
    check_usage(config_.scaling != "factors" || int64_t(config_.frequency_factors.size()) == pairs, "rotary",
                given_.empty() ? "frequency_factors" : given_, " must be ", pairs,
                " numbers, one for each pair of channels, got ", config_.frequency_factors.size());
    for (const double factor : config_.frequency_factors)
      check_usage(factor > 0, "rotary", "a number of frequency_factors is ", factor, "; all must be above 0");
    check_usage(config_.scaling != "dynamic" || pairs > 1, "rotary", "scaling dynamic needs more than ", pairs,
                " pair of channels; set rotary_dim or head_dim above 2");
  }

 private:
  RotaryConfig config_;
  double gain_ = 1;
  int64_t longest_, limit_ = 0;  // limit: of the frequencies that were chosen
  bool longer_;
  std::string given_;  // the option that frequency_factors came from

  int64_t turned_of(int64_t head_dim) const { return config_.rotary_dim ? config_.rotary_dim : head_dim; }
  // The angles are not powers of a base.
  bool scaled() const { return config_.scaling != "none" && config_.scaling != "dynamic"; }
  double base(int64_t turned) const {
    if (config_.scaling != "dynamic" || !longer_) return config_.base;
    const double ratio = double(longest_) / double(config_.original_max_position_embeddings);
    return config_.base * std::pow(config_.factor * ratio - (config_.factor - 1), double(turned) / double(turned - 2));
  }

  // The channels that turn are larger by gain_, the others stay.
  Var gained(const Var& x, int64_t turned, int64_t head_dim) const {
    const Tensor factors = empty({head_dim}, wide_of(x.dtype()), x.device());
    for (int64_t c = 0; !factors.is_meta() && c < head_dim; ++c) set_value(factors, c, c < turned ? gain_ : 1);
    return row_affine(x, factors, {});
  }

  std::shared_ptr<const std::vector<double>> frequencies(int64_t d) const {
    return std::make_shared<std::vector<double>>(rotary_frequencies(config_.base, d, config_));
  }
};

}  // namespace

void register_position_rotary(Registry& registry) {
  registry.add<Position, Rotary, RotaryConfig>(
      "rotary",
      {.spec = "pos.rope",
       .summary = "rotary position embeddings (RoPE) of queries and keys",
       .source = "TB 6.6; Su et al. 2021",
       .standard = true,
       .samples = {"{layout: interleaved}", "{rotary_dim: 2}", "{scaling: linear, factor: 2}",
                   "{scaling: llama3, factor: 8, original_max_position_embeddings: 8}",
                   "{scaling: yarn, factor: 4, original_max_position_embeddings: 8}",
                   "{scaling: yarn, factor: 4, original_max_position_embeddings: 8, truncate: false, rotary_dim: 2}",
                   "{scaling: dynamic, factor: 2, original_max_position_embeddings: 8}"}});
}

}  // namespace lithe
