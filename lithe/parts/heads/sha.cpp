// Single-head attention, the thesis's baseline: one head of width d_h [TH 3.4.1]. With `tile` its result is
// copied num_attention_heads times, so that the output projection keeps its d x d weights.
#include "lithe/nn/registry.h"
#include "lithe/ops/heads.h"

namespace lithe {
namespace {

struct ShaConfig {
  std::string output = "tile";
  void fields(Fields& f) {
    f("output", output,
      "tile: the output projection reads h copies of the head, as the thesis counts; narrow: only one",
      one_of({"tile", "narrow"}));
  }
};

class Sha final : public Heads {
 public:
  Sha(const Scope& scope, const ShaConfig& config, const Args& args)
      : q_(scope / "q", Axis::hidden(args.hidden_size), Axis::head_width(args.head_dim), args.bias,
           InitRole::query_key),
        k_(scope / "k", Axis::hidden(args.hidden_size), Axis::head_width(args.head_dim), args.bias,
           InitRole::query_key),
        v_(scope / "v", Axis::hidden(args.hidden_size), Axis::head_width(args.head_dim), args.bias),
        head_dim_(args.head_dim),
        copies_(config.output == "tile" ? args.num_attention_heads : 1) {}
  Var queries(const Input& in, const Turn& turn) const override { return turn(q_(in.x)); }
  KeyValue keep(const Input& in, const Turn& turn) const override { return {turn(k_(in.x)), v_(in.x)}; }
  int64_t kept_columns() const override { return head_dim_; }
  int64_t query_heads() const override { return 1; }
  int64_t kv_heads() const override { return 1; }
  int64_t key_dim() const override { return head_dim_; }
  int64_t value_dim() const override { return head_dim_; }
  Var finish(const Var& context) const override { return copies_ == 1 ? context : spread_heads(context, copies_); }
  Axis context() const override { return Axis::query_heads(copies_, 1, head_dim_); }

 private:
  Linear q_, k_, v_;
  int64_t head_dim_, copies_;
};

}  // namespace

void register_heads_sha(Registry& registry) {
  registry.add<Heads, Sha, ShaConfig>(
      "sha", {.spec = "mixer.sha", .summary = "one head of width d_h, the baseline of MHE", .source = "TH 3.4.1"});
}

}  // namespace lithe
