#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/compare/result.h"
#include "lithe/model/model.h"
#include "lithe/model/tags.h"

namespace lithe::compare {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kLongest = int64_t(1) << 24;

int64_t mixer_parameters(const Plan& plan) {
  int64_t sum = 0;
  for (const PartCost& part : plan.parts)
    if (part.part.ends_with(".mixer") || part.part.ends_with(".cross")) sum += part.parameters;
  return sum;
}

const Outcome* run_of(const VariantResult& v, int64_t seed) {
  for (const Outcome& run : v.runs)
    if (run.seed == seed && run.finished()) return &run;
  return nullptr;
}

void summarise(Comparison& c) {
  const std::string& score = c.experiment.score;
  const Better better = better_of(score);
  const VariantResult& base = c.variants[c.baseline];
  const VariantResult& peop_base = c.variants[c.peop_baseline];
  for (VariantResult& v : c.variants) {
    v.mixer_parameters = mixer_parameters(v.variant.plan);
    std::vector<double> losses, scores;
    for (const Outcome& run : v.runs)
      if (run.finished()) {
        losses.push_back(run.quality.loss());
        scores.push_back(score_of(run, c.experiment.score));
      }
    v.loss = mean(losses);
    v.loss_deviation = deviation(losses);
    v.score = mean(scores);
    v.score_deviation = deviation(scores);
  }
  for (VariantResult& v : c.variants) {
    std::vector<double> prrs, peops, mixer_peops;
    for (const auto& [own, other] : common_runs(v, base)) {
      const double s = score_of(*own, score), b = score_of(*other, score);
      prrs.push_back(b > 0 ? prr(s, b, better) : kNone);
    }
    for (const auto& [own, other] : common_runs(v, peop_base)) {
      const double s = score_of(*own, score), b = score_of(*other, score);
      const auto elasticity = [&](int64_t parameters, int64_t of_base) {
        return b > 0 && parameters && of_base ? peop(s, b, double(parameters), double(of_base), better) : kNone;
      };
      peops.push_back(elasticity(v.variant.plan.parameters, peop_base.variant.plan.parameters));
      mixer_peops.push_back(elasticity(v.mixer_parameters, peop_base.mixer_parameters));
    }
    v.prr = mean(prrs);
    v.prr_deviation = deviation(prrs);
    v.peop = mean(peops);
    v.peop_mixer = mean(mixer_peops);
  }
}

// The noise of the variants that finished every seed, from what a variant and a seed leave unexplained; those that are
// noisier than the rest are not of it.
struct CommonNoise {
  Noise noise;
  std::vector<bool> of;  // by variant
};
CommonNoise common_noise(Comparison& c) {
  std::vector<std::vector<double>> scores, alike;
  std::vector<size_t> at;
  c.noisier.clear();
  for (size_t v = 0; v < c.variants.size(); ++v) {
    std::vector<double> row;
    for (int64_t seed : c.experiment.seeds)
      if (const Outcome* run = run_of(c.variants[v], seed)) row.push_back(run->quality.loss());
    if (row.size() == c.experiment.seeds.size()) scores.push_back(std::move(row)), at.push_back(v);
  }
  CommonNoise out{.noise = {}, .of = std::vector<bool>(c.variants.size())};
  const std::vector<bool> noisier = noisier_than_the_rest(scores);
  for (size_t i = 0; i < scores.size(); ++i)
    if (noisier[i])
      c.noisier.push_back(at[i]);
    else
      alike.push_back(scores[i]), out.of[at[i]] = true;
  out.noise = residual_noise(alike);
  return out;
}

// Pieces of the text, averaged over the seeds.
Estimate text_noise(const std::vector<std::pair<const Outcome*, const Outcome*>>& pairs) {
  const size_t n = pairs[0].first->pieces.size();
  std::vector<double> a(n, 0), b(n, 0), weights(n, 0);
  for (const auto& [own, other] : pairs) {
    check(own->pieces.size() == n && other->pieces.size() == n, "compare",
          "runs were scored on different pieces of the text");
    for (size_t i = 0; i < n; ++i) {
      a[i] += own->pieces[i].nll / double(pairs.size());
      b[i] += other->pieces[i].nll / double(pairs.size());
      weights[i] = double(own->pieces[i].tokens);
    }
  }
  return text_difference(a, b, weights);
}

void compare_losses(Comparison& c) {
  const CommonNoise common = common_noise(c);
  const Noise& noise = common.noise;
  const double alpha = 1 - c.experiment.confidence;
  c.losses.clear();
  std::vector<double> p, text_p;
  for (size_t a = 0; a < c.variants.size(); ++a)
    for (size_t b = a + 1; b < c.variants.size(); ++b) {
      const auto pairs = common_runs(c.variants[a], c.variants[b]);
      if (pairs.empty()) continue;
      LossDifference d{.a = a, .b = b};
      std::vector<double> differences;
      for (const auto& [own, other] : pairs) differences.push_back(own->quality.loss() - other->quality.loss());
      d.seeds = paired(differences);
      // The common noise has more degrees of freedom; a pair that is noisier than it keeps its own error.
      const double pooled = std::sqrt(2.0 / double(pairs.size())) * noise.deviation;
      if (noise.df > d.seeds.df && common.of[a] && common.of[b])
        d.seeds = {d.seeds.value, std::max(d.seeds.error, pooled), noise.df};
      d.text = text_noise(pairs);
      d.both = combine(d.seeds.value, d.seeds, d.text);
      p.push_back(d.seeds.df > 0 ? d.both.p() : 1);
      text_p.push_back(d.text.p());
      c.losses.push_back(d);
    }
  p = holm(p);
  text_p = holm(text_p);
  for (size_t i = 0; i < c.losses.size(); ++i) {
    LossDifference& d = c.losses[i];
    d.p = p[i];
    d.beyond = d.seeds.df > 0 && p[i] < alpha;
    d.beyond_text = text_p[i] < alpha;
  }
}

void rank(Comparison& c) {
  c.ranking.clear();
  for (size_t v = 0; v < c.variants.size(); ++v)
    if (c.variants[v].finished()) c.ranking.push_back(v);
  std::stable_sort(c.ranking.begin(), c.ranking.end(),
                   [&](size_t a, size_t b) { return c.variants[a].loss < c.variants[b].loss; });
  c.winner.reset();
  if (c.ranking.empty() || c.status != Progress::complete) return;
  const size_t best = c.ranking[0];
  size_t beaten = 0;
  for (const LossDifference& d : c.losses)
    if ((d.a == best && d.beyond && d.seeds.value < 0) || (d.b == best && d.beyond && d.seeds.value > 0)) ++beaten;
  // Who diverges in every seed has lost to whoever does not in any.
  if (!c.variants[best].diverged())
    for (const VariantResult& v : c.variants) beaten += v.diverged() && !v.finished() && c.experiment.seeds.size() > 1;
  if (beaten + 1 == c.variants.size()) c.winner = best;
}

double seconds_of(const Timing& t, const std::string& what, int64_t cell) {
  return what == "training"  ? t.train_step
         : what == "prefill" ? t.prefill[size_t(cell)]
         : what == "decode"  ? t.decode_token[size_t(cell)]
                             : t.translation[size_t(cell)];
}

std::vector<double> log_ratios(const Speed& s, size_t a, size_t b, const std::string& what, int64_t cell) {
  std::vector<double> out;
  for (const auto& round : s.rounds) {
    const double r = std::log(seconds_of(round[a], what, cell) / seconds_of(round[b], what, cell));
    if (std::isfinite(r)) out.push_back(r);
  }
  return out;
}

constexpr size_t kKinds = 4;

template <class F>
void for_each_measure(const Speed& s, F&& f) {
  f("training", int64_t(-1), size_t(0));
  for (size_t k = 0; k < s.cells.size(); ++k) f("prefill", int64_t(k), size_t(1));
  for (size_t k = 0; k < s.cells.size(); ++k) f("decode", int64_t(k), size_t(2));
  for (size_t k = 0; k < s.searches.size(); ++k) f("translation", int64_t(k), size_t(3));
}

// The control's difference at this measure, and not less than the usual one of its kind.
double floor_of(const Speed& s, std::string_view what, int64_t cell) {
  double floor = 0;
  size_t at = 0;
  for_each_measure(s, [&](std::string_view of, int64_t k, size_t kind) {
    if (of == what && k == cell) floor = std::max(s.floor[kind], s.control[at]);
    ++at;
  });
  return floor;
}

void compare_speeds(Comparison& c) {
  Speed& s = c.speed;
  c.speeds.clear();
  s.floor.assign(kKinds, 0);
  s.worst.assign(kKinds, 0);
  s.control.clear();
  if (!s.measured()) return;
  const size_t control = c.variants.size();
  std::vector<double> of_kind[kKinds];
  for_each_measure(s, [&](const char* what, int64_t cell, size_t kind) {
    const auto ratios = log_ratios(s, control, c.baseline, what, cell);
    s.control.push_back(ratios.empty() ? 0 : std::abs(quantile(ratios, 0.5)));
    if (!ratios.empty()) of_kind[kind].push_back(s.control.back());
  });
  for (size_t kind = 0; kind < kKinds; ++kind)
    if (!of_kind[kind].empty()) {
      s.floor[kind] = quantile(of_kind[kind], 0.5);
      s.worst[kind] = quantile(of_kind[kind], 1);
    }
  std::vector<double> p;
  for (size_t v = 0; v < c.variants.size(); ++v) {
    if (v == c.baseline) continue;
    for_each_measure(s, [&](const char* what, int64_t cell, size_t) {
      const auto ratios = log_ratios(s, v, c.baseline, what, cell);
      if (ratios.empty()) return;
      const Estimate e = paired(ratios);
      const double half = e.half_width(c.experiment.confidence);
      c.speeds.push_back(
          {v, c.baseline, what, cell, std::exp(e.value), std::exp(e.value - half), std::exp(e.value + half), 1, false});
      p.push_back(e.p());
    });
  }
  p = holm(p);
  for (size_t i = 0; i < c.speeds.size(); ++i) {
    SpeedDifference& d = c.speeds[i];
    d.p = p[i];
    d.beyond = p[i] < 1 - c.experiment.confidence && std::abs(std::log(d.ratio)) > floor_of(s, d.what, d.cell);
  }
}

// -1: a needs less, 1: b does, 0: inside the noise.
int sign_of(const Comparison& c, size_t a, size_t b, const char* what, int64_t cell, double* log_ratio) {
  const auto ratios = log_ratios(c.speed, a, b, what, cell);
  if (ratios.empty()) return 0;
  const Estimate e = paired(ratios);
  *log_ratio = e.value;
  // Many cells and pairs are looked at: each by a share of the level.
  const double n = double(c.variants.size()), looks = n * (n - 1) / 2 * double(c.speed.cells.size());
  if (e.p() >= (1 - c.experiment.confidence) / looks || std::abs(e.value) <= floor_of(c.speed, what, cell)) return 0;
  return e.value < 0 ? -1 : 1;
}

// Along one line of cells: where the sign of the difference turns, between two points at which it is beyond noise.
void cross_measured(Comparison& c, const char* what, const std::string& along) {
  const Speed& s = c.speed;
  const bool lengths = along == "context length";
  const auto& line = lengths ? c.experiment.measure.prompt_lengths : c.experiment.measure.batch_sizes;
  const auto& fixed = lengths ? c.experiment.measure.batch_sizes : c.experiment.measure.prompt_lengths;
  const auto cell_of = [&](int64_t x, int64_t at) {
    const auto found = std::find_if(s.cells.begin(), s.cells.end(), [&](const Cell& k) {
      return (lengths ? k.prompt : k.batch) == x && (lengths ? k.batch : k.prompt) == at;
    });
    return int64_t(found - s.cells.begin());
  };
  for (size_t a = 0; a < c.variants.size(); ++a)
    for (size_t b = a + 1; b < c.variants.size(); ++b)
      for (int64_t at : fixed) {
        int last_sign = 0;
        double last_x = 0, last_ratio = 0;
        for (int64_t x : line) {
          double ratio = 0;
          const int sign = sign_of(c, a, b, what, cell_of(x, at), &ratio);
          if (!sign) continue;
          if (last_sign && sign != last_sign) {
            const double part = last_ratio / (last_ratio - ratio),
                         where = std::exp(std::log(last_x) + part * (std::log(double(x)) - std::log(last_x)));
            c.crossovers.push_back({sign < 0 ? a : b, sign < 0 ? b : a, what, along, where, at, false});
          }
          last_sign = sign;
          last_x = double(x);
          last_ratio = ratio;
        }
      }
}

// Decode state by the formula, at every length: doubling finds the turn, halving its place.
void cross_cache(Comparison& c, const std::vector<std::function<int64_t(int64_t)>>& bytes) {
  for (size_t a = 0; a < bytes.size(); ++a)
    for (size_t b = a + 1; b < bytes.size(); ++b) {
      const auto sign = [&](int64_t tokens) {
        const int64_t d = bytes[a](tokens) - bytes[b](tokens);
        return d < 0 ? -1 : d > 0 ? 1 : 0;
      };
      int64_t before = 1;
      for (int64_t x = 2; x <= kLongest; x *= 2) {
        const int old_sign = sign(before), new_sign = sign(x);
        if (new_sign == 0) continue;
        if (old_sign != 0 && new_sign != old_sign) {
          int64_t low = before, high = x;
          while (high - low > 1) {
            const int64_t middle = low + (high - low) / 2;
            (sign(middle) == new_sign ? high : low) = middle;
          }
          c.crossovers.push_back(
              {new_sign < 0 ? a : b, new_sign < 0 ? b : a, "cache", "context length", double(high), 1, true});
        }
        before = x;
      }
    }
}

void cache(Comparison& c) {
  c.cache_lengths.clear();
  const int64_t shortest = c.translates() ? 8 : 64;  // sentences are shorter than texts
  for (int64_t n = shortest; n <= 1024 * shortest; n *= 2) c.cache_lengths.push_back(n);
  std::vector<std::unique_ptr<Model>> models;
  std::vector<std::function<int64_t(int64_t)>> bytes;
  for (VariantResult& v : c.variants) {
    ModelConfig config = v.variant.recipe.model;
    // Neither the vocabulary, the labels, the tags nor the number of positions is in the decode state.
    if (!config.vocab_size) config.vocab_size = 1;
    if (!config.num_labels) config.num_labels = 1;
    if (!config.max_position_embeddings) config.max_position_embeddings = v.variant.recipe.data.sequence_length;
    const std::vector<TagColumn> tags = tag_columns(config);
    for (const TagColumn& of : tags)
      if (of.values.empty()) set_tag_values(config, of, {"x"});
    for (const std::string& owner : lacking_composites(config))
      set_composites(config, owner,
                     std::vector<int64_t>(size_t(1 + std::ranges::count(tags, owner, &TagColumn::owner)), 0));
    models.push_back(std::make_unique<Model>(config, ModelOptions{.device = Device::meta}));
    const Model* model = models.back().get();
    const bool both = v.variant.translates();
    const std::optional<DType> cache = both ? std::nullopt : v.variant.recipe.generate.cache_type();
    const auto state = [model, cache](int64_t target, int64_t source) {
      return model->state_bytes({target}, source ? std::vector{source} : std::vector<int64_t>{}, cache);
    };
    // A state that empties at the end of a block counts as it was one token before.
    bytes.push_back([state, both](int64_t tokens) {
      const auto at = [&](int64_t n) { return state(n, both ? n : 0); };
      return tokens > 1 ? std::max(at(tokens), at(tokens - 1)) : at(tokens);
    });
    v.target_state = both ? state(2, 1) - state(1, 1) : 0;
    v.source_state = both ? state(1, 2) - state(1, 1) : 0;
    v.cache_bytes.clear();
    for (int64_t n : c.cache_lengths) v.cache_bytes.push_back(double(bytes.back()(n)));
  }
  cross_cache(c, bytes);
}

}  // namespace

