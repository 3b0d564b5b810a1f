#include "lithe/probe/structural_probe.h"

#include <algorithm>
#include <cmath>

#include "lithe/eval/task_metrics.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/weighted_sum.h"
#include "lithe/probe/fit.h"
#include "lithe/probe/structural.h"
#include "lithe/probe/tree_scores.h"

namespace lithe::probe {

std::vector<GoldTree> gold_trees(const std::vector<TreeSentence>& sentences, const std::string& file) {
  std::vector<GoldTree> out;
  int64_t first = 0;
  for (const TreeSentence& s : sentences) {
    const auto m = int64_t(s.words.size());
    check_usage(s.heads.words() == m, "probe", "'", file, "' has no heads of words (", s.place,
                "); give a dependency treebank (.conllu)");
    GoldTree gold{.first = first, .tree = s.heads};
    gold.distances = tree_distances(s.heads);
    gold.depths = tree_depths(s.heads);
    gold.edges = edges_of(s.heads);
    const auto xpos = s.tags.find("xpos"), upos = s.tags.find("upos");
    for (size_t w = 0; w < size_t(m); ++w)
      gold.counts.push_back(xpos != s.tags.end() && xpos->second[w] != "_" ? !is_punctuation(xpos->second[w])
                            : upos != s.tags.end()                         ? upos->second[w] != "PUNCT"
                                                                           : true);
    first += m;
    out.push_back(std::move(gold));
  }
  return out;
}

struct StructuralProbe::State {
  StructuralConfig config;
  Layers layers;
  Parameters parameters;
  Parameter *a = nullptr, *mix = nullptr, *gain = nullptr;
  std::vector<std::vector<float>> scale;  // of each layer

  // The mapped rows of sentences.
  Var mapped(const WordRows& rows, const std::vector<std::pair<int64_t, int64_t>>& sentences) const {
    int64_t n = 0;
    for (const auto& [first, m] : sentences) n += m;
    std::vector<Var> of;
    for (size_t l = 0; l < layers.size(); ++l) {
      const Tensor x = empty({n, rows.width()}, DType::f32);
      float* to = x.data<float>();
      for (const auto& [first, m] : sentences) {
        const float* from = rows.row(layers[l], first);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t c = 0; c < rows.width(); ++c) *to++ = *from++ * scale[l][size_t(c)];
      }
      of.emplace_back(x);
    }
    return linear(of.size() == 1 ? of[0] : weighted_sum(of, mixture_weights(mix->var(), gain->var())), a->var());
  }
};

StructuralProbe::~StructuralProbe() = default;
StructuralProbe::StructuralProbe(StructuralProbe&&) noexcept = default;

StructuralProbe::StructuralProbe(const StructuralConfig& config, const WordRows& rows,
                                 const std::vector<GoldTree>& train, const Layers& layers)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.config = config, s.layers = layers;
  const int64_t d = rows.width(), n = rows.words(), k = config.rank ? config.rank : d;
  for (const int64_t layer : layers) {
    const std::span<const float> x = rows.layer(layer);
    std::vector<double> mean(size_t(d), 0.0), squares(size_t(d), 0.0);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < d; ++c) mean[size_t(c)] += double(x[size_t(i * d + c)]) / double(n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < d; ++c) {
        const double off = double(x[size_t(i * d + c)]) - mean[size_t(c)];
        squares[size_t(c)] += off * off;
      }
    std::vector<float>& scale = s.scale.emplace_back();
    for (size_t c = 0; c < size_t(d); ++c) {
      const double deviation = std::sqrt(squares[c] / double(std::max<int64_t>(n, 1)));
      scale.push_back(deviation > 1e-6 * std::abs(mean[c]) && deviation > 0 ? float(1 / deviation)
                                                                            : 1);  // else constant
    }
  }
  BuildContext context{.parameters = &s.parameters, .seed = config.seed};
  const Scope scope(context, "probe");
  s.a = scope.parameter("map", {Axis(d), Axis(k)}, InitRole::matrix);
  const RandomKey key{config.seed, 0, 0, purpose_of("probe.map")};
  for (int64_t i = 0; i < d * k; ++i) set_value(s.a->master.value(), i, -0.05 + 0.1 * random_uniform(key, uint64_t(i)));
  if (layers.size() > 1) {
    s.mix = scope.parameter("mixture", {Axis(int64_t(layers.size()))}, InitRole::zeros);
    s.gain = scope.parameter("gain", {Axis(1)}, InitRole::ones);
  }
  fit(s.parameters, int64_t(train.size()),
      {config.epochs, config.batch, config.least_steps, config.learning_rate, config.seed},
      [&](const std::vector<int64_t>& items) {
        std::vector<std::pair<int64_t, int64_t>> sentences;
        std::vector<int64_t> offsets{0};
        Gold gold;
        for (const int64_t i : items) {
          const GoldTree& tree = train[size_t(i)];
          sentences.emplace_back(tree.first, tree.words());
          offsets.push_back(offsets.back() + tree.words());
          gold.emplace_back(config.depth ? tree.depths : tree.distances);
        }
        const Var b = s.mapped(rows, sentences);
        return config.depth ? depth_loss(b, Sequences(offsets), gold) : distance_loss(b, Sequences(offsets), gold);
      });
}

