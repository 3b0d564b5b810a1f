#include "lithe/eval/zero_shot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lithe/base/json.h"
#include "lithe/eval/zero_shot_generation.h"
#include "lithe/text/utf8.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

struct ZeroShot : testing::Test {
  ZeroShot()
      : tokenizer(make_byte_tokenizer()),
        model(kit::model_config("{vocab_size: 257, hidden_size: 16, num_hidden_layers: 1, max_position_embeddings: 24, "
                                "token_width: 1, mixer: {type: attention, num_attention_heads: 2}}"),
              {}) {
    kit::randomise(model.parameters(), 5);
  }
  std::unique_ptr<Tokenizer> tokenizer;
  Model model;
  kit::Scratch scratch;

  ZeroShotTask task(const std::string& yaml, const std::string& documents) {
    scratch.add("data.jsonl", documents);
    return read_zero_shot_task(scratch.add("task.yaml", "dataset_kwargs: {data_files: data.jsonl}\n" + yaml));
  }
  // log P of the bytes of `text` from `begin` on, after <|endoftext|>: one whole text at a time.
  double log_likelihood(const std::string& text, size_t begin, bool* greedy = nullptr) {
    const NoGrad no_grad;
    std::vector<int> ids{256};
    for (const char c : text) ids.push_back(uint8_t(c));
    const Tensor logits = kit::logits(model, kit::ids_of(ids), Sequences::single(int64_t(ids.size()))).value();
    double total = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      double sum = 0, most = -INFINITY;
      for (int64_t c = 0; c < 257; ++c) {
        sum += std::exp(value_at(logits, int64_t(i) * 257 + c));
        most = std::max(most, value_at(logits, int64_t(i) * 257 + c));
      }
      const double label = value_at(logits, int64_t(i) * 257 + uint8_t(text[i]));
      total += label - std::log(sum);
      if (greedy) *greedy = *greedy && label == most;
    }
    return total;
  }
  static double metric(const ZeroShotResult& result, const std::string& name) {
    for (const ZeroShotMetric& m : result.metrics)
      if (m.name == name) return m.value;
    return NAN;
  }
};

TEST_F(ZeroShot, GivenChoicesHaveTheirLikelihoods) {
  const Path file = scratch.add("choices.jsonl", R"({"query": "sky is", "choices": ["blue", "a"]}
{"query": "Q:", "choices": ["yes"]}
)");
  const auto all = score_choices(model, *tokenizer, choices_task(file), {});
  ASSERT_EQ(all.size(), 2u);
  ASSERT_EQ(all[0].size(), 2u);
  const ChoiceScore& blue = all[0][0];
  bool greedy = true;
  EXPECT_NEAR(blue.log_likelihood, log_likelihood("sky is blue", 6, &greedy), 1e-4);
  EXPECT_EQ(blue.greedy, greedy);
  EXPECT_EQ(blue.tokens, 5);
  EXPECT_EQ(blue.characters, 4);
  EXPECT_EQ(blue.choice, "blue");
  EXPECT_NEAR(all[1][0].log_likelihood, log_likelihood("Q: yes", 2), 1e-4);
  EXPECT_NE(kit::error_of([&] { choices_task(scratch / "none.jsonl"); }).find("is no file"), std::string::npos);
}

TEST_F(ZeroShot, TablesPagesAndListsAreRead) {
  scratch.add("data.tsv", "index\tquestion\tlabel\n0\tsky?\tno\n1\tsea?\tyes\n");
  const auto table = [&](const std::string& target) {
    return read_zero_shot_task(
        scratch.add("table.yaml", "task: t\noutput_type: multiple_choice\ndata_files: [" + (scratch / "data.tsv") +
                                      "]\ndoc_to_text: \"{{question}}\"\ndoc_to_choice: [yes, no]\n"
                                      "doc_to_target: \"" +
                                      target + "\"\n"));
  };
  const ZeroShotResult result = evaluate_zero_shot(model, *tokenizer, table("{{['yes', 'no'].index(label)}}"), {});
  EXPECT_EQ(result.documents, 2);
  EXPECT_EQ(metric(result, "acc"), metric(evaluate_zero_shot(model, *tokenizer, table("{{label}}"), {}), "acc"));
  EXPECT_NE(kit::error_of([&] {
              evaluate_zero_shot(model, *tokenizer, table("{{['yes'].index(label)}}"), {});
            }).find("'no' of a document is not among ['yes']"),
            std::string::npos);
  scratch.add("data.raw", " \n = One = \n\n text .\n = = Part = = \n more\n = Two = \n end\n");
  const ZeroShotTask pages = read_zero_shot_task(scratch.add(
      "pages.yaml", "task: p\noutput_type: loglikelihood_rolling\ndoc_to_target: \"{{page}}\"\ndata_files: [" +
                        (scratch / "data.raw") + "]\n"));
  EXPECT_EQ(evaluate_zero_shot(model, *tokenizer, pages, {}).documents, 2);
  const ZeroShotTask pair = task(
      "task: b\noutput_type: multiple_choice\ndoc_to_text: \"\"\ndoc_to_target: 0\n"
      "doc_to_choice: \"{{[sentence_good, sentence_bad]}}\"\n",
      R"({"sentence_good": "it is", "sentence_bad": "it are"})");
  EXPECT_EQ(evaluate_zero_shot(model, *tokenizer, pair, {}).documents, 1);
}

