#include "lithe/text/tokenizer_json.h"

#include "lithe/base/json.h"

namespace lithe {
namespace {

std::string quote(const std::string& text) { return dump(Json(text)); }

std::string added_json(const std::vector<AddedToken>& added) {
  std::string out;
  for (const AddedToken& token : added) {
    const Json entry = {{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
                        {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
                        {"special", token.special}};
    out += (out.empty() ? "\n    " : ",\n    ") + dump(entry);
  }
  return "[" + out + (out.empty() ? "]" : "\n  ]");
}

// The vocabulary is written by hand: an ordered Json object of many keys takes quadratic time.
std::string vocabulary_json(const std::vector<std::string>& vocabulary) {
  std::string out;
  for (size_t id = 0; id < vocabulary.size(); ++id)
    out += (id == 0 ? "\n      " : ",\n      ") + quote(vocabulary[id]) + ": " + std::to_string(id);
  return "{" + out + "\n    }";
}

}  // namespace

std::string tokenizer_document(const std::vector<AddedToken>& added, const Json& normalizer, const Json& pre_tokenizer,
                               const Json& post_processor, const Json& decoder, const std::string& model) {
  return "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": " +
         added_json(added) + ",\n  \"normalizer\": " + dump(normalizer) +
         ",\n  \"pre_tokenizer\": " + dump(pre_tokenizer) + ",\n  \"post_processor\": " + dump(post_processor) +
         ",\n  \"decoder\": " + dump(decoder) + ",\n  \"model\": " + model + "\n}\n";
}

std::string bpe_model_json(const BpeDescription& description, const std::string& unk, bool byte_fallback) {
  std::string merges;
  for (const auto& [left, right] : description.merges)
    merges += (merges.empty() ? "\n      " : ",\n      ") + quote(left + ' ' + right);
  return "{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": " +
         (unk.empty() ? "null" : quote(unk)) +
         ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": " +
         (unk.empty() ? "false" : "true") + ",\n    \"byte_fallback\": " + (byte_fallback ? "true" : "false") +
         ",\n    \"ignore_merges\": false,\n    \"vocab\": " + vocabulary_json(description.vocabulary) +
         ",\n    \"merges\": [" + merges + (merges.empty() ? "]" : "\n    ]") + "\n  }";
}

std::string byte_level_bpe_json(const BpeDescription& description) {
  const auto byte_level = [](bool words) {
    return Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", words}};
  };
  return tokenizer_document(description.added, nullptr, byte_level(description.words), byte_level(true),
                            byte_level(true), bpe_model_json(description, "", false));
}

std::string bert_json(const std::vector<std::string>& vocabulary, const std::vector<std::string>& specials) {
  std::vector<AddedToken> added;
  Json framing = Json::object();  // [CLS] and [SEP], which other programs put around a text
  for (size_t id = 0; id < vocabulary.size(); ++id)
    for (const std::string& special : specials)
      if (vocabulary[id] == special) {
        added.push_back({.id = int32_t(id), .content = special, .special = true});
        if (special == "[CLS]" || special == "[SEP]")
          framing[special] = {{"id", special}, {"ids", Json::array({id})}, {"tokens", Json::array({special})}};
      }
  Json post_processor;
  if (framing.size() == 2) {
    const auto special = [](const char* token, int type) {
      return Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
    };
    const auto text = [](const char* name, int type) { return Json{{"Sequence", {{"id", name}, {"type_id", type}}}}; };
    const Json single = Json::array({special("[CLS]", 0), text("A", 0), special("[SEP]", 0)});
    Json pair = single;
    pair.push_back(text("B", 1));
    pair.push_back(special("[SEP]", 1));
    post_processor = {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", framing}};
  }
  const Json normalizer = {{"type", "BertNormalizer"},
                           {"clean_text", true},
                           {"handle_chinese_chars", true},
                           {"strip_accents", nullptr},
                           {"lowercase", true}};
  const std::string model =
      "{\n    \"type\": \"WordPiece\",\n    \"unk_token\": \"[UNK]\",\n    \"continuing_subword_prefix\": \"##\",\n"
      "    \"max_input_chars_per_word\": 100,\n    \"vocab\": " +
      vocabulary_json(vocabulary) + "\n  }";
  return tokenizer_document(added, normalizer, {{"type", "BertPreTokenizer"}}, post_processor,
                            {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}, model);
}

}  // namespace lithe
