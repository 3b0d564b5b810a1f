// Files: what is written, what is refused and how, and the roles of tokens.
#include "lithe/base/fields.h"
#include "lithe/base/json.h"
#include "lithe/text/base64.h"
#include "tests/support/process.h"
#include "text_for_tests.h"

#include <fstream>

namespace lithe {
namespace {

/// A small valid file with parts replaced.
std::string file_with(const std::string& pointer = "", const Json& value = nullptr) {
  Json file = parse_json(make_byte_tokenizer()->to_json(), "bytes");
  if (!pointer.empty()) file[Json::json_pointer(pointer)] = value;
  return file.dump();
}
std::string refusal(const std::string& pointer, const Json& value) {
  return error_of([&] { parse_tokenizer(file_with(pointer, value), "t.json"); });
}

class TokenizerFiles : public testing::Test {
 protected:
  const kit::Scratch scratch_;
  const Path& directory_ = scratch_.path();
};

TEST(TokenizerJson, LoadingGivesBackTheFileByteForByte) {
  const std::string text = file_with() + "\n";
  const auto tokenizer = parse_tokenizer(text, "t.json");
  EXPECT_EQ(tokenizer->to_json(), text);
  EXPECT_EQ(tokenizer->fingerprint(), parse_tokenizer(text, "elsewhere")->fingerprint());
  EXPECT_NE(tokenizer->fingerprint(), make_byte_tokenizer()->fingerprint());
}

TEST(TokenizerJson, RefusesByName) {
  EXPECT_EQ(refusal("/model/type", "Unigram"),
            "tokenizer: 't.json'.model.type: Unigram after ByteLevel is not supported");
  EXPECT_EQ(refusal("/model/type", "Bigram"), "tokenizer: 't.json'.model.type: 'Bigram' is not supported");
  EXPECT_NE(refusal("/model/dropout", 0.1).find("'t.json'.model.dropout is 0.1: texts would be cut at random, each"),
            std::string::npos);
  EXPECT_EQ(refusal("/pre_tokenizer", {{"type", "Scripts"}}),
            "tokenizer: 't.json'.pre_tokenizer.type: 'Scripts' is not supported");
  EXPECT_EQ(refusal("/pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "last"}}),
            "tokenizer: 't.json'.pre_tokenizer.prepend_scheme: 'last' is not supported");
  EXPECT_EQ(refusal("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "  "}}),
            "tokenizer: 't.json'.pre_tokenizer.replacement must be one character, and no space, got '  '");
  EXPECT_EQ(refusal("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Precompiled"}}}}}),
            "tokenizer: 't.json'.normalizer.normalizers[0].precompiled_charsmap must be text, got null");
  EXPECT_EQ(refusal("/decoder", {{"type", "CTC"}}), "tokenizer: 't.json'.decoder.type: 'CTC' is not supported");
  EXPECT_EQ(
      refusal("/pre_tokenizer",
              {{"type", "Sequence"}, {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Metaspace"}}}}}),
      "tokenizer: 't.json'.pre_tokenizer.pretokenizers[1]: Metaspace after ByteLevel is not supported; steps that "
      "cut are");
}

// What tokenizers 0.23.3 gives: the text of the unknown piece is unknown, too, and runs together with what is beside
// it; such a run is looked up as one text, and spelt by bytes where there are any.
TEST(TokenizerJson, UnigramsUnknownPieceIsUnknownAsText) {
  Json vocabulary = Json::array();
  const auto piece = [&](const std::string& text, double score) { vocabulary.push_back(Json::array({text, score})); };
  piece("<unk>", 0);
  for (const char* text : {"a", "b", "ab"}) piece(text, -1);
  const auto ids = [&](const std::string& text, bool bytes) {
    const Json model = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocabulary}, {"byte_fallback", bytes}};
    return parse_tokenizer(Json({{"version", "1.0"}, {"model", model}}).dump(), "t.json")->encode(text);
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(ids("<unk>'", false), Ids{0});
  EXPECT_EQ(ids("'<unk>'a", false), (Ids{0, 1}));
  EXPECT_EQ(ids("ab<unk><unk>b", false), (Ids{3, 0, 2}));
  for (int byte = 0; byte < 256; ++byte) {
    const char* digits = "0123456789ABCDEF";
    piece(cat("<0x", std::string(1, digits[byte / 16]), std::string(1, digits[byte % 16]), ">"), 0);
  }
  EXPECT_EQ(ids("<unk>", true), Ids{0});
  EXPECT_EQ(ids("a<unk>'", true), (Ids{1, 4 + '<', 4 + 'u', 4 + 'n', 4 + 'k', 4 + '>', 4 + '\''}));
}

TEST(TokenizerJson, RefusesDamagedCharsmaps) {
  const auto charsmap = [](const std::string& blob) {
    return refusal("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(blob)}});
  };
  const std::string rule("\x04\0\0\0\0\0\0\0a", 9);
  EXPECT_EQ(refusal("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!"}}),
            "tokenizer: 't.json'.normalizer.precompiled_charsmap is no base64");
  EXPECT_NE(charsmap("ab").find("rules of normalization have 2 bytes"), std::string::npos);
  EXPECT_NE(charsmap(std::string(8, '\1')).find("announce 16843009 bytes of 4"), std::string::npos);
  EXPECT_NE(charsmap(rule).find("damaged: place 0 of 1"), std::string::npos);
}

