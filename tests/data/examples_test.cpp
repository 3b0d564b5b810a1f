#include "lithe/data/examples.h"

#include "tests/data/files_for_tests.h"

namespace lithe {
namespace {

std::vector<Example> parse(std::string_view text, const std::string& name, const ExampleLayout& layout,
                           LabelNames& labels) {
  std::vector<Example> out;
  parse_examples(text, name, layout, labels, out);
  return out;
}

std::vector<Example> parse(std::string_view text, const std::string& name, const ExampleLayout& layout) {
  LabelNames labels;
  return parse(text, name, layout, labels);
}

const ExampleLayout kPairs{.header = true, .text = "sentence1", .text_pair = "sentence2", .label = "label"};
const ExampleLayout kNumbered{.text = "2", .label = "1"};
const ExampleLayout kScores{.type = TaskType::regression, .text = "1", .text_pair = "2", .label = "3"};

TEST(Tsv, QuotesAreCharactersAndHeadersNameColumns) {
  LabelNames labels;
  const auto examples = parse(
      "index\tsentence1\tsentence2\tlabel\r\n0\t\"a, b\tc \"d\" e\"\tyes\r\n\r\n1\t\t\"\"\tno\r\n"
      "2\tlast\t'\tyes",
      "x.tsv", kPairs, labels);
  ASSERT_EQ(examples.size(), 3u);
  EXPECT_EQ(examples[0].text, "\"a, b");
  EXPECT_EQ(examples[0].pair, "c \"d\" e\"");
  EXPECT_TRUE(examples[0].has_pair);
  EXPECT_EQ(examples[1].text, "");
  EXPECT_EQ(examples[1].pair, "\"\"");
  EXPECT_EQ(examples[2].label, 0);
  EXPECT_EQ(labels.names(), (std::vector<std::string>{"yes", "no"}));
}

TEST(Tsv, ColumnsByNumberNeedNoHeader) {
  const auto examples = parse("0\tone text\nyes\tanother", "x.tsv", kNumbered);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[1].text, "another");
  EXPECT_FALSE(examples[1].has_pair);
  EXPECT_EQ(examples[1].label, 1);
}

TEST(Csv, FieldsInQuotesHoldCommasQuotesAndLineEnds) {
  const auto examples = parse("\"a, \"\"b\"\"\r\nc\",plain,4.5\r\n\"\",\"\",0\r\n x ,y, 1e-1 ", "x.csv", kScores);
  ASSERT_EQ(examples.size(), 3u);
  EXPECT_EQ(examples[0].text, "a, \"b\"\r\nc");
  EXPECT_EQ(examples[0].pair, "plain");
  EXPECT_EQ(examples[0].value, 4.5);
  EXPECT_EQ(examples[1].text, "");
  EXPECT_EQ(examples[1].pair, "");
  EXPECT_EQ(examples[2].text, " x ");
  EXPECT_EQ(examples[2].value, 0.1);
}

TEST(JsonLines, KeysNameTheColumns) {
  LabelNames labels({"false", "true", "7", "x"});
  const ExampleLayout layout{.text = "question", .text_pair = "passage", .label = "answer"};
  const auto examples = parse(
      "{\"question\": \"q\\u00e9\", \"passage\": \"p\", \"answer\": true}\n \n{\"answer\": 7, \"passage\": \"\", "
      "\"question\": \"\"}\n",
      "x.jsonl", layout, labels);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].text, "q\xC3\xA9");
  EXPECT_EQ(examples[0].label, 1);
  EXPECT_EQ(examples[1].label, 2);

  const auto scored = parse("{\"text\": \"t\", \"label\": -2}", "x.ndjson.gz", {.type = TaskType::regression});
  EXPECT_EQ(scored[0].value, -2);
}

TEST(JsonLines, TaggedWordsAreTwoLists) {
  LabelNames labels;
  const auto examples =
      parse("{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\", \"B-X\"]}\n{\"tokens\": [\"c\"], \"tags\": [\"O\"]}",
            "x.jsonl", {.type = TaskType::tagging, .text = "tokens", .label = "tags"}, labels);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].words, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(examples[0].tags, (std::vector<int32_t>{0, 1}));
}