TEST_F(ZeroShot, TheSplitThatTheHarnessScoresIsRead) {
  const std::string line = R"({"q": "a", "c": ["b", "d"]})"
                           "\n";
  scratch.add("learn.jsonl", line + line);
  scratch.add("score.jsonl", line);
  const std::string files = "dataset_kwargs: {data_files: {train: learn.jsonl, test: score.jsonl}}\n",
                    rest =
                        "task: t\noutput_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: c\ndoc_to_target: 0\n";
  for (const char* split :
       {"test_split: test\n", "validation_split: test\n", "validation_split: train\ntest_split: test\n"})
    EXPECT_EQ(read_zero_shot_task(scratch.add("split.yaml", files + split + rest)).data_files,
              std::vector<std::string>{scratch / "score.jsonl"})
        << split;
  const auto none = [&] { read_zero_shot_task(scratch.add("none.yaml", files + rest)); };
  EXPECT_NE(kit::error_of(none).find("must name one of these data_files"), std::string::npos);
}

TEST_F(ZeroShot, ChoicesAreScoredByTheirLikelihoodAfterTheText) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> questions{
      {"sky is", {"blue", "a", "green!"}}, {"one two", {"three", "ox"}}, {"Q:", {"yes", "no", "maybe so"}}};
  double right = 0, right_by_length = 0;
  std::string lines;
  for (const auto& question : questions) {
    const std::string& text = question.first;
    const std::vector<std::string>& choices = question.second;
    Json list;
    size_t best = 0, best_by_length = 0;
    const auto score = [&](size_t i) { return log_likelihood(text + " " + choices[i], text.size()); };
    for (size_t i = 0; i < choices.size(); ++i) {
      list.push_back(choices[i]);
      if (score(i) > score(best)) best = i;
      if (score(i) / double(choices[i].size()) > score(best_by_length) / double(choices[best_by_length].size()))
        best_by_length = i;
    }
    right += best == 0, right_by_length += best_by_length == 0;
    lines += Json({{"query", text}, {"choices", list}, {"gold", 0}}).dump() + "\n";
  }
  const ZeroShotTask t = task(
      "task: t\noutput_type: multiple_choice\ndoc_to_text: '{{query}}'\ndoc_to_choice: '{{choices}}'\n"
      "doc_to_target: gold\nmetric_list: [{metric: acc}, {metric: acc_norm}]\nmetadata: {version: 2.0}\n",
      lines);
  EXPECT_EQ(t.version, 2);
  for (const int64_t batch_tokens : {1, 64, 4096}) {
    const ZeroShotResult result = evaluate_zero_shot(model, *tokenizer, t, {.batch_tokens = batch_tokens});
    EXPECT_EQ(result.documents, 3);
    EXPECT_DOUBLE_EQ(metric(result, "acc"), right / 3);
    EXPECT_DOUBLE_EQ(metric(result, "acc_norm"), right_by_length / 3);
    // The deviation of the sample over the root of its size.
    EXPECT_NEAR(*result.metrics[0].stderr_, std::sqrt(right / 3 * (1 - right / 3) / 2), 1e-12);
  }
  EXPECT_EQ(evaluate_zero_shot(model, *tokenizer, t, {.limit = 2}).documents, 2);
}

