// Tokenizers from the metadata of GGUF: byte-level BPE ("gpt2") and SentencePiece ("llama").
#include <algorithm>
#include <cstring>

#include "lithe/base/error.h"
#include "lithe/interchange/gguf_names.h"
#include "lithe/text/sentencepiece_file.h"
#include "lithe/text/sentencepiece_tokenizer.h"
#include "lithe/text/tokenizer_json.h"
#include "lithe/text/tokenizer_roles.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

template <class T>
const T& list_of(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  const T* list = found == file.metadata().end() ? nullptr : found->second.get<T>();
  check(list, "import", "'", file.origin(), "' has no list ", key, "; give --tokenizer");
  return *list;
}

std::optional<int64_t> integer_of(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  const int64_t* value = found == file.metadata().end() ? nullptr : found->second.get<int64_t>();
  return value ? std::optional(*value) : std::nullopt;
}

std::string text_of(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  const std::string* value = found == file.metadata().end() ? nullptr : found->second.get<std::string>();
  return value ? *value : "";
}

Roles roles_of(const GgufFile& file, const std::vector<std::string>& tokens) {
  Roles roles;
  const std::pair<Role*, const char*> named[] = {
      {&roles.bos, "bos"}, {&roles.eos, "eos"}, {&roles.pad, "padding"}, {&roles.unk, "unknown"}};
  for (const auto& [role, name] : named) {
    role->stated = true;
    const auto id = integer_of(file, cat("tokenizer.ggml.", name, "_token_id"));
    if (!id) continue;
    check(*id >= 0 && *id < int64_t(tokens.size()), "import", "'", file.origin(), "': tokenizer.ggml.", name,
          "_token_id is ", *id, ", there are ", tokens.size(), " tokens");
    role->token = tokens[size_t(*id)];
  }
  return roles;
}

