// Scores that sacreBLEU gives (make_golden_translation_scores.py).
#include "lithe/eval/translation_scores.h"

#include <cmath>
#include <cstdlib>

#include "lithe/base/json.h"
#include "lithe/base/machine.h"
#include "lithe/base/threads.h"
#include "lithe/data/text_file.h"
#include "lithe/eval/chrf.h"
#include "lithe/eval/paired_bootstrap.h"
#include "lithe/eval/translation_edit_rate.h"
#include "tests/data/files_for_tests.h"
#include "tests/support/data.h"

namespace lithe {
namespace {

using Texts = std::vector<std::string>;

const Json& golden() {
  static const Json json = [] {
    const Path path = "tests/eval/golden_translation_scores.json";
    return parse_json(read_file(path), path.string());
  }();
  return json;
}

BleuOptions bleu_options(const Json& given) {
  BleuOptions options;
  for (const auto& [key, value] : given.items()) {
    if (key == "tokenize") options.tokenizer = value;
    if (key == "lowercase") options.lowercase = value;
    if (key == "smooth_method") options.smoothing = value;
    if (key == "smooth_value") options.smoothing_value = value.get<double>();
    if (key == "effective_order") options.effective_order = value;
  }
  return options;
}

ChrfOptions chrf_options(const Json& given) {
  ChrfOptions options;
  options.char_order = given.value("char_order", options.char_order);
  options.word_order = given.value("word_order", options.word_order);
  options.beta = given.value("beta", options.beta);
  options.lowercase = given.value("lowercase", options.lowercase);
  return options;
}

// sacreBLEU's signature with our version in place of its own.
std::string ours(const std::string& signature) {
  return signature.substr(0, signature.rfind(':') + 1) + "lithe-" + build_info().version;
}

// Both compute the same in double precision; only sums of logarithms may round otherwise.
constexpr double kTolerance = 1e-11;

Texts first_of(const TextReferences& references) {
  Texts out;
  for (const Texts& list : references) out.push_back(list[0]);
  return out;
}

void expect_golden(const Json& entries, const Texts& hypotheses, const TextReferences& references) {
  const auto count = int64_t(references.size());
  for (const Json& entry : entries) {
    const Json& given = entry.at("options");
    SCOPED_TRACE(given.dump());
    const bool sentence = entry.at("sentence");
    if (entry.contains("line")) {
      const BleuOptions options = bleu_options(given);
      const BleuScore score = sentence ? sentence_bleu(hypotheses[0], first_of(references), options)
                                       : corpus_bleu(hypotheses, references, options);
      EXPECT_NEAR(score.score, entry.at("score").get<double>(), 100 * kTolerance);
      EXPECT_EQ(score.line(), entry.at("line").get<std::string>());
      EXPECT_EQ(Bleu(options).signature(count), ours(entry.at("signature")));
    } else {
      const ChrfOptions options = chrf_options(given);
      const double score = sentence ? sentence_chrf(hypotheses[0], first_of(references), options)
                                    : corpus_chrf(hypotheses, references, options);
      EXPECT_NEAR(score, entry.at("score").get<double>(), 100 * kTolerance);
      EXPECT_EQ(Chrf(options).name(), entry.at("name").get<std::string>());
      EXPECT_EQ(Chrf(options).signature(count), ours(entry.at("signature")));
    }
  }
}

void expect_edit_rate(const Json& entry, const Texts& hypotheses, const TextReferences& references) {
  const TranslationEditRate metric;
  EXPECT_NEAR(metric.score(sum_counts(segment_counts(metric, hypotheses, references))), entry.at("score").get<double>(),
              100 * kTolerance);
  EXPECT_EQ(metric.signature(int64_t(references.size())), ours(entry.at("signature")));
}

TEST(BleuTokenizers, CutAsSacrebleu) {
  ASSERT_EQ(golden().at("tokenized").size(), 75u);
  for (const Json& entry : golden().at("tokenized")) {
    const std::string text = entry.at("text");
    for (const std::string& name : bleu_tokenizer_names())
      EXPECT_EQ(bleu_tokenizer(name)(text), entry.at(name).get<Texts>()) << name << " of '" << text << "'";
  }
  expect_error([] { bleu_tokenizer("zh"); }, {"13a, char, intl, none", "'zh'"}, ExitCode::usage);
}

TEST(TranslationScores, EqualSacrebleuOnSmallTexts) {
  ASSERT_EQ(golden().at("cases").size(), 19u);
  for (const Json& entry : golden().at("cases")) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const auto hypotheses = entry.at("hypotheses").get<Texts>();
    const auto references = entry.at("references").get<TextReferences>();
    expect_golden(entry.at("bleu"), hypotheses, references);
    expect_golden(entry.at("chrf"), hypotheses, references);
    expect_edit_rate(entry.at("ter"), hypotheses, references);
  }
}

TEST(TranslationEditRate, MovesWordsAsSacrebleuDoes) {
  ASSERT_EQ(golden().at("moves").size(), 7u);
  for (const Json& entry : golden().at("moves")) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    expect_edit_rate(entry.at("ter"), entry.at("hypotheses").get<Texts>(),
                     entry.at("references").get<TextReferences>());
  }
}