TEST_F(ZeroShot, LastWordsHaveAPerplexity) {
  const ZeroShotTask t = task(
      "task: words\noutput_type: loglikelihood\ndoc_to_text: \"{{text.split(' ')[:-1]|join(' ')}}\"\n"
      "doc_to_target: \"{{' '+text.split(' ')[-1]}}\"\n",
      "{\"text\": \"the cat sat\"}\n{\"text\": \"on a mat\"}\n");
  bool first = true, second = true;
  const double a = log_likelihood("the cat sat", 7, &first), b = log_likelihood("on a mat", 4, &second);
  const ZeroShotResult result = evaluate_zero_shot(model, *tokenizer, t, {});
  EXPECT_NEAR(metric(result, "perplexity"), std::exp(-(a + b) / 2), 1e-4 * std::exp(-(a + b) / 2));
  EXPECT_DOUBLE_EQ(metric(result, "acc"), (first + second) / 2.0);
}

TEST_F(ZeroShot, LongTextsRollInWindowsOfTheModelsPositions) {
  const std::string text = "a text of more than twenty-four bytes, two windows";
  const ZeroShotTask t = task("task: roll\noutput_type: loglikelihood_rolling\ndoc_to_target: '{{page}}'\n",
                              Json({{"page", text}}).dump());
  // Windows of 24: the first after <|endoftext|>; the last two bytes are read behind 22 that were scored before.
  const NoGrad no_grad;
  double sum = 0;
  for (size_t begin = 0; begin < text.size(); begin += 24) {
    const size_t end = std::min(text.size(), begin + 24), from = end < 24 ? 0 : end - 24;
    std::vector<int> ids{from ? uint8_t(text[from - 1]) : 256};
    const std::string part = text.substr(from, end - from);
    for (const char c : part) ids.push_back(uint8_t(c));
    ids.pop_back();
    const Tensor logits = kit::logits(model, kit::ids_of(ids), Sequences::single(int64_t(ids.size()))).value();
    for (size_t i = begin - from; i < part.size(); ++i) {
      double total = 0;
      for (int64_t c = 0; c < 257; ++c) total += std::exp(value_at(logits, int64_t(i) * 257 + c));
      sum += value_at(logits, int64_t(i) * 257 + uint8_t(part[i])) - std::log(total);
    }
  }
  const ZeroShotResult result = evaluate_zero_shot(model, *tokenizer, t, {});
  EXPECT_NEAR(metric(result, "bits_per_byte"), -sum / double(text.size()) / std::log(2.0), 1e-5);
  EXPECT_NEAR(metric(result, "word_perplexity") / std::exp(-sum / 9), 1, 1e-4);
}

