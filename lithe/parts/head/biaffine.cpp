// A dependency parser [Dozat and Manning 2017]: for each word scores of all heads, and of all labels of the arc to one.
//   h_d = f(x W_d), h_h = f(x W_h) (and a learned row for the root):  arcs[i, j] = h_d[i] U h_h[j]^T + h_h[j] u
//   r_d, r_h likewise:  labels[i, j] = (r_d[i] * r_h[j]) V + r_d[i] V_d + r_h[j] V_h + b, a biaffine map of rank
//   label_size
// A word's head is the root or another word, each by the row that it begins at: the softmax of arcs runs over these, in
// training as in a parse.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/spanning_tree.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct BiaffineConfig {
  int64_t arc_size = 256, label_size = 128;
  double dropout = 0.33;
  void fields(Fields& f) {
    f("arc_size", arc_size, "hidden channels for the scores of arcs", at_least(1));
    f("label_size", label_size, "hidden channels for the scores of labels", at_least(1));
    f("dropout", dropout, "dropout probability of these channels and of the rows", between(0, 0.99));
  }
};

class Biaffine final : public Head {
 public:
  Biaffine(const Scope& scope, const BiaffineConfig& config, const Args& args)
      : classes_(args.num_labels), in_(scope / "in", config.dropout), hidden_(scope / "hidden", config.dropout) {
    check_usage(classes_ >= 1, "biaffine", "model.num_labels must be at least 1, got ", classes_);
    check_usage(!args.causal, "biaffine",
                "a head may stand anywhere in its text, which a causal model has not seen; set "
                "model.architecture: encoder");
    const Axis d = Axis::hidden(args.hidden_size);
    const int64_t a = config.arc_size, b = config.label_size;
    arc_word_ = Linear(scope / "arc_word", d, a, true), arc_head_ = Linear(scope / "arc_head", d, a, true);
    label_word_ = Linear(scope / "label_word", d, b, true), label_head_ = Linear(scope / "label_head", d, b, true);
    arc_root_ = scope.parameter("arc_root", {1, a}, InitRole::embedding);
    label_root_ = scope.parameter("label_root", {1, b}, InitRole::embedding);
    arcs_ = Linear(scope / "arcs", a, a, false);
    prior_ = Linear(scope / "prior", a, 1, false);
    labels_ = Linear(scope / "labels", b, Axis::classes(classes_), true);
    of_word_ = Linear(scope / "labels_word", b, Axis::classes(classes_), false);
    of_head_ = Linear(scope / "labels_head", b, Axis::classes(classes_), false);
  }

