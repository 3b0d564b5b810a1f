// Tokenizers in files and directories.
#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/text/json_section.h"
#include "lithe/text/sentencepiece_tokenizer.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/tokenizer_json.h"
#include "lithe/text/tokenizer_roles.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr uint64_t most_bytes = 256 << 20;  // the biggest published tokenizer.json has 35 MB

std::vector<std::string> lines_of(const Path& path) {
  const std::string text = read_file(path, most_bytes);
  check(is_valid_utf8(text), "tokenizer", "'", path.string(), "' is not UTF-8 at byte ", valid_utf8_prefix(text));
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    begin = end + 1;
  }
  return lines;
}

std::string bert_from(const Path& path) {
  std::vector<std::string> lines = lines_of(path);
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return bert_json(lines);
}

std::string gpt2_from(const Path& vocab, const Path& merges) {
  const auto tree = parse_json_sorted(read_file(vocab, most_bytes), vocab.string());
  check(tree.is_object() && !tree.empty(), "tokenizer", "'", vocab.string(), "' must hold an object of tokens and ids");
  BpeDescription description;
  description.vocabulary.resize(tree.size());
  for (const auto& entry : tree.items()) {
    const int64_t id = JsonSection::integer_of(entry.value(), "'" + vocab.string() + "': token '" + entry.key() + "'");
    check(id >= 0 && id < int64_t(tree.size()) && description.vocabulary[size_t(id)].empty(), "tokenizer", "'",
          vocab.string(), "': ids must be 0 to ", tree.size() - 1, ", each once; token '", entry.key(), "' has ", id);
    description.vocabulary[size_t(id)] = entry.key();
    if (entry.key() == end_of_text)
      description.added.push_back({.id = int32_t(id), .content = entry.key(), .special = true});
  }
  const auto lines = lines_of(merges);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || (i == 0 && lines[i].starts_with("#version"))) continue;
    const size_t space = lines[i].find(' ');
    check(space != std::string::npos && space > 0 && space + 1 < lines[i].size(), "tokenizer", "'", merges.string(),
          "' line ", i + 1, " must be two tokens, got '", lines[i], "'");
    description.merges.push_back({lines[i].substr(0, space), lines[i].substr(space + 1)});
  }
  return byte_level_bpe_json(description);
}

/// Fails where a directory without tokenizer.json has tokens that stand in added_tokens.json alone.
std::unique_ptr<Tokenizer> without_more(std::unique_ptr<Tokenizer> tokenizer, const Path& directory) {
  const Path path = directory / "added_tokens.json";
  if (!std::filesystem::exists(path)) return tokenizer;
  const auto tree = parse_json_sorted(read_file(path, most_bytes), path.string());
  check(tree.is_object(), "tokenizer", "'", path.string(), "' must hold an object of tokens and ids");
  for (const auto& entry : tree.items()) {
    const int64_t id = JsonSection::integer_of(entry.value(), "'" + path.string() + "': token '" + entry.key() + "'");
    check_usage(tokenizer->id(entry.key()) == id, "tokenizer", "'", path.string(), "' adds token '", entry.key(),
                "' with id ", id, ", which is read from a tokenizer.json alone; transformers makes one: ",
                "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)");
  }
  return tokenizer;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const Path& path) {
  namespace fs = std::filesystem;
  const bool directory = fs::is_directory(path);
  const Path home = directory ? path : path.parent_path();
  Roles roles;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
    if (fs::exists(home / name)) read_roles(read_file(home / name, most_bytes), (home / name).string(), roles);

  if (!directory) {
    if (is_sentencepiece_name(path)) return parse_sentencepiece(read_file(path, most_bytes), path.string(), roles);
    const std::string json = path.extension() == ".txt" ? bert_from(path) : read_file(path, most_bytes);
    return parse_tokenizer(json, path.string(), roles);
  }
  if (fs::exists(path / "tokenizer.json"))
    return parse_tokenizer(read_file(path / "tokenizer.json", most_bytes), (path / "tokenizer.json").string(), roles);
  if (fs::exists(path / "vocab.json") && fs::exists(path / "merges.txt"))
    return without_more(
        parse_tokenizer(gpt2_from(path / "vocab.json", path / "merges.txt"), (path / "vocab.json").string(), roles),
        path);
  if (fs::exists(path / "vocab.txt"))
    return without_more(parse_tokenizer(bert_from(path / "vocab.txt"), (path / "vocab.txt").string(), roles), path);
  for (const char* name : {"tokenizer.model", "spiece.model"})
    if (fs::exists(path / name))
      return without_more(parse_sentencepiece(read_file(path / name, most_bytes), (path / name).string(), roles), path);
  fail("tokenizer", "directory '", path.string(),
       "' has no tokenizer.json, no vocab.json with merges.txt, no vocab.txt, and no tokenizer.model or spiece.model");
}

void save_tokenizer(const Tokenizer& tokenizer, const Path& directory) {
  make_directory(directory);
  write_file(directory / "tokenizer.json", tokenizer.to_json());
  write_file(directory / "tokenizer_config.json", roles_json(tokenizer));
}

constexpr const char* kSource = "source";

Tokenizers load_tokenizers(const Path& directory) {
  Tokenizers out{.tokenizer = load_tokenizer(directory), .source = nullptr};
  if (std::filesystem::is_directory(directory / kSource)) out.source = load_tokenizer(directory / kSource);
  return out;
}

void save_tokenizers(const Tokenizers& tokenizers, const Path& directory) {
  save_tokenizer(*tokenizers.tokenizer, directory);
  if (tokenizers.source && tokenizers.source != tokenizers.tokenizer)
    save_tokenizer(*tokenizers.source, directory / kSource);
}

}  // namespace lithe