TEST_F(ZeroShot, WhatCannotBeReadIsRefused) {
  const auto error = [&](const std::string& yaml, const std::string& lines) {
    return kit::error_of([&] { evaluate_zero_shot(model, *tokenizer, task(yaml, lines), {}); });
  };
  const std::string choice =
      "task: t\noutput_type: multiple_choice\ndoc_to_choice: '{{choices}}'\ndoc_to_target: gold\n";
  const std::string line = "{\"choices\": [\"a\", \"b\"], \"gold\": 0, \"q\": \"x\"}";
  const std::tuple<std::string, std::string, const char*> cases[] = {
      {choice + "doc_to_text: '{{q}}'\nnum_fewshot: 5\n", line, "num_fewshot"},
      {choice + "doc_to_text: '{{q}}'\nprocess_docs: !function utils.f\n", line, "process_docs"},
      {choice + "doc_to_text: !function utils.f\n", line,
       "task.yaml:6:14: doc_to_text is a function of Python (!function utils.f)"},
      {choice + "doc_to_text: '{{q}}'\nprocess_results: mine.f\n", line, "process_results needs Python"},
      {choice + "doc_to_text: '{{q|tojson}}'\n", line, "the filter 'tojson' of a template is not supported"},
      {choice + "doc_to_text: '{% if q %}'\n", line, "lacks {% endif %}"},
      {choice + "doc_to_text: '{% macro q() %}'\n", line, "{% macro %} of a template is not supported"},
      {choice + "doc_to_text: '{{\"%s\" % q}}'\n", line, "a text % values is not supported in templates"},
      {choice + "doc_to_text: q\nmetric_list: [{metric: rouge}]\n", line,
       "'rouge' is not supported for multiple_choice"},
      {choice + "doc_to_text: q\nmetric_list: [{metric: acc, aggregation: f1}]\n", line, "aggregation"},
      {choice + "doc_to_text: q\nfilter_list: [{name: a, filter: [{function: lowercase}]}]\n", line,
       "'lowercase' is for generate_until"},
      {choice + "doc_to_text: '{{question}}'\n", line, "has no field 'question'"},
      {choice + "doc_to_text: '{{q}}'\n", "{\"choices\": [\"a\"], \"gold\": 3, \"q\": \"x\"}",
       "gives '3', which is none"},
      {choice + "doc_to_text: '{{q}}'\n", "[1]", "line 1 must be a JSON object"},
      {choice + "doc_to_text: '{{q}}'\n", "", "hold no documents"},
      {"task: t\noutput_type: multiple_choice\ndoc_to_text: q\ndoc_to_target: gold\n", line,
       "doc_to_choice is missing"}};
  for (const auto& [yaml, lines, words] : cases) {
    const std::string is = error(yaml, lines);
    EXPECT_NE(is.find(words), std::string::npos) << is;
  }
  // A tag names a function; the same letters in a text, as in a block of lines, are text.
  for (const char* text : {"doc_to_text: |\n  {{q}}\n  process_docs: !function utils.f\n  !function utils.g\n",
                           "doc_to_text: >-\n  '{{q}}' is\n  !function utils.f\n", "doc_to_text: 'a !function b'\n",
                           "doc_to_text: '!function utils.f'\n", "doc_to_text: |\n  !function utils.f\n",
                           "doc_to_text: !!str \"!function utils.f\"\n"})
    EXPECT_EQ(evaluate_zero_shot(model, *tokenizer, task(choice + text, line), {}).documents, 1) << text;
  const std::string file = scratch.add("lost.yaml", choice + "doc_to_text: q\ndata_files: [lost.jsonl]\n");
  EXPECT_NE(
      kit::error_of([&] { read_zero_shot_task(file); }).find("neither here, beside the task, nor under LITHE_DATA"),
      std::string::npos);
}

// ---- answers that the model writes

struct ZeroShotAnswers : ZeroShot {
  // What the model writes behind `text`, greedily, one byte after another.
  std::string written(const std::string& text, size_t most) {
    const NoGrad no_grad;
    std::string out;
    std::vector<int> ids{256};
    for (const char c : text) ids.push_back(uint8_t(c));
    while (out.size() < most) {
      const Tensor logits = kit::logits(model, kit::ids_of(ids), Sequences::single(int64_t(ids.size()))).value();
      int best = 0;
      for (int c = 1; c < 257; ++c)
        if (value_at(logits, (logits.rows() - 1) * 257 + c) > value_at(logits, (logits.rows() - 1) * 257 + best))
          best = c;
      if (best == 256) break;
      ids.push_back(best);
      out.push_back(char(best));
    }
    return valid_utf8(out);
  }
  static constexpr const char* head =
      "task: t\noutput_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n";
  ZeroShotTask asked(const std::string& rest, const Json& document) {
    return task(head + rest, document.dump() + "\n");
  }
};

TEST_F(ZeroShotAnswers, AreRightWhereTheyAreTheTarget) {
  const std::string answer = written("sky is", 5);
  const std::string right = Json({{"q", "sky is"}, {"a", answer}}).dump() + "\n",
                    several = Json({{"q", "sky is"}, {"a", {"green", answer}}}).dump() + "\n",
                    wrong = Json({{"q", "sky is"}, {"a", "green"}}).dump() + "\n";
  const ZeroShotTask t =
      task(std::string(head) + "generation_kwargs: {max_gen_toks: 5, do_sample: False, temperature: 0.0}\n",
           right + wrong + several + wrong);
  EXPECT_EQ(t.until, std::vector<std::string>{"\n\n"});  // as in the harness
  const ZeroShotResult result = evaluate_zero_shot(model, *tokenizer, t, {});
  ASSERT_EQ(result.metrics.size(), 1u);
  EXPECT_EQ(result.metrics[0].name, "exact_match");
  EXPECT_DOUBLE_EQ(result.metrics[0].value, 0.5);
  EXPECT_NEAR(*result.metrics[0].stderr_, std::sqrt(4 * 0.25 / 3 / 4), 1e-12);
}

