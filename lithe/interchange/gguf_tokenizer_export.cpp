// Tokenizers as metadata of GGUF: byte-level BPE ("gpt2") and SentencePiece's BPE ("llama").
#include <algorithm>
#include <map>

#include "lithe/base/error.h"
#include "lithe/interchange/gguf_names.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/sentencepiece_file.h"
#include "lithe/text/sentencepiece_tokenizer.h"

namespace lithe {
namespace {

constexpr uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kText = 8;

void add_bpe(const nlohmann::json& tree, int64_t entries, std::vector<GgufPair>& out) {
  const auto& vocabulary = tree["model"]["vocab"];
  std::vector<std::string> tokens(static_cast<size_t>(entries));
  std::vector<int64_t> types(size_t(entries), kUnused);
  for (const auto& [token, id] : vocabulary.items()) {
    tokens[id.get<size_t>()] = token;
    types[id.get<size_t>()] = kNormal;
  }
  for (const auto& added : tree["added_tokens"]) {
    tokens[added["id"].get<size_t>()] = added["content"].get<std::string>();
    types[added["id"].get<size_t>()] = added.value("special", false) ? kControl : kUserDefined;
  }
  for (size_t id = 0; id < tokens.size(); ++id)
    if (types[id] == kUnused) tokens[id] = cat("[PAD", id, "]");
  std::vector<std::string> merges;
  for (const auto& merge : tree["model"]["merges"])
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  // A tokenizer of bytes alone is the same however texts are cut.
  std::string pre = merges.empty() ? "gpt-2" : "";
  const auto& cut = tree["pre_tokenizer"];
  if (cut.is_object() && cut.value("type", "") == "ByteLevel" && cut.value("use_regex", true)) pre = "gpt-2";
  if (cut.is_object() && cut.value("type", "") == "Sequence")
    for (const auto& step : cut["pretokenizers"])
      for (const auto& [name, pattern] : gguf_cuts())
        if (step.value("type", "") == "Split" && step["pattern"].value("Regex", "") == pattern) pre = name;
  check_usage(!pre.empty(), "export",
              "GGUF has no name for how this tokenizer cuts texts; those of GPT-2, Llama 3 and "
              "Qwen2 have one");
  check_usage(tree["normalizer"].is_null() || tree["normalizer"].value("type", "") == "NFC", "export",
              "GGUF has no form for this tokenizer's normalizer");
  out.push_back({"tokenizer.ggml.model", {std::string("gpt2")}, kText});
  out.push_back({"tokenizer.ggml.pre", {pre}, kText});
  out.push_back({"tokenizer.ggml.tokens", {tokens}, kText});
  out.push_back({"tokenizer.ggml.token_type", {types}, kI32});
  out.push_back({"tokenizer.ggml.merges", {merges}, kText});
}

void put_pieces(const std::vector<std::string>& tokens, const std::vector<double>& scores,
                const std::vector<int64_t>& types, bool space_prefix, std::vector<GgufPair>& out) {
  out.push_back({"tokenizer.ggml.model", {std::string("llama")}, kText});
  out.push_back({"tokenizer.ggml.pre", {std::string("default")}, kText});
  out.push_back({"tokenizer.ggml.tokens", {tokens}, kText});
  out.push_back({"tokenizer.ggml.scores", {scores}, kF32});
  out.push_back({"tokenizer.ggml.token_type", {types}, kI32});
  out.push_back({"tokenizer.ggml.add_space_prefix", {space_prefix}, kBool});
}

void add_sentencepiece(const std::string& bytes, int64_t entries, std::vector<GgufPair>& out) {
  const SentencePieceFile model = read_sentencepiece_file(bytes, "tokenizer.model");
  check_usage(model.kind == SentencePieceFile::Kind::bpe, "export",
              "GGUF's llama tokenizer is SentencePiece's BPE, this one is a unigram tokenizer");
  std::vector<std::string> tokens;
  std::vector<double> scores;
  std::vector<int64_t> types;
  for (const auto& piece : model.pieces) {
    tokens.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(int64_t(piece.type));
  }
  while (int64_t(tokens.size()) < entries) {
    tokens.push_back(cat("[PAD", tokens.size(), "]"));
    scores.push_back(0);
    types.push_back(kUnused);
  }
  put_pieces(tokens, scores, types, model.add_dummy_prefix, out);
}

/// Whether a tokenizer.json puts a space before texts, in the ways of SentencePiece; none: it is no such tokenizer.
std::optional<bool> space_prefix(const nlohmann::json& tree) {
  bool prefix = false, spells = false;
  const auto read = [&](const nlohmann::json& step) {
    const std::string type = step.value("type", "");
    const std::string space = "\u2581";
    if (type == "Metaspace" && step.value("replacement", space) == space && !step.value("split", true)) {
      prefix = step.value("prepend_scheme", "always") != "never";
      return spells = true;
    }
    if (type == "Prepend" && step.value("prepend", "") == space) return prefix = true;
    const bool replaces = type == "Replace" && step.value("content", "") == space && step.contains("pattern") &&
                          step["pattern"].value("String", "") == " ";
    spells = spells || replaces;
    return replaces;
  };
  const auto read_all = [&](const nlohmann::json& section, const char* list) {
    if (section.is_null()) return true;
    if (section.value("type", "") != "Sequence") return read(section);
    const auto& steps = section[list];
    return std::all_of(steps.begin(), steps.end(), read);
  };
  const bool known = read_all(tree["normalizer"], "normalizers") && read_all(tree["pre_tokenizer"], "pretokenizers");
  return known && spells ? std::optional(prefix) : std::nullopt;
}

/// A BPE of characters that falls back to bytes, as Llama 2's tokenizer.json has it. The sooner a piece is merged, the
/// better its score.
void add_byte_fallback_bpe(const nlohmann::json& tree, int64_t entries, std::vector<GgufPair>& out) {
  const std::optional<bool> prefix = space_prefix(tree);
  check_usage(prefix.has_value(), "export",
              "GGUF has no form for this tokenizer's normalizer and pre_tokenizer; Llama 2's have one");
  std::vector<std::string> tokens(static_cast<size_t>(entries));
  std::vector<double> scores(size_t(entries), 0);
  std::vector<int64_t> types(size_t(entries), kUnused);
  for (const auto& [token, id] : tree["model"]["vocab"].items()) {
    tokens[id.get<size_t>()] = token;
    types[id.get<size_t>()] = fallback_byte(token) ? kByte : kNormal;
  }
  const std::string unk = tree["model"]["unk_token"].is_string() ? tree["model"]["unk_token"].get<std::string>() : "";
  for (const auto& added : tree["added_tokens"]) {
    const auto id = added["id"].get<size_t>();
    tokens[id] = added["content"].get<std::string>();
    types[id] = tokens[id] == unk ? kUnknown : added.value("special", false) ? kControl : kUserDefined;
  }
  for (size_t id = 0; id < tokens.size(); ++id)
    if (types[id] == kUnused) tokens[id] = cat("[PAD", id, "]");
  double rank = 0;
  std::map<std::string, double> made;
  for (const auto& merge : tree["model"]["merges"]) {
    std::string piece;
    if (merge.is_string())
      for (const char c : merge.get<std::string>()) piece += c == ' ' ? "" : std::string(1, c);
    else
      piece = merge[0].get<std::string>() + merge[1].get<std::string>();
    made.emplace(piece, rank--);
  }
  // What no merge makes comes after all that one does.
  for (size_t id = 0; id < tokens.size(); ++id)
    if (types[id] == kNormal) scores[id] = made.count(tokens[id]) ? made[tokens[id]] : rank;
  put_pieces(tokens, scores, types, *prefix, out);
}

}  // namespace

std::vector<GgufPair> gguf_of_tokenizer(const Tokenizer& tokenizer, int64_t entries, bool add_bos) {
  std::vector<GgufPair> out;
  const std::string json = tokenizer.to_json(), model = sentencepiece_model_of(json);
  if (!model.empty()) {
    add_sentencepiece(model, entries, out);
  } else {
    const auto tree = parse_json_sorted(json, "tokenizer.json");
    const bool bpe = tree.is_object() && tree.contains("model") && tree["model"].is_object() &&
                     tree["model"].value("type", "") == "BPE";
    check_usage(bpe, "export", "GGUF holds byte-level BPE and SentencePiece's BPE; this tokenizer is another");
    (tree["model"].value("byte_fallback", false) ? add_byte_fallback_bpe : add_bpe)(tree, entries, out);
  }
  const Specials& specials = tokenizer.specials();
  const std::pair<const char*, std::optional<int32_t>> roles[] = {
      {"bos", specials.bos}, {"eos", specials.eos}, {"padding", specials.pad}, {"unknown", specials.unk}};
  for (const auto& [name, id] : roles)
    if (id) out.push_back({cat("tokenizer.ggml.", name, "_token_id"), {int64_t(*id)}, kU32});
  out.push_back({"tokenizer.ggml.add_bos_token", {add_bos}, kBool});
  return out;
}

}  // namespace lithe
