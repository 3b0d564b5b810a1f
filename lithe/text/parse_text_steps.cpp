// Sections normalizer and pre_tokenizer of a tokenizer.json.
#include "lithe/text/base64.h"
#include "lithe/text/charsmap.h"
#include "lithe/text/tokenizer_parse.h"
#include "lithe/text/utf8.h"

namespace lithe {

Pattern pattern_of(const JsonSection& section) {
  const JsonSection pattern = section.section("pattern");
  if (const auto expression = pattern.optional_text("Regex")) return Pattern(*expression, pattern.place());
  const std::string text = pattern.text("String");
  check(!text.empty(), "tokenizer", pattern.place(), ": the string is empty");
  return Pattern::literal(text, pattern.place());
}

std::string replaced(std::string_view text, const Pattern& pattern, const std::string& content) {
  std::string out;
  size_t done = 0, from = 0, begin = 0, end = 0;
  while (from < text.size() && pattern.find(text, from, begin, end)) {
    if (end == begin) {
      from = begin + 1;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
      continue;
    }
    out += text.substr(done, begin - done);
    out += content;
    check_growth(text.size(), out.size());
    done = from = end;
  }
  out += text.substr(done);
  return out;
}

namespace {

Normalizer::Step normal_form_step(NormalForm form) {
  return [form](std::string_view text) { return normal_form(text, form); };
}

Normalizer::Step normalizer_step(const JsonSection& step) {
  const std::string type = step.type();
  if (type == "NFC") return normal_form_step(NormalForm::nfc);
  if (type == "NFD") return normal_form_step(NormalForm::nfd);
  if (type == "NFKC") return normal_form_step(NormalForm::nfkc);
  if (type == "NFKD") return normal_form_step(NormalForm::nfkd);
  if (type == "Lowercase") return lower_case();
  if (type == "StripAccents") return strip_marks();
  if (type == "Nmt") return nmt_normalization();
  if (type == "Strip") return strip_white_space(step.flag("strip_left", true), step.flag("strip_right", true));
  if (type == "BertNormalizer") {
    BertNormalization options;
    options.clean_text = step.flag("clean_text", true);
    options.chinese = step.flag("handle_chinese_chars", true);
    options.lowercase = step.flag("lowercase", true);
    options.strip_accents = step.flag("strip_accents", options.lowercase);
    return bert_normalization(options);
  }
  if (type == "Prepend")
    return [prefix = step.text("prepend")](std::string_view text) {
      return text.empty() ? std::string() : prefix + std::string(text);
    };
  if (type == "Replace")
    return [pattern = pattern_of(step), content = step.text("content")](std::string_view text) {
      return replaced(text, pattern, content);
    };
  if (type == "Precompiled") {
    const std::string blob = from_base64(step.text("precompiled_charsmap"));
    check(!blob.empty(), "tokenizer", step.place("precompiled_charsmap"), " is no base64");
    return Charsmap(blob, step.place("precompiled_charsmap"));
  }
  unsupported(step.place("type"), type);
}

// ---- pre-tokenizer

Split::Behavior behavior_of(const JsonSection& step) {
  const std::string name = step.text("behavior");
  using B = Split::Behavior;
  if (name == "Isolated") return B::isolated;
  if (name == "Removed") return B::removed;
  if (name == "MergedWithPrevious") return B::merged_with_previous;
  if (name == "MergedWithNext") return B::merged_with_next;
  if (name == "Contiguous") return B::contiguous;
  unsupported(step.place("behavior"), name);
}

Metaspace metaspace_of(const JsonSection& step) {
  Metaspace out{.replacement = step.optional_text("replacement").value_or("\u2581"), .prefix = {}};
  check(
      !out.replacement.empty() && utf8_unit(out.replacement).length == out.replacement.size() && out.replacement != " ",
      "tokenizer", step.place("replacement"), " must be one character, and no space, got '", out.replacement, "'");
  // Files from before there was a scheme have a flag.
  const std::string scheme =
      step.optional_text("prepend_scheme").value_or(step.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme == "always") return out;
  if (scheme != "first" && scheme != "never") unsupported(step.place("prepend_scheme"), scheme);
  out.prefix = scheme == "first" ? Metaspace::Prefix::first : Metaspace::Prefix::never;
  return out;
}

/// Adds a step; true when it is the one that goes on to bytes.
bool add_pretokenizer(const JsonSection& step, PreTokenizer& pretokenizer) {
  const std::string type = step.type();
  if (type == "ByteLevel") {
    if (step.flag("add_prefix_space", true)) pretokenizer.add_prefix_space();
    if (step.flag("use_regex", true)) pretokenizer.add_split(Pattern(gpt2_pattern, step.place()));
    return true;
  }
  if (type == "Split") {
    pretokenizer.add_split(pattern_of(step), behavior_of(step), step.flag("invert", false));
  } else if (type == "Digits") {
    pretokenizer.add_split(Pattern(R"(\p{N})", step.place()), step.flag("individual_digits", false)
                                                                  ? Split::Behavior::isolated
                                                                  : Split::Behavior::contiguous);
  } else if (type == "Punctuation") {
    pretokenizer.add_split(Pattern(punctuation_pattern, step.place()),
                           step.has("behavior") ? behavior_of(step) : Split::Behavior::isolated);
  } else if (type == "WhitespaceSplit") {
    pretokenizer.add_split(Pattern(R"(\s)", step.place()), Split::Behavior::removed);
  } else if (type == "BertPreTokenizer") {
    pretokenizer.add_bert();
  } else if (type == "Whitespace") {
    pretokenizer.add_split(Pattern(words_pattern, step.place()), Split::Behavior::removed, true);
  } else if (type == "CharDelimiterSplit") {
    pretokenizer.add_split(Pattern::literal(step.text("delimiter"), step.place("delimiter")), Split::Behavior::removed);
  } else if (type == "FixedLength") {
    const int64_t length = step.integer("length", 5);
    check(length >= 1 && length <= 65535, "tokenizer", step.place("length"), " must be 1 to 65535, got ", length);
    pretokenizer.add_split(Pattern(cat("(?s:.{1,", length, "})"), step.place()));
  } else if (type == "UnicodeScripts") {
    pretokenizer.add_scripts();
  } else if (type == "Metaspace") {
    pretokenizer.add_metaspace(metaspace_of(step), step.flag("split", true));
  } else {
    unsupported(step.place("type"), type);
  }
  return false;
}

}  // namespace

bool read_text_steps(const JsonSection& root, TokenizerParts& parts) {
  bool byte_level = false;
  for_each_step(root.section("normalizer"), "normalizers", [&](const JsonSection& step) {
    check(!byte_level, "tokenizer", step.place(), ": a step after ByteLevel is not supported");
    if (step.type() == "ByteLevel")
      byte_level = true;
    else
      parts.normalizer.add(normalizer_step(step));
  });
  bool spelled = false;
  for_each_step(root.section("pre_tokenizer"), "pretokenizers", [&](const JsonSection& step) {
    const std::string type = step.type();
    check(!spelled || (type != "ByteLevel" && type != "Metaspace"), "tokenizer", step.place(), ": ", type,
          " after ByteLevel is not supported; steps that cut are");
    check(!byte_level, "tokenizer", step.place(), ": a pre-tokenizer after the normalizer ByteLevel is not supported");
    if (add_pretokenizer(step, parts.pretokenizer)) {
      spelled = true;
      parts.pretokenizer.spell();
    }
  });
  return byte_level || spelled;
}

}  // namespace lithe