TEST_F(ZeroShotAnswers, EndBeforeWhatEndsThem) {
  const std::string answer = written("one two", 6), end = answer.substr(3, 1);
  const std::string before = answer.substr(0, answer.find(end));
  const ZeroShotTask t = asked("generation_kwargs: {max_gen_toks: 6, until: [\"" + end + "\", \"\"]}\n",
                               {{"q", "one two"}, {"a", before}});
  EXPECT_EQ(evaluate_zero_shot(model, *tokenizer, t, {}).metrics[0].value, 1) << answer;
}

TEST_F(ZeroShotAnswers, OfTextsThatAreTooLongAreToTheirEnds) {
  // 24 positions: 18 for the text, 6 for the answer, and the first token is not bos any more.
  const std::string text = "many words stand before the end of this";
  const NoGrad no_grad;
  std::vector<int> ids;
  for (const char c : text.substr(text.size() - 18)) ids.push_back(uint8_t(c));
  std::string answer;
  for (int i = 0; i < 6; ++i) {
    const Tensor logits = kit::logits(model, kit::ids_of(ids), Sequences::single(int64_t(ids.size()))).value();
    const float* row = logits.data<float>() + (logits.rows() - 1) * 257;
    ids.push_back(int(std::max_element(row, row + 257) - row));
    answer.push_back(char(ids.back()));
  }
  ASSERT_EQ(answer.find(char(0)), std::string::npos);
  const ZeroShotTask t =
      asked("generation_kwargs: {max_gen_toks: 6, until: []}\n", {{"q", text}, {"a", valid_utf8(answer)}});
  EXPECT_EQ(evaluate_zero_shot(model, *tokenizer, t, {}).metrics[0].value, 1);
  const ZeroShotTask none = asked("generation_kwargs: {max_gen_toks: 24}\n", {{"q", text}, {"a", "x"}});
  EXPECT_NE(kit::error_of([&] { evaluate_zero_shot(model, *tokenizer, none, {}); }).find("leaves nothing"),
            std::string::npos);
}

TEST_F(ZeroShotAnswers, OfEachFilterHaveTheirResults) {
  const ZeroShotTask t = asked(
      "generation_kwargs: {max_gen_toks: 3}\n"
      "filter_list:\n"
      "  - {name: as-is, filter: [{function: take_first}]}\n"
      "  - {name: none-match, filter: [{function: regex, regex_pattern: 'no such text', fallback: ab}, {function: "
      "take_first}]}\n"
      "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}, {metric: bleu}, {metric: "
      "chrf}]\n",
      {{"q", "x"}, {"a", "ab"}});
  const ZeroShotResult result = evaluate_zero_shot(model, *tokenizer, t, {});
  ASSERT_EQ(result.metrics.size(), 6u);
  EXPECT_EQ(result.metrics[0].filter, "as-is");
  EXPECT_EQ(result.metrics[0].value, 0);
  EXPECT_EQ(result.metrics[3].filter, "none-match");
  EXPECT_EQ(result.metrics[3].value, 1);
  EXPECT_EQ(result.metrics[5].name, "chrf");
  EXPECT_NEAR(result.metrics[5].value, 100, 1e-9);
}

TEST_F(ZeroShotAnswers, WhatIsNotSupportedIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"generation_kwargs: {do_sample: true, temperature: 0}\n", "temperature is 0 where do_sample is true"},
      {"generation_kwargs: {num_beams: 4}\n", "num_beams"},
      {"generation_kwargs: {max_gen_toks: many}\n", "max_gen_toks"},
      {"filter_list: [{name: a, filter: [{function: format_span}]}]\n", "'format_span' is not supported"},
      {"filter_list: [{name: a, filter: [{function: take_first_k, k: 2}]}]\n", "takes 2 of 1 answers"},
      {"filter_list: [{name: a, filter: [{function: lowercase, group_select: 1}]}]\n", "group_select"},
      {"filter_list: [{name: a, filter: [{function: map, mapping_dict: [a]}]}]\n", "must be a map"},
      {"metric_list: [{metric: accuracy}]\n", "needs hf_evaluate: true"},
      {"metric_list: [{metric: f1, hf_evaluate: true}]\n", "average must be micro"},
      {"metric_list: [{metric: bleu, hf_evaluate: true}]\n", "is not one of hf_evaluate"},
      {"filter_list: [{name: a}]\n", "needs a list named filter"},
      {"filter_list: [{name: a, filter: [{function: regex, regex_pattern: '('}]}]\n", "task.yaml:"},
      {"metric_list: [{metric: rouge}]\n", "'rouge' is not supported"},
      {"metric_list: [{metric: bleu, ignore_case: true}]\n", "ignore_case"},
      {"repeats: 0\n", "repeats"}};
  for (const auto& [yaml, words] : cases) {
    const std::string is = kit::error_of([&] { asked(yaml, {{"q", "x"}, {"a", "y"}}); });
    EXPECT_NE(is.find(words), std::string::npos) << yaml << is;
  }
}