// Steps of decoders that make much of little, again and again.
TEST(TokenizerJson, RefusesDecodersThatGrowWithoutBound) {
  const Json grow = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(4000, 'a')}};
  const auto refused = [&](const Json& steps) {
    const Json file = {
        {"model", {{"type", "Unigram"}, {"vocab", Json::array({Json::array({"aaaa", -1.0})})}, {"unk_id", 0}}},
        {"decoder", {{"type", "Sequence"}, {"decoders", steps}}}};
    return error_of([&] { parse_tokenizer(file.dump(), "t.json"); });
  };
  EXPECT_NE(refused(Json::array({grow, grow})).find("no tokenizer needs that"), std::string::npos);
}

TEST(TokenizerJson, RefusesDamagedUnigrams) {
  const auto one = [](const Json& score) { return Json::array({Json::array({"a", score})}); };
  const auto unigram = [](const Json& vocab, const Json& unk) {
    const Json file = {{"model", {{"type", "Unigram"}, {"vocab", vocab}, {"unk_id", unk}}}};
    return error_of([&] { parse_tokenizer(file.dump(), "t.json")->encode("abc"); });
  };
  const Json whole = {{"model", {{"type", "Unigram"}, {"vocab", one(-1.0)}, {"unk_id", 0}}}};
  EXPECT_EQ(parse_tokenizer(whole.dump(), "t.json")->encode("aab"),
            Ids{0});  // one unknown text, as tokenizers 0.23.3 has it
  EXPECT_EQ(unigram(one(-1.0), 1), "tokenizer: 't.json'.model.unk_id is 1, the vocabulary has 1 pieces");
  EXPECT_EQ(unigram(one(-1.0), nullptr), "tokenizer: 't.json'.model has no unk_id, and 'bc' is none of its pieces");
  EXPECT_EQ(unigram(one("x"), 0), "tokenizer: 't.json'.model.vocab[0] must be a piece and its log probability");
  EXPECT_EQ(unigram(Json::array({Json::array({std::string(1025, 'a'), -1})}), 0),
            "tokenizer: 't.json'.model.vocab[0] has 1025 bytes, above the limit of 1024");
  EXPECT_EQ(unigram(Json::array(), 0), "tokenizer: 't.json'.model.vocab is empty");
}

TEST(TokenizerJson, RefusesWhatIsMalformed) {
  EXPECT_EQ(
      refusal("/model/vocab/A", -3),
      "tokenizer: 't.json': id -3 of token 'A' must be at least 0 and below 67592 (8 times the entries, and 65536)");
  EXPECT_EQ(refusal("/model/vocab/A", 2000000000),
            "tokenizer: 't.json': id 2000000000 of token 'A' must be at least 0 and below 67592 (8 times the entries, "
            "and 65536)");
  EXPECT_EQ(refusal("/model/vocab/A", 66), "tokenizer: 't.json': id 66 has two tokens, 'A' and 'B'");
  EXPECT_EQ(refusal("/model/vocab/A", "x"), "tokenizer: 't.json'.model.vocab must be an integer, got string");
  EXPECT_EQ(refusal("/model/vocab", Json::object()),
            "tokenizer: 't.json'.model.vocab must be an object of tokens and ids, got nothing");
  EXPECT_EQ(refusal("/model/merges", {"a b c"}),
            "tokenizer: 't.json'.model.merges[0] must be two tokens with one space between, or a list of two");
  EXPECT_EQ(refusal("/model/merges", {"a b"}),
            "tokenizer: 't.json'.model.merges[0]: token 'ab' is not in the vocabulary");
  EXPECT_EQ(refusal("/model/unk_token", "<unk>"),
            "tokenizer: 't.json'.model.unk_token: '<unk>' is not in the vocabulary");
  EXPECT_EQ(refusal("/added_tokens", {{{"id", 5}, {"content", "<x>"}}}),
            "tokenizer: 't.json': id 5 has two tokens, 'ą' and '<x>'");
  EXPECT_EQ(refusal("/added_tokens/0/special", 1),
            "tokenizer: 't.json'.added_tokens[0].special must be true or false, got number");
  EXPECT_EQ(error_of([] { parse_tokenizer("{}", "t.json"); }),
            "tokenizer: 't.json'.model is missing: this is no tokenizer.json");
  EXPECT_EQ(error_of([] { parse_tokenizer("[1]", "t.json"); }), "tokenizer: 't.json' must hold an object, got array");
  EXPECT_NE(error_of([] { parse_tokenizer("{\"model\"", "t.json"); }).find("json: 't.json': "), std::string::npos);
}

