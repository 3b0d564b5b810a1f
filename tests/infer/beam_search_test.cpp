#include "lithe/infer/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>

#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

using Tokens = std::vector<int32_t>;
constexpr int32_t kEnd = 1;

// A model with generic weights.
std::unique_ptr<Model> searched_model(const std::string& architecture, int64_t vocab, uint64_t seed,
                                      DType dtype = DType::f64, int64_t hidden = 8, const std::string& more = "") {
  set_threads(1);  // models this small gain nothing from more
  auto model = std::make_unique<Model>(
      kit::model_config(cat("{architecture: ", architecture, ", vocab_size: ", vocab, ", hidden_size: ", hidden,
                            ", num_hidden_layers: 1, max_position_embeddings: 16, position: learned, mixer: {type: "
                            "attention, num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 12}",
                            more, "}")),
      ModelOptions{.dtype = dtype, .compute = dtype, .seed = seed});
  kit::randomise(model->parameters(), seed, 0.5);
  return model;
}

SearchInput input_of(const Model& model, Tokens source, Tokens prompt, int64_t most) {
  if (!reads_source(model.config().architecture)) source.clear();
  return {std::move(source), std::move(prompt), most};
}

std::vector<Hypothesis> search(const Model& model, const SearchInput& input, const BeamSearchConfig& config) {
  return beam_search(model, std::vector{input}, config)[0];
}

BeamSearchConfig beam_settings(int64_t beams, int64_t results, double penalty = 0) {
  return {.num_beams = beams, .length_penalty = penalty, .num_return_sequences = results, .stop = {kEnd}, .never = {}};
}

// log Pr(. | prompt y_0 ... y_i-1, source) for i = 0 ... n: whole sequences, without a state.
std::vector<std::vector<double>> teacher_forced(const Model& model, const SearchInput& input, const Tokens& y) {
  const NoGrad no_grad;
  Tokens ids = input.prompt;
  ids.insert(ids.end(), y.begin(), y.end());
  ModelInput whole{tensor_of({int64_t(ids.size())}, ids), Sequences::single(int64_t(ids.size()))};
  if (!input.source.empty())
    whole.sources[kSource] = {tensor_of({int64_t(input.source.size())}, input.source),
                              Sequences::single(int64_t(input.source.size()))};
  Pass pass;
  const Tensor logits = model.logits(model.run(whole, pass)).value();
  std::vector<std::vector<double>> out;
  for (auto t = int64_t(input.prompt.size()) - 1; t < logits.rows(); ++t) {
    std::vector<double> row;
    double sum = 0;
    for (int64_t v = 0; v < logits.cols(); ++v) {
      row.push_back(value_at(logits, t * logits.cols() + v));
      sum += std::exp(row.back());
    }
    for (double& x : row) x -= std::log(sum);
    out.push_back(std::move(row));
  }
  return out;
}

double log_probability(const Model& model, const SearchInput& input, Tokens y, bool ended) {
  const auto rows = teacher_forced(model, input, y);
  if (ended) y.push_back(kEnd);
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += rows[i][size_t(y[i])];
  return sum;
}

double penalised(double sum, size_t tokens, double penalty) {
  return sum / std::pow((5.0 + double(tokens)) / 6, penalty);
}

// All strings of at most `most` tokens that end with kEnd, which is the last of them, without it.
void each_ended(int64_t vocab, int64_t most, const std::function<void(const Tokens&)>& f, Tokens y = {}) {
  if (int64_t(y.size()) == most) return;
  f(y);
  for (int32_t v = 0; v < vocab; ++v) {
    if (v == kEnd) continue;
    y.push_back(v);
    each_ended(vocab, most, f, y);
    y.pop_back();
  }
}

