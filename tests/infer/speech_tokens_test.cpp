#include "lithe/infer/speech_tokens.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"

namespace lithe {
namespace {

// Texts 0 to 9, end 10, begin 11, en 12, de 13, translate 14, transcribe 15, no times 16, times from 17 to 26.
SpeechTokens tokens() {
  return {.begin = 11,
          .end = 10,
          .no_times = 16,
          .first_time = 17,
          .times = 10,
          .languages = {{"en", 12}, {"de", 13}},
          .tasks = {{"translate", 14}, {"transcribe", 15}},
          .never = {11, 12, 13, 14, 15},
          .never_first = {3, 10},
          .most_first_time = 2};
}

std::set<int32_t> allowed(const SpeechRules& rules, const std::vector<int32_t>& before, double of_times = -10) {
  std::vector<double> scores(27, -3);
  for (size_t i = 17; i < 27; ++i) scores[i] = of_times;
  rules(before, scores);
  std::set<int32_t> out;
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    sum += std::exp(scores[i]);
    if (std::isfinite(scores[i])) out.insert(int32_t(i));
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  return out;
}

std::set<int32_t> numbers(int32_t begin, int32_t end, std::set<int32_t> more = {}) {
  for (int32_t i = begin; i < end; ++i) more.insert(i);
  return more;
}

TEST(SpeechRules, SayWhatIsWrittenFirst) {
  const SpeechRules plain(tokens(), {});
  EXPECT_EQ(plain.instructions(), 3);
  std::vector<double> scores(27, -5);
  scores[13] = -4, scores[2] = 0;
  plain({}, scores);
  EXPECT_EQ(scores[13], 0);  // the likelier language, whatever else is likelier still
  EXPECT_EQ(plain.language_of(std::vector<int32_t>{13, 15}), "de");
  EXPECT_EQ(allowed(plain, {13}), std::set<int32_t>{15});
  EXPECT_EQ(allowed(plain, {13, 15}), std::set<int32_t>{16});
  const SpeechRules chosen(tokens(), {.language = "en", .task = "translate", .times = true});
  EXPECT_EQ(chosen.instructions(), 2);
  EXPECT_EQ(allowed(chosen, {}), std::set<int32_t>{12});
  EXPECT_EQ(allowed(chosen, {12}), std::set<int32_t>{14});
  SpeechTokens forced = tokens();
  forced.forced = {{1, 13}, {2, 14}};
  EXPECT_EQ(allowed(SpeechRules(forced, {}), {}), std::set<int32_t>{13});
  EXPECT_EQ(allowed(SpeechRules(forced, {}), {13}), std::set<int32_t>{14});
  EXPECT_EQ(allowed(SpeechRules(forced, {.language = "en", .task = "transcribe"}), {12}), std::set<int32_t>{15});
}

TEST(SpeechRules, LeaveOutWhatIsSuppressed) {
  const SpeechRules rules(tokens(), {});
  EXPECT_EQ(allowed(rules, {13, 15, 16}), numbers(17, 27, {0, 1, 2, 4, 5, 6, 7, 8, 9, 16}));
  EXPECT_EQ(allowed(rules, {13, 15, 16, 4}), numbers(16, 27, numbers(0, 11)));
}

TEST(SpeechRules, TimesStandInPairsAndGrow) {
  const SpeechRules rules(tokens(), {.times = true});
  EXPECT_EQ(allowed(rules, {13, 15}), numbers(17, 20));                         // one of the first three
  EXPECT_EQ(allowed(rules, {13, 15, 18}), numbers(0, 11));                      // then text, or the end
  EXPECT_EQ(allowed(rules, {13, 15, 18, 4}), numbers(19, 27, numbers(0, 11)));  // later times
  EXPECT_EQ(allowed(rules, {13, 15, 18, 4, 21}), numbers(21, 27, {10}));        // a pair, or the end
  EXPECT_EQ(allowed(rules, {13, 15, 18, 4, 21, 21}), numbers(0, 11));           // text again
  EXPECT_EQ(allowed(rules, {13, 15, 18, 4, 21, 22, 5}), numbers(23, 27, numbers(0, 11)));
  // Eight times of e^-5 are likelier than a text of e^-3.
  EXPECT_EQ(allowed(rules, {13, 15, 18, 4}, -5), numbers(19, 27));
  EXPECT_EQ(allowed(rules, {13, 15, 18, 4}, -3 - std::log(8.0) - 1e-6), numbers(19, 27, numbers(0, 11)));
}

TEST(SpeechRules, TokensBehindTheTimesAreNone) {
  SpeechTokens few = tokens();
  few.times = 8;  // 25 and 26 are others
  const SpeechRules rules(few, {.times = true});
  EXPECT_EQ(allowed(rules, {13, 15}), numbers(17, 20));
  EXPECT_EQ(allowed(rules, {13, 15, 18}), numbers(25, 27, numbers(0, 11)));
  EXPECT_EQ(allowed(rules, {13, 15, 18, 25}), numbers(19, 27, numbers(0, 11)));
  EXPECT_EQ(allowed(rules, {13, 15, 18, 4, 21}), numbers(21, 25, {10}));
  EXPECT_TRUE(few.is_time(24) && !few.is_time(25) && !few.is_time(16));
}

TEST(SpeechRules, SayThatTheyLeaveNoToken) {
  SpeechTokens silent = tokens();
  for (int32_t id = 17; id < 27; ++id) silent.never.push_back(id);
  std::vector<double> scores(27, -3);
  const std::string error = kit::error_of([&] {
    SpeechRules(silent, {.times = true})(std::vector<int32_t>{13, 15}, scores);
  });
  EXPECT_NE(error.find("the rules for times leave no token behind the first 2"), std::string::npos) << error;
  silent.times = 0;
  EXPECT_NE(kit::error_of([&] { SpeechRules(silent, {.times = true}); }).find("no times"), std::string::npos);
}

TEST(SpeechRules, RefuseWhatTheModelDoesNotKnow) {
  EXPECT_EQ(kit::error_of([] { SpeechRules(tokens(), {.language = "xx"}); }),
            "transcribe: the model has no language 'xx'; it has de, en");
  SpeechTokens english = tokens();
  english.languages.clear(), english.tasks.clear();
  EXPECT_NE(kit::error_of([&] { SpeechRules(english, {.task = "translate"}); }).find("no task 'translate'"),
            std::string::npos);
  EXPECT_EQ(SpeechRules(english, {.task = "transcribe"}).instructions(), 1);
  english.no_times.reset();
  EXPECT_NE(kit::error_of([&] { SpeechRules(english, {.times = true}); }).find("no times"), std::string::npos);
}

}  // namespace
}  // namespace lithe
