// Published vectors: llama.cpp, swift-transformers, and the training vectors of Stanford's CS336.
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

std::vector<std::string> split_at(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == text.npos) return parts;
    begin = end + separator.size();
  }
}

Ids numbers(const std::string& line) {
  std::istringstream in(line);
  return Ids(std::istream_iterator<int32_t>(in), {});
}

void expect_llama_vectors(const Tokenizer& tokenizer, const std::string& name) {
  auto texts = split_at(read_file(data("tokenizers/parity/llama.cpp/" + name + ".inp")), "\n__ggml_vocab_test__\n");
  const auto lines = split_at(read_file(data("tokenizers/parity/llama.cpp/" + name + ".out")), "\n");
  if (texts.back().empty()) texts.pop_back();  // the file ends with a separator
  ASSERT_EQ(texts.size(), 46u);
  ASSERT_EQ(lines.size(), 47u);  // the file ends with a line end
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer.encode(texts[i]), numbers(lines[i])) << "'" << texts[i] << "'";
}

Json swift(const std::string& name) {
  return parse_json(read_file(data("tokenizers/parity/swift-transformers/" + name)), name);
}

TEST(TokenizerParity, Gpt2) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const auto gpt2 = load_tokenizer(data("tokenizers/gpt2"));
  EXPECT_EQ(gpt2->vocab_size(), 50257);
  EXPECT_EQ(gpt2->specials().bos, 50256);
  EXPECT_EQ(gpt2->specials().eos, 50256);
  expect_llama_vectors(*gpt2, "gpt-2");

  const Json text = swift("gpt2_encoded_tokens.json");
  EXPECT_EQ(gpt2->encode(text.at("text").get<std::string>()), text.at("token_ids").get<Ids>());
  std::vector<std::string> tokens;
  for (const int32_t id : text.at("token_ids").get<Ids>()) tokens.push_back(gpt2->token(id));
  EXPECT_EQ(tokens, text.at("bpe_tokens").get<std::vector<std::string>>());

  const Json tests = swift("tokenizer_tests.json");
  for (const Json& entry : tests.at("distilgpt2")) {
    const std::string input = entry.at("input");
    const auto ids = entry.at("encoded").at("input_ids").get<Ids>();
    EXPECT_EQ(gpt2->encode(input), ids) << input;
    EXPECT_EQ(gpt2->decode(ids), input);
  }
}

TEST(TokenizerParity, BertUncased) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const auto bert = load_tokenizer(data("tokenizers/bert-base-uncased/tokenizer.json"));
  EXPECT_EQ(bert->vocab_size(), 30522);
  const Specials& s = bert->specials();
  EXPECT_EQ(s.bos, 101);
  EXPECT_EQ(s.eos, 102);
  EXPECT_EQ(s.pad, 0);
  EXPECT_EQ(s.unk, 100);
  EXPECT_EQ(s.cls, 101);
  EXPECT_EQ(s.sep, 102);
  EXPECT_EQ(s.mask, 103);
  expect_llama_vectors(*bert, "bert-bge");

  const Json text = swift("bert_uncased_encoded.json");
  Ids ids = bert->encode(text.at("text").get<std::string>());
  ids.insert(ids.begin(), *s.bos);
  ids.push_back(*s.eos);
  EXPECT_EQ(ids, text.at("token_ids").get<Ids>());

  const Json tests = swift("tokenizer_tests.json");
  for (const char* name : {"bert-base-uncased", "google-bert/bert-base-uncased"})
    for (const Json& entry : tests.at(name)) {
      const std::string input = entry.at("input");
      const auto expected = entry.at("encoded").at("input_ids").get<Ids>();
      EXPECT_EQ(bert->encode(input), Ids(expected.begin() + 1, expected.end() - 1)) << input;
      EXPECT_EQ(bert->decode(expected), entry.at("decoded_with_special").get<std::string>());
    }
}

TEST(TokenizerParity, TenThousandQuestionsInBert) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const auto words = swift("basic_tokenized_questions.json"), ids = swift("tokenized_questions.json");
  const auto from_text = load_tokenizer(data("tokenizers/bert-base-uncased/vocab.txt"));
  const auto from_json = load_tokenizer(data("tokenizers/bert-base-uncased"));
  ASSERT_EQ(words.size(), ids.size());
  ASSERT_GT(words.size(), 10000u);
  size_t different = 0;
  for (size_t q = 0; q < words.size(); ++q) {
    std::string question;
    for (const Json& word : words[q]) question += word.get<std::string>() + " ";
    const auto expected = ids[q].get<Ids>();
    different += from_text->encode(question) != expected || from_json->encode(question) != expected;
  }
  EXPECT_EQ(different, 0u) << "of " << words.size();
}

// oracle: tok.bpe
TEST(TokenizerParity, TrainingGivesTheReferenceMerges) {
  const Path folder = data("tokenizers/parity/bpe-training");
  if (folder.empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const std::string corpus = read_file(folder / "corpus.en");
  const std::string_view text = corpus;
  const auto tokenizer = train_bpe({&text, 1}, {.vocab_size = 500});
  const Json file = parse_json(tokenizer->to_json(), "trained");
  auto lines = split_at(read_file(folder / "train-bpe-reference-merges.txt"), "\n");
  if (lines.back().empty()) lines.pop_back();
  EXPECT_EQ(file.at("model").at("merges").get<std::vector<std::string>>(), lines);
  const Json vocabulary = parse_json(read_file(folder / "train-bpe-reference-vocab.json"), "reference");
  EXPECT_EQ(tokenizer->vocab_size(), 500);
  ASSERT_EQ(vocabulary.size(), 500u);
  for (const auto& [token, id] : vocabulary.items()) EXPECT_EQ(tokenizer->token(id.get<int32_t>()), token);
}

TEST(TokenizerParity, PublishedFilesLoadAndGiveBackTheirText) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const std::string text = "It's 1984: twenty-one llamas, don't they sing?\n\n  No!";
  for (const auto& [name, size] :
       {std::pair("torchtune-tiny-bpe", 2003), {"torchtune-tokenizer", 2000}, {"torchtitan-test", 2020}}) {
    const auto tokenizer = load_tokenizer(data(std::string("tokenizers/tokenizer-json/") + name + ".json"));
    EXPECT_EQ(tokenizer->vocab_size(), size) << name;
    // The last one spells spaces as spaces, not in the alphabet of bytes, so that nothing can encode them.
    std::string expected = text;
    if (std::string(name) == "torchtitan-test") std::erase_if(expected, [](char c) { return c == ' ' || c == '\n'; });
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), expected) << name;
  }
}

}  // namespace
}  // namespace lithe