// Beam search as it is defined, computing every hypothesis from its first token at every step.
std::vector<Hypothesis> recomputed(const Model& model, const SearchInput& input, const BeamSearchConfig& config) {
  struct Candidate {
    double sum;
    int32_t token;
    Tokens tokens;
  };
  const auto k = size_t(config.num_beams);
  std::vector<Candidate> open{{0, 0, {}}};
  std::vector<Hypothesis> ended;
  const auto by_score = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
  for (int64_t length = 1; length <= input.max_new_tokens; ++length) {
    std::vector<Candidate> candidates, next;
    for (const Candidate& o : open) {
      const std::vector<double> row = teacher_forced(model, input, o.tokens).back();
      for (size_t v = 0; v < row.size(); ++v) candidates.push_back({o.sum + row[v], int32_t(v), o.tokens});
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.sum != b.sum ? a.sum > b.sum : a.token < b.token;
    });
    for (size_t rank = 0; rank < candidates.size(); ++rank) {
      Candidate& c = candidates[rank];
      const double score = penalised(c.sum, size_t(length), config.length_penalty);
      if (c.token == kEnd && rank < k) ended.push_back({c.tokens, true, c.sum, score});
      if (c.token == kEnd || next.size() == k) continue;
      c.tokens.push_back(c.token);
      next.push_back(c);
    }
    open = next;
    std::stable_sort(ended.begin(), ended.end(), by_score);
    ended.resize(std::min(ended.size(), k));
    if (ended.size() < k) continue;
    // The best that any open hypothesis can become, of every length that is left.
    double hope = -INFINITY;
    for (int64_t n = length + 1; n <= input.max_new_tokens; ++n)
      hope = std::max(hope, penalised(open[0].sum, size_t(n), config.length_penalty));
    if (k == 1 || config.early_stopping || hope <= ended.back().score) break;
  }
  if (ended.size() < k)
    for (const Candidate& o : open)
      ended.push_back({o.tokens, false, o.sum, penalised(o.sum, o.tokens.size(), config.length_penalty)});
  ended.resize(std::min(ended.size(), size_t(config.num_return_sequences)));
  return ended;
}

std::string show(const std::vector<Hypothesis>& hypotheses) {
  std::string out;
  for (const Hypothesis& h : hypotheses) {
    for (int32_t t : h.tokens) out += cat(t, " ");
    out += h.ended ? "end, " : "cut, ";
  }
  return out;
}

void expect_same(const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b, double tolerance) {
  EXPECT_EQ(show(a), show(b));
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    EXPECT_NEAR(a[i].log_probability, b[i].log_probability, tolerance);
    EXPECT_NEAR(a[i].score, b[i].score, tolerance);
  }
}

const char* const kArchitectures[] = {"decoder", "encoder_decoder"};

// oracle: search.beam
TEST(BeamSearch, AWideBeamFindsTheBestOfAllStrings) {
  constexpr int64_t kVocab = 4, kMost = 4;
  for (const char* architecture : kArchitectures)
    for (uint64_t seed = 1; seed <= 4; ++seed)
      for (double penalty : {0.0, 0.6, 1.5, -0.7}) {
        const auto model = searched_model(architecture, kVocab, seed);
        SearchInput input = input_of(*model, {3, 2, 1}, {0}, kMost);
        input.min_new_tokens = int64_t(seed) - 1;
        std::vector<Hypothesis> all;
        each_ended(kVocab, kMost, [&](const Tokens& y) {
          if (int64_t(y.size()) < input.min_new_tokens) return;
          const double sum = log_probability(*model, input, y, true);
          all.push_back({y, true, sum, penalised(sum, y.size() + 1, penalty)});
        });
        const size_t short_ones[] = {0, 1, 1 + 3, 1 + 3 + 9};
        ASSERT_EQ(all.size(), 1u + 3 + 9 + 27 - short_ones[seed - 1]);
        std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
        expect_same(search(*model, input, beam_settings(256, int64_t(all.size()), penalty)), all, 1e-10);
      }
}