std::unique_ptr<Tokenizer> bpe_of(const GgufFile& file, const std::vector<std::string>& tokens,
                                  const std::vector<int64_t>& types) {
  BpeDescription description{.vocabulary = tokens, .merges = {}, .added = {}, .words = true};
  const auto check_text = [&](const std::string& text) {
    check(is_valid_utf8(text), "import", "'", file.origin(), "': a token is not UTF-8 at byte ",
          valid_utf8_prefix(text));
  };
  for (const std::string& token : tokens) check_text(token);
  for (const std::string& merge : list_of<std::vector<std::string>>(file, "tokenizer.ggml.merges")) {
    check_text(merge);
    const size_t space = merge.find(' ', 1);
    check(space != std::string::npos, "import", "'", file.origin(), "': tokenizer.ggml.merges has '", merge,
          "', which must be two tokens");
    description.merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  for (size_t id = 0; id < types.size(); ++id)
    if (types[id] == kControl || types[id] == kUserDefined)
      description.added.push_back({.id = int32_t(id), .content = tokens[id], .special = types[id] == kControl});
  const std::string named = text_of(file, "tokenizer.ggml.pre"),
                    pre = named.empty() || named == "default" ? "gpt-2" : named;
  const auto& cuts = gguf_cuts();
  const auto cut = std::find_if(cuts.begin(), cuts.end(), [&](const auto& c) { return c.first == pre; });
  check_usage(
      cut != cuts.end(), "import", "'", file.origin(), "': tokenizer.ggml.pre is '", pre,
      "', a way to cut texts that lithe has not under this name; give --tokenizer with the model's tokenizer.json");
  std::string json = byte_level_bpe_json(description);
  if (pre != "gpt-2") {
    const std::string plain =
        R"("pre_tokenizer": {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
    const size_t at = json.find(plain);
    check(at != std::string::npos, "import", "internal: no pre_tokenizer to replace");
    const Json split = {
        {"type", "Split"}, {"pattern", {{"Regex", cut->second}}}, {"behavior", "Isolated"}, {"invert", false}};
    const Json level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
    json.replace(at, plain.size(),
                 "\"pre_tokenizer\": " + dump(Json({{"type", "Sequence"}, {"pretokenizers", {split, level}}})));
  }
  return parse_tokenizer(json, file.origin(), roles_of(file, tokens));
}

// ---- the protocol buffer of SentencePiece's .model files, of which little is needed

void put_varint(std::string& to, uint64_t value) {
  for (; value > 127; value >>= 7) to += char((value & 127) | 128);
  to += char(value);
}
void put_bytes(std::string& to, int field, const std::string& bytes) {
  put_varint(to, uint64_t(field) << 3 | 2);
  put_varint(to, bytes.size());
  to += bytes;
}
void put_number(std::string& to, int field, uint64_t value) {
  put_varint(to, uint64_t(field) << 3);
  put_varint(to, value);
}

std::unique_ptr<Tokenizer> sentencepiece_of(const GgufFile& file, const std::vector<std::string>& tokens,
                                            const std::vector<int64_t>& types) {
  const auto& scores = list_of<std::vector<double>>(file, "tokenizer.ggml.scores");
  check(scores.size() == tokens.size(), "import", "'", file.origin(), "': tokenizer.ggml.scores has ", scores.size(),
        " numbers for ", tokens.size(), " tokens");
  std::string model;
  bool bytes = false;
  for (size_t id = 0; id < tokens.size(); ++id) {
    std::string piece;
    put_bytes(piece, 1, tokens[id]);
    const auto score = float(scores[id]);
    piece += char(2 << 3 | 5);
    piece.append(reinterpret_cast<const char*>(&score), sizeof score);
    put_number(piece, 3, uint64_t(types[id]));
    bytes = bytes || types[id] == kByte;
    put_bytes(model, 1, piece);
  }
  std::string trainer, normalizer;
  put_number(trainer, 3, 2);  // BPE
  put_number(trainer, 35, bytes);
  const std::pair<int, const char*> ids[] = {{40, "unknown"}, {41, "bos"}, {42, "eos"}, {43, "padding"}};
  for (const auto& [field, name] : ids)
    put_number(trainer, field, uint64_t(integer_of(file, cat("tokenizer.ggml.", name, "_token_id")).value_or(-1)));
  const auto prefix = file.metadata().find("tokenizer.ggml.add_space_prefix");
  const bool* space = prefix == file.metadata().end() ? nullptr : prefix->second.get<bool>();
  put_bytes(normalizer, 1, "identity");
  put_number(normalizer, 3, !space || *space);
  put_number(normalizer, 4, 0);
  put_number(normalizer, 5, 1);
  put_bytes(model, 2, trainer);
  put_bytes(model, 3, normalizer);
  return parse_sentencepiece(model, file.origin(), roles_of(file, tokens));
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& gguf_cuts() {
  static const std::vector<std::pair<std::string, std::string>> all{
      {"gpt-2", std::string(gpt2_pattern)},
      {"llama-bpe",
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
      {"qwen2",
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
  return all;
}

std::unique_ptr<Tokenizer> tokenizer_of_gguf(const GgufFile& file, bool& add_bos) {
  const std::string model = text_of(file, "tokenizer.ggml.model");
  check_usage(model == "gpt2" || model == "llama", "import", "'", file.origin(), "': tokenizer.ggml.model is '", model,
              "'; gpt2 and llama are read; give --tokenizer with the model's tokenizer files");
  const auto& tokens = list_of<std::vector<std::string>>(file, "tokenizer.ggml.tokens");
  std::vector<int64_t> types(tokens.size(), kNormal);
  if (file.metadata().count("tokenizer.ggml.token_type"))
    types = list_of<std::vector<int64_t>>(file, "tokenizer.ggml.token_type");
  check(types.size() == tokens.size(), "import", "'", file.origin(), "': tokenizer.ggml.token_type has ", types.size(),
        " numbers for ", tokens.size(), " tokens");
  const auto adds = file.metadata().find("tokenizer.ggml.add_bos_token");
  const bool* add = adds == file.metadata().end() ? nullptr : adds->second.get<bool>();
  add_bos = add ? *add : model == "llama";
  return model == "gpt2" ? bpe_of(file, tokens, types) : sentencepiece_of(file, tokens, types);
}

}  // namespace lithe
