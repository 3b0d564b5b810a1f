// Rotary positions [TB 6.6; Su et al. 2021]: pairs of each head's query and key channels turn by
// position * base^(-2c/d_h), so that q_i . k_j depends on i - j only.
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

struct Config {
  double base = 10000;
  std::string layout = "half";
  void fields(Fields& f) {
    f("base", base, "rope_theta: slowest angle is 1/base", at_least(1));
    f("layout", layout, "which channels pair: half (c, c+d_h/2; Llama, GPT-NeoX) or interleaved (2c, 2c+1)",
      one_of({"half", "interleaved"}));
  }
};

class Rotary final : public Position {
 public:
  Rotary(const Scope&, const Config& config, const Args&)
      : base_(config.base), interleaved_(config.layout == "interleaved") {}
  Var turn(const Var& x, const Sequences& sequences, int64_t head_dim) const override {
    return rotate(x, sequences.positions(), head_dim, base_, interleaved_);
  }
  bool turns() const override { return true; }
  void check_head_dim(int64_t head_dim) const override {
    check_usage(head_dim % 2 == 0, "rotary", "needs an even head_dim, got ", head_dim,
                "; give another num_attention_heads or head_dim");
  }

 private:
  double base_;
  bool interleaved_;
};

}  // namespace

void register_position_rotary(Registry& registry) {
  registry.add<Position, Rotary, Config>("rotary", {.spec = "pos.rope",
                                                    .summary = "queries and keys turned by position",
                                                    .source = "TB 6.6; Su et al. 2021",
                                                    .samples = {"{layout: interleaved}"}});
}

}  // namespace lithe