// oracle: search.greedy
TEST(BeamSearch, OneBeamIsGreedy) {
  for (const char* architecture : kArchitectures)
    for (uint64_t seed = 1; seed <= 6; ++seed)
      for (double penalty : {0.0, 0.6, -2.0}) {
        const auto model = searched_model(architecture, 9, seed);
        const SearchInput input = input_of(*model, {3, 2, 8, 1}, {0}, 10);
        const Hypothesis h = search(*model, input, beam_settings(1, 1, penalty))[0];
        Tokens greedy;
        bool ended = false;
        while (!ended && int64_t(greedy.size()) < input.max_new_tokens) {
          const std::vector<double> row = teacher_forced(*model, input, greedy).back();
          const auto best = int32_t(std::max_element(row.begin(), row.end()) - row.begin());
          ended = best == kEnd;
          if (!ended) greedy.push_back(best);
        }
        EXPECT_EQ(h.tokens, greedy);
        EXPECT_EQ(h.ended, ended);
        EXPECT_NEAR(h.log_probability, log_probability(*model, input, greedy, ended), 1e-10);
      }
}

// oracle: search.beam
TEST(BeamSearch, TheCacheAndItsReorderingDoNotChangeTheResult) {
  for (const char* architecture : kArchitectures)
    for (uint64_t seed = 1; seed <= 4; ++seed)
      for (int64_t beams : {2, 3, 5, 11})
        for (double penalty : {0.0, 0.8, -0.5}) {
          const auto model = searched_model(architecture, 9, seed);
          BeamSearchConfig config = beam_settings(beams, beams, penalty);
          config.early_stopping = seed == 4;
          const SearchInput input = input_of(*model, {3, 2, 8, 4, 1}, {0, 5}, 8);
          expect_same(search(*model, input, config), recomputed(*model, input, config), 1e-9);
        }
}

// oracle: search.beam
TEST(BeamSearch, CodesAreSearchedAsAVocabularyIs) {
  for (const char* architecture : kArchitectures)
    for (int64_t beams : {1, 3}) {
      const auto model = searched_model(architecture, 9, 5, DType::f64, 8,
                                        ", tie_word_embeddings: false, head: {type: hash_codes, num_tables: 3, "
                                        "num_codes: 4}");
      const SearchInput input = input_of(*model, {3, 2, 8, 4, 1}, {0, 5}, 8);
      const BeamSearchConfig config = beam_settings(beams, beams, 0.8);
      expect_same(search(*model, input, config), recomputed(*model, input, config), 1e-9);
    }
}

// oracle: search.beam
TEST(BeamSearch, ScoresAreTheModelsOwnAndTheListIsSortedAndDistinct) {
  for (const char* architecture : kArchitectures) {
    const auto model = searched_model(architecture, 9, 3);
    const SearchInput input = input_of(*model, {3, 2, 8, 4, 1}, {0, 5, 7}, 7);
    for (double penalty : {0.0, 1.0}) {
      const auto found = search(*model, input, beam_settings(6, 6, penalty));
      ASSERT_EQ(found.size(), 6u);
      for (size_t i = 0; i < found.size(); ++i) {
        const Hypothesis& h = found[i];
        EXPECT_NEAR(h.log_probability, log_probability(*model, input, h.tokens, h.ended), 1e-10);
        EXPECT_NEAR(h.score, penalised(h.log_probability, h.tokens.size() + size_t(h.ended), penalty), 1e-12);
        if (!i) continue;
        EXPECT_TRUE(found[i - 1].ended || !h.ended);
        if (found[i - 1].ended == h.ended) {
          EXPECT_GE(found[i - 1].score, h.score);
        }
        for (size_t j = 0; j < i; ++j) EXPECT_NE(found[j].tokens, h.tokens);
      }
    }
  }
}

