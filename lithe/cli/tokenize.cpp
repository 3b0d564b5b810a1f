#include <algorithm>
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
#include "lithe/data/text_file.h"
#include "lithe/data/tree_columns.h"
#include "lithe/parallel/gather.h"
#include "lithe/parallel/job.h"
#include "lithe/recipe/recipe.h"
#include "lithe/text/code_tokenizer.h"
#include "lithe/text/tokenizer.h"
#include "lithe/train/tokenize_together.h"
#include "lithe/trees/linear.h"

namespace lithe {
namespace {

struct TokenizeOptions {
  std::string tokenizer;
  std::vector<std::string> files, texts, trees, set;
  bool json = false, source = false, ids = false, check = false, linear = false, cache = false;
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

// A sentence of a treebank: its words, and what tokens each has.
void show_sentence(const TokenizeOptions& o, const Tokenizer& tokenizer, const TreeSentence& s) {
  const WordTokens cut = encode_words(tokenizer, s.words, &s.space_after);
  const auto width = size_t(tokenizer.width());
  std::vector<std::vector<size_t>> tokens(s.words.size());
  for (size_t t = 0; t < cut.word_of.size(); ++t) tokens[size_t(cut.word_of[t])].push_back(t);
  const auto spelling = [&](size_t t) {
    return width > 1 ? std::to_string(cut.tokens[t * width]) : tokenizer.token(cut.tokens[t]);
  };
  const std::vector<int32_t> spans = !s.constituents.nodes.empty()
                                         ? base_phrases(s.constituents).of_words(int64_t(s.words.size()))
                                     : !s.heads.heads.empty() ? top_phrases(s.heads).of_words(int64_t(s.words.size()))
                                                              : std::vector<int32_t>();
  const auto tag = [&](const char* name, size_t w) {
    const auto found = s.tags.find(name);
    return found == s.tags.end() ? std::string("_") : found->second[w];
  };
  const bool brackets = !s.constituents.nodes.empty();
  if (o.json) {
    Json json = {{"place", s.place}, {"text", s.text()}, {"words", Json::array()}};
    for (size_t w = 0; w < s.words.size(); ++w) {
      Json word = {{"word", s.words[w]}, {"tokens", Json::array()}};
      for (const size_t t : tokens[w])
        word["tokens"].push_back({{"row", t}, {"id", cut.tokens[t * width]}, {"token", spelling(t)}});
      for (const auto& [name, values] : s.tags) word[name] = values[w];
      if (!s.heads.heads.empty()) word["head"] = s.heads.heads[w];
      if (!spans.empty()) word["span"] = spans[w];
      json["words"].push_back(word);
    }
    std::cout << dump(json, -1, Invalid::replaced) << "\n";
    return;
  }
  std::cout << s.place << ": " << counted(int64_t(s.words.size()), "word") << ", "
            << counted(int64_t(cut.word_of.size()), "token") << ": " << s.text() << "\n";
  for (size_t w = 0; w < s.words.size(); ++w) {
    std::string pieces;
    for (const size_t t : tokens[w]) pieces += cat(pieces.empty() ? "" : " ", t, ":", spelling(t));
    std::printf("%5zu  %-16s %-8s %5s  %-12s %5s  %s\n", w + 1, s.words[w].c_str(),
                tag(brackets ? "pos" : "upos", w).c_str(),
                s.heads.heads.empty() ? "_" : std::to_string(s.heads.heads[w]).c_str(), tag("deprel", w).c_str(),
                spans.empty() ? "_" : std::to_string(spans[w]).c_str(), pieces.empty() ? "-" : pieces.c_str());
  }
  std::fflush(stdout);
}

void print_linear(const ConstTree& tree) {
  std::string line;
  for (const std::string& token : linearise(tree)) line += (line.empty() ? "" : " ") + token;
  std::cout << line << "\n";
}

// Treebanks, and all that is wrong with them, a line each.
int show_trees(const TokenizeOptions& o, const Tokenizer& tokenizer) {
  int64_t problems = 0, sentences = 0;
  const OnProblem note = [&](const std::string& problem) {
    ++problems;
    std::cout.flush();
    std::fprintf(stderr, "%s\n", problem.c_str());
  };
  for (const std::string& file : o.trees) {
    const std::string text = read_text(file, "trees");
    refuse_invalid_utf8(text, file, "trees");
    const auto found = tree_format(file) == TreeFormat::conllu ? parse_conllu_trees(text, file, note)
                                                               : parse_bracketed_trees(text, file, note);
    for (const TreeSentence& s : found) {
      const std::vector<int64_t> missing = encode_words(tokenizer, s.words, &s.space_after).missing();
      if (!missing.empty())
        note(cat(s.place, ": word ", missing[0] + 1, " '", s.words[size_t(missing[0])], "' has no token",
                 missing.size() > 1 ? cat(", and neither have ", missing.size() - 1, " others of the sentence") : "",
                 "; nothing of its place in the tree reaches a model"));
      if (o.linear) {
        check_usage(!s.constituents.nodes.empty(), "tokenize", s.place,
                    ": a dependency tree has no brackets; --linear is of "
                    "bracketed trees");
        print_linear(s.constituents);
      } else if (!o.check) {
        show_sentence(o, tokenizer, s);
      }
    }
    sentences += int64_t(found.size());
  }
  if (o.check)
    std::cout << counted(sentences, "sentence") << ", " << (problems ? counted(problems, "problem") : "no problem")
              << "\n";
  return problems ? 1 : 0;
}

// What is printed of a text.
std::string shown(const TokenizeOptions& o, const Tokenizer& tokenizer, const std::string& text) {
  if (o.ids) {
    std::string line;
    for (const int32_t id : tokenizer.encode(text)) line += (line.empty() ? "" : " ") + std::to_string(id);
    return line + "\n";
  }
  const std::vector<Token> tokens = tokens_of(tokenizer, text);
  const TokenCode code = tokenizer.code();
  if (o.json) {
    Json json = {{"text", text}, {"tokens", Json::array()}};
    for (const Token& t : tokens) json["tokens"].push_back(json_of(t, code));
    return dump(json, -1, Invalid::replaced) + "\n";
  }
  std::string out = cat(counted(int64_t(tokens.size()), "token"), ": ", text, "\n");
  for (const Token& t : tokens) {
    const auto padded = [](std::string cell, size_t width) {
      if (cell.size() < width) cell.append(width - cell.size(), ' ');
      return cell;
    };
    const std::string id = std::to_string(t.id), place = t.place ? cat(t.place->first, "-", t.place->second) : "-";
    out += cat(std::string(id.size() < 10 ? 10 - id.size() : 0, ' '), id, "  ", padded(place, 10), " ",
               padded(t.spelling, 20), " ", column_of(t, code), "\n");
  }
  return out;
}

int show_texts(const TokenizeOptions& o) {
  check_usage(std::filesystem::exists(o.tokenizer), "tokenize", "'", o.tokenizer,
              "' does not exist; give the directory of a training run, or the files of a tokenizer");
  const Path directory = o.source ? Path(o.tokenizer) / "source" : Path(o.tokenizer);
  check_usage(std::filesystem::exists(directory), "tokenize", "'", o.tokenizer,
              "' has no tokenizer of its own for the source; leave --source out");
  const auto tokenizer = load_tokenizer(directory);
  check_usage(!o.check || !o.trees.empty(), "tokenize", "--check is of treebanks; give --trees FILE");
  check_usage(o.set.empty(), "tokenize", "--set changes a recipe, which --cache reads");
  check_usage(!o.linear || (!o.trees.empty() && !o.check && !o.json), "tokenize",
              "--linear is a form of --trees; give that, and leave --check and --json out");
  if (!o.trees.empty()) {
    check_usage(job().size() == 1, "tokenize", "--trees is shown by one process; leave the launcher out");
    check_usage(o.files.empty() && o.texts.empty() && !o.ids, "tokenize",
                "--trees names treebanks, whose words are shown; leave other texts and --ids out");
    return show_trees(o, *tokenizer);
  }
  const bool several = job().size() > 1;
  check_usage(!several || ((!o.files.empty() || !o.texts.empty()) &&
                           std::find(o.files.begin(), o.files.end(), "-") == o.files.end()),
              "tokenize", "only one process can read standard input; name files, or leave the launcher out");
  check_usage(!o.ids || !o.json, "tokenize", "--ids and --json are two forms of the result; give one");
  std::vector<std::string> texts = o.texts;
  if (!o.files.empty() || texts.empty())
    for (std::string& line : text_lines(o.files)) texts.push_back(std::move(line));
  if (!several) {
    for (const std::string& text : texts) std::cout << shown(o, *tokenizer, text);
    return 0;
  }
  // Round by round, so that what is printed is not in memory as a whole.
  constexpr size_t kRound = 1 << 16;
  for (size_t begin = 0; begin < texts.size(); begin += kRound) {
    const size_t count = std::min(kRound, texts.size() - begin), ranks = size_t(job().size()),
                 rank = size_t(job().rank());
    std::string mine;
    for (size_t i = count * rank / ranks; i < count * (rank + 1) / ranks; ++i)
      mine += shown(o, *tokenizer, texts[begin + i]);
    for (const std::string& part : gather_bytes(job(), mine))
      if (speaks_for_job()) std::cout << part;
  }
  return 0;
}

// The texts of a recipe, into the cache.
int fill_cache(const TokenizeOptions& o) {
  check_usage(o.files.empty() && o.texts.empty() && o.trees.empty() && !o.ids && !o.source && !o.check && !o.linear,
              "tokenize", "--cache tokenizes the texts of a recipe; name that alone (and --set)");
  const Recipe recipe = load_recipe(o.tokenizer, o.set);
  check_usage(!recipe.has_task() && !recipe.has_translation() && recipe.data.messages.empty(), "tokenize", "'",
              o.tokenizer, "' learns from examples, translations or conversations, which are not kept in the cache");
  const std::shared_ptr<const Tokenizer> existing =
      recipe.from_pretrained.empty() ? nullptr : load_tokenizers(recipe.from_pretrained).tokenizer;
  tokenize_together(recipe.data, existing);
  std::optional<Dataset> loaded;  // the first joins the shares
  together([&] {
    if (speaks_for_job()) loaded.emplace(load_dataset(recipe.data, existing));
  });
  if (!loaded) return 0;
  const Dataset& data = *loaded;
  Json json;
  const auto show = [&](const char* part, const TokenStore& store) {
    if (o.json)
      json[part] = {{"documents", store.documents()}, {"tokens", store.tokens()}, {"bytes", store.info().bytes}};
    else
      std::cout << part << ": " << counted(store.documents(), "document") << ", " << counted(store.tokens(), "token")
                << ", " << counted(store.info().bytes, "byte") << "\n";
  };
  show("training", data.train);
  if (data.validation) show("validation", *data.validation);
  if (o.json) std::cout << dump(json, 2) << "\n";
  return 0;
}

}  // namespace

Command add_tokenize(CommandLine& app) {
  auto o = std::make_shared<TokenizeOptions>();
  app.add_option("tokenizer", o->tokenizer,
                 "directory of a run, or a tokenizer's file or directory; with --cache a recipe")
      .required();
  app.add_option("files", o->files, "texts, one per line; default or -: standard input");
  app.add_option("--text", o->texts, "a text to cut (repeatable)").repeatable();
  app.add_option("--trees", o->trees,
                 "a treebank (.conllu, or brackets in .ptb): prints the tokens of each word, and each fault on a line "
                 "of standard error (repeatable)")
      .repeatable();
  app.add_flag("--linear", o->linear,
               "with --trees of brackets: each tree on a line, in the form for models: (S (NP (PRP It )PRP )NP )S");
  app.add_flag("--check", o->check, "with --trees: only print the faults; exit code 1 if there are any");
  app.add_flag("--source", o->source, "the tokenizer of an encoder-decoder's sources, if it has two");
  app.add_flag("--ids", o->ids, "print the ids alone, a line a text");
  app.add_flag("--cache", o->cache,
               "tokenize the texts of a recipe (data.files) into the cache, where `lithe train` finds them");
  app.add_option("--set", o->set, "with --cache: override a key of the recipe (repeatable)").repeatable();
  app.add_flag("--json", o->json, "print one JSON object per text");
  add_threads_option(app);
  app.footer(
      "Example: lithe tokenize runs/first --text \"In the beginning\"\nColumns: id, bytes of the text, spelling in the "
      "vocabulary, and what it adds to the text; without a vocabulary\nthe word and its hash. The bytes are - if the "
      "tokenizer changed the text in more than the case of letters.\nOn several ranks (mpirun -n 4 lithe tokenize ...) "
      "they "
      "share out the texts; what is printed or kept is the same.");
  return [o] {
    join_job();
    return o->cache ? fill_cache(*o) : show_texts(*o);
  };
}

}  // namespace lithe
