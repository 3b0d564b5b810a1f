// An output that predicts codes in place of a softmax over a vocabulary [MACH: Medini et al. 2019; binary codes: Oda et
// al. 2017]: every candidate has a code in each of several tables, and the loss is the sum of the cross-entropies of
// its codes, a softmax by table. A candidate's logit is the sum of its codes' logits, which is the log of the product
// of their probabilities up to a number that all candidates of a row share: the softmax over the candidates is what the
// model says of them.
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/candidate_scores.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

constexpr int64_t kRowsAtOnce = 256;  // whose candidates' logits are there together

struct HashCodesConfig {
  int64_t num_tables = 4, num_codes = 256, seed = 0;
  bool bias = true;
  std::string loss = "codes";
  void fields(Fields& f) {
    f("loss", loss,
      "codes: the sum of the cross-entropies of the label's codes; candidates: the cross-entropy of the label among "
      "all candidates, whose logits are computed",
      one_of({"codes", "candidates"}));
    f("num_tables", num_tables, "number of tables: codes per candidate", between(1, 64));
    f("num_codes", num_codes, "number of different codes per table (softmax size)", between(2, 1 << 20));
    f("seed", seed, "seed of the hashes that give candidates their codes", at_least(0));
    f("bias", bias, "add a learned bias to the logit of each code");
  }
};

class HashCodes final : public Head {
 public:
  HashCodes(const Scope& scope, const HashCodesConfig& config, const Args& args)
      : tables_(config.num_tables),
        whole_(config.loss == "candidates"),
        codes_(hashed_codes(args.vocab_size, config.num_tables, config.num_codes, config.seed, scope.context().device)),
        out_(scope, Axis::hidden(args.hidden_size), config.num_tables * config.num_codes, config.bias) {
    check_usage(!args.tied, "model",
                "head hash_codes has rows of codes, none of tokens that could be the embedding's; set "
                "tie_word_embeddings: false");
  }

  LabelCount count(const Sequences& sequences) const override { return {sequences.rows(), codes_.rows()}; }
  /// [N, candidates].
  Var logits(const Rows& rows) const override { return candidate_scores(out_(rows.x), codes_); }
  /// Of the codes. In `sums` and row_nll the negative log-likelihoods are those of the codes while training; else of
  /// the labels among all candidates, which is never more.
  Var loss(const Rows& rows, const LossArgs& a) const override {
    if (whole_) return cross_entropy(logits(rows), a.labels, a.smoothing, a.scale, a.sums, a.row_nll);
    const Var x = out_(rows.x), by_table = reshape(x, {x.rows() * tables_, x.cols() / tables_});
    const DType type = wide_of(x.dtype());
    const Tensor nll = empty({by_table.rows()}, type, x.device());
    LossSums sums;
    const Var out = cross_entropy(by_table, label_codes(a.labels, codes_), a.smoothing, a.scale, &sums, nll);
    sums.labels /= tables_;
    if (training()) {
      for (int64_t n = 0; a.row_nll.defined() && n < x.rows() && !nll.is_meta(); ++n) {
        double sum = 0;
        for (int64_t k = 0; k < tables_ && a.labels.data<int32_t>()[n] >= 0; ++k) sum += value_at(nll, n * tables_ + k);
        set_value(a.row_nll, n, sum);
      }
    } else if (a.sums || a.row_nll.defined()) {
      const Tensor row_nll = a.row_nll.defined() ? a.row_nll : empty({x.rows()}, type, x.device());
      sums.nll = among_candidates(x.value(), a.labels, row_nll);
    }
    if (a.sums) *a.sums = sums;
    return out;
  }

 private:
  int64_t tables_;
  bool whole_;
  Tensor codes_;  // i32 [candidates, tables]
  Linear out_;

  double among_candidates(const Tensor& x, const Tensor& labels, const Tensor& row_nll) const {
    LossSums all;
    for (int64_t begin = 0; begin < x.rows(); begin += kRowsAtOnce) {
      const int64_t end = std::min(begin + kRowsAtOnce, x.rows());
      LossSums some;
      cross_entropy(candidate_scores(x.slice(begin, end), codes_), labels.slice(begin, end), 0, 1, &some,
                    row_nll.slice(begin, end));
      all += some;
    }
    return all.nll;
  }
};

}  // namespace

void register_head_hash_codes(Registry& registry) {
  registry.add<Head, HashCodes, HashCodesConfig>(
      "hash_codes",
      {.summary =
           "a code for each candidate in each of several tables, and a softmax for each table, instead of one over all",
       .source = "Medini et al. 2019 (MACH); Oda et al. 2017",
       .samples = {"{num_tables: 3, num_codes: 5, bias: false}", "{num_tables: 2, num_codes: 6, loss: candidates}"}});
}

}  // namespace lithe
