// Tokens drawn at random for each query and head, and the query's own [TB 6.4.1]. A causal draw depends on the position
// alone, so that a text that goes on keeps it.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct RandomConfig {
  int64_t tokens = 32, seed = 0;
  void fields(Fields& f) {
    f("tokens", tokens, "number of random tokens that a query sees", at_least(1));
    f("seed", seed, "seed of the draw", at_least(0));
  }
};

class Random final : public PatternField {
 public:
  Random(const Scope& scope, const RandomConfig& config, const Args& args)
      : PatternField(args), config_(config), layer_(uint32_t(scope.layer() + 1)) {
    scope.couples({Dimension::key_heads, Dimension::queries});  // drawn by place
  }

 protected:
  bool by_head() const override { return true; }
  // `tokens` of the others, numbered from 0.
  void see(int64_t position, int64_t tokens, int64_t head, std::vector<KeyRange>& out) const override {
    const int64_t others = args().causal ? position : tokens - (position < tokens),
                  wanted = std::min(config_.tokens, others);
    const RandomKey key{.seed = uint64_t(config_.seed),
                        .step = uint64_t(position),
                        .layer = layer_,
                        .purpose = purpose_of("field.random") + uint32_t(head)};
    for (const int64_t at : draw_without_replacement(key, wanted, others)) {
      const int64_t j = at < position ? at : at + 1;
      out.push_back({j, j + 1});
    }
    out.push_back({position, position + 1});
  }

 private:
  RandomConfig config_;
  uint32_t layer_;
};

}  // namespace

void register_field_random(Registry& registry) {
  registry.add<Field, Random, RandomConfig>("random", {.spec = "sparse.random",
                                                       .summary = "tokens drawn at random, and the query's own token",
                                                       .source = "TB 6.4.1",
                                                       .cross = true,
                                                       .samples = {"{tokens: 2}"}});
}

}  // namespace lithe