TEST(Transcriptions, LabelsAreCharactersOrAList) {
  LabelNames labels;
  auto examples =
      parse("hé\t1 2\n\t3\n", "x.tsv", {.type = TaskType::transcription, .text = "2", .label = "1"}, labels);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].text, "1 2");
  EXPECT_EQ(examples[0].tags, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(labels.names(), (std::vector<std::string>{"h", "é"}));
  EXPECT_TRUE(examples[1].tags.empty());
  examples = parse("{\"text\": [[1, 2]], \"label\": [\"é\", \"ou\", \"é\"]}\n{\"text\": \"x\", \"label\": \"hé\"}",
                   "x.jsonl", {.type = TaskType::transcription}, labels);
  EXPECT_EQ(examples[0].tags, (std::vector<int32_t>{1, 2, 1}));
  EXPECT_EQ(examples[1].tags, (std::vector<int32_t>{0, 1}));
  expect_error([] { parse("{\"text\": \"x\", \"label\": 3}", "x.jsonl", {.type = TaskType::transcription}); },
               {"'label' must be text, got 3"});
}

TEST(LabelText, TheFirstSpaceEndsTheLabel) {
  const auto examples = parse("1 a  film \n0 \n\n1 b", "stsa.train", {.format = "label_text"});
  ASSERT_EQ(examples.size(), 3u);
  EXPECT_EQ(examples[0].text, "a  film ");
  EXPECT_EQ(examples[1].text, "");
  EXPECT_EQ(examples[2].label, 0);
}

TEST(Conllu, RangesEmptyNodesAndCommentsArePassedOver) {
  const std::string text =
      "# sent_id = 1\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_\n"
      "2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_\n2.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_\n\n# only a comment\n\n"
      "1\ta b\tx\tNOUN\tNN\t_\t0\troot\t_\tNER=O";
  LabelNames upos, xpos;
  const auto examples = parse(text, "x.conllu", {.type = TaskType::tagging}, upos);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].words, (std::vector<std::string>{"do", "n't"}));
  EXPECT_EQ(upos.names(), (std::vector<std::string>{"AUX", "PART", "NOUN"}));
  EXPECT_EQ(examples[1].words, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(examples[1].tags, (std::vector<int32_t>{2}));
  parse(text, "x.conllu", {.type = TaskType::tagging, .text = "lemma", .label = "5"}, xpos);
  EXPECT_EQ(xpos.names(), (std::vector<std::string>{"VBP", "RB", "NN"}));
}

std::string squad(const std::string& context, const std::string& questions) {
  return R"({"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": ")" + context + R"(", "qas": [)" +
         questions + "]}]}]}";
}

TEST(Squad, StartsCountCharactersAndBecomeBytes) {
  const auto examples =
      parse(squad("\xC3\xA9t\xC3\xA9 in Rome", R"({"id": "q1", "question": "where?", "is_impossible": false, "answers":
                  [{"text": "Rome", "answer_start": 7}, {"text": "in Rome", "answer_start": 4}]},
                  {"id": "q2", "question": "who?", "is_impossible": true, "answers": [], "plausible_answers": []},
                  {"question": "why?", "answers": []})"),
            "x.json", {.type = TaskType::span});
  ASSERT_EQ(examples.size(), 3u);
  EXPECT_EQ(examples[0].id, "q1");
  EXPECT_EQ(examples[0].text, "where?");
  EXPECT_EQ(examples[0].pair, "\xC3\xA9t\xC3\xA9 in Rome");
  ASSERT_EQ(examples[0].answers.size(), 2u);
  EXPECT_EQ(examples[0].answers[0].begin, 9);
  EXPECT_EQ(examples[0].answers[1].begin, 6);
  EXPECT_TRUE(examples[1].answers.empty());
  EXPECT_TRUE(examples[2].answers.empty());
}

TEST(Squad, AFileWhoseStartsAreAllBytesIsReadSo) {
  const auto questions = [](int rome) {
    return cat(R"({"question": "q", "answers": [{"text": "a", "answer_start": 0}, {"text": "Rome", "answer_start": )",
               rome, "}]}");
  };
  const ExampleLayout layout{.type = TaskType::span};
  EXPECT_EQ(parse(squad("a\xC3\xA9 Rome", questions(3)), "x.json", layout)[0].answers[1].begin, 4);
  EXPECT_EQ(parse(squad("a\xC3\xA9 Rome", questions(4)), "x.json", layout)[0].answers[1].begin, 4);
  expect_error([&] { parse(squad("a\xC3\xA9 Rome", questions(5)), "x.json", layout); },
               {"x.json: data[0].paragraphs[0].qas[0].answers[1]", "'Rome' does not stand at character 5", "'me'"});
  expect_error([&] { parse(squad("a\xC3\xA9 Rome", questions(99)), "x.json", layout); }, {"which has 7 characters"});
}

