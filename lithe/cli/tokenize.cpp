#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "lithe/base/counted.h"
#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/cli/command.h"
#include "lithe/cli/text_lines.h"
#include "lithe/text/code_tokenizer.h"
#include "lithe/text/tokenizer.h"

namespace lithe {
namespace {

struct TokenizeOptions {
  std::string tokenizer;
  std::vector<std::string> files, texts;
  bool json = false, source = false, ids = false;
};

struct Token {
  int32_t id = 0;
  std::string spelling, piece;                     // of the vocabulary; what it adds to the text
  std::vector<int32_t> code;                       // without a vocabulary: all ints
  std::optional<std::pair<size_t, size_t>> place;  // bytes of the text, [begin, end)
};

bool same_letter(char a, char b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; };
  return lower(a) == lower(b);
}

// Where `piece` stands in the text from `at` on, white space between them left out; letters of ASCII in either case.
// None where a tokenizer changed it in another way.
std::optional<std::pair<size_t, size_t>> find_piece(const std::string& text, size_t at, std::string piece) {
  if (text.compare(at, piece.size(), piece) == 0) return std::pair(at, at + piece.size());
  if (piece.starts_with("##")) piece.erase(0, 2);
  while (piece.starts_with(' ')) piece.erase(0, 1);
  if (piece.empty()) return std::nullopt;
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) ++at;
  if (at + piece.size() > text.size()) return std::nullopt;
  for (size_t i = 0; i < piece.size(); ++i)
    if (!same_letter(text[at + i], piece[i])) return std::nullopt;
  return std::pair(at, at + piece.size());
}

std::vector<Token> tokens_of(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  const auto width = size_t(tokenizer.width());
  std::vector<std::string> words;
  if (width > 1) words = token_texts(tokenizer, text);
  std::vector<Token> out;
  size_t at = 0;
  for (size_t i = 0; i * width < ids.size(); ++i) {
    Token t{.id = ids[i * width], .spelling = {}, .piece = {}, .code = {}, .place = {}};
    if (width > 1) {
      t.code.assign(ids.begin() + long(i * width), ids.begin() + long((i + 1) * width));
      t.spelling = t.piece = words[i];
    } else {
      t.spelling = tokenizer.token(t.id);
      t.piece = tokenizer.piece(t.id, i == 0);
    }
    t.place = find_piece(text, at, t.piece);
    if (t.place) at = t.place->second;
    out.push_back(std::move(t));
  }
  return out;
}

std::string hexadecimal(const std::vector<int32_t>& code) {
  std::string out;
  char digits[9];
  for (size_t i = 1; i < code.size(); ++i) {
    std::snprintf(digits, sizeof digits, "%08x", uint32_t(code[i]));
    out += digits;
  }
  return out;
}

Json json_of(const Token& t, const TokenCode& code) {
  Json json = {{"id", t.id}, {"token", t.spelling}};
  if (code.payload == TokenCode::Payload::none) json["piece"] = t.piece;
  if (code.payload == TokenCode::Payload::bits) json["bits"] = hexadecimal(t.code).substr(0, size_t(code.size + 3) / 4);
  if (code.payload == TokenCode::Payload::bucket) json["bucket"] = t.code[1];
  if (code.payload == TokenCode::Payload::character) json["code_point"] = t.code[1];
  json["begin"] = t.place ? Json(t.place->first) : Json();
  json["end"] = t.place ? Json(t.place->second) : Json();
  return json;
}

std::string column_of(const Token& t, const TokenCode& code) {
  switch (code.payload) {
    case TokenCode::Payload::bits: return hexadecimal(t.code).substr(0, size_t(code.size + 3) / 4);
    case TokenCode::Payload::bucket: return cat("bucket ", t.code[1]);
    case TokenCode::Payload::character: return cat("code point ", t.code[1]);
    default: return dump(Json(t.piece), -1, Invalid::replaced);
  }
}

int run_tokenize(const TokenizeOptions& o) {
  check_usage(std::filesystem::exists(o.tokenizer), "tokenize", "'", o.tokenizer,
              "' does not exist; give the directory of a training run, or the files of a tokenizer");
  const Path directory = o.source ? Path(o.tokenizer) / "source" : Path(o.tokenizer);
  check_usage(std::filesystem::exists(directory), "tokenize", "'", o.tokenizer,
              "' has no tokenizer of its own for the source; leave --source out");
  const auto tokenizer = load_tokenizer(directory);
  std::vector<std::string> texts = o.texts;
  if (!o.files.empty() || texts.empty())
    for (std::string& line : text_lines(o.files)) texts.push_back(std::move(line));
  const TokenCode code = tokenizer->code();
  check_usage(!o.ids || !o.json, "tokenize", "--ids and --json are two forms of the result; give one");
  for (const std::string& text : texts) {
    if (o.ids) {
      std::string line;
      for (const int32_t id : tokenizer->encode(text)) line += (line.empty() ? "" : " ") + std::to_string(id);
      std::cout << line << "\n";
      continue;
    }
    const std::vector<Token> tokens = tokens_of(*tokenizer, text);
    if (o.json) {
      Json json = {{"text", text}, {"tokens", Json::array()}};
      for (const Token& t : tokens) json["tokens"].push_back(json_of(t, code));
      std::cout << dump(json, -1, Invalid::replaced) << "\n";
      continue;
    }
    std::cout << counted(int64_t(tokens.size()), "token") << ": " << text << "\n";
    for (const Token& t : tokens) {
      const std::string place = t.place ? cat(t.place->first, "-", t.place->second) : "-";
      std::printf("%10d  %-10s %-20s %s\n", t.id, place.c_str(), t.spelling.c_str(), column_of(t, code).c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

Command add_tokenize(CommandLine& app) {
  auto o = std::make_shared<TokenizeOptions>();
  app.add_option("tokenizer", o->tokenizer, "directory of a run, or a tokenizer's file or directory").required();
  app.add_option("files", o->files, "texts, one per line; default or -: standard input");
  app.add_option("--text", o->texts, "a text to cut (repeatable)").repeatable();
  app.add_flag("--source", o->source, "the tokenizer of an encoder-decoder's sources, where that is another");
  app.add_flag("--ids", o->ids, "print the ids alone, a line a text");
  app.add_flag("--json", o->json, "print one JSON object per text");
  app.footer(
      "Example: lithe tokenize runs/first --text \"In the beginning\"\nColumns: id, bytes of the text, spelling in the "
      "vocabulary, and what it adds to the text; without a vocabulary\nthe word and its hash. A place is - where the "
      "tokenizer changed more of the text than the case of its letters.");
  return [o] { return run_tokenize(*o); };
}

}  // namespace lithe