std::vector<std::pair<const Outcome*, const Outcome*>> common_runs(const VariantResult& a, const VariantResult& b) {
  std::vector<std::pair<const Outcome*, const Outcome*>> out;
  for (const Outcome& run : a.runs)
    if (const Outcome* other = run_of(b, run.seed); run.finished() && other) out.emplace_back(&run, other);
  return out;
}

int64_t VariantResult::measured_peak() const {
  int64_t peak = 0;
  for (const Outcome& o : runs) peak = std::max(peak, o.measured_peak);
  return peak;
}

int64_t VariantResult::finished() const {
  return std::count_if(runs.begin(), runs.end(), [](const Outcome& o) { return o.finished(); });
}

int64_t VariantResult::diverged() const { return int64_t(runs.size()) - finished(); }

bool Comparison::peop_by_mixers() const {
  return std::any_of(variants.begin(), variants.end(),
                     [&](const VariantResult& v) { return v.mixer_parameters != variants[0].mixer_parameters; });
}

std::string score_name(const std::string& score) {
  return score == "word_perplexity" ? "word perplexity"
         : score == "bits_per_byte" ? "bits per byte"
         : score == "bleu"          ? "BLEU"
         : score == "chrf"          ? "chrF"
         : score == "task_metric"   ? "task metric"
                                    : "token perplexity";
}