  /// Of each row: 0 for the root or 1 + the row, in its text, that its head begins at; then, behind those of all rows,
  /// their labels. -1: no word begins there; less: a word does, whose head is not among the rows.
  LabelCount count(const Sequences& sequences) const override {
    int64_t shortest = sequences.rows();
    for (int64_t b = 0; b < sequences.count(); ++b) shortest = std::min(shortest, sequences.length(b));
    return {2 * sequences.rows(), std::min(classes_, shortest + 1)};
  }
  /// Scores of heads [N, T + 1], T of the longest text: of the root, then of its rows; what is beyond a text is -1e30.
  Var logits(const Rows& rows) const override {
    const Scored of = read(rows.x);
    int64_t longest = 0;
    for (int64_t b = 0; b < rows.sequences.count(); ++b) longest = std::max(longest, rows.sequences.length(b));
    std::vector<Var> parts;
    for (int64_t b = 0; b < rows.sequences.count(); ++b)
      if (rows.sequences.length(b)) {
        const int64_t begin = rows.sequences.offset(b), end = rows.sequences.offset(b + 1);
        parts.push_back(arcs_of(slice_rows(of.arc_word, begin, end), slice_rows(of.arc_head, begin, end)));
      }
    const int64_t width = longest + 1;
    const Tensor out = empty({rows.x.rows(), width}, rows.x.dtype(), rows.x.device());
    int64_t at = 0;
    for (const Var& part : parts) {
      for (int64_t i = 0; i < part.rows() && !out.is_meta(); ++i)
        for (int64_t j = 0; j < width; ++j)
          set_value(out, (at + i) * width + j, j < part.cols() ? value_at(part.value(), i * part.cols() + j) : -1e30);
      at += part.rows();
    }
    std::vector<GradRef> refs;
    std::vector<Shape> shapes;
    for (const Var& part : parts) refs.push_back(part.ref()), shapes.push_back(part.shape());
    return record_many("side_by_side", refs, {out}, [=](const std::vector<Tensor>& dys, Grads& g) {
      const Tensor& dy = dys[0];
      int64_t begin = 0;
      for (size_t b = 0; b < refs.size(); ++b) {
        const Tensor d = empty(shapes[b], dy.dtype(), dy.device());
        const int64_t cols = d.cols();
        for (int64_t i = 0; i < d.rows() && !d.is_meta(); ++i)
          for (int64_t j = 0; j < cols; ++j) set_value(d, i * cols + j, value_at(dy, (begin + i) * width + j));
        if (g.wants(refs[b])) g.give(refs[b], d);
        begin += shapes[b][0];
      }
    })[0];
  }
  Var loss(const Rows& rows, const LossArgs& a) const override {
    const int64_t n = rows.x.rows();
    check(a.labels.numel() == 2 * n, "biaffine", "labels must be i32 [", 2 * n, "], a head and a label a row, got ",
          a.labels.dtype(), a.labels.shape());
    const Scored of = read(rows.x);
    LossSums total;
    Var loss;
    const auto take = [&](const Var& logits, const Tensor& labels, const Tensor& row_nll) {
      LossSums sums;
      const Var one = cross_entropy(logits, labels, a.smoothing, a.scale, &sums, row_nll);
      loss = loss.defined() ? add(loss, one) : one;
      total += sums;
    };
    const auto nll_of = [&](int64_t begin, int64_t end) {
      return a.row_nll.defined() ? a.row_nll.slice(begin, end) : Tensor();
    };
    std::vector<int64_t> head_rows(size_t(n), 0);  // of [root; rows]
    for (int64_t b = 0; b < rows.sequences.count(); ++b) {
      const int64_t begin = rows.sequences.offset(b), end = rows.sequences.offset(b + 1);
      const Candidates c = candidates(a.labels, begin, end);
      const auto m = int64_t(c.words.size());
      for (int64_t w = 0; w < m; ++w)
        if (c.head_rows[size_t(w)] >= 0) head_rows[size_t(c.words[size_t(w)])] = 1 + c.head_rows[size_t(w)];
      const Tensor nll = nll_of(begin, end);
      if (nll.defined()) fill_zero(nll);
      if (m == 0) continue;
      const Tensor each = nll.defined() ? empty({m}, nll.dtype(), nll.device()) : Tensor();
      take(others(arcs_of(pick_rows(of.arc_word, c.words), pick_rows(of.arc_head, c.words))), c.labels, each);
      for (int64_t w = 0; w < m && nll.defined() && !nll.is_meta(); ++w)
        set_value(nll, c.words[size_t(w)] - begin, value_at(each, w));
    }
    take(labels_of(of.label_word, pick_rows(of.label_head, head_rows)), a.labels.slice(n, 2 * n), nll_of(n, 2 * n));
    if (a.sums) *a.sums = total;
    return loss;
  }

  std::vector<Parse> parse(const Rows& rows, const std::vector<std::vector<int64_t>>& words,
                           bool projective) const override {
    const Scored of = read(rows.x);
    std::vector<Parse> out;
    for (int64_t b = 0; b < rows.sequences.count(); ++b) {
      const auto m = int64_t(words[size_t(b)].size()), begin = rows.sequences.offset(b);
      out.emplace_back();
      if (m == 0) continue;
      std::vector<int64_t> at = words[size_t(b)];
      for (int64_t& row : at) row += begin;
      const Tensor arcs = arcs_of(pick_rows(of.arc_word, at), pick_rows(of.arc_head, at)).value();
      // Log-probabilities of a word's heads among the words and the root.
      std::vector<double> scores(size_t(m * (m + 1)), -INFINITY);  // a word a row
      for (int64_t w = 1; w <= m; ++w) {
        std::vector<double> mine(size_t(m + 1), -INFINITY);
        for (int64_t h = 0; h <= m; ++h)
          if (h != w) mine[size_t(h)] = value_at(arcs, (w - 1) * (m + 1) + h);
        const double most = *std::max_element(mine.begin(), mine.end());
        double sum = 0;
        for (const double s : mine) sum += std::exp(s - most);
        out.back().probabilities.emplace_back();
        for (int64_t h = 0; h <= m; ++h) {
          scores[size_t((w - 1) * (m + 1) + h)] = mine[size_t(h)] - most - std::log(sum);
          out.back().probabilities.back().push_back(std::exp(mine[size_t(h)] - most) / sum);
        }
      }
      out.back().heads = projective ? maximum_projective_tree(scores, m) : maximum_arborescence(scores, m);
      std::vector<int64_t> head_rows;
      for (int64_t w = 0; w < m; ++w) {
        const int32_t head = out.back().heads[size_t(w)];
        head_rows.push_back(head ? 1 + at[size_t(head - 1)] : 0);
      }
      const Tensor labels = labels_of(pick_rows(of.label_word, at), pick_rows(of.label_head, head_rows)).value();
      for (int64_t w = 0; w < m; ++w) {
        int64_t best = 0;
        for (int64_t c = 1; c < classes_; ++c)
          if (value_at(labels, w * classes_ + c) > value_at(labels, w * classes_ + best)) best = c;
        out.back().labels.push_back(int32_t(best));
      }
    }
    return out;
  }