// Values of Python's re, str.strip and the harness's filters.
TEST(AnswerFilters, TakeWhatPythonWouldTake) {
  const auto taken = [](const char* expression, int64_t group, const std::string& answer) {
    return filtered({.steps = {{.kind = AnswerStep::Kind::regex,
                                .pattern = {Pattern::python(expression, "test")},
                                .group_select = group},
                               {.kind = AnswerStep::Kind::take_first}}},
                    {answer});
  };
  EXPECT_EQ(taken(R"(#### (\-?[0-9\.\,]+))", 0, "so #### 12,5 and #### -7"), "12,5");
  EXPECT_EQ(taken(R"((-?[$0-9.,]{2,})|(-?[0-9]+))", -1, "first 12 then 7"), "7");  // the first group that is not empty
  EXPECT_EQ(taken("[0-9]+", -1, "1 22 333"), "333");
  EXPECT_EQ(taken("x*", 1, "axb"), "x");  // empty matches count: '', 'x', '', ''
  EXPECT_EQ(taken("x*", -1, "axb"), "");
  EXPECT_EQ(taken("(a)|(b)?c", 0, "c"), "[invalid]");  // groups, all of them empty
  EXPECT_EQ(taken("q", 0, "abc"), "[invalid]");
  EXPECT_EQ(taken("( .*)", 0, "of \xC3\xA4\xE2\x80\x83 \x1C"), "\xC3\xA4");
  EXPECT_NE(kit::error_of([&] { taken("a", 2, "a a"); }).find("group_select 0 is the first"), std::string::npos);
  EXPECT_EQ(filtered({.steps = {{.kind = AnswerStep::Kind::lowercase}, {.kind = AnswerStep::Kind::remove_whitespace}}},
                     {" \u00c4B\t"}),
            Json::array({"\u00e4b"}));
}

// Values of the harness's filters, written as its YAML has them.
TEST_F(ZeroShotAnswers, FilterAsTheHarnessDoes) {
  const auto taken = [&](const std::string& steps, const std::vector<std::string>& answers, const Json& document) {
    const ZeroShotTask t =
        asked("repeats: 9\nfilter_list: [{name: f, filter: [" + steps + "]}]\n", {{"q", "x"}, {"a", "y"}});
    return filtered(t.filters[0], answers, document);
  };
  const std::string first = "{function: take_first}", vote = "{function: majority_vote}";
  const Json none = Json::object();
  EXPECT_EQ(taken(first, {"b", "a"}, none), "b");
  EXPECT_EQ(taken(first + ", " + first, {"b\u00e9", "a"}, none), "b");  // the first character
  EXPECT_EQ(taken("{function: take_first_k, k: 3}", {"a", "b", "b", "b"}, none), Json::array({"a", "b", "b"}));
  EXPECT_EQ(taken(vote, {"a", "b", "c", "b", "c"}, none), Json::array({"b"}));  // of equals the one that came first
  EXPECT_EQ(taken("{function: uppercase}, " + vote + ", " + first, {"a", "B", "b"}, none), "B");
  const std::string map = "{function: map, mapping_dict: {A: 0, B: one}, default_value: -1}";
  EXPECT_EQ(taken(map, {"A", "B", "AB"}, none), Json::array({0, "one", -1}));
  EXPECT_EQ(taken(first + ", " + map, {"AxB"}, none), Json::array({0, -1, "one"}));  // of each character
  EXPECT_EQ(taken("{function: map}", {"A"}, none), Json::array({nullptr}));
  const std::string letter =
      "{function: multi_choice_regex, regex_pattern: '\\(([A-Z])\\)', group_select: 0, "
      "ignore_case: true, ignore_punctuation: true}, " +
      first;
  const Json document = {{"choices", {"Guilty", "Guilty of Romance", "it's \u201cso\u201d", "x"}}};
  EXPECT_EQ(taken(letter, {"so (B), (C)"}, document), "B");
  EXPECT_EQ(taken(letter, {"It is GUILTY OF ROMANCE."}, document), "(B)");
  EXPECT_EQ(taken(letter, {"guilty, of course"}, document), "(A)");
  EXPECT_EQ(taken(letter, {"well, its so"}, document), "(C)");
  EXPECT_EQ(taken(letter, {"the answer: D"}, document), "(D)");
  EXPECT_EQ(taken(letter, {"the answer: E"}, document), "[invalid]");
  EXPECT_NE(kit::error_of([&] { taken(letter, {"none"}, none); }).find("needs a document's field choices"),
            std::string::npos);
  EXPECT_NE(kit::error_of([&] { taken(first + ", " + first, {""}, none); }).find("takes an answer of none"),
            std::string::npos);
}