// oracle: arch.encdec
TEST(BeamSearch, AllStringsTogetherHaveProbabilityOne) {
  constexpr int64_t kVocab = 3, kMost = 3;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto model = searched_model("encoder_decoder", kVocab, seed);
    const SearchInput input{{2, 0, 2, 1}, {0}, kMost};
    const auto all = search(*model, input, beam_settings(27, 27));
    EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const Hypothesis& h) { return h.ended; }), 1 + 2 + 4);
    EXPECT_EQ(all.size(), 1u + 2 + 4 + 8);
    double total = 0, forced = 0;
    for (const Hypothesis& h : all) {
      total += std::exp(h.log_probability);
      forced += std::exp(log_probability(*model, input, h.tokens, h.ended));
    }
    EXPECT_NEAR(total, 1, 1e-12);
    EXPECT_NEAR(forced, 1, 1e-12);
  }
}

// oracle: arch.encdec
TEST(BeamSearch, ATokenDependsOnTheSourceAndOnWhatStandsBeforeItAlone) {
  const auto model = searched_model("encoder_decoder", 9, 5);
  const SearchInput input{{3, 2, 8, 1}, {0}, 1}, other{{3, 2, 7, 1}, {0}, 1};
  const Tokens y{4, 6, 2, 5, 8};
  const auto rows = teacher_forced(*model, input, y), elsewhere = teacher_forced(*model, other, y);
  for (size_t i = 0; i < y.size(); ++i) {
    Tokens changed = y;
    changed[i] = y[i] == 7 ? 3 : 7;
    const auto now = teacher_forced(*model, input, changed);
    for (size_t t = 0; t <= y.size(); ++t) {
      double apart = 0, total = 0;
      for (size_t v = 0; v < rows[t].size(); ++v) {
        apart = std::max(apart, std::abs(now[t][v] - rows[t][v]));
        total += std::exp(rows[t][v]);
      }
      EXPECT_NEAR(total, 1, 1e-12);
      if (t <= i)
        EXPECT_LE(apart, 1e-12) << i << " " << t;  // row t predicts y_t
      else
        EXPECT_GT(apart, 1e-6) << i << " " << t;
    }
  }
  for (size_t t = 0; t <= y.size(); ++t) EXPECT_NE(elsewhere[t], rows[t]);
}

TEST(BeamSearch, ResultsDoNotDependOnTheBatch) {
  for (const char* architecture : kArchitectures)
    for (int64_t hidden : {8, 96}) {
      const auto model = searched_model(architecture, 300, 2, DType::f32, hidden);
      std::vector<SearchInput> inputs;
      for (int32_t i = 0; i < 9; ++i) {
        Tokens source;
        for (int32_t j = 0; j <= (i * 5) % 11; ++j) source.push_back((i * 37 + j * 11) % 300);
        Tokens prompt{0};
        if (i % 3 == 1) prompt.insert(prompt.end(), {7, i});
        inputs.push_back(input_of(*model, source, prompt, 3 + i));
      }
      for (int64_t beams : {1, 4}) {
        const BeamSearchConfig config = beam_settings(beams, beams, 0.6);
        const auto all = beam_search(*model, inputs, config);
        std::vector<SearchInput> backwards(inputs.rbegin(), inputs.rend());
        const auto turned = beam_search(*model, backwards, config);
        for (size_t i = 0; i < inputs.size(); ++i)
          for (const auto& other : {search(*model, inputs[i], config), turned[inputs.size() - 1 - i]}) {
            EXPECT_EQ(show(all[i]), show(other)) << architecture << " " << hidden << " " << i;
            for (size_t h = 0; h < std::min(all[i].size(), other.size()); ++h)
              EXPECT_EQ(all[i][h].score, other[h].score) << architecture << " " << hidden << " " << i;  // the same bits
          }
      }
    }
}

TEST(BeamSearch, StopsAtEachStopTokenAndNeverTakesWhatItMustNot) {
  for (const char* architecture : kArchitectures) {
    const auto model = searched_model(architecture, 9, 7);
    const SearchInput input = input_of(*model, {3, 1}, {0}, 12);
    BeamSearchConfig config = beam_settings(4, 4);
    config.stop = {1, 4, 6};
    config.never = {0, 8};
    config.vocab_size = 8;
    const auto found = search(*model, input, config);
    ASSERT_FALSE(found.empty());
    bool any = false;
    for (const Hypothesis& h : found) {
      for (int32_t t : h.tokens) EXPECT_TRUE(t == 2 || t == 3 || t == 5 || t == 7) << t;
      any = any || h.ended;
    }
    EXPECT_TRUE(any);
  }
}