TEST(Files, CompressionMarksAndLineEndsDoNotMatter) {
  const TestFiles files;
  const std::string plain = "label\ttext\nx\tone\ny\ttwo\n", marked = "\xEF\xBB\xBFlabel\ttext\r\nx\tone\r\ny\ttwo\r\n";
  for (const std::string& name : {files.add("a.tsv", plain), files.add("b.tsv", marked),
                                  files.add("c.tsv.gz", gzip(marked)), files.add("d.tsv.zst", zstd(plain))}) {
    LabelNames labels;
    std::vector<Example> examples;
    read_examples(name, {.header = true}, labels, examples);
    ASSERT_EQ(examples.size(), 2u) << name;
    EXPECT_EQ(examples[1].text, "two");
    EXPECT_EQ(labels.names()[1], "y");
  }
}

TEST(LabelNames, LearntOnesAreSortedAndExamplesFollow) {
  LabelNames labels;
  auto examples = parse("b\tx\na\ty\nb\tz\nc\tw", "x.tsv", kNumbered, labels);
  labels.sort(examples);
  EXPECT_EQ(labels.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(examples[0].label, 1);
  EXPECT_EQ(examples[1].label, 0);
  EXPECT_EQ(examples[3].label, 2);
  EXPECT_EQ(labels.index("c", ""), 2);
  EXPECT_FALSE(labels.learns());
}

// ---- what is refused

TEST(ExampleErrors, TablesNameFileLineColumnAndWhatWasFound) {
  expect_error([] { parse("a\tb\nc\n", "x.tsv", kNumbered); }, {"x.tsv:2", "must have 2 columns", "got 1"});
  expect_error([] { parse("a\tb\n\nc\td\te\n", "x.tsv", kNumbered); }, {"x.tsv:3", "must have 2 columns", "got 3"});
  expect_error([] { parse("a,b,1\nc,d,high\n", "x.csv", kScores); }, {"x.csv:2: column 3", "finite number", "'high'"});
  for (const char* number : {"nan", "inf", "1e999", "", "1x", "0x1", "1 2", "+1"})
    expect_error([&] { parse(cat("a,b,1\nc,d,", number), "x.csv", kScores); }, {"x.csv:2", "finite number"});
  expect_error([] { parse("a,b,c\n\"x\ny\",d,z", "x.csv", kScores); }, {"x.csv:1"});
  expect_error([] { parse("a,b,1\n\"x\ny\",d,z", "x.csv", kScores); }, {"x.csv:2: column 3"});
  expect_error([] { parse("a,b,1\n\"x\ny\",d,2\n1,2\n", "x.csv", kScores); }, {"x.csv:4", "3 columns", "got 2"});
  expect_error([] { parse("a,b,1\nc,\"d,1\n", "x.csv", kScores); }, {"x.csv:2: column 2", "nothing closes"});
  expect_error([] { parse("a,b\"c,1\n", "x.csv", kScores); }, {"x.csv:1: column 2", "double quote inside"});
  expect_error([] { parse("a,\"b\" c,1\n", "x.csv", kScores); }, {"x.csv:1: column 2", "after its closing"});
  expect_error([] { parse("1 a\nnospace\n", "x", {.format = "label_text"}); }, {"x:2", "a space", "'nospace'"});
  expect_error([] { parse("\tb\n", "x.tsv", kNumbered); }, {"x.tsv:1: column 1 is empty"});
}

TEST(ExampleErrors, LabelsMustBeKnown) {
  LabelNames labels({"entailment", "not_entailment"});
  expect_error([&] { parse("not_entailment\ta\nentailmant\tb", "x.tsv", kNumbered, labels); },
               {"x.tsv:2: column 1", "'entailmant'", "entailment, not_entailment", "did you mean 'entailment'?"});
  expect_error([] { LabelNames({"a", "b", "a"}); }, {"'a'", "twice"}, ExitCode::usage);
  expect_error([] { LabelNames({"a", ""}); }, {"label 2", "empty"}, ExitCode::usage);
}

TEST(ExampleErrors, HeadersNameTheNearestColumn) {
  expect_error([] { parse("index\tsentnce1\tsentence2\tlabel\n", "x.tsv", kPairs); },
               {"x.tsv:1", "no column 'sentence1'", "index, sentnce1", "did you mean 'sentnce1'?"}, ExitCode::usage);
  expect_error([] { parse("sentence1\tsentence1\tsentence2\tlabel\n", "x.tsv", kPairs); }, {"two columns 'sentence1'"},
               ExitCode::usage);
  expect_error([] { parse("a\tb\n", "x.tsv", {.text = "1", .label = "3"}); }, {"task.label is 3", "columns 1 to 2"},
               ExitCode::usage);
  expect_error([] { parse("a\tb\n", "x.tsv", {.text = "0", .label = "1"}); }, {"task.text is 0"}, ExitCode::usage);
  expect_error([] { parse("a\tb\n", "x.tsv", {.text = "99999999999999999999999", .label = "1"}); }, {"columns 1 to 2"},
               ExitCode::usage);
  expect_error([] { parse("a\tb\n", "x.tsv", {.text = "1"}); }, {"task.label is 'label'", "task.header: true"},
               ExitCode::usage);
}

TEST(ExampleErrors, AHeaderIsNotTakenForAnExampleNorTheReverse) {
  std::string rows;
  for (int i = 0; i < 12; ++i) rows += cat(i % 2, "\ttext ", i, "\n");
  expect_error([&] { parse("label\ttext\n" + rows, "x.tsv", kNumbered); },
               {"x.tsv:1", "looks like a header", "'label'"});
  EXPECT_EQ(parse(rows, "x.tsv", kNumbered).size(), 12u);
  LabelNames given({"0", "1", "label"});
  EXPECT_EQ(parse("label\ttext\n" + rows, "x.tsv", kNumbered, given).size(), 13u);
  expect_error([&] { parse(rows, "x.tsv", {.header = true, .text = "2", .label = "1"}); },
               {"x.tsv:1", "'0' in column 1 is a label", "task.header: false"});
  ExampleLayout scores = kScores;
  expect_error([&] { parse("a,b,score\nc,d,1\n", "x.csv", scores); }, {"x.csv:1", "'score'", "task.header: true"});
  scores.header = true;
  expect_error([&] { parse("a,b,2.5\nc,d,1\n", "x.csv", scores); }, {"x.csv:1", "'2.5'", "task.header: false"});
}

TEST(ExampleErrors, JsonNamesTheLineAndTheKey) {
  const auto line = [](const char* text, TaskType type, const std::vector<std::string>& parts) {
    expect_error([&] { parse(cat("\n", text), "x.jsonl", {.type = type}); }, parts);
  };
  line("{\"txt\": \"a\", \"label\": 1}", TaskType::classification,
       {"x.jsonl:2", "no 'text'", "label, txt", "task.text", "did you mean 'txt'?"});
  line("{\"text\": 1, \"label\": 1}", TaskType::classification, {"x.jsonl:2: 'text' must be text, got 1"});
  line("{\"text\": \"\", \"label\": 1.5}", TaskType::classification, {"'label' must be a label", "got 1.5"});
  line("{\"text\": \"\", \"label\": \"1.5\"}", TaskType::regression, {"'label' must be a number, got \"1.5\""});
  line("[1]", TaskType::classification, {"x.jsonl:2", "must be a JSON object", "[1]"});
  line("{\"text\": \"", TaskType::classification, {"x.jsonl:2"});
  line("{\"text\": [\"a\"], \"label\": [\"X\", \"Y\"]}", TaskType::tagging, {"as many tags", "1", "got 2"});
  line("{\"text\": [], \"label\": []}", TaskType::tagging, {"'text' has no words"});
  line("{\"text\": \"a\", \"label\": [\"X\"]}", TaskType::tagging, {"'text' must be a list"});
  line("{\"text\": [3], \"label\": [\"X\"]}", TaskType::tagging, {"'text'[0] must be text, got 3"});
}

TEST(ExampleErrors, SquadNamesTheQuestion) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_error([&] { parse(text, "x.json", {.type = TaskType::span}); }, parts);
  };
  refused("", {"'x.json' is empty"});
  refused("[]", {"x.json: must be a JSON object with 'data'"});
  refused("{\"data\": {}}", {"x.json: data must be a list"});
  refused(squad("c", R"({"question": "q", "answers": [{"text": "", "answer_start": 0}]})"),
          {"answers[0].text is empty"});
  refused(squad("c", R"({"question": "q", "answers": [{"text": "c", "answer_start": -1}]})"), {"whole number", "-1"});
  refused(squad("c", R"({"question": "q", "answers": [{"text": "c", "answer_start": 18446744073709551615}]})"),
          {"does not stand at character 18446744073709551615"});
  refused(squad("c", R"({"question": "q", "is_impossible": true, "answers": [{"text": "c", "answer_start": 0}]})"),
          {"qas[0]: is_impossible is true, but there are 1 answers"});
  refused(squad("c", R"({"question": "q", "is_impossible": false, "answers": []})"), {"is_impossible is false"});
  refused(squad("c", R"({"answers": []})"), {"qas[0]: has no 'question'"});
  refused(squad("c", ""), {"'x.json' holds no examples"});
}