double score_of(const Outcome& o, const std::string& score) {
  return score == "word_perplexity" ? o.quality.word_perplexity()
         : score == "bits_per_byte" ? o.quality.bits_per_byte()
         : score == "bleu"          ? o.bleu
         : score == "chrf"          ? o.chrf
         : score == "task_metric"   ? o.task_metric
                                    : o.quality.token_perplexity();
}

std::string search_name(int64_t beams) {
  return beams == 1 ? "translating greedily" : cat("translating with ", beams, " beams");
}

Better better_of(const std::string& score) {
  return score == "bleu" || score == "chrf" || score == "task_metric" ? Better::higher : Better::lower;
}

Speed::Spread Speed::spread(size_t contender, const std::string& what, int64_t cell) const {
  std::vector<double> seconds;
  for (const auto& round : rounds) {
    const double s = seconds_of(round[contender], what, cell);
    if (std::isfinite(s)) seconds.push_back(s);
  }
  if (seconds.empty()) return {kNone, kNone, kNone};
  return {quantile(seconds, 0.5), quantile(seconds, 0.25), quantile(seconds, 0.75)};
}

void find(Comparison& c) {
  summarise(c);
  resample(c);
  compare_losses(c);
  rank(c);
  compare_speeds(c);
  c.crossovers.clear();
  if (c.speed.measured() && !c.speed.cells.empty())
    for (const char* what : {"prefill", "decode"})
      for (const char* along : {"context length", "batch size"}) cross_measured(c, what, along);
  cache(c);
  c.sentences = say(c);
}

}  // namespace lithe::compare
