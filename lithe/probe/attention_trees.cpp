#include "lithe/probe/attention_trees.h"

#include <algorithm>

#include "lithe/base/stop.h"

namespace lithe::probe {
namespace {

// The other word of the greatest weight in a row (or column) of word w; the first of equals.
int64_t strongest(std::span<const double> weights, int64_t m, int64_t w, bool row) {
  int64_t best = -1;
  const auto at = [&](int64_t j) { return weights[size_t(row ? w * m + j : j * m + w)]; };
  for (int64_t j = 0; j < m; ++j)
    if (j != w && (best < 0 || at(j) > at(best))) best = j;
  return best;
}

}  // namespace

void count_map(HeadCounts& counts, std::span<const double> weights, const GoldTree& gold,
               const std::vector<std::string>& relations, Symmetry symmetry) {
  const int64_t m = gold.words();
  const std::vector<double> distances = attention_distances(weights, m, symmetry),
                            of(gold.distances.begin(), gold.distances.end());
  counts.edges += common_edges(minimum_spanning_tree(distances, m), gold.edges);
  counts.counted += spanning_edges(distances, of, gold.counts);
  counts.words += m;
  for (const bool to : {true, false}) {
    const std::vector<int32_t> heads = attention_heads(weights, m, to);
    int64_t& right = to ? counts.to_head : counts.from_head;
    for (int64_t w = 0; w < m; ++w) right += heads[size_t(w)] == gold.tree.heads[size_t(w)];
  }
  for (int64_t w = 0; w < m; ++w) {
    const int32_t head = gold.tree.heads[size_t(w)];
    if (head == 0) continue;
    HeadCounts::Relation& relation = counts.relations[relations[size_t(w)]];
    ++relation.words;
    relation.to_head += strongest(weights, m, w, true) == head - 1;
    relation.from_head += strongest(weights, m, w, false) == head - 1;
  }
}

HeadTable count_heads(const Probed& model, const std::vector<TreeSentence>& sentences,
                      const std::vector<GoldTree>& gold, Symmetry symmetry) {
  HeadTable out;
  for (size_t s = 0; s < sentences.size(); ++s) {
    check_not_stopped("probe", "no page was written");
    const TreeSentence& sentence = sentences[s];
    const auto m = int64_t(sentence.words.size());
    if (m < 2) continue;
    const auto tags = sentence.tags.find("deprel");
    const std::vector<std::string> relations =
        tags == sentence.tags.end() ? std::vector<std::string>(size_t(m), "_") : tags->second;
    const WordMaps maps = word_maps(model, sentence_of(sentence));
    std::vector<double> all(size_t(m * m), 0.0);
    int64_t layers = 0;
    for (int64_t l = 0; l < int64_t(maps.layers.size()); ++l) {
      const WordMaps::Layer& layer = maps.layers[size_t(l)];
      if (!layer.heads) continue;
      ++layers;
      std::vector<double> mean(size_t(m * m), 0.0);
      for (int64_t h = 0; h < layer.heads; ++h) {
        count_map(out[{l, h}], layer.head(h, m), gold[s], relations, symmetry);
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += layer.head(h, m)[i] / double(layer.heads);
      }
      count_map(out[{l, -1}], mean, gold[s], relations, symmetry);
      for (size_t i = 0; i < mean.size(); ++i) all[i] += mean[i];
    }
    for (double& w : all) w /= double(std::max<int64_t>(layers, 1));
    if (layers) count_map(out[{-1, -1}], all, gold[s], relations, symmetry);
  }
  check_usage(!out.empty(), "probe",
              "no layer of the model has a map of tokens to tokens, so there are no heads to "
              "probe; leave the task heads out");
  return out;
}

HeadName best_head(const HeadTable& table, const std::function<double(const HeadCounts&)>& score) {
  HeadName best{-1, -1};
  double most = -1;
  for (const auto& [name, counts] : table) {
    if (name.second < 0) continue;
    if (const double value = score(counts); value > most) most = value, best = name;
  }
  return best;
}

std::map<std::string, FixedOffset> fixed_offsets(const std::vector<TreeSentence>& chosen_on,
                                                 const std::vector<TreeSentence>& test) {
  constexpr int64_t kFar = 8;
  std::map<std::string, FixedOffset> out;
  std::map<std::string, std::map<int64_t, int64_t>> counts[2];
  std::map<std::string, int64_t> words[2];
  for (const int part : {0, 1})
    for (const TreeSentence& s : part ? test : chosen_on) {
      const auto tags = s.tags.find("deprel");
      for (size_t w = 0; w < s.words.size(); ++w) {
        if (s.heads.heads[w] == 0) continue;
        const std::string relation = tags == s.tags.end() ? "_" : tags->second[w];
        ++words[part][relation];
        ++counts[part][relation][s.heads.heads[w] - 1 - int64_t(w)];
      }
    }
  for (const auto& [relation, of] : counts[0]) {
    FixedOffset& best = out[relation];
    for (int64_t offset = -kFar; offset <= kFar; ++offset) {
      const auto found = of.find(offset);
      const double share = found == of.end() ? 0 : double(found->second) / double(words[0][relation]);
      if (share > best.chosen) best.offset = offset, best.chosen = share;
    }
    if (words[1][relation]) best.test = double(counts[1][relation][best.offset]) / double(words[1][relation]);
  }
  return out;
}

}  // namespace lithe::probe