TEST(BeamSearch, EndsAtTheGreatestLengthWithWhatThereIs) {
  for (const char* architecture : kArchitectures) {
    const auto model = searched_model(architecture, 9, 7);
    BeamSearchConfig config = beam_settings(3, 3);
    config.stop = {};
    for (int64_t most : {1, 2, 7}) {
      const auto found = search(*model, input_of(*model, {3, 1}, {0}, most), config);
      ASSERT_EQ(found.size(), 3u);
      for (const Hypothesis& h : found) {
        EXPECT_EQ(int64_t(h.tokens.size()), most);
        EXPECT_FALSE(h.ended);
      }
    }
    EXPECT_TRUE(beam_search(*model, {}, config).empty());
  }
}

// A model whose next token depends on the last alone, with these probabilities; what is left out is next to impossible.
std::unique_ptr<Model> chain(const std::vector<std::map<int32_t, double>>& next) {
  const auto vocab = int64_t(next.size());
  auto model = std::make_unique<Model>(
      kit::model_config(cat("{vocab_size: ", vocab, ", hidden_size: ", vocab,
                            ", num_hidden_layers: 0, max_position_embeddings: 16, position: none, norm: {type: rms}, "
                            "tie_word_embeddings: false}")),
      ModelOptions{.dtype = DType::f64, .compute = DType::f64});
  for (Parameter& p : model->parameters().all()) {
    const bool embedding = p.name.find("embedding") != std::string::npos;
    if (!embedding && p.name.find("head") == std::string::npos) continue;
    for (int64_t i = 0; i < vocab; ++i)
      for (int64_t v = 0; v < vocab; ++v) {
        const auto found = next[size_t(i)].find(int32_t(v));
        // The norm makes each token's row as long as the root of its numbers.
        const double logit = found == next[size_t(i)].end() ? -40 : std::log(found->second);
        set_value(p.master.value(), i * vocab + v, embedding ? double(i == v) : logit / std::sqrt(double(vocab)));
      }
  }
  model->parameters().refresh_views();
  return model;
}

// oracle: search.beam
TEST(BeamSearch, GoesOnWhileALongerOneMayStillScoreHigher) {
  // Two end at once; 3 4 5 6 7 is less likely than both and the best by its length.
  const auto later =
      chain({{{1, .5}, {2, .45}, {3, .05}}, {}, {{1, .9}, {3, .1}}, {{4, 1}}, {{5, 1}}, {{6, 1}}, {{7, 1}}, {{1, 1}}});
  const SearchInput six{{}, {0}, 6};
  EXPECT_EQ(show(search(*later, six, beam_settings(2, 2))), "end, 2 end, ");
  EXPECT_EQ(show(search(*later, six, beam_settings(2, 2, 3))), "3 4 5 6 7 end, 2 end, ");
  BeamSearchConfig early = beam_settings(2, 2, 3);
  early.early_stopping = true;
  EXPECT_EQ(show(search(*later, six, early)), "2 end, end, ");
  // A penalty below 0 makes the greatest length the worst, but 3 4 ends before.
  const auto sooner = chain({{{1, .3}, {2, .3}, {3, .4}}, {}, {{1, .6}, {3, .4}}, {{4, 1}}, {{1, 1}}});
  EXPECT_EQ(show(search(*sooner, {{}, {0}, 12}, beam_settings(2, 2, -1))), "end, 3 4 end, ");
}

