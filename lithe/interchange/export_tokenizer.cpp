// A run's tokenizer as files that transformers reads.
#include "lithe/interchange/export_parts.h"
#include "lithe/interchange/import_parts.h"
#include "lithe/text/framing.h"
#include "lithe/text/sentencepiece_tokenizer.h"
#include "lithe/text/tokenizer_json.h"

namespace lithe {
namespace {

using Ids = std::vector<int32_t>;

/// Special tokens before the first text, between two, and at the end.
struct Around {
  Ids before, between, after;
};

Ids list(std::optional<int32_t> id) { return id ? Ids{*id} : Ids{}; }

/// What lithe puts around a text that the model reads.
Around around(const Tokenizer& tokenizer, Architecture architecture) {
  const Specials& s = tokenizer.specials();
  if (architecture == Architecture::decoder) {
    const Ids begin = list(s.bos ? s.bos : s.eos);
    return {begin, begin, {}};
  }
  if (reads_source(architecture)) return {{}, list(s.eos), list(s.eos)};
  const bool pairs = s.sep || s.eos;
  const FramedText empty = frame(tokenizer, {}, {}, pairs, frame_specials(tokenizer, pairs));
  if (!pairs) return {empty.tokens, {}, {}};
  const auto at = [&](int64_t i) { return empty.tokens.begin() + i; };
  return {{at(0), at(empty.a_begin)}, {at(empty.a_begin), at(empty.b_begin)}, {at(empty.b_begin), empty.tokens.end()}};
}

Json template_of(const Around& around, const Tokenizer& tokenizer, bool segments) {
  Json specials = Json::object();
  const auto put = [&](Json& to, const Ids& ids, int type) {
    for (const int32_t id : ids) {
      const std::string name = tokenizer.token(id);
      to.push_back({{"SpecialToken", {{"id", name}, {"type_id", type}}}});
      specials[name] = {{"id", name}, {"ids", Json::array({id})}, {"tokens", Json::array({name})}};
    }
  };
  const auto text = [](const char* of, int type) { return Json{{"Sequence", {{"id", of}, {"type_id", type}}}}; };
  Json single = Json::array(), pair;
  put(single, around.before, 0);
  single.push_back(text("A", 0));
  pair = single;
  put(single, around.after, 0);
  put(pair, around.between, 0);
  pair.push_back(text("B", segments));
  put(pair, around.after, segments);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

/// transformers, and the harness, are to put around a text what lithe puts there, where the file says nothing of it.
void frame_there(const Path& directory, const Tokenizer& tokenizer, Architecture architecture, bool segments) {
  const Path file = directory / "tokenizer.json";
  auto tree = parse_json_sorted(read_file(file), file.string());
  nlohmann::json& processor = tree["post_processor"];
  const std::string type = processor.is_object() ? processor.value("type", "") : "";
  // BERT's puts a token behind the text, too, after which no prompt would go on.
  const bool ends = type == "TemplateProcessing" && processor["single"].is_array() && !processor["single"].empty() &&
                    processor["single"].back().contains("SpecialToken");
  const bool framed = architecture == Architecture::decoder ? !ends && begins_with_bos(directory, tokenizer)
                                                            : !processor.is_null() && type != "ByteLevel";
  const Around specials = around(tokenizer, architecture);
  if (framed || (specials.before.empty() && specials.after.empty())) return;
  const nlohmann::json ours = template_of(specials, tokenizer, segments);
  processor =
      processor.is_null() || ends ? ours : nlohmann::json{{"type", "Sequence"}, {"processors", {processor, ours}}};
  write_file(file, dump(tree, 1) + "\n");
}

}  // namespace

void export_tokenizer(const Path& directory, const Tokenizer& tokenizer, Architecture architecture, bool framed,
                      bool segments) {
  save_tokenizer(tokenizer, directory);
  if (const std::string model = sentencepiece_model_of(tokenizer.to_json()); !model.empty()) {
    write_file(directory / "tokenizer.json", sentencepiece_json(model, "tokenizer.model"));
    write_file(directory / "tokenizer.model", model);
  }
  if (segments) {
    const Path file = directory / "tokenizer_config.json";
    auto tree = parse_json_sorted(read_file(file), file.string());
    tree["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
    write_file(file, dump(tree, 2) + "\n");
  }
  if (framed) frame_there(directory, tokenizer, architecture, segments);
}

}  // namespace lithe