 private:
  int64_t classes_;
  Dropout in_, hidden_;
  Linear arc_word_, arc_head_, label_word_, label_head_, arcs_, prior_, labels_, of_word_, of_head_;
  Parameter *arc_root_, *label_root_;

  struct Scored {
    Var arc_word, arc_head, label_word;  // [N, a], [N, a], [N, b]; arc_word times U
    Var label_head;                      // [1 + N, b], the root first
  };
  Scored read(const Var& rows) const {
    const Var x = in_(rows);
    int64_t part = 0;
    const auto through = [&](const Linear& map) {
      return hidden_(activate(kernels::Activation::gelu, map(x)), part++);
    };
    const Var arc_word = arcs_(through(arc_word_)), arc_head = through(arc_head_), label_word = through(label_word_);
    return {arc_word, arc_head, label_word,
            concatenate_rows({cast(label_root_->var(), x.dtype()), through(label_head_)})};
  }
  // Scores of the root and of m words as heads of each of them: [m, m + 1].
  Var arcs_of(const Var& word, const Var& head) const {
    const Var heads = concatenate_rows({cast(arc_root_->var(), head.dtype()), head});
    const Var prior = cast(reshape(prior_(heads), {heads.rows()}), wide_of(heads.dtype()));
    return linear(word, heads, prior, true);
  }
  // Of these those that can be: [m, m], of the root, then of the other words.
  static Var others(const Var& arcs) {
    const int64_t m = arcs.rows();
    std::vector<int64_t> kept;
    for (int64_t at = 0; at < m * (m + 1); ++at)
      if (at % (m + 1) != 1 + at / (m + 1)) kept.push_back(at);
    return reshape(pick_rows(reshape(arcs, {m * (m + 1), 1}), kept), {m, m});
  }

  struct Candidates {
    std::vector<int64_t> words;      // rows that words begin at
    std::vector<int64_t> head_rows;  // of each word the row of its head, -1: the root, or it is not known
    Tensor labels;                   // of each word the column of its head in others()
  };
  static Candidates candidates(const Tensor& given, int64_t begin, int64_t end) {
    const auto label = [&](int64_t row) { return given.is_meta() ? 0 : given.data<int32_t>()[row]; };
    Candidates out;
    std::vector<int64_t> place(size_t(end - begin), -1);
    for (int64_t row = begin; row < end; ++row)
      if (label(row) != -1) place[size_t(row - begin)] = int64_t(out.words.size()), out.words.push_back(row);
    const auto m = int64_t(out.words.size());
    out.labels = empty({m}, DType::i32, given.device());
    for (int64_t w = 0; w < m; ++w) {
      const int32_t head = label(out.words[size_t(w)]);
      check(head <= end - begin, "biaffine", "label ", head, " is no row of a text of ", end - begin);
      const int64_t of = head > 0 ? place[size_t(head - 1)] : -1;
      check(head <= 0 || (of >= 0 && of != w), "biaffine", "label ", head, " of row ", out.words[size_t(w)] - begin,
            " must be 0, the root, or 1 + a row that another word begins at");
      out.head_rows.push_back(head > 0 ? begin + head - 1 : -1);
      if (!out.labels.is_meta())
        out.labels.data<int32_t>()[w] = head < 0 ? -1 : head == 0 ? 0 : int32_t(of < w ? of + 1 : of);
    }
    return out;
  }
  Var labels_of(const Var& word, const Var& head) const {
    return add(add(labels_(mul(word, head)), of_word_(word)), of_head_(head));
  }
};

}  // namespace

void register_head_biaffine(Registry& registry) {
  registry.add<Head, Biaffine, BiaffineConfig>(
      "biaffine", {.summary = "a dependency parser: the head of each word and the label of its arc",
                   .source = "Dozat and Manning 2017",
                   .causal = false});
}

}  // namespace lithe
