// Every query sees the p visible keys of largest product with it, head by head [TB 6.4.3(2)]. With heads as sub-spaces
// of one vector this is attention by product keys: the p^n products of n heads' sub-keys have scores and values that
// are sums and concatenations, so that their softmax is that of each head alone.
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct TopKeysConfig {
  int64_t keys = 8;
  void fields(Fields& f) { f("keys", keys, "keys that a query of a head sees (p)", at_least(1)); }
};

class TopKeys final : public Field {
 public:
  TopKeys(const Scope&, const TopKeysConfig& config, const Args& args) : config_(config), args_(args) {}
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    if (!in.k.defined() || in.k.value().is_meta())
      return {.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    const std::vector<int64_t> offsets = key_offsets(in);
    const int64_t heads = args_.num_attention_heads, group = heads / args_.kv_heads, d = args_.head_dim;
    return tiled_pattern(args_.causal, heads, in, [&](int64_t b, int64_t head) {
      const FieldInput::Keys& keys = in.keys[size_t(b)];
      const int64_t ahead = in.queries.past(b) - keys.first;
      const std::vector<double> q = head_rows(in.q.value(), in.queries.offset(b), in.queries.length(b), head, heads);
      const std::vector<double> k =
          head_rows(in.k.value(), offsets[size_t(b)], keys.count, head / group, args_.kv_heads);
      std::vector<std::pair<double, int64_t>> scores;
      return visits_of(in.queries.length(b), keys.count, [&](int64_t i, std::vector<KeyRange>& out) {
        scores.clear();
        for (int64_t j = 0, end = args_.causal ? i + ahead + 1 : keys.count; j < end; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < d; ++c) dot += q[size_t(i * d + c)] * k[size_t(j * d + c)];
          scores.emplace_back(-dot, j);
        }
        const auto most = scores.begin() + std::min<int64_t>(config_.keys, int64_t(scores.size()));
        std::partial_sort(scores.begin(), most, scores.end());
        for (auto at = scores.begin(); at != most; ++at) out.push_back({at->second, at->second + 1});
      });
    });
  }
  bool reads_keys() const override { return true; }

 private:
  TopKeysConfig config_;
  Args args_;
};

}  // namespace

void register_field_top_keys(Registry& registry) {
  registry.add<Field, TopKeys, TopKeysConfig>("top_keys", {.spec = "lowdim.product_keys",
                                                           .summary = "the keys of largest product with the query",
                                                           .source = "TB 6.4.3(2)",
                                                           .cross = true,
                                                           .samples = {"{keys: 6}"}});
}

}  // namespace lithe