std::vector<double> StructuralProbe::predict(const WordRows& rows, int64_t first, int64_t m) const {
  const NoGrad no_grad;
  const Tensor b = state_->mapped(rows, {{first, m}}).value();
  return state_->config.depth ? squared_lengths(b) : squared_distances(b);
}

std::vector<double> StructuralProbe::mixture() const {
  std::vector<double> out;
  if (!state_->mix) return out;
  const NoGrad no_grad;
  const Tensor one = zeros({1}, DType::f32);
  set_value(one, 0, 1);
  const Tensor weights = mixture_weights(state_->mix->var(), Var(one)).value();
  for (int64_t l = 0; l < weights.numel(); ++l) out.push_back(value_at(weights, l));
  return out;
}

Scores distance_scores(const std::vector<GoldTree>& gold, const std::vector<std::vector<double>>& distances) {
  EdgeCount all, counted;
  MeanByLength spearman;
  for (size_t s = 0; s < gold.size(); ++s) {
    const int64_t m = gold[s].words();
    const std::vector<double> of(gold[s].distances.begin(), gold[s].distances.end());
    all += common_edges(minimum_spanning_tree(distances[s], m), gold[s].edges);
    counted += spanning_edges(distances[s], of, gold[s].counts);
    if (m >= 5 && m <= 50)
      for (const double r : row_correlations(distances[s], of, m)) spearman.add(m, r);
  }
  return {{"uuas", all.uuas()}, {"uuas_no_punctuation", counted.uuas()}, {"spearman", spearman.mean()}};
}

Scores depth_scores(const std::vector<GoldTree>& gold, const std::vector<std::vector<double>>& depths) {
  int64_t right = 0;
  MeanByLength by_length;
  for (size_t s = 0; s < gold.size(); ++s) {
    const std::vector<double> of(gold[s].depths.begin(), gold[s].depths.end());
    int64_t root = -1;
    for (int64_t w = 0; w < gold[s].words(); ++w)
      if (gold[s].counts[size_t(w)] && (root < 0 || depths[s][size_t(w)] < depths[s][size_t(root)])) root = w;
    right += root >= 0 && gold[s].depths[size_t(root)] == 0;
    by_length.add(gold[s].words(), spearman(of, depths[s]));
  }
  return {{"root", double(right) / double(std::max<size_t>(gold.size(), 1))}, {"spearman", by_length.mean()}};
}

double head_score(const std::vector<GoldTree>& gold, const std::vector<std::vector<TreeEdge>>& trees,
                  const std::vector<std::vector<double>>& depths) {
  int64_t right = 0, words = 0;
  for (size_t s = 0; s < gold.size(); ++s) {
    right += right_heads(trees[s], depths[s], gold[s].tree);
    words += gold[s].words();
  }
  return words ? double(right) / double(words) : 0;
}

std::vector<std::vector<TreeEdge>> trees_of(const std::vector<GoldTree>& gold,
                                            const std::vector<std::vector<double>>& distances) {
  std::vector<std::vector<TreeEdge>> out;
  for (size_t s = 0; s < gold.size(); ++s) out.push_back(minimum_spanning_tree(distances[s], gold[s].words()));
  return out;
}

std::map<std::string, Scores> trivial_trees(const std::vector<GoldTree>& gold, uint64_t seed) {
  std::map<std::string, Scores> out;
  const auto score = [&](const std::string& name, auto&& tree_of) {
    EdgeCount all, counted;
    for (size_t s = 0; s < gold.size(); ++s) {
      const RandomKey key{seed, uint64_t(s), 0, purpose_of("probe." + name)};
      all += common_edges(tree_of(gold[s].words(), key), gold[s].edges);
      // Without punctuation: a tree over the words that count, and the gold's spanning tree among them.
      std::vector<int32_t> kept;
      for (int32_t w = 0; w < int32_t(gold[s].words()); ++w)
        if (gold[s].counts[size_t(w)]) kept.push_back(w);
      const auto k = int64_t(kept.size()), m = gold[s].words();
      std::vector<double> among(size_t(k * k));
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < k; ++j)
          among[size_t(i * k + j)] = gold[s].distances[size_t(kept[size_t(i)] * m + kept[size_t(j)])];
      counted += common_edges(tree_of(k, key), minimum_spanning_tree(among, k));
    }
    out[name] = {{"uuas", all.uuas()}, {"uuas_no_punctuation", counted.uuas()}};
  };
  score("chain", [](int64_t m, const RandomKey&) { return chain(m); });
  score("random projective tree", random_projective_tree);
  score("random tree", random_tree);
  return out;
}

}  // namespace lithe::probe