// ---- a real test set

Path multi30k() { return kit::data_if_any("translation/multi30k"); }

Texts split(std::string_view text, char separator) {
  Texts parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

Texts test_set(const std::string& language) {
  Texts lines = split(read_text(multi30k() / ("test_2016_flickr." + language + ".gz"), "test"), '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// The rule of the script's function of this name.
Texts perturbed(const Texts& lines, int64_t period) {
  Texts out;
  int64_t count = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    Texts words;
    for (std::string& word : split(lines[i], ' '))
      if (count++ % period != period - 1) words.push_back(std::move(word));
    for (size_t j = 0; j + 1 < words.size(); ++j)
      if ((i + j) % 5 == 0) std::swap(words[j], words[j + 1]);
    std::string line;
    for (size_t j = 0; j < words.size(); ++j) line += (j > 0 ? " " : "") + words[j];
    out.push_back(std::move(line));
  }
  return out;
}

TEST(TranslationScores, EqualSacrebleuOnMulti30k) {
  if (multi30k().empty()) GTEST_SKIP() << "needs $LITHE_DATA/translation/multi30k";
  const Texts german = test_set("de"), systems[] = {perturbed(german, 7), test_set("en"), german};
  const Json& scores = golden().at("multi30k");
  ASSERT_EQ(scores.size(), 3u);
  for (size_t s = 0; s < 3; ++s) {
    SCOPED_TRACE(scores[s].at("name").get<std::string>());
    expect_golden(scores[s].at("bleu"), systems[s], {german});
    expect_golden(scores[s].at("chrf"), systems[s], {german});
  }
  expect_golden(golden().at("two_references"), systems[0], {german, test_set("fr")});
}

// ---- resampling

// Numbers of other draws of the same size agree within five standard errors of their difference. Of n draws the mean
// has the error d / sqrt(n) with their deviation d, and half of the interval of 95 % (1.96 d) one of about 1.9 d /
// sqrt(n) (the sum of two independent normal quantiles' errors, sqrt(p (1 - p)) / density each, halved).
void expect_resampled(const ResampledScore& score, const Json& expected) {
  EXPECT_NEAR(score.score, expected.at("score").get<double>(), 100 * kTolerance);
  const double half_width = expected.at("half_width"), deviation = half_width / 1.96;
  const double error = std::sqrt(2.0 / 1000) * deviation;
  EXPECT_NEAR(score.mean, expected.at("mean").get<double>(), 5 * error);
  EXPECT_NEAR(score.half_width(), half_width, 5 * 1.9 * error);
}

TEST(PairedBootstrap, AgreesWithSacrebleu) {
  if (multi30k().empty()) GTEST_SKIP() << "needs $LITHE_DATA/translation/multi30k";
  const Texts german = test_set("de"), first = perturbed(german, 7), second = perturbed(german, 9);
  Texts close = first;
  for (size_t i = 0; i < close.size(); i += 20) close[i] = second[i];
  for (const std::string name : {"BLEU", "chrF2"}) {
    SCOPED_TRACE(name);
    std::unique_ptr<TextMetric> metric;
    if (name == "BLEU")
      metric = std::make_unique<Bleu>();
    else
      metric = std::make_unique<Chrf>();
    const Json& expected = golden().at("paired").at(name);
    const auto a = segment_counts(*metric, first, {german}), b = segment_counts(*metric, close, {german});
    const PairedBootstrap result = paired_bootstrap(*metric, a, b);
    expect_resampled(result.baseline, expected.at("baseline"));
    expect_resampled(result.system, expected.at("system"));
    const double p = expected.at("p");
    EXPECT_NEAR(result.p, p, 5 * std::sqrt(2 * p * (1 - p) / 1000));
  }
}

TEST(PairedBootstrap, DependsOnItsSeedAlone) {
  const Bleu bleu({.effective_order = true});
  Texts hypotheses, references;
  for (int i = 0; i < 40; ++i) {
    hypotheses.push_back(cat("a b c d e ", i % 3, " ", i % 5));
    references.push_back(cat("a b c d e ", i % 2, " ", i % 5));
  }
  const auto counts = segment_counts(bleu, hypotheses, {references}),
             other = segment_counts(bleu, references, {references});
  const int before = threads();
  set_threads(1);
  const PairedBootstrap one = paired_bootstrap(bleu, counts, other, 200, 3);
  set_threads(2);
  const PairedBootstrap two = paired_bootstrap(bleu, counts, other, 200, 3);
  set_threads(before);
  EXPECT_EQ(one.baseline.mean, two.baseline.mean);
  EXPECT_EQ(one.p, two.p);
  EXPECT_EQ(one.baseline.mean, bootstrap(bleu, counts, 200, 3).mean);
  EXPECT_NE(one.baseline.mean, bootstrap(bleu, counts, 200, 4).mean);
  EXPECT_LT(one.baseline.low, one.baseline.high);
  EXPECT_NEAR(one.system.low, 100, 100 * kTolerance);  // exp(log 100)
  EXPECT_EQ(one.system.half_width(), 0);
  EXPECT_EQ(paired_bootstrap(bleu, counts, counts, 99).p, 1.0 / 100);  // as sacreBLEU has it
}

TEST(PairedBootstrap, RefusesUnequalSegments) {
  const Bleu bleu;
  const std::vector<TextCounts> two(2, TextCounts(10)), three(3, TextCounts(10));
  expect_error([&] { paired_bootstrap(bleu, two, three); }, {"2 of the baseline and 3 of the system"});
  expect_error([&] { paired_bootstrap(bleu, two, two, 0); }, {"one resample, got 0"}, ExitCode::usage);
  expect_error([&] { bootstrap(bleu, {}); }, {"no segments"});
}

// ---- by hand

TEST(Bleu, OfAPairByHand) {
  // 1-grams 5 of 6, 2-grams 3 of 5, 3-grams 2 of 4, 4-grams 1 of 3; six words against seven.
  const BleuScore score = sentence_bleu("the cat sat on a mat", Texts{"the cat sat on the old mat"});
  EXPECT_NEAR(score.score, 100 * std::exp(1 - 7.0 / 6) * std::pow(5.0 / 6 * 3 / 5 * 2 / 4 * 1 / 3, 0.25), 1e-12);
  EXPECT_EQ(score.line(), "BLEU = 45.5 83.3/60.0/50.0/33.3 (BP = 0.846 ratio = 0.857 hyp_len = 6 ref_len = 7)");
}

TEST(Bleu, RefusesWhatItCannotDo) {
  expect_error([] { Bleu({.smoothing = "laplace"}); }, {"exp, floor, add-k, none", "'laplace'"}, ExitCode::usage);
  expect_error([] { Bleu({.smoothing_value = 1}); }, {"smoothing exp has no value"}, ExitCode::usage);
  expect_error([] { Bleu({.smoothing = "floor", .smoothing_value = 0}); }, {"above 0", "got 0"}, ExitCode::usage);
  expect_error([] { Chrf({.char_order = 0}); }, {"one of them above 0"}, ExitCode::usage);
  expect_error([] { Chrf({.beta = 0}); }, {"beta", "got 0"}, ExitCode::usage);
}

TEST(TranslationScores, OfEqualCountsAlone) {
  const Texts two = {"a", "b"}, three = {"a", "b", "c"};
  expect_error([&] { score_translations(two, {three}); }, {"2 hypotheses and 3 references"});
  expect_error([&] { score_translations(two, {two, three}); }, {"2 hypotheses and 3 references"});
  expect_error([&] { score_translations({}, {{}}); }, {"no hypotheses"});
  expect_error([&] { score_translations(two, {}); }, {"no references"});
}

TEST(TranslationScores, BothMetricsByName) {
  const Texts hypotheses = {"the cat sat on a mat", "\xFF is no character"},
              reference = {"the cat sat on the mat", "x"};
  const TranslationScores scores = score_translations(hypotheses, {reference});
  ASSERT_EQ(translation_metrics().size(), 2u);
  EXPECT_EQ(scores.value("bleu"), corpus_bleu(hypotheses, {reference}).score);
  EXPECT_EQ(scores.value("chrf"), corpus_chrf(hypotheses, {reference}));
  expect_error([&] { scores.value("ter"); }, {"bleu or chrf", "'ter'"}, ExitCode::usage);
  EXPECT_EQ(scores.segments, 2);
  const std::string text = scores.text(), version = build_info().version;
  EXPECT_TRUE(text.starts_with("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:lithe-" + version + " = "))
      << text;
  EXPECT_NE(text.find("\nchrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:lithe-" + version + " = "),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace lithe