TEST(TokenizerJson, MergesMayBeTextOrLists) {
  Json file = parse_json(make_byte_tokenizer()->to_json(), "bytes");
  file["added_tokens"] = Json::array();
  file["model"]["vocab"]["ab"] = 256;
  file["model"]["merges"] = {"a b"};
  EXPECT_EQ(parse_tokenizer(file.dump(), "text")->encode("abb"), (Ids{256, 'b'}));
  file["model"]["merges"] = Json::array({Json::array({"a", "b"})});
  EXPECT_EQ(parse_tokenizer(file.dump(), "lists")->encode("abb"), (Ids{256, 'b'}));
}

TEST(TokenizerJson, GapsInTheVocabularyAreEmpty) {
  const auto tokenizer = parse_tokenizer(file_with("/model/vocab/ab", 300), "t.json");
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->token(299), "");
  EXPECT_EQ(tokenizer->decode(Ids{97, 299, 300}), "aab");
}

TEST(TokenizerJson, AddedTokensThatAreNotSpecialAreAlwaysFound) {
  const Json added = {{{"id", 256}, {"content", "<|endoftext|>"}, {"special", true}},
                      {{"id", 257}, {"content", "<tool>"}, {"special", false}}};
  const auto tokenizer = parse_tokenizer(file_with("/added_tokens", added), "t.json");
  EXPECT_EQ(tokenizer->encode("a<tool>b"), (Ids{'a', 257, 'b'}));
  EXPECT_EQ(tokenizer->encode("<|endoftext|>").size(), 13u);
  EXPECT_EQ(tokenizer->encode_with_specials("<tool><|endoftext|>"), (Ids{257, 256}));
}

TEST(TokenizerJson, WordPieceTakesTheLongestPieceFirst) {
  const auto tokenizer = parse_tokenizer(R"({
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
      "vocab": {"[UNK]": 0, "un": 1, "##aff": 2, "##able": 3, "##a": 4, "u": 5, "漢": 6, ",": 7, "##able!": 8, "!": 9}}})",
                                         "t.json");
  EXPECT_EQ(tokenizer->encode("Unaffable"), (Ids{1, 2, 3}));
  EXPECT_EQ(tokenizer->encode("ÜNAFF, una!"), (Ids{1, 2, 7, 1, 4, 9}));
  EXPECT_EQ(tokenizer->encode("unx un"), (Ids{0, 1}));
  EXPECT_EQ(tokenizer->encode("unaffableaff"), (Ids{0})) << "more than 9 characters";
  EXPECT_EQ(tokenizer->encode("漢un\u00ad\xFF"), (Ids{6, 1, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 2, 3, 7, 1, 9}), "unaffable, un!");
}

TEST_F(TokenizerFiles, SavedAndLoadedAgain) {
  const std::string_view text = "a text, a text, another text";
  const auto tokenizer = train_bpe({&text, 1}, {.vocab_size = 270, .specials = {"<|im_end|>", "<pad>"}});
  save_tokenizer(*tokenizer, directory_ / "run");
  const auto again = load_tokenizer(directory_ / "run");
  EXPECT_EQ(again->to_json(), tokenizer->to_json());
  EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
  EXPECT_EQ(again->encode(text), tokenizer->encode(text));
  EXPECT_EQ(again->specials().bos, 0);
  EXPECT_EQ(again->specials().eos, 0);
  EXPECT_EQ(again->specials().pad, 1);
  EXPECT_EQ(load_tokenizer(directory_ / "run" / "tokenizer.json")->fingerprint(), tokenizer->fingerprint());
}