TEST(BeamSearch, AGreaterLengthPenaltyGivesLongerOnes) {
  bool longer = false;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const auto model = searched_model("encoder_decoder", 6, seed);
    const SearchInput input{{3, 2, 1}, {0}, 5};
    size_t before = 0;
    for (double penalty : {-1.0, 0.0, 1.0, 3.0}) {
      const Hypothesis h = search(*model, input, beam_settings(6 * 6 * 6 * 6 * 6, 1, penalty))[0];  // exact
      EXPECT_GE(h.tokens.size(), before) << seed << " " << penalty;
      longer = longer || (penalty > 0 && h.tokens.size() > before);
      before = h.tokens.size();
    }
  }
  EXPECT_TRUE(longer);
}

TEST(BeamSearch, TiesGoToTheLowerToken) {
  const auto model = searched_model("encoder_decoder", 6, 1);
  for (Parameter& p : model->parameters().all())
    if (p.name.find("final_norm") != std::string::npos) fill_zero(p.master.value());
  model->parameters().refresh_views();
  BeamSearchConfig config = beam_settings(3, 3);
  config.stop = {5};
  const auto found = search(*model, {{3, 2}, {0}, 2}, config);  // all logits are 0
  EXPECT_EQ(show(found), "0 0 cut, 1 0 cut, 2 0 cut, ");
  EXPECT_NEAR(found[0].score, -2 * std::log(6.0), 1e-12);
}

TEST(BeamSearch, RefusesWhatCannotBe) {
  const auto model = searched_model("encoder_decoder", 6, 1), decoder = searched_model("decoder", 6, 1);
  const SearchInput good{{3}, {0}, 2};
  EXPECT_NO_THROW(search(*model, good, beam_settings(2, 2)));
  EXPECT_THROW(search(*decoder, good, beam_settings(2, 2)), Error);            // it reads no source
  EXPECT_THROW(search(*model, {{}, {0}, 2}, beam_settings(2, 2)), Error);      // this one does
  EXPECT_THROW(search(*model, {{3}, {}, 2}, beam_settings(2, 2)), Error);      // nothing to continue
  EXPECT_THROW(search(*model, {{3}, {0}, 0}, beam_settings(2, 2)), Error);     // no room
  EXPECT_THROW(search(*model, {{3}, {0}, 99}, beam_settings(2, 2)), Error);    // no positions
  EXPECT_THROW(search(*model, {{3}, {0}, 2, 3}, beam_settings(2, 2)), Error);  // more than there is room for
  EXPECT_THROW(search(*model, good, beam_settings(0, 0)), Error);
  EXPECT_THROW(search(*model, good, beam_settings(2, 3)), Error);
  EXPECT_THROW(search(*model, good, beam_settings(2, 2, std::nan(""))), Error);
  BeamSearchConfig config = beam_settings(2, 2);
  config.stop = {6};
  EXPECT_THROW(search(*model, good, config), Error);
  config = beam_settings(2, 2);
  config.vocab_size = 7;
  EXPECT_THROW(search(*model, good, config), Error);
  EXPECT_THROW(search(*searched_model("encoder", 6, 1), {{}, {0}, 2}, beam_settings(2, 2)), Error);
}

TEST(BeamSearch, DamagedWeightsAreSaid) {
  const auto model = searched_model("encoder_decoder", 6, 1);
  for (Parameter& p : model->parameters().all())
    if (p.name.find("decoder.final_norm") != std::string::npos) set_value(p.master.value(), 0, std::nan(""));
  model->parameters().refresh_views();
  EXPECT_THROW(search(*model, {{3}, {0}, 2}, beam_settings(2, 2)), Error);
}

TEST(BeamSearch, AStopSignalEndsIt) {
  const auto model = searched_model("encoder_decoder", 6, 1);
  set_stop_signal(SIGTERM);
  const auto found = beam_search(*model, std::vector<SearchInput>(3, {{3}, {0}, 9}), beam_settings(2, 2));
  set_stop_signal(0);
  ASSERT_EQ(found.size(), 3u);
  for (const auto& one : found) EXPECT_TRUE(one.empty());
}

}  // namespace
}  // namespace lithe
