// Section decoder of a tokenizer.json.
#include "lithe/text/tokenizer_parse.h"

namespace lithe {
namespace {

Decoding::Step metaspace_step(const JsonSection& step) {
  const std::string scheme =
      step.optional_text("prepend_scheme").value_or(step.flag("add_prefix_space", true) ? "always" : "never");
  const std::string replacement = step.optional_text("replacement").value_or("\u2581");
  return [space = Pattern::literal(replacement, step.place("replacement")), prefixed = scheme != "never"](
             std::string_view token, bool first) { return replaced(token, space, first && prefixed ? "" : " "); };
}

Decoding::Step replace_step(const JsonSection& step) {
  return [pattern = pattern_of(step), content = step.text("content")](std::string_view token, bool) {
    return replaced(token, pattern, content);
  };
}

Decoding ctc_decoding(const JsonSection& step) {
  Decoding out{.kind = Decoding::Kind::steps, .once = true};
  const auto change = [&](const char* key, const char* usual, const char* content) {
    out.steps.push_back(
        [pattern = Pattern::literal(step.optional_text(key).value_or(usual), step.place(key)),
         content = std::string(content)](std::string_view token, bool) { return replaced(token, pattern, content); });
  };
  change("pad_token", "<pad>", "");
  if (step.flag("cleanup", true)) change("word_delimiter_token", "|", " ");
  return out;
}

// Steps that change tokens one by one, and those that take characters from the ends of the text behind Fuse.
Decoding chain_of(const JsonSection& decoder) {
  Decoding out{.kind = Decoding::Kind::steps};
  bool fused = false;
  for_each_step(decoder, "decoders", [&](const JsonSection& step) {
    const std::string type = step.type();
    check(!fused || type == "Strip" || type == "Fuse", "tokenizer", step.place(), ": ", type,
          " after Fuse is not supported");
    if (type == "Metaspace") return out.steps.push_back(metaspace_step(step));
    if (type == "Replace") return out.steps.push_back(replace_step(step));
    if (type == "ByteFallback") return void(out.bytes = true);
    if (type == "Fuse") return void(fused = true);
    if (type != "Strip") unsupported(step.place("type"), type);
    check(fused && out.strip.empty(), "tokenizer", step.place(), ": Strip is supported once, after Fuse");
    out.strip = step.text("content");
    check(!out.strip.empty(), "tokenizer", step.place("content"), " is empty");
    out.strip_start = step.integer("start", 0);
    out.strip_stop = step.integer("stop", 0);
  });
  return out;
}

}  // namespace

Decoding read_decoder(const JsonSection& decoder, bool byte_level, bool word_piece) {
  std::vector<std::string> types;
  for_each_step(decoder, "decoders", [&](const JsonSection& step) { types.push_back(step.type()); });
  if (byte_level) {
    for (const std::string& type : types)
      if (type != "ByteLevel") unsupported(decoder.place("type"), type);
    return {};
  }
  if (types.empty() && word_piece) return {.kind = Decoding::Kind::word_piece};
  if (types.empty()) return {.kind = Decoding::Kind::steps, .between = " "};
  if (types.size() > 1 || decoder.type() == "Sequence") return chain_of(decoder);
  if (types[0] == "WordPiece")
    return {.kind = Decoding::Kind::word_piece,
            .prefix = decoder.optional_text("prefix").value_or("##"),
            .cleanup = decoder.flag("cleanup", true)};
  if (types[0] == "BPEDecoder")
    return {.kind = Decoding::Kind::steps, .end = decoder.optional_text("suffix").value_or("</w>")};
  if (types[0] == "CTC") return ctc_decoding(decoder);
  return chain_of(decoder);
}

}  // namespace lithe
