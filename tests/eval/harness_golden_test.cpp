// What the evaluation harness asks of a model and makes of its answers (tools/oracles/make_harness_golden.py).
#include <gtest/gtest.h>

#include <cmath>

#include "lithe/eval/bootstrap_error.h"
#include "lithe/eval/python_random.h"
#include "lithe/eval/python_value.h"
#include "lithe/eval/zero_shot_documents.h"
#include "lithe/eval/zero_shot_generation.h"
#include "lithe/eval/zero_shot_metrics.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

const Json& harness() {
  static const Json all = parse_json(read_file("tests/golden/harness.json", uint64_t(1) << 22), "harness.json");
  return all;
}

std::vector<std::string> harness_tasks(const std::string& part) {
  std::vector<std::string> out;
  for (const auto& [name, golden] : harness().items())
    if (golden.contains(part)) out.push_back(name);
  return out;
}

uint32_t code_of(const std::string& text, const std::string& continuation) {
  uint32_t crc = 0xffffffffu;
  for (const char c : text + std::string(1, '\0') + continuation) {
    crc ^= uint8_t(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}
double likelihood(uint32_t code) { return -double(code % 10000) / 100 - 0.01; }

class Harness : public testing::TestWithParam<std::string> {
 protected:
  const Json& golden = harness()[GetParam()];
  kit::Scratch scratch;
  ZeroShotTask task() {
    std::string files;
    for (const auto& [split, documents] : golden["splits"].items()) {
      std::string lines;
      for (const Json& one : documents) lines += one.dump() + "\n";
      files += cat(files.empty() ? "" : ", ", split, ": ", scratch.add(split + ".jsonl", lines));
    }
    return read_zero_shot_task(
        scratch.add("task.yaml", cat("task: ", GetParam(), "\ndataset_path: json\n", "dataset_kwargs: {data_files: {",
                                     files, "}}\n", golden["yaml"].get<std::string>())));
  }
};

TEST_P(Harness, AsksTheSameAndScoresTheSame) {
  const ZeroShotTask t = task();
  const std::vector<Json> documents = zero_shot_documents(t.data_files);
  const TaskTexts texts(t, documents);
  const std::vector<std::vector<std::string>> contexts = texts.contexts();
  size_t at = 0;
  const auto expect = [&](const std::vector<std::string>& asked) {
    ASSERT_LT(at, golden["requests"].size());
    EXPECT_EQ(asked, golden["requests"][at].get<std::vector<std::string>>()) << "request " << at;
    ++at;
  };
  std::vector<ChosenDocument> all;
  std::vector<double> likelihoods;
  double greedy = 0;
  for (size_t d = 0; d < documents.size(); ++d) {
    if (t.output_type == "generate_until") {
      expect({contexts[d][0]});
    } else if (t.output_type == "loglikelihood") {
      const std::string target = python_text(texts.target(documents[d]));
      expect({contexts[d][0], target});
      likelihoods.push_back(likelihood(code_of(contexts[d][0], target))),
          greedy += code_of(contexts[d][0], target) % 3 == 0;
    } else {
      ChosenDocument& document = all.emplace_back();
      document.choices = texts.choices(documents[d]);
      for (size_t i = 0; i < document.choices.size(); ++i) {
        const bool inputs = texts.multiple_inputs();
        const std::string& context = contexts[d][inputs ? i : 0];
        const std::string continuation =
            t.target_delimiter + (inputs ? python_text(texts.target(documents[d])) : document.choices[i]);
        expect({context, continuation});
        document.log_likelihoods.push_back(likelihood(code_of(context, continuation)));
        document.greedy.push_back(code_of(context, continuation) % 3 == 0);
      }
      document.right = texts.right_choices(documents[d], document.choices);
      if (std::find(t.metrics.begin(), t.metrics.end(), "acc_mutual_info") == t.metrics.end()) continue;
      for (const std::string& choice : document.choices) {
        expect({"", t.target_delimiter + choice});
        document.alone.push_back(likelihood(code_of("", t.target_delimiter + choice)));
      }
    }
  }
  EXPECT_EQ(at, golden["requests"].size());
  if (t.output_type == "loglikelihood") {
    const double n = double(documents.size());
    const ZeroShotMetric perplexity = bootstrapped("perplexity", documents.size(), kResamples, [&](const auto& drawn) {
      double sum = 0;
      for (const size_t i : drawn) sum += likelihoods[i];
      return std::exp(-sum / n);
    });
    EXPECT_NEAR(golden["scores"]["perplexity"].get<double>() / perplexity.value, 1, 1e-12);
    EXPECT_NEAR(golden["errors"]["perplexity"].get<double>() / *perplexity.stderr_, 1, 1e-9);
    EXPECT_DOUBLE_EQ(golden["scores"]["acc"], greedy / n);
  }
  if (t.output_type != "multiple_choice") return;
  ASSERT_EQ(t.metrics.size(), golden["scores"].size());
  for (const std::string& name : t.metrics) {
    const ZeroShotMetric metric = choice_metric(name, all, t.task);
    EXPECT_NEAR(metric.value, golden["scores"][name].get<double>(), 1e-14) << name;
    EXPECT_EQ(metric.stderr_.has_value(), golden["errors"].contains(name)) << name;
    if (metric.stderr_) {
      EXPECT_NEAR(*metric.stderr_, golden["errors"][name].get<double>(), 1e-11) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Harness, testing::ValuesIn(harness_tasks("requests")),
                         [](const auto& info) { return info.param; });

struct HarnessAnswers : Harness {};

TEST_P(HarnessAnswers, AreScoredTheSame) {
  const ZeroShotTask t = task();
  const std::vector<Json> documents = zero_shot_documents(t.data_files);
  const auto scores = score_answers(t, documents, golden["answers"].get<std::vector<std::vector<std::string>>>());
  ASSERT_EQ(scores.size(), golden["scores"].size());
  for (const ZeroShotMetric& m : scores) {
    const std::string name = m.name + "," + m.filter;
    EXPECT_NEAR(m.value, golden["scores"][name].get<double>(), 1e-9) << name;
    EXPECT_NEAR(*m.stderr_, golden["errors"][name].get<double>(), 1e-9) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(, HarnessAnswers, testing::ValuesIn(harness_tasks("answers")),
                         [](const auto& info) { return info.param; });

// random.Random(seed).sample(range(population), count) of Python 3.11.
TEST(PythonRandom, DrawsWhatPythonDraws) {
  using List = std::vector<int64_t>;
  PythonRandom random(1234);
  EXPECT_EQ(random.sample(10, 3), (List{7, 1, 0}));
  EXPECT_EQ(random.sample(10, 3), (List{1, 0, 9}));
  EXPECT_EQ(random.sample(1000, 4), (List{100, 784, 363, 242}));
  EXPECT_EQ(PythonRandom(0).sample(100, 8), (List{49, 97, 53, 5, 33, 65, 62, 51}));
  EXPECT_THROW(random.sample(3, 4), Error);
}

std::string error_with(const std::string& text, const Json& fields = Json::object()) {
  return kit::error_of([&] { Template(text, "t").render(fields); });
}

// Values of jinja2 3.1.6.
TEST(Templates, GiveWhatJinjaGives) {
  const Json fields = {{"a", "It's \u201cx\u201d"},
                       {"n", 7},
                       {"r", 0.1},
                       {"none", nullptr},
                       {"yes", true},
                       {"list", {"b", 1, 2.0, nullptr}},
                       {"map", {{"k", "v"}, {"text", {"p", "q"}}}}};
  const std::pair<const char*, const char*> cases[] = {
      {"{{list}} {{map}} {{yes}} {{r}} {{none}}", "['b', 1, 2.0, None] {'k': 'v', 'text': ['p', 'q']} True 0.1 None"},
      {"{{[a]}}", "[\"It's \u201cx\u201d\"]"},
      {"{{ ['a\"\\'b\\n'] }}", "['a\"\\'b\\n']"},
      {"{{ 10000000000000000.0 }} {{ 0.00001 }} {{ 1/3 }} {{ 5.0 }} {{ 1234567.5 }} {{ 2.5e-3 }}",
       "1e+16 1e-05 0.3333333333333333 5.0 1234567.5 0.0025"},
      {"{{ map.text[-1] }}{{ map['k'] }}{{ a[:2] }}{{ a[::-1][:1] }}{{ list[1:3] }}", "qvIt\u201d[1, 2.0]"},
      {"a {%- if n > 5 and not none %} big {%- elif n %} small {% endif -%}  b", "a bigb"},
      {"{% for k, v in map.items() %}{{loop.index0}}{{k}}={{v}}{{ ', ' if not loop.last }}{% endfor %}",
       "0k=v, 1text=['p', 'q']"},
      {"[{{ 1 if false }}] {{ (1 if false) is defined }} {{ (1 if false) ~ 'x' }} {{ (1 if false)|length }} {{ 'y' if "
       "not (1 if false) }}",
       "[] False x 0 y"},
      {"{{ (1 if false).a }}", nullptr},
      {"{{ 'a1b22'|regex_replace('[0-9]+', '<\\\\g<0>>') }} {{ 'aXbX'|regex_replace('X', '', 1) }} {{ "
       "'k=v'|regex_replace('(.)=(.)', '\\\\2:\\\\1') }}",
       "a<1>b<22> abX v:k"},
      {"{% for k, v in map.items() %}{{loop.index0}}{{k}}={{v}};{% endfor %}", "0k=v;1text=['p', 'q'];"},
      {"{% for x in range(4) if x is odd %}{{x}}{% else %}none{% endfor %}{% for x in [] %}{% else %}none{% endfor %}",
       "13none"},
      {"{% set x = n * 2 %}{{ x }}{% set y %}<{{x}}>{% endset %}{{ y }}", "14<14>"},
      {"{% set ns = namespace(t=0) %}{% for i in [1, 2, 3] %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}", "6"},
      {"{% raw %}{{ a }}{% endraw %}{# gone #}{{ '}}' }}\n", "{{ a }}}}\n"},
      {"{{ missing|default('d') }}{{ missing is defined }}{{ n is none }}{{ none is none }}", "dFalseFalseTrue"},
      {"{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a b c'.split(' ', 1) }}",
       "['a', 'b', '', 'c']['a', 'b']['a', 'b c']"},
      {"{{ '  x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'aXbX'.replace('X', '-', 1) }}|{{ 'sS\u00df'|upper }}",
       "x|a|a-bX|SSSS"},
      {"{{ [3, 1, 2]|sort|join('-') }}{{ [1, 2]|sum }}{{ ['b', 'A']|sort }}{{ 'abc'|length }}{{ '7'|int + 1 }}",
       "1-2-33['A', 'b']38"},
      {"{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 'a' ~ 1 ~ none }} {{ 'ab' * 2 }}",
       "-4 2 3.5 8 a1None abab"},
      {"{{ 1 < 2 < 3 }}{{ 'a' in 'cat' }}{{ 2 not in [1] }}{{ true == 1 }}{{ not '' }}", "TrueTrueTrueTrueTrue"},
      {"{{ ['x', 'y'].index('y') }}{{ map.get('z', 'w') }}{{ [map]|map(attribute='k')|list }}", "1w['v']"}};
  for (const auto& [text, expected] : cases)
    if (expected)
      EXPECT_EQ(Template(text, "t").render(fields), expected) << text;
    else
      EXPECT_NE(error_with(text, fields), "") << text;
}

TEST(Templates, WhatIsNotThereIsRefusedByName) {
  for (const auto& [text, words] :
       std::vector<std::pair<std::string, std::string>>{{"{{ who }}", "no field 'who'"},
                                                        {"{{ a.b }}", "no field 'a.b'"},
                                                        {"{{ a", "without }}"},
                                                        {"{% for x in a %}", "lacks {% endfor %}"},
                                                        {"{% include 'x' %}", "{% include %}"},
                                                        {"{{ a|nothing }}", "filter 'nothing'"},
                                                        {"{{ a is nothing }}", "test 'nothing'"},
                                                        {"{{ 'x'.encode() }}", "method 'encode'"},
                                                        {"{{ a + }}", "where a value must stand"},
                                                        {"{{ 'a' + 1 }}", "does not calculate"},
                                                        {"{{ 1 // 0 }}", "divides by 0"},
                                                        {"{{ 'a' * 1000000000000 }}", "too often"}})
    EXPECT_NE(error_with(text, {{"a", Json::object()}}).find(words), std::string::npos)
        << text << error_with(text, {{"a", Json::object()}});
}

TEST(PythonValues, AreReadAsPythonReadsThem) {
  EXPECT_EQ(*python_literal("['a', \"b\\\"c\", 1, -2.5, True, None, ('x',), {'k': [1]}]"),
            Json::array({"a", "b\"c", 1, -2.5, true, nullptr, {"x"}, {{"k", {1}}}}));
  EXPECT_EQ(*python_literal(" 'it' 's' "), "its");
  EXPECT_EQ(*python_literal("'\\u00e9\\x41'"), "\u00e9A");
  // repr() of what is not printable.
  EXPECT_EQ(python_repr("a\u3000b\u200b\u00a0\u00ad\u2028\u007f\u0001\U000e0001 \u00e9\u6f22\\"),
            "'a\\u3000b\\u200b\\xa0\\xad\\u2028\\x7f\\x01\\U000e0001 \u00e9\u6f22\\\\'");
  for (const char* none : {"[a]", "['a' 1]", "1 + 1", "", "['a'", "007"}) EXPECT_FALSE(python_literal(none)) << none;
}

struct HarnessFiles : testing::Test {
  kit::Scratch scratch;
  std::string task(const std::string& name, const std::string& rest) {
    return scratch.add(name + ".yaml", cat("task: ", name, "\ndata_files: [", scratch / "d.jsonl", "]\n", rest));
  }
  HarnessFiles() { scratch.add("d.jsonl", "{\"q\": \"a\", \"g\": 0}\n"); }
};

TEST_F(HarnessFiles, IncludeOthersAndFormGroups) {
  scratch.add("base", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [x, y]\ndoc_to_target: g\n");
  task("one", "include: base\ntag: [both]\n");
  scratch.add("tagged", "include: base\ntag: both\ndoc_to_text: 'two {{q}}'\n");
  task("two", "include: tagged\n");
  task("three", "include: base\n");
  const Path group = scratch.add("all.yaml",
                                 "group: all\ntask:\n  - both\n  - {task: three, num_fewshot: 0, description: 'D. '}\n"
                                 "aggregate_metric_list: [{metric: acc, weight_by_size: true}, {metric: acc_norm, "
                                 "weight_by_size: false, filter_list: [none]}]\n");
  const ZeroShotSuite suite = read_zero_shot_suite(group);
  ASSERT_EQ(suite.tasks.size(), 3u);
  EXPECT_EQ(suite.tasks[1].doc_to_text, "two {{q}}");
  EXPECT_EQ(suite.tasks[2].description, "D. ");
  ASSERT_EQ(suite.groups.size(), 1u);
  EXPECT_EQ(suite.groups[0].tasks, (std::vector<std::string>{"one", "two", "three"}));
  // The mean of all documents, and the mean of the means, both with the pooled error: the harness's formulas.
  std::map<std::string, ZeroShotResult> results;
  const auto add = [&](const std::string& name, int64_t size, double value, double error) {
    results[name] = {size, size, {{"acc", "none", value, error}, {"acc_norm", "none", value, error}}};
  };
  add("one", 10, 0.5, 0.1), add("two", 20, 0.25, 0.05), add("three", 70, 1.0, 0.02);
  const std::vector<ZeroShotMetric> means = group_means(suite.groups[0], results);
  ASSERT_EQ(means.size(), 2u);
  EXPECT_DOUBLE_EQ(means[0].value, 0.8);
  EXPECT_NEAR(*means[0].stderr_, std::sqrt((9 * .01 * 10 + 19 * .0025 * 20 + 69 * .0004 * 70) / 97 / 100), 1e-12);
  EXPECT_DOUBLE_EQ(means[1].value, 1.75 / 3);
  EXPECT_EQ(*means[1].stderr_, *means[0].stderr_);
  scratch.add("loop.yaml", "include: loop.yaml\n");
  EXPECT_NE(kit::error_of([&] { read_zero_shot_suite(scratch / "loop.yaml"); }).find("includes itself"),
            std::string::npos);
  EXPECT_NE(kit::error_of([&] {
              read_zero_shot_suite(scratch.add("lost.yaml", "group: g\ntask: [nowhere]\n"));
            }).find("task, group or tag 'nowhere'"),
            std::string::npos);
}

// As TaskFactory builds them: a group's other keys replace those of its tasks, and names of groups and tasks that stand
// in the list alone have the outer group's before them.
TEST_F(HarnessFiles, GroupsGiveTheirTasksKeys) {
  scratch.add("base", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [x, y]\ndoc_to_target: g\n");
  task("one", "include: base\n");
  task("two", "include: base\nmetric_list: [{metric: acc, weight_by_size: true}, {metric: acc_norm}]\n");
  scratch.add("inner.yaml", "group: inner\ntask: [two]\ndescription: inner\n");
  const Path outer = scratch.add(
      "outer.yaml",
      cat("group: outer\nmetric_list: [{metric: acc_bytes}]\naggregate_metric_list: {metric: acc_bytes}\n"
          "task:\n  - one\n  - {group: inner, description: outer}\n  - group: alone\n    task: [{task: new, "
          "include: no, dataset_path: json, output_type: loglikelihood, doc_to_text: q, doc_to_target: q, "
          "data_files: ",
          scratch / "d.jsonl", ", metric_list: [{metric: acc}]}]\n"));
  EXPECT_NE(kit::error_of([&] { read_zero_shot_suite(outer); }).find("unknown key 'include'"), std::string::npos);
  std::string text = read_file(outer);
  text.replace(text.find("include: no, "), 13, "");
  const ZeroShotSuite suite = read_zero_shot_suite(scratch.add("outer.yaml", text));
  ASSERT_EQ(suite.tasks.size(), 3u);
  EXPECT_EQ(suite.tasks[0].metrics, (std::vector<std::string>{"acc_bytes"}));
  EXPECT_EQ(suite.tasks[1].description, "outer");
  EXPECT_EQ(suite.tasks[1].metrics, (std::vector<std::string>{"acc_bytes"}));
  EXPECT_EQ(suite.tasks[2].task, "outer::alone::new");
  EXPECT_EQ(suite.tasks[2].metrics, (std::vector<std::string>{"acc"}));
  ASSERT_EQ(suite.groups.size(), 3u);
  EXPECT_EQ(suite.groups[2].name, "outer::alone");
  EXPECT_EQ(suite.groups[0].tasks, (std::vector<std::string>{"one", "two", "outer::alone::new"}));
}

// PyYAML takes the last of two values of a key; rolling tasks take no examples, whatever the command line says.
TEST_F(HarnessFiles, OddFilesAreReadAsTheHarnessReadsThem) {
  const ZeroShotTask twice = read_zero_shot_task(task("twice",
                                                      "output_type: loglikelihood\ndoc_to_text: a\n"
                                                      "doc_to_text: q\ndoc_to_target: q\n"));
  EXPECT_EQ(twice.doc_to_text, "q");
  // What is replaced needs no Python.
  scratch.add("python", "output_type: loglikelihood\ndoc_to_text: !function utils.text  # \ndoc_to_target: q\n");
  EXPECT_EQ(read_zero_shot_task(task("own", "include: python\ndoc_to_text: q\n")).doc_to_text, "q");
  const std::string refused = kit::error_of([&] {
    read_zero_shot_task(task("theirs", "include: python\nmetric_list: [{metric: acc, aggregation: !function u.f}]\n"));
  });
  EXPECT_NE(refused.find("python:2:14: doc_to_text is a function of Python (!function utils.text)"), std::string::npos)
      << refused;
  EXPECT_NE(
      kit::error_of([&] {
        read_zero_shot_task(task("theirs",
                                 "include: python\ndoc_to_text: q\nmetric_list: [{metric: acc, aggregation: !function "
                                 "u.f}]\n"));
      }).find("aggregation is a function of Python (!function u.f)"),
      std::string::npos);
  task("rolls", "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: q\n");
  EXPECT_EQ(read_zero_shot_task(scratch / "rolls.yaml", {.num_fewshot = 5}).num_fewshot, 0);
  for (const char* key : {"doc_to_text", "doc_to_target", "description", "gen_prefix"})
    EXPECT_NE(kit::error_of([&] {
                read_zero_shot_task(task("bad", cat("output_type: loglikelihood\ndoc_to_text: q\ndoc_to_target: q\n",
                                                    key, ": '{{ q|nothing }}'\n")));
              }).find(cat(key, ": the filter 'nothing' of a template is not supported")),
              std::string::npos)
        << key;
}

// As datasets 5.2 reads them.
TEST_F(HarnessFiles, ColumnsOfNumbersAreOfOneKind) {
  const auto read = [&](const std::string& lines) {
    Json out = Json::array();
    for (const Json& one : zero_shot_documents({scratch.add("n.jsonl", lines)})) out.push_back(one);
    return python_text(out);
  };
  EXPECT_EQ(read("{\"n\": 1}\n{\"n\": 2.5}\n{}\n"), "[{'n': 1.0}, {'n': 2.5}, {'n': None}]");
  EXPECT_EQ(read("{\"l\": [1, 2]}\n{\"l\": [1.5]}\n{\"l\": []}\n"), "[{'l': [1.0, 2.0]}, {'l': [1.5]}, {'l': []}]");
  EXPECT_EQ(read("{\"n\": 1}\n{\"n\": 2.5}\n{\"n\": \"a\"}\n"), "[{'n': 1}, {'n': 2.5}, {'n': 'a'}]");
  EXPECT_EQ(read("{\"c\": {\"a\": 1}}\n{\"c\": {\"a\": 2.5}}\n"), "[{'c': {'a': 1.0}}, {'c': {'a': 2.5}}]");
  EXPECT_EQ(read("{\"c\": {\"a\": 1}}\n{\"c\": {\"b\": [2.5]}}\n{\"c\": {\"b\": [1]}}\n"),
            "[{'c': {'a': 1}}, {'c': {'b': [2.5]}}, {'c': {'b': [1]}}]");
}

TEST_F(HarnessFiles, DataAreNamedByPatternsAndOfKindsThatAreRead) {
  scratch.add("part1.jsonl", "{\"q\": \"a\"}\n");
  scratch.add("part2.json", "[{\"q\": \"b\", \"more\": 1}, {\"q\": \"c\"}]");
  const std::string rest = "task: t\noutput_type: loglikelihood\ndoc_to_text: q\ndoc_to_target: q\n";
  const ZeroShotTask t = read_zero_shot_task(scratch.add("t.yaml", rest + "data_files: ['part*.json*']\n"));
  const std::vector<Json> documents = zero_shot_documents(t.data_files);
  ASSERT_EQ(documents.size(), 3u);
  EXPECT_TRUE(documents[0]["more"].is_null());  // as the columns of a table
  EXPECT_EQ(documents[2]["q"], "c");
  for (const char* kind : {"csv", "parquet"})
    EXPECT_NE(kit::error_of([&] {
                zero_shot_documents({scratch.add(cat("x.", kind), "q\n1\n")});
              }).find(cat("is ", kind, ", which is not read")),
              std::string::npos);
  // The number of examples that a command line gives, unless the file says 0.
  EXPECT_EQ(read_zero_shot_task(scratch / "t.yaml", {.num_fewshot = 3}).num_fewshot, 3);
  scratch.add("zero.yaml", rest + "data_files: [part1.jsonl]\nnum_fewshot: 0\n");
  EXPECT_EQ(read_zero_shot_task(scratch / "zero.yaml", {.num_fewshot = 3}).num_fewshot, 0);
}

}  // namespace
}  // namespace lithe
