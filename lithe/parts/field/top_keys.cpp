// Every query sees the p visible keys of largest product with it, head by head [TB 6.4.3(2)]. With heads as sub-spaces
// of one vector this is attention by product keys: the p^n products of n heads' sub-keys have scores and values that
// are sums and concatenations, so that their softmax is that of each head alone.
#include "lithe/nn/registry.h"
#include "lithe/parts/common/largest_products.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct TopKeysConfig {
  int64_t keys = 8;
  void fields(Fields& f) { f("keys", keys, "number p of keys that a query of a head sees", at_least(1)); }
};

class TopKeys final : public Field {
 public:
  TopKeys(const Scope&, const TopKeysConfig& config, const Args& args) : config_(config), args_(args) {}
  kernels::AttentionPattern pattern(const FieldInput& in) const override {
    if (!in.k.defined() || in.k.value().is_meta())
      return {.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
    const std::vector<int64_t> offsets = key_offsets(in);
    const int64_t heads = args_.num_attention_heads, sequences = int64_t(in.keys.size());
    std::vector<std::vector<std::vector<int32_t>>> found;  // of each sequence, head after head
    for (int64_t b = 0; b < sequences; ++b) {
      const FieldInput::Keys& keys = in.keys[size_t(b)];
      const int64_t query = in.queries.offset(b), key = offsets[size_t(b)], ahead = in.queries.past(b) - keys.first;
      found.push_back(largest_products(in.q.value().slice(query, query + in.queries.length(b)),
                                       in.k.value().slice(key, key + keys.count), heads, args_.kv_heads, config_.keys,
                                       [&](int64_t i) { return args_.causal ? i + ahead + 1 : keys.count; }));
    }
    return tiled_pattern(args_.causal, heads, in, [&](int64_t b, int64_t head) {
      const int64_t queries = in.queries.length(b);
      return visits_of(queries, in.keys[size_t(b)].count, [&](int64_t i, std::vector<KeyRange>& out) {
        for (const int64_t j : found[size_t(b)][size_t(head * queries + i)]) {
          if (!out.empty() && out.back().end == j)
            ++out.back().end;
          else
            out.push_back({j, j + 1});
        }
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
  registry.add<Field, TopKeys, TopKeysConfig>(
      "top_keys", {.spec = "lowdim.product_keys",
                   .summary = "exact top-k attention: the keys with the largest products with the query",
                   .source = "TB 6.4.3(2)",
                   .cross = true,
                   .samples = {"{keys: 6}"}});
}

}  // namespace lithe
