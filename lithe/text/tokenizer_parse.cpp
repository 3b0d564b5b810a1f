// tokenizer.json to a tokenizer.
#include <unordered_set>

#include "lithe/base/log.h"
#include "lithe/text/code_tokenizer.h"
#include "lithe/text/sentencepiece_tokenizer.h"
#include "lithe/text/tokenizer_parse.h"
#include "lithe/text/tokenizer_roles.h"

namespace lithe {
namespace {

using Tree = JsonSection::Tree;

constexpr int64_t most_entries = 1 << 24;

std::vector<AddedToken> read_added(const JsonSection& root, Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  std::unordered_set<int32_t> seen;
  if (!root.has("added_tokens")) return added;
  const Tree& list = root.list("added_tokens");
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonSection entry(list[i], cat(root.place("added_tokens"), "[", i, "]"));
    AddedToken token;
    token.content = entry.text("content");
    check(!token.content.empty(), "tokenizer", entry.place("content"), " is empty");
    const int64_t id = entry.integer("id", -1);
    vocabulary.add(token.content, id);
    token.id = int32_t(id);
    token.special = entry.flag("special", false);
    token.single_word = entry.flag("single_word", false);
    token.lstrip = entry.flag("lstrip", false);
    token.rstrip = entry.flag("rstrip", false);
    token.normalized = entry.flag("normalized", !token.special);
    check(seen.insert(token.id).second, "tokenizer", entry.place(), ": token '", token.content, "' stands there twice");
    added.push_back(std::move(token));
  }
  return added;
}

size_t size_of(const Tree& value) { return value.is_object() || value.is_array() ? value.size() : 0; }

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer(std::string json, const std::string& origin, const Roles& roles) {
  TokenizerParts parts;
  const Tree tree = parse_json_sorted(json, origin);
  check(tree.is_object(), "tokenizer", "'", origin, "' must hold an object, got ", tree.type_name());
  const JsonSection root(tree, "'" + origin + "'");
  if (root.section(code_tokenizer_key).value("type") == sentencepiece_type)
    return parse_sentencepiece_json(root, std::move(json), origin, roles);
  if (root.states(code_tokenizer_key)) return parse_code_tokenizer(root, std::move(json), origin, roles);
  check(root.has("model"), "tokenizer", root.place("model"), " is missing: this is no tokenizer.json");
  const JsonSection model = root.section("model");
  for (const char* key : {"truncation", "padding"})
    if (root.has(key))
      log_info("tokenizer: ", root.place(key), " is left to who makes batches; encoding neither cuts nor pads");

  const size_t entries = size_of(model.value("vocab")) + size_of(root.value("added_tokens"));
  check(int64_t(entries) <= most_entries, "tokenizer", root.place(), " has ", entries, " tokens, above the limit of ",
        most_entries);
  const bool byte_level = read_text_steps(root, parts);
  const std::string type = read_model(root, byte_level, entries, parts);
  parts.added = read_added(root, *parts.vocabulary);
  parts.decoding = read_decoder(root.section("decoder"), byte_level, type == "WordPiece");
  parts.specials = assign_roles(roles, *parts.vocabulary, parts.added, parts.specials.unk, origin);
  parts.json = std::move(json);
  return make_pipeline_tokenizer(std::move(parts));
}

std::unique_ptr<Tokenizer> parse_tokenizer(std::string json, const std::string& origin) {
  return parse_tokenizer(std::move(json), origin, Roles());
}

}  // namespace lithe