TEST(ExampleErrors, ConlluNamesTheColumn) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_error([&] { parse(text, "x.conllu", {.type = TaskType::tagging}); }, parts);
  };
  const std::string rest = "\tw\tw\tX\t_\t_\t0\troot\t_\t_\n";
  refused("1\tw\tw\tX\n", {"x.conllu:1", "10 columns", "got 4"});
  refused("1" + rest + "3" + rest, {"x.conllu:2: column 1 ('id') must be 2", "got 3"});
  refused("1" + rest + "1" + rest, {"must be 2", "got 1", "empty lines"});
  for (const char* id : {"a", "-1", "1-", "1.", "1-x", "1:2", "", "99999999999999999999"})
    refused(id + rest, {"x.conllu:1: column 1 ('id')", id});
  refused("1\tw\tw\t\t_\t_\t0\troot\t_\t_\n", {"column 4 ('upos') is empty"});
  refused("1\t\tw\tX\t_\t_\t0\troot\t_\t_\n", {"column 2 ('form') is empty"});
  refused("# nothing\n\n", {"holds no examples"});
  expect_error([] { parse("1", "x.conllu", {.type = TaskType::tagging, .label = "uppos"}); },
               {"task.label", "id, form", "'uppos'", "did you mean 'upos'?"}, ExitCode::usage);
}