// As lm_eval 0.4.13 gives them, but for draws, which are of our own generator.
TEST_F(ZeroShotAnswers, OfSeveralDrawsAreScoredByEachFilter) {
  const std::vector<Json> documents = {{{"q", "x"}, {"a", "7"}}, {{"q", "y"}, {"a", "8"}}};
  const ZeroShotTask t = task(head + std::string("repeats: 3\ngeneration_kwargs: {do_sample: true, temperature: 0.5, "
                                                 "max_new_tokens: 4, num_beams: 1}\n"
                                                 "filter_list:\n  - {name: one, filter: [{function: take_first}]}\n"
                                                 "  - {name: vote, filter: [{function: majority_vote}, {function: "
                                                 "take_first}]}\n  - {name: all, filter: [{function: lowercase}]}\n"),
                              documents[0].dump() + "\n" + documents[1].dump() + "\n");
  EXPECT_TRUE(t.do_sample);
  EXPECT_EQ(t.temperature, 0.5);
  EXPECT_EQ(t.max_gen_toks, 4);
  const auto scores = score_answers(t, documents, {{"7", "6", "6"}, {"1", "8", "8"}});
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_EQ(scores[0].value, 0.5);
  EXPECT_EQ(scores[1].value, 0.5);
  EXPECT_DOUBLE_EQ(scores[2].value, 0.5);  // (1/3 + 2/3) / 2
  EXPECT_DOUBLE_EQ(*scores[2].stderr_, 1.0 / 6);
  EXPECT_EQ(evaluate_zero_shot(model, *tokenizer, t, {}).metrics.size(), 3u);
}

TEST_F(ZeroShotAnswers, OfClassesAreComparedAsNumbers) {
  const std::vector<Json> documents = {{{"q", "x"}, {"a", "0"}}, {{"q", "y"}, {"a", "1"}}};
  const ZeroShotTask t = task(head + std::string("filter_list: [{name: n, filter: [{function: map, mapping_dict: {A: "
                                                 "0, B: 1}, default_value: -1}, {function: take_first}]}]\n"
                                                 "metric_list: [{metric: accuracy, hf_evaluate: true}, {metric: f1, "
                                                 "hf_evaluate: true, average: micro, aggregation: mean}]\n"),
                              documents[0].dump() + "\n" + documents[1].dump() + "\n");
  const auto scores = score_answers(t, documents, {{"A"}, {"C"}});
  EXPECT_EQ(scores[0].value, 0.5);
  EXPECT_EQ(scores[1].value, 0.5);
}

TEST(AnswerFilters, ExactMatchLeavesOutWhatIsIgnored) {
  EXPECT_FALSE((ExactMatch{})("A", "a"));
  EXPECT_TRUE((ExactMatch{.ignore_case = true})("\xC3\x84", "\xC3\xA4"));
  EXPECT_TRUE((ExactMatch{.ignore_punctuation = true})("it's", "its."));
  EXPECT_TRUE((ExactMatch{.ignore_numbers = true})("a1", "2a"));
  EXPECT_TRUE(
      (ExactMatch{.regexes_to_ignore = {Pattern::python(",", "t"), Pattern::python("\\$", "t")}})("$1,000", "1000"));
  EXPECT_FALSE((ExactMatch{.regexes_to_ignore = {Pattern::python(",", "t")}})("1.000", "1000"));
}

}  // namespace
}  // namespace lithe
