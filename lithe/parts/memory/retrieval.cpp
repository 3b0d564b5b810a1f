// All past pairs are stored, and a query sees the nearest of them [TB 6.4.2(3)]: those with the largest products with
// it, found by exact search, and the tokens of a window.
#include <algorithm>

#include "lithe/kernels/gemm/gemm.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/heads.h"
#include "lithe/parts/common/memory_state.h"

namespace lithe {
namespace {

struct RetrievalConfig {
  int64_t nearest = 32, window = 0;
  void fields(Fields& f) {
    f("nearest", nearest, "pairs that a query finds (p), its own among those searched", at_least(1));
    f("window", window, "tokens that it sees beside these, itself and those before it", at_least(0));
  }
};

class Retrieval final : public Memory {
 public:
  Retrieval(const Scope&, const RetrievalConfig& config, const Args& args) : config_(config), args_(args) {}
  std::vector<Piece> kept(int64_t tokens) const override {
    return {{{tokens, args_.key_cols}}, {{tokens, args_.value_cols}}};
  }
  bool includes_own() const override { return true; }

  Reading read(const Stretch& in, Kept& kept) const override {
    Reading out;
    out.k = joined(kept[0], in.k);
    out.v = joined(kept[1], in.v);
    out.by_head = true;
    const auto found = std::make_shared<std::vector<std::vector<int64_t>>>(search(in, out.k.value()));
    const int64_t queries = in.q.rows(), window = config_.window, total = out.k.rows();
    out.see = [found, queries, window, total, seen = in.seen](int64_t head, int64_t i, std::vector<Range>& ranges) {
      if (found->empty()) return ranges.push_back({0, total});  // on meta
      for (const int64_t j : (*found)[size_t(head * queries + i)]) ranges.push_back({j, j + 1});
      const int64_t s = seen[size_t(i)];
      if (window) ranges.push_back({std::max<int64_t>(0, s - window), s});
    };
    for (const auto& [to, x] : {std::pair<size_t, const Var&>{0, in.k}, {1, in.v}})
      kept[to] = kept_rows({kept[to], x.value()}, x.cols(), x.dtype(), x.device());
    return out;
  }

 private:
  RetrievalConfig config_;
  Args args_;

  // The nearest pairs of every query, head after head; nothing on meta.
  std::vector<std::vector<int64_t>> search(const Stretch& in, const Tensor& k) const {
    const int64_t queries = in.q.rows(), pairs = k.dim(0), heads = args_.heads, group = heads / args_.kv_heads;
    std::vector<std::vector<int64_t>> out;
    if (queries == 0) return out;
    const MemoryScope scope(MemoryClass::workspace);
    const DType wide = wide_of(k.dtype());
    const Tensor q = head_major(in.q.value(), heads), keys = head_major(k, args_.kv_heads),
                 products = empty({queries, pairs}, wide, k.device());
    std::vector<std::pair<double, int64_t>> by;
    for (int64_t head = 0; head < heads; ++head) {
      kernels::gemm({.a = q.slice(head * queries, (head + 1) * queries),
                     .b = keys.slice(head / group * pairs, (head / group + 1) * pairs),
                     .c = products,
                     .transpose_b = true,
                     .rowwise = true});
      for (int64_t i = 0; i < queries && !products.is_meta(); ++i) {
        by.clear();
        for (int64_t j = 0; j < in.seen[size_t(i)]; ++j) by.emplace_back(-value_at(products, i * pairs + j), j);
        const auto n = std::min(by.size(), size_t(config_.nearest));
        std::nth_element(by.begin(), by.begin() + std::ptrdiff_t(n ? n - 1 : 0), by.end());
        std::vector<int64_t>& mine = out.emplace_back();
        for (size_t j = 0; j < n; ++j) mine.push_back(by[j].second);
      }
    }
    return out;
  }
};

}  // namespace

void register_memory_retrieval(Registry& registry) {
  registry.add<Memory, Retrieval, RetrievalConfig>("retrieval",
                                                   {.spec = "mem.retrieval",
                                                    .summary = "the nearest of all past pairs, by exact search",
                                                    .source = "TB 6.4.2(3)",
                                                    .bidirectional = false,
                                                    .samples = {"{nearest: 2}", "{nearest: 1, window: 3}"}});
}

}  // namespace lithe
