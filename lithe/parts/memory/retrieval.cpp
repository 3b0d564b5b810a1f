// All past pairs are stored, and a query sees the nearest of them [TB 6.4.2(3)]: those with the largest products with
// it, found by exact search, and the tokens of a window.
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/parts/common/largest_products.h"
#include "lithe/parts/common/memory_state.h"

namespace lithe {
namespace {

struct RetrievalConfig {
  int64_t nearest = 32, window = 0;
  void fields(Fields& f) {
    f("nearest", nearest, "number p of pairs that a query retrieves; its own pair is among the candidates",
      at_least(1));
    f("window", window, "latest tokens that a query always sees in addition, itself included", at_least(0));
  }
};

class Retrieval final : public Memory {
 public:
  Retrieval(const Scope&, const RetrievalConfig& config, const Args& args) : config_(config), args_(args) {
    check_usage(args.causal || config.window == 0, "retrieval", "window ", config.window,
                " is of the tokens before a query, and has no ", args.cross ? "cross" : "bidirectional",
                " form; leave it out", args.cross ? " of model.cross_attention" : "");
  }
  std::vector<Piece> kept(int64_t tokens) const override {
    return {{{tokens, args_.key_cols}}, {{tokens, args_.value_cols}}};
  }
  bool includes_own() const override { return true; }

  Reading read(const Stretch& in, Kept& kept) const override {
    Reading out;
    out.k = joined(kept[0], in.k);
    out.v = joined(kept[1], in.v);
    out.by_head = true;
    const auto found = std::make_shared<std::vector<std::vector<int32_t>>>(
        largest_products(in.q.value(), out.k.value(), args_.heads, args_.kv_heads, config_.nearest,
                         [&](int64_t i) { return in.seen[size_t(i)]; }));
    const int64_t queries = in.q.rows(), window = config_.window, total = out.k.rows();
    out.see = [found, queries, window, total, seen = in.seen](int64_t head, int64_t i, std::vector<Range>& ranges) {
      if (found->empty()) return ranges.push_back({0, total});  // on meta
      for (const int64_t j : (*found)[size_t(head * queries + i)]) ranges.push_back({j, j + 1});
      const int64_t s = seen[size_t(i)];
      if (window) ranges.push_back({std::max<int64_t>(0, s - window), s});
    };
    for (const auto& [to, x] : {std::pair<size_t, const Var&>{0, in.k}, {1, in.v}})
      if (x.rows()) kept[to] = kept_rows({kept[to], x.value()}, x.cols(), x.dtype(), x.device());
    return out;
  }

 private:
  RetrievalConfig config_;
  Args args_;
};

}  // namespace

void register_memory_retrieval(Registry& registry) {
  registry.add<Memory, Retrieval, RetrievalConfig>("retrieval",
                                                   {.spec = "mem.retrieval",
                                                    .summary = "the nearest of all past keys, by exact search",
                                                    .source = "TB 6.4.2(3)",
                                                    .cross = true,
                                                    .samples = {"{nearest: 2}", "{nearest: 1, window: 3}"}});
}

}  // namespace lithe