TEST(ExampleErrors, FormatsMustFitNameTypeAndOptions) {
  expect_error([] { parse("0 a", "stsa.binary.train", {}); }, {"'stsa.binary.train'", "task.format", "label_text"},
               ExitCode::usage);
  expect_error([] { parse("0 a", "x.conllu", {.type = TaskType::span}); }, {"squad"}, ExitCode::usage);
  expect_error([] { parse("", "x.tsv", {.type = TaskType::span, .format = "tsv"}); }, {"'tsv'", "squad"},
               ExitCode::usage);
  expect_error([] { parse("{}", "x.jsonl", {.header = true}); }, {"task.header", "jsonl"}, ExitCode::usage);
  expect_error([] { parse("{}", "x.json", {.type = TaskType::span, .text = "question"}); }, {"task.text", "squad"},
               ExitCode::usage);
  expect_error([] { parse("1", "x.conllu", {.type = TaskType::tagging, .text_pair = "lemma"}); }, {"task.text_pair"},
               ExitCode::usage);
  expect_error([] { parse("0 a", "x", {.format = "label_text", .label = "1"}); }, {"task.label"}, ExitCode::usage);
}

TEST(ExampleErrors, FilesThatAreNoTextOrEmpty) {
  const TestFiles files;
  const auto refused = [](const std::string& path, const std::vector<std::string>& parts,
                          ExitCode code = ExitCode::failed) {
    LabelNames labels;
    std::vector<Example> out;
    expect_error([&] { read_examples(path, kNumbered, labels, out); }, parts, code);
  };
  refused(files.add("empty.tsv", ""), {"empty.tsv", "holds no examples"});
  refused(files.add("blank.tsv", "\n\r\n\n"), {"blank.tsv", "holds no examples"});
  refused(files.add("latin.tsv", "0\ta\n1\tcaf\xE9\n"), {"latin.tsv:2", "byte 6 of the line is not valid UTF-8"});
  refused(files.add("nul.tsv", std::string_view("0\ta\0", 4)), {"nul.tsv", "byte 3 is NUL"});
  refused(files.add("short.tsv.gz", gzip("0\ta\n").substr(0, 12)), {"short.tsv.gz", "truncated"});
  refused(files / "absent.tsv", {"absent.tsv", "No such file"}, ExitCode::usage);
}

}  // namespace
}  // namespace lithe
