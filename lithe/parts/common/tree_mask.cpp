#include "lithe/parts/common/tree_mask.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "lithe/nn/registry.h"

namespace lithe {

// spec: syn.mask_add | field | numbers of pairs that are added to logits, -inf where they are hidden | TB Eq 6.53
//
// spec: syn.mask_mul | field | numbers of pairs that multiply logits, or weights (log_add, multiply_weights) | TB
// Eq 6.54, footnote 4
//
// spec: syn.mask01 | field | pairs of words near in the tree, hidden otherwise or their logits times 0 | TB Eq 6.55
//
// spec: syn.dnorm.zscore | field | tree distances, standardised | TB Eq 6.56
//
// spec: syn.dnorm.inv_row | field | inverse tree distances of a row, which sum to 1 | TB Eq 6.56
//
// spec: syn.dnorm.other | field | linear, exponential, Gaussian and reciprocal maps of tree distances | TB Eq 6.56
//
// spec: syn.mask_parser | field | a parser's probabilities of heads | TB Eq 6.57-6.58
//
// spec: syn.head_guided | field | `heads` have the mask, the rest see all; `supervise` | TB 6.2.3, Fig 6.8c
void TreeMaskConfig::fields(Fields& f) {
  f("tree", tree,
    "tree and the columns that it needs: dependency (word, head), constituency (word, depth, common), parser (word, "
    "head_probabilities)",
    one_of({"dependency", "constituency", "parser"}));
  f("weight", weight,
    "M of two words with distance w in the tree: within (1 up to max_distance, else 0), zscore, inv_row, linear max(0, "
    "1 - w/max_distance), exp e^(-w/tau), gauss e^(-w^2/(2 sigma^2)), reciprocal 1/(1+w); tree parser: probability",
    one_of({"within", "zscore", "inv_row", "linear", "exp", "gauss", "reciprocal", "probability"}));
  f("apply", apply,
    "use of M: hard (0 hides a pair, and the fused kernel skips hidden tiles), add (to logits), multiply_logits (as "
    "printed in TB 6.54: 0 does not hide), log_add (weights times M, then normalised), multiply_weights (not "
    "normalised)",
    one_of({"hard", "add", "multiply_logits", "log_add", "multiply_weights"}));
  f("max_distance", max_distance, "within, linear: largest distance w_max; -1: 1, and for linear the number of words",
    at_least(-1));
  f("tau", tau, "exp: scale tau of the distance", at_least(1e-6));
  f("sigma", sigma, "gauss: standard deviation sigma", at_least(1e-6));
  f("squash", squash,
    "zscore: none, sigmoid, or min_max of each row to [0, 1]; for texts of one word min_max gives 0, but 1 if weights "
    "are multiplied",
    one_of({"none", "sigmoid", "min_max"}));
  f("statistics", statistics, "zscore: mean and deviation of each row, or of the whole matrix",
    one_of({"row", "matrix"}));
  f("inverse", inverse, "inv_row: r = 1/(w+1) (shifted), or 1/w, with self_value for a word with itself (plain)",
    one_of({"shifted", "plain"}));
  f("self_value", self_value, "inv_row, inverse plain: r of a word with itself", at_least(0));
  f("normalise_rows", normalise_rows, "linear, exp, gauss, reciprocal: divide each row of M by its sum");
  f("collapse_pos", collapse_pos,
    "constituency: distance between the nodes directly above the words (the part-of-speech nodes): two less");
  f("direction", direction,
    "probability: M(i,j) is the probability that i is the head of j (directed), or the larger of both directions "
    "(symmetric)",
    one_of({"directed", "symmetric"}));
  f("diagonal", diagonal, "probability: M of a word with itself; 0: as printed", between(0, 1));
  f("heads", heads, "query heads that use the tree, from 0; the other heads see all tokens; empty: all heads use it");
}

void TreeMaskConfig::validate(int64_t count, bool causal) const {
  const auto need = [&](bool rule, const auto&... why) { check_usage(rule, "tree", why...); };
  if (causal) {
    const char* remedy = ", and a causal model has only read a part; give the field to an encoder, or another weight";
    need(tree != "parser", "tree parser says of each word how likely all others are its head", remedy);
    need(weight != "zscore" && weight != "inv_row", "weight ", weight, " has statistics of all words of a text",
         remedy);
    need(!normalise_rows, "normalise_rows divides by the sum over all words of a text", remedy);
    need(weight != "linear" || max_distance >= 0, "linear with max_distance -1 counts all words of a text", remedy,
         ", or set max_distance");
  }
  need((tree == "parser") == (weight == "probability"), "tree ", tree, " and weight ", weight,
       " do not go together: a parser's numbers are probabilities, other trees give distances");
  need(apply != "hard" || weight == "within", "apply hard hides by 0 and 1, which weight ", weight,
       " is not; set weight: within, or apply: log_add");
  need(apply == "hard" || apply == "add" || apply == "multiply_logits" || weight != "zscore" || squash != "none",
       "apply ", apply, " multiplies weights by M, which zscore has below 0; set squash: sigmoid, or apply: add");
  need(squash == "none" || weight == "zscore", "squash ", squash, " is of zscore, not of ", weight);
  need(statistics == "row" || weight == "zscore", "statistics ", statistics, " are of zscore, not of ", weight);
  need(inverse == "shifted" || weight == "inv_row", "inverse ", inverse, " is of inv_row, not of ", weight);
  need(self_value == 1 || (weight == "inv_row" && inverse == "plain"), "self_value is of inv_row with inverse plain");
  need(!collapse_pos || tree == "constituency", "collapse_pos is of constituency trees, not of ", tree);
  need(direction == "symmetric" || weight == "probability", "direction ", direction, " is of probability, not of ",
       weight);
  need(diagonal == 1 || weight == "probability", "diagonal is of probability, not of ", weight);
  need(max_distance < 0 || weight == "within" || weight == "linear", "max_distance is of within and linear, not of ",
       weight);
  need(weight != "linear" || max_distance != 0, "linear divides by max_distance, which is 0; raise it, or -1");
  need(tau == 1 || weight == "exp", "tau is of exp, not of ", weight);
  need(sigma == 1 || weight == "gauss", "sigma is of gauss, not of ", weight);
  need(!normalise_rows || weight == "linear" || weight == "exp" || weight == "gauss" || weight == "reciprocal",
       "normalise_rows is of linear, exp, gauss and reciprocal, not of ", weight);
  for (const int64_t head : heads)
    need(head >= 0 && head < count, "there is no head ", head, "; the ", count, " query heads count from 0");
}

int64_t WordTree::words() const { return word_of.empty() ? 0 : 1 + *std::max_element(word_of.begin(), word_of.end()); }

namespace {

std::vector<int32_t> distances_of(const TreeMaskConfig& c, const WordTree& tree) {
  return c.tree == "constituency" ? tree_distances(tree.leaves, c.collapse_pos) : tree_distances(tree.heads);
}

void standardise(const TreeMaskConfig& c, std::vector<double>& m, size_t n) {
  const size_t step = c.statistics == "row" ? n : n * n;
  for (size_t at = 0; at < m.size(); at += step) {
    const auto begin = m.begin() + ptrdiff_t(at), end = begin + ptrdiff_t(step);
    const double mean = std::accumulate(begin, end, 0.0) / double(step);
    double square = 0;
    for (auto x = begin; x != end; ++x) square += (*x - mean) * (*x - mean);
    const double deviation = std::sqrt(square / double(step));
    for (auto x = begin; x != end; ++x) *x = deviation > 0 ? (*x - mean) / deviation : 0;
  }
  // All of one distance: a text of one word. There 0 would take its only key from the word where it multiplies weights.
  const double alone = c.apply == "log_add" || c.apply == "multiply_weights" ? 1 : 0;
  for (size_t row = 0; row < n; ++row) {
    const auto begin = m.begin() + ptrdiff_t(row * n), end = begin + ptrdiff_t(n);
    const double low = *std::min_element(begin, end), high = *std::max_element(begin, end);
    for (auto x = begin; x != end; ++x) {
      if (c.squash == "sigmoid") *x = 1 / (1 + std::exp(-*x));
      if (c.squash == "min_max") *x = high > low ? (*x - low) / (high - low) : alone;
    }
  }
}

std::vector<double> probabilities(const TreeMaskConfig& c, const WordTree& tree, size_t n) {
  std::vector<double> m(n * n, 0);
  for (size_t j = 0; j < std::min(n, tree.parser.size()); ++j)
    for (const auto& [head, p] : tree.parser[j])
      if (head >= 1 && size_t(head) <= n) m[size_t(head - 1) * n + j] += p;
  if (c.direction == "symmetric")
    for (size_t i = 0; i < n; ++i)
      for (size_t j = i + 1; j < n; ++j) m[i * n + j] = m[j * n + i] = std::max(m[i * n + j], m[j * n + i]);
  for (size_t i = 0; i < n; ++i) m[i * n + i] = c.diagonal;
  return m;
}

// M of two words at a distance, of n words; INFINITY: no path joins them.
double weight_of(const TreeMaskConfig& c, double d, double n) {
  const double most = c.max_distance >= 0 ? c.max_distance : c.weight == "within" ? 1 : n;
  if (c.weight == "within") return d <= most;
  if (c.weight == "zscore") return std::isinf(d) ? -n : -d;  // farther than any path
  if (c.weight == "inv_row") return c.inverse == "shifted" ? 1 / (d + 1) : d == 0 ? c.self_value : 1 / d;
  if (c.weight == "linear") return std::max(0.0, 1 - d / most);
  if (c.weight == "exp") return std::exp(-d / c.tau);
  if (c.weight == "gauss") return std::exp(-d * d / (2 * c.sigma * c.sigma));
  return 1 / (1 + d);
}

// The same for distances from 0 to `most`, then of words that no path joins, as `number` makes them.
std::vector<double> weights_of(const TreeMaskConfig& c, int64_t most, double n,
                               const std::function<double(double)>& number) {
  std::vector<double> out;
  for (int64_t d = 0; d <= most; ++d) out.push_back(weight_of(c, double(d), n));
  out.push_back(weight_of(c, INFINITY, n));
  if (number)
    for (double& m : out) m = number(m);
  return out;
}

// The distance of two leaves `shared` nodes are above both of.
double leaf_distance(const TreeMaskConfig& c, const LeafPlaces& leaves, size_t i, size_t j, int32_t shared) {
  if (i == j) return 0;
  return shared <= 0 ? INFINITY
                     : double(leaves.depth[i] + leaves.depth[j] - 2 * (shared - 1) - (c.collapse_pos ? 2 : 0));
}

}  // namespace

std::vector<double> causal_word_mask(const TreeMaskConfig& c, const WordTree& tree, int64_t first,
                                     const std::function<double(double)>& number) {
  const auto n = size_t(tree.words());
  std::vector<double> m((n - size_t(first)) * n, 0);
  const auto neighbours = c.tree == "dependency" ? neighbours_of(tree.heads) : std::vector<std::vector<int32_t>>();
  const std::vector<double> of = weights_of(c, int64_t(neighbours.size()), 0, number);
  for (size_t i = size_t(first); i < n; ++i) {
    double* row = m.data() + (i - size_t(first)) * n;
    if (c.tree == "constituency") {
      int32_t shared = INT32_MAX;
      for (size_t j = i + 1; j-- > 0;) {
        if (j < i) shared = std::min(shared, tree.leaves.common[j]);
        row[j] = weight_of(c, leaf_distance(c, tree.leaves, i, j, shared), 0);
        if (number) row[j] = number(row[j]);
      }
      continue;
    }
    std::fill(row, row + i + 1, of.back());
    for (const auto& [j, d] : known_words(tree.heads, neighbours, int32_t(i), int64_t(neighbours.size())))
      row[j] = of[size_t(d)];
  }
  return m;
}

std::vector<double> word_mask(const TreeMaskConfig& c, const WordTree& tree,
                              const std::function<double(double)>& number) {
  const auto n = size_t(tree.words());
  const auto numbers = [&](std::vector<double> m) {
    if (number)
      for (double& x : m) x = number(x);
    return m;
  };
  if (c.weight == "probability") return numbers(probabilities(c, tree, n));
  const std::vector<int32_t> w = distances_of(c, tree);
  std::vector<double> m(n * n, 0);
  if (n == 0) return m;
  const bool of_rows = c.weight == "zscore" || c.weight == "inv_row" || c.normalise_rows;
  const std::vector<double> of = weights_of(c, *std::max_element(w.begin(), w.end()), double(n),
                                            of_rows ? std::function<double(double)>() : number);
  for (size_t i = 0; i < n * n; ++i) m[i] = w[i] == kApart ? of.back() : of[size_t(w[i])];
  if (!of_rows) return m;
  if (c.weight == "zscore") standardise(c, m, n);
  if (c.weight == "inv_row" || c.normalise_rows)
    for (size_t row = 0; row < n; ++row) {
      const auto begin = m.begin() + ptrdiff_t(row * n), end = begin + ptrdiff_t(n);
      const double sum = std::accumulate(begin, end, 0.0);
      for (auto x = begin; sum > 0 && x != end; ++x) *x /= sum;
    }
  return numbers(std::move(m));
}

TreeMask::TreeMask(const TreeMaskConfig& config, const Field::Args& args) : config_(config), args_(args) {
  config.validate(args.num_attention_heads, args.causal && !args.cross);
  TreeMaskConfig all = config;
  all.heads.clear();  // which heads have it changes nothing of M
  key_ = "tree " + to_yaml(write_fields([&](Fields& f) { all.fields(f); }));
}

std::vector<std::string> TreeMask::reads_columns() const {
  if (config_.tree == "dependency") return {"word", "head"};
  if (config_.tree == "constituency") return {"word", "depth", "common"};
  return {"word", "head_probabilities"};
}

bool TreeMask::has(int64_t head) const {
  return config_.heads.empty() || std::find(config_.heads.begin(), config_.heads.end(), head) != config_.heads.end();
}

void TreeMask::check_whole(const FieldInput& in) const {
  for (int64_t b = 0; b < in.queries.count(); ++b)
    check_usage(in.labels.defined() || (in.queries.past(b) == 0 && in.keys[size_t(b)].first == 0 &&
                                        in.keys[size_t(b)].count == in.queries.length(b)),
                "tree",
                "a tree is of a whole text, and this one is read a part at a time; give the field to an encoder");
}

const Tensor& TreeMask::column(const Pass& pass, const std::string& name, int64_t rows) const {
  const Tensor* column = pass.given(name);
  check_usage(column, "tree", "the input has no column '", name, "', which the field reads of a treebank");
  check(column->dim(0) == rows, "tree", "the column '", name, "' has ", column->dim(0), " rows, the text ", rows);
  return *column;
}

Tensor TreeMask::label_rows(const Pass& pass, int64_t rows) const {
  const std::vector<std::string> names = reads_columns();
  const auto count = int64_t(names.size());
  const Tensor out = empty({rows, count}, DType::i32, column(pass, names[0], rows).device());
  for (int64_t c = 0; c < count; ++c) {
    const Tensor& from = column(pass, names[size_t(c)], rows);
    for (int64_t i = 0; i < rows && !out.is_meta(); ++i) out.data<int32_t>()[i * count + c] = from.data<int32_t>()[i];
  }
  return out;
}

std::vector<WordTree> TreeMask::trees(const FieldInput& in) const {
  constexpr int32_t kMost = 1 << 20;
  const std::vector<std::string> names = reads_columns();
  const bool continued = in.labels.defined();
  std::vector<const Tensor*> columns;
  for (size_t c = 0; c < names.size() && !continued; ++c)
    columns.push_back(&column(in.pass, names[c], in.queries.rows()));
  const std::vector<int64_t> offsets = continued ? key_offsets(in) : in.queries.offsets();
  const auto count = int64_t(names.size());
  std::vector<WordTree> out;
  for (int64_t b = 0; b < in.queries.count(); ++b) {
    WordTree tree;
    const int64_t begin = offsets[size_t(b)], length = offsets[size_t(b) + 1] - begin;
    const auto number = [&](int64_t i, size_t c) {
      return continued ? in.labels.data<int32_t>()[(begin + i) * count + int64_t(c)]
                       : columns[c]->data<int32_t>()[begin + i];
    };
    for (int64_t i = 0; i < length; ++i) tree.word_of.push_back(number(i, 0));
    const auto m = size_t(tree.words());
    check(m <= size_t(kMost), "tree", "the column 'word' counts to ", m, ", more words than a sequence has");
    tree.heads.heads.assign(m, -1);
    tree.leaves.depth.assign(m, 0), tree.leaves.common.assign(m, 0);
    tree.parser.resize(m);
    for (int64_t i = length; i-- > 0;) {  // the first row of a word counts
      const int32_t w = tree.word_of[size_t(i)];
      if (w < 0) continue;
      if (config_.tree == "dependency") tree.heads.heads[size_t(w)] = number(i, 1);
      if (config_.tree == "constituency")
        tree.leaves.depth[size_t(w)] = number(i, 1), tree.leaves.common[size_t(w)] = number(i, 2);
      if (config_.tree != "parser") continue;
      const int64_t cols = columns[1]->numel() / columns[1]->dim(0);
      auto& parser = tree.parser[size_t(w)];
      parser.clear();
      double sum = 0;
      for (int64_t k = 0; k + 1 < cols; k += 2) {
        const int32_t* one = columns[1]->data<int32_t>() + (begin + i) * cols + k;
        if (one[0] < 0) continue;
        parser.emplace_back(one[0], double(std::bit_cast<float>(one[1])));
        sum += parser.back().second;
      }
      check(std::abs(sum - 1) < 1e-3, "tree", "the head probabilities of word ", w + 1, " sum to ", sum,
            "; those of all heads and the root must sum to 1");
    }
    if (args_.causal && config_.tree == "dependency") {  // heads may be words that are still to come
      int32_t last = int32_t(m);
      for (const int32_t head : tree.heads.heads) {
        check(head <= kMost, "tree", "the column 'head' names word ", head, ", more words than a sequence has");
        last = std::max(last, head);
      }
      tree.heads.heads.resize(size_t(last), -1);
    }
    out.push_back(std::move(tree));
  }
  return out;
}

std::optional<double> TreeMask::of_pair(const WordTree& tree, const std::vector<double>& mask, int64_t i,
                                        int64_t j) const {
  const int32_t a = tree.word_of[size_t(i)], b = tree.word_of[size_t(j)];
  if (a < 0 || b < 0) return std::nullopt;
  return mask[size_t(a) * size_t(tree.words()) + size_t(b)];
}

std::string TreeMask::key_of(const FieldInput& in, const char* what) const {
  return cat(key_, what, args_.causal ? " causal " : " ", in.queries.rows(), " ", key_offsets(in).back());
}

TreeMask::Effect TreeMask::effect(double m) const {
  if (config_.apply == "add") return {1, m};
  if (config_.apply == "multiply_logits") return {m, 0};
  if (config_.apply == "hard") return {1, m > 0 ? 0 : -INFINITY};
  if (config_.apply == "multiply_weights") return {1, 0, m};
  return {1, std::log(m)};
}

TreeMask::Pairs TreeMask::make_pairs(const FieldInput& in) const {
  check_whole(in);
  Pairs out;
  int64_t count = 0;
  for (int64_t b = 0; b < in.queries.count(); ++b) {
    out.offsets.push_back(count);
    count += in.queries.length(b) * in.keys[size_t(b)].count;
  }
  out.numbers = empty({count}, wide_of(in.q.dtype()), in.q.device());
  if (out.numbers.is_meta()) return out;
  const bool multiplies = config_.apply == "multiply_logits" || config_.apply == "multiply_weights",
             logs = config_.apply == "log_add";
  const std::function<double(double)> number = [logs](double m) { return logs ? std::log(m) : m; };
  const std::vector<WordTree> trees = this->trees(in);
  dispatch_float(out.numbers.dtype(), [&]<class T>() {
    T* to = out.numbers.data<T>();
    const T none = T(multiplies ? 1 : 0);
    for (size_t s = 0; s < trees.size(); ++s) {
      const WordTree& tree = trees[s];
      const auto m = size_t(tree.words()), n = tree.word_of.size(), past = n - size_t(in.queries.length(int64_t(s)));
      size_t first = args_.causal ? m : 0;  // the first word of a query
      for (size_t i = past; i < n && args_.causal; ++i)
        if (tree.word_of[i] >= 0) first = std::min(first, size_t(tree.word_of[i]));
      const std::vector<double> mask =
          args_.causal ? causal_word_mask(config_, tree, int64_t(first), number) : word_mask(config_, tree, number);
      constexpr size_t kBlock = 32;  // rows of the mask are read, and columns written
      for (size_t j = 0; j < n; j += kBlock)
        for (size_t i = past; i < n; i += kBlock)
          for (size_t key = j; key < std::min(n, j + kBlock); ++key) {
            const int32_t b = tree.word_of[key];
            T* row = to + key * (n - past);
            for (size_t query = i; query < std::min(n, i + kBlock); ++query) {
              const int32_t a = tree.word_of[query];
              row[query - past] =
                  a < 0 || b < 0 || (args_.causal && b > a) ? none : T(mask[(size_t(a) - first) * m + size_t(b)]);
            }
          }
      to += n * (n - past);
    }
  });
  return out;
}

LogitBias TreeMask::bias(const FieldInput& in) const {
  LogitBias out;
  if (hard()) return out;
  const auto& pairs = in.pass.once<Pairs>(key_of(in, name_of(wide_of(in.q.dtype()))),
                                          std::function<Pairs()>([&] { return make_pairs(in); }));
  out.pairs = pairs.numbers, out.pair_offsets = pairs.offsets;
  out.pairs_multiply = config_.apply == "multiply_logits";
  if (config_.apply == "multiply_weights") out.use = LogitBias::Use::multiply;
  if (!config_.heads.empty())
    for (int64_t head = 0; head < args_.num_attention_heads; ++head) out.pair_heads.push_back(has(head));
  return out;
}

// The words that words `first` and on see.
std::vector<std::vector<int32_t>> TreeMask::near(const WordTree& tree, int64_t first) const {
  const double most = config_.max_distance >= 0 ? config_.max_distance : 1;
  const int64_t m = tree.words();
  std::vector<std::vector<int32_t>> out(static_cast<size_t>(m));
  if (config_.tree == "constituency") {
    for (int64_t i = m; i-- > 0;) {  // a row of distances at a time
      int32_t shared = INT32_MAX;
      for (int64_t j = i; j < m; ++j) {
        if (j > i) shared = std::min(shared, tree.leaves.common[size_t(j - 1)]);
        if (leaf_distance(config_, tree.leaves, size_t(i), size_t(j), shared) > most) continue;
        if (!args_.causal && i != j) out[size_t(i)].push_back(int32_t(j));
        if (j >= first) out[size_t(j)].push_back(int32_t(i));
      }
    }
    return out;
  }
  const auto neighbours = neighbours_of(tree.heads);
  const auto reach = int64_t(std::min(most, double(neighbours.size())));
  for (int64_t i = first; i < m; ++i) {
    if (!args_.causal) {
      out[size_t(i)] = near_words(neighbours, int32_t(i), reach);
      continue;
    }
    for (const WordAt& word : known_words(tree.heads, neighbours, int32_t(i), reach))
      out[size_t(i)].push_back(word.first);
  }
  return out;
}

std::vector<std::shared_ptr<const Visits>> TreeMask::make_visits(const FieldInput& in) const {
  check_whole(in);
  std::vector<std::shared_ptr<const Visits>> out;
  const std::vector<WordTree> trees = this->trees(in);
  for (size_t b = 0; b < trees.size(); ++b) {
    const WordTree& tree = trees[b];
    const auto n = int64_t(tree.word_of.size()), m = tree.words(), past = n - in.queries.length(int64_t(b));
    std::vector<std::vector<KeyRange>> rows_of(static_cast<size_t>(m));  // of each word; a word's rows stand together
    std::vector<KeyRange> specials;
    for (int64_t i = 0; i < n; ++i) {
      std::vector<KeyRange>& ranges = tree.word_of[size_t(i)] < 0 ? specials : rows_of[size_t(tree.word_of[size_t(i)])];
      if (!ranges.empty() && ranges.back().end == i)
        ++ranges.back().end;
      else
        ranges.push_back({i, i + 1});
    }
    int64_t first = m;  // word of a query
    for (int64_t i = past; i < n; ++i)
      if (tree.word_of[size_t(i)] >= 0) first = std::min<int64_t>(first, tree.word_of[size_t(i)]);
    const std::vector<std::vector<int32_t>> near = this->near(tree, first);
    out.push_back(visits_of(n - past, n, [&](int64_t i, std::vector<KeyRange>& ranges) {
      const int32_t word = tree.word_of[size_t(past + i)];
      if (word < 0) return ranges.push_back({0, n});
      ranges.insert(ranges.end(), specials.begin(), specials.end());
      for (const int32_t other : near[size_t(word)])
        ranges.insert(ranges.end(), rows_of[size_t(other)].begin(), rows_of[size_t(other)].end());
    }));
  }
  return out;
}

kernels::AttentionPattern TreeMask::pattern(const FieldInput& in) const {
  const kernels::AttentionPattern all{.mask = {.causal = args_.causal}, .heads = {}, .tiles = nullptr};
  if (!hard()) return all;
  if (in.q.value().is_meta()) {
    check_whole(in);
    return all;
  }
  using Made = std::vector<std::shared_ptr<const Visits>>;
  const Made& visits = in.pass.once<Made>(key_of(in, "visits"), std::function<Made()>([&] { return make_visits(in); }));
  return tiled_pattern(args_.causal, args_.num_attention_heads, in, [&](int64_t b, int64_t head) {
    return has(head) ? visits[size_t(b)] : std::shared_ptr<const Visits>();
  });
}

}  // namespace lithe