TEST_F(TokenizerFiles, ConfigNamesTheRoles) {
  write_file(directory_ / "tokenizer.json", file_with());
  write_file(directory_ / "tokenizer_config.json",
             R"({"bos_token": null, "eos_token": {"content": "<|endoftext|>", "lstrip": false}, "pad_token": "A"})");
  const auto tokenizer = load_tokenizer(directory_);
  EXPECT_FALSE(tokenizer->specials().bos);
  EXPECT_EQ(tokenizer->specials().eos, 256);
  EXPECT_EQ(tokenizer->specials().pad, 65);
  EXPECT_NE(tokenizer->fingerprint(), parse_tokenizer(file_with(), "t")->fingerprint()) << "the roles count";
  write_file(directory_ / "tokenizer_config.json", R"({"eos_token": "<nothing>"})");
  EXPECT_NE(error_of([&] { load_tokenizer(directory_); }).find("eos_token '<nothing>' is not in the vocabulary"),
            std::string::npos);
}

TEST_F(TokenizerFiles, DirectoriesOfGpt2AndBert) {
  EXPECT_NE(error_of([&] { load_tokenizer(directory_); }).find("has no tokenizer.json"), std::string::npos);
  write_file(directory_ / "vocab.txt", "[PAD]\r\n[UNK]\r\nhello\r\n##s\r\n");
  EXPECT_EQ(load_tokenizer(directory_)->encode("Hellos x"), (Ids{2, 3, 1}));

  Json vocab = parse_json(make_byte_tokenizer()->to_json(), "bytes").at("model").at("vocab");
  vocab["he"] = 256;
  vocab["<|endoftext|>"] = 257;
  write_file(directory_ / "vocab.json", vocab.dump());
  write_file(directory_ / "merges.txt", "#version: 0.2\nh e\n\n");
  const auto gpt2 = load_tokenizer(directory_);
  EXPECT_EQ(gpt2->encode("he he"), (Ids{256, ' ', 256}));
  EXPECT_EQ(gpt2->specials().eos, 257);
  write_file(directory_ / "added_tokens.json", R"({"<|endoftext|>": 257})");
  EXPECT_EQ(load_tokenizer(directory_)->encode("he"), (Ids{256}));
  write_file(directory_ / "added_tokens.json", R"({"<|user|>": 258})");
  EXPECT_NE(error_of([&] {
              load_tokenizer(directory_);
            }).find("added_tokens.json' adds token '<|user|>' with id 258, which is read from a tokenizer.json alone"),
            std::string::npos);
  std::filesystem::remove(directory_ / "added_tokens.json");
  write_file(directory_ / "merges.txt", "#version: 0.2\nhe\n");
  EXPECT_NE(error_of([&] { load_tokenizer(directory_); }).find("merges.txt' line 2 must be two tokens, got 'he'"),
            std::string::npos);
  vocab["he"] = 258;
  write_file(directory_ / "vocab.json", vocab.dump());
  EXPECT_NE(error_of([&] { load_tokenizer(directory_); }).find("ids must be 0 to 257, each once; token 'he' has 258"),
            std::string::npos);
  EXPECT_NE(error_of([&] { load_tokenizer(directory_ / "absent.json"); }).find("absent.json"), std::string::npos);
}

TEST(TokenizerConfig, MakesTokenizers) {
  const auto make = [](const std::string& yaml) {
    TokenizerConfig config;
    read_fields(parse_yaml(yaml, "r.yaml"), "data.tokenizer", [&](Fields& f) { config.fields(f); });
    return make_tokenizer(config, [](const auto& add) { add("go go go"), add("go far"); });
  };
  EXPECT_EQ(make("type: bytes")->vocab_size(), 257);
  EXPECT_EQ(make("{type: bpe, vocab_size: 258}")->token(257), "go");
  EXPECT_EQ(error_of([&] { make("type: file"); }), "tokenizer: type file needs the key file");
  EXPECT_EQ(error_of([&] { make("{type: bytes, file: a}"); }),
            "tokenizer: file 'a' is given, but the type is bytes: set type to file or remove it");
  EXPECT_NE(error_of([&] { make("type: unigram"); }).find("bytes"), std::string::npos);
}

}  // namespace
}  // namespace lithe
