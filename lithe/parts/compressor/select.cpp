// A fixed number of the rows of each sequence: spread evenly, the most important, the first, or the last; one row above
// a recurrent mixer is the encoding of a text as a single vector [TB 6.4.8].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/shorter.h"

namespace lithe {
namespace {

struct SelectConfig {
  int64_t rows = 64;
  std::string which = "even", importance = "attention";
  void fields(Fields& f) {
    f("rows", rows, "number r of rows to keep of each sequence; shorter sequences are not changed", at_least(1));
    f("which", which,
      "rows to keep of m: even: row floor(i m / r) for i below r; ends: the first, the last, and evenly between them; "
      "top: the most important; first or last: the first or last r",
      one_of({"even", "ends", "top", "first", "last"}));
    f("importance", importance,
      "top: importance of a row: the attention that it gets in the layer below (mean over heads and queries), or its "
      "norm",
      one_of({"attention", "norm"}));
  }
};

class Select final : public Compressor {
 public:
  Select(const Scope&, const SelectConfig& config, const Args&) : config_(config) {}
  std::vector<Tap::Kind> reads_below() const override {
    if (config_.which == "top" && config_.importance == "attention") return {Tap::Kind::received};
    return {};
  }
  bool reads_presence() const override { return true; }
  Shorter forward(const Rows& x, const Pass& pass) const override {
    const Tensor importance =
        config_.which == "top" ? importance_of(x, pass, config_.importance, "select").value() : Tensor();
    std::vector<int64_t> kept;
    for (int64_t b = 0; b < x.sequences.count(); ++b) {
      std::vector<int64_t> rows = of(importance, x.sequences.offset(b), x.sequences.length(b));
      std::sort(rows.begin(), rows.end());
      kept.insert(kept.end(), rows.begin(), rows.end());
    }
    return keep_rows(x, kept);
  }

 private:
  SelectConfig config_;

  std::vector<int64_t> of(const Tensor& importance, int64_t begin, int64_t m) const {
    const int64_t r = std::min(config_.rows, m);
    if (config_.which == "top") {
      std::vector<int64_t> rows = by_importance(importance, begin, begin + m, false);
      rows.resize(size_t(r));
      return rows;
    }
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < r; ++i) {
      int64_t row = i;  // first
      if (config_.which == "last") row = m - r + i;
      if (config_.which == "even") row = i * m / r;
      if (config_.which == "ends" && r > 1) row = (2 * i * (m - 1) + r - 1) / (2 * (r - 1));  // to the nearest
      rows.push_back(begin + row);
    }
    return rows;
  }
};

}  // namespace

void register_compressor_select(Registry& registry) {
  registry.add<Compressor, Select, SelectConfig>(
      "select",
      {.spec = "seqc.fixed_select",
       .summary = "a fixed number of rows: spread evenly, the most important, the first or the last",
       .source = "TB 6.4.8",
       .causal = false,
       .samples = {"{rows: 2}", "{rows: 3, which: ends}", "{rows: 2, which: last}", "{rows: 2, which: top}"}});
}

}  // namespace lithe
