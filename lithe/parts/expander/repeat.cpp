// Each row before the last compressor gets the row that stands for it now; by default this is added to what it was, so
// that a row that was left out stays as it was [TB 6.2.4, 6.4.8; Dai et al. 2020].
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/embedding.h"

namespace lithe {
namespace {

struct RepeatConfig {
  bool skip = true;
  void fields(Fields& f) {
    f("skip", skip,
      "add the repeated rows to those before the compressor; false: they take their places, and only rows that nothing "
      "stands for stay");
  }
};

class Repeat final : public Expander {
 public:
  Repeat(const Scope&, const RepeatConfig& config, const Args&) : skip_(config.skip) {}
  Var forward(const Rows& x, const Shortening& from, const Pass&) const override {
    const Var& before = from.before.x;
    check(int64_t(from.row_of.size()) == before.rows(), "expander", "repeat needs to know which of ", x.x.rows(),
          " rows stands for each of the ", before.rows(), " before; the compressor says so of ", from.row_of.size());
    if (!skip_) {
      std::vector<int64_t> rows = from.row_of;
      for (size_t i = 0; i < rows.size(); ++i)
        if (rows[i] < 0) rows[i] = x.x.rows() + int64_t(i);
      return pick_rows(concatenate_rows({x.x, before}), rows);
    }
    const std::vector<int32_t> rows(from.row_of.begin(), from.row_of.end());
    const Shape shape{before.rows()};
    const Tensor ids = before.value().is_meta() ? empty(shape, DType::i32, Device::meta) : tensor_of(shape, rows);
    return add_rows(before, x.x, ids, MissingIds::no_row);
  }

 private:
  bool skip_;
};

}  // namespace

void register_expander_repeat(Registry& registry) {
  registry.add<Expander, Repeat, RepeatConfig>(
      "repeat", {.summary = "a row for every token again: the one that stands for it, added to what it was",
                 .source = "TB 6.2.4, 6.4.8",
                 .causal = false,
                 .samples = {"{skip: false}"}});
}

}  // namespace lithe
