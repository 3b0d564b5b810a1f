// Each row before the last compressor gets the row that stands for it now, or a mean of the two whose centres it stands
// between; by default this is added to what it was, so that a row that was left out stays as it was [TB 6.2.4, 6.4.8;
// Dai et al. 2020].
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/embedding.h"

namespace lithe {
namespace {

struct RepeatConfig {
  bool skip = true;
  std::string between = "repeat";
  int64_t undoes = 1;
  void fields(Fields& f) {
    f("skip", skip,
      "add the repeated rows to the rows before the compressor (skip connection); false: replace these; rows that no "
      "compressed row stands for stay");
    f("between", between,
      "repeat: take the compressed row that stands for the token; linear: interpolate between the two compressed rows "
      "whose group centres lie on both sides of it; outside the first and last centre take the nearest",
      one_of({"repeat", "linear"}));
    f("undoes", undoes, "number of compressors below to undo, the last first; 0: all", at_least(0));
  }
};

class Repeat final : public Expander {
 public:
  Repeat(const Scope&, const RepeatConfig& config, const Args&) : config_(config) {}
  int64_t undoes() const override { return config_.undoes; }
  Var forward(const Rows& x, const Shortening& from, const Pass&) const override {
    const Var& before = from.before.x;
    check(int64_t(from.row_of.size()) == before.rows(), "expander", "repeat needs to know which of ", x.x.rows(),
          " rows stands for each of the ", before.rows(), " before; the compressor says so of ", from.row_of.size());
    if (config_.between == "linear") return interpolated(x, from);
    return config_.skip ? added(before, x.x, from.row_of) : in_place(before, x.x, from.row_of);
  }

 private:
  RepeatConfig config_;

  // before[j] + x[rows[j]]; nothing is added for a row -1.
  static Var added(const Var& before, const Var& x, const std::vector<int64_t>& rows) {
    const Shape shape{before.rows()};
    const Tensor ids = before.value().is_meta() ? empty(shape, DType::i32, Device::meta)
                                                : tensor_of(shape, std::vector<int32_t>(rows.begin(), rows.end()));
    return add_rows(before, x, ids, MissingIds::no_row);
  }
  // x[rows[j]]; before[j] for a row -1.
  static Var in_place(const Var& before, const Var& x, std::vector<int64_t> rows) {
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i] < 0) rows[i] = x.rows() + int64_t(i);
    return pick_rows(concatenate_rows({x, before}), rows);
  }

  // The rows before and after each, and the share of the latter.
  struct Neighbours {
    std::vector<int64_t> left, right;
    std::vector<double> share;
  };
  Var interpolated(const Rows& x, const Shortening& from) const {
    const Neighbours at = neighbours(x.sequences, from);
    const Var& before = from.before.x;
    const Var near = scaled(in_place(before, x.x, at.left), at, false),
              far = scaled(in_place(before, x.x, at.right), at, true);
    const Var made = add(near, far);
    if (!config_.skip) return made;
    // Rows that nothing stands for are their own neighbours, and stay as they were.
    std::vector<int64_t> rows(from.row_of.size());
    for (size_t j = 0; j < rows.size(); ++j) rows[j] = from.row_of[j] < 0 ? -1 : int64_t(j);
    return added(before, made, rows);
  }
  Var scaled(const Var& x, const Neighbours& at, bool right) const {
    const Tensor shares = empty(x.shape(), x.dtype(), x.device());
    if (!shares.is_meta())
      for (int64_t j = 0; j < x.rows(); ++j)
        for (int64_t c = 0; c < x.cols(); ++c)
          set_value(shares, j * x.cols() + c, right ? at.share[size_t(j)] : 1 - at.share[size_t(j)]);
    return mul(x, Var(shares));
  }
  static Neighbours neighbours(const Sequences& groups, const Shortening& from) {
    const Sequences& words = from.before.sequences;
    std::vector<double> first(size_t(groups.rows()), -1), centre(size_t(groups.rows()), 0);
    for (int64_t j = 0; j < words.rows(); ++j) {
      const int64_t row = from.row_of[size_t(j)];
      if (row < 0) continue;
      if (first[size_t(row)] < 0) first[size_t(row)] = double(j);
      centre[size_t(row)] = (first[size_t(row)] + double(j)) / 2;
    }
    Neighbours out{from.row_of, from.row_of, std::vector<double>(from.row_of.size(), 0)};
    for (int64_t b = 0; b < words.count(); ++b)
      for (int64_t j = words.offset(b); j < words.offset(b + 1); ++j) {
        const int64_t row = from.row_of[size_t(j)];
        if (row < 0) continue;
        const int64_t other = row + (double(j) < centre[size_t(row)] ? -1 : 1);
        if (double(j) == centre[size_t(row)] || other < groups.offset(b) || other >= groups.offset(b + 1)) continue;
        const int64_t left = std::min(row, other), right = std::max(row, other);
        out.left[size_t(j)] = left, out.right[size_t(j)] = right;
        out.share[size_t(j)] = (double(j) - centre[size_t(left)]) / (centre[size_t(right)] - centre[size_t(left)]);
      }
    return out;
  }
};

}  // namespace

void register_expander_repeat(Registry& registry) {
  registry.add<Expander, Repeat, RepeatConfig>(
      "repeat", {.spec = "ms.upsample",
                 .summary = "gives every token a row again: the compressed row that stands for it, added to its row "
                            "before the compressor",
                 .source = "TB 6.2.4, 6.4.8",
                 .causal = false,
                 .samples = {"{skip: false}", "{between: linear}", "{between: linear, skip: false}"}});
}

}  // namespace lithe
