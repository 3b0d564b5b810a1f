#include "lithe/trees/treebank.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "lithe/base/error.h"

namespace lithe {
namespace {

enum Column { id, form, lemma, upos, xpos, feats, head, deprel, deps, misc, kColumns };
const std::pair<const char*, Column> kTags[] = {
    {"lemma", lemma}, {"upos", upos}, {"xpos", xpos}, {"feats", feats}, {"deprel", deprel}};

template <class T>
bool number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::string few(std::string_view text) {
  size_t end = std::min<size_t>(text.size(), 40);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + (end < text.size() ? "..." : "");
}

std::string_view line_of(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// The value of a key in MISC (a=b|c=d).
std::string_view misc_value(std::string_view all, std::string_view key) {
  while (!all.empty()) {
    const size_t end = std::min(all.find('|'), all.size());
    const std::string_view one = all.substr(0, end);
    if (one.starts_with(key) && one.size() > key.size() && one[key.size()] == '=') return one.substr(key.size() + 1);
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return {};
}

// Reads one sentence after another.
class Conllu {
 public:
  Conllu(const std::string& name, const OnProblem& problem, bool keep_lines)
      : name_(name), problem_(problem), keep_lines_(keep_lines) {}

  void line(std::string_view line, int64_t number) {
    number_ = number;
    if (line.empty()) return end();
    if (bad_) return;
    if (line[0] == '#') return comment(line);
    cells(line);
    if (cells_.size() != kColumns)
      return wrong(cat("a line of CoNLL-U has 10 columns between tabs, got ", cells_.size()));
    const std::string& of = cells_[id];
    const size_t mark = of.find_first_of("-.");
    int64_t first = 0, second = 0;
    const bool numbers = lithe::number(std::string_view(of).substr(0, mark), first) && first >= 0 &&
                         (mark == std::string::npos || lithe::number(std::string_view(of).substr(mark + 1), second));
    if (!numbers)
      return wrong(cat("the id must be a number, a range as 3-4 or an empty node as 3.1, got '", few(of), "'"));
    if (mark == std::string::npos) return word(first);
    keep(line);
    if (of[mark] == '.') return;
    if (first != int64_t(s_.words.size()) + 1 || second < first)
      return wrong(cat("the range ", few(of), " must begin at the next word, ", s_.words.size() + 1));
    range_end_ = second;
    range_space_ = misc_value(cells_[misc], "SpaceAfter") != "No";
  }
  void end() {
    if (!bad_ && !s_.words.empty()) deliver();
    s_ = {}, lines_.clear(), bad_ = false, range_end_ = 0, headless_ = false, begun_ = false;
  }
  std::vector<TreeSentence> take() {
    end();
    return std::move(out_);
  }

 private:
  const std::string& name_;
  const OnProblem& problem_;
  bool keep_lines_;
  std::vector<TreeSentence> out_;
  TreeSentence s_;
  std::vector<int64_t> lines_;  // of each word
  std::vector<std::string> cells_;
  int64_t number_ = 0, range_end_ = 0;
  bool bad_ = false, range_space_ = true, headless_ = false, begun_ = false;

  void keep(std::string_view line) {
    if (keep_lines_) s_.between.emplace_back(int64_t(s_.words.size()), std::string(line));
  }
  std::string at(int64_t line) const { return cat(name_, ":", line); }
  void wrong(const std::string& what) {
    bad_ = true;
    problem_(cat(at(number_), ": ", what));
  }
  void cells(std::string_view line) {
    cells_.clear();
    for (size_t tab; (tab = line.find('\t')) != std::string_view::npos; line.remove_prefix(tab + 1))
      cells_.emplace_back(line.substr(0, tab));
    cells_.emplace_back(line);
  }
  void comment(std::string_view line) {
    keep(line);
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return;
    const auto trimmed = [](std::string_view x) {
      while (x.starts_with(' ')) x.remove_prefix(1);
      while (x.ends_with(' ')) x.remove_suffix(1);
      return std::string(x);
    };
    s_.comments[trimmed(line.substr(1, equals - 1))] = trimmed(line.substr(equals + 1));
  }

  void word(int64_t number) {
    if (number != int64_t(s_.words.size()) + 1)
      return wrong(cat("the id must be ", s_.words.size() + 1, ", the next word of the sentence, got ", number,
                       "; sentences stand between empty lines"));
    if (cells_[form].empty()) return wrong("the form (column 2) is empty");
    if (!begun_) s_.place = at(number_);
    begun_ = true;
    int32_t to = -1;
    if (cells_[head] == "_")
      headless_ = true;
    else if (!lithe::number(cells_[head], to) || to < 0)
      return wrong(cat("the head (column 7) must be the number of a word, 0 or _, got '", few(cells_[head]), "'"));
    s_.heads.heads.push_back(to);
    s_.words.push_back(cells_[form]);
    const bool inside = number < range_end_;
    s_.space_after.push_back(!inside &&
                             (number == range_end_ ? range_space_ : misc_value(cells_[misc], "SpaceAfter") != "No"));
    for (const auto& [name, column] : kTags) s_.tags[name].push_back(cells_[column]);
    if (const std::string_view given = misc_value(cells_[misc], "HeadProbability"); !given.empty()) {
      s_.parser.resize(s_.words.size());
      if (!probabilities(given, s_.parser.back()))
        return wrong(cat("HeadProbability must be heads and probabilities that sum to 1, as 2:0.9,0:0.1, got '",
                         few(given), "'"));
    }
    lines_.push_back(number_);
    if (keep_lines_) s_.columns.push_back(std::exchange(cells_, {}));
  }

  static bool probabilities(std::string_view text, HeadProbabilities& out) {
    double sum = 0;
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size()), colon = text.substr(0, end).find(':');
      int32_t to = 0;
      float p = 0;
      if (colon == std::string_view::npos || !lithe::number(text.substr(0, colon), to) ||
          !lithe::number(text.substr(colon + 1, end - colon - 1), p) || to < 0 || !(p >= 0 && p <= 1))
        return false;
      out.emplace_back(to, p);
      sum += p;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return std::abs(sum - 1) < 1e-3;
  }

  void deliver() {
    const auto m = int64_t(s_.words.size());
    if (range_end_ > m) return wrong(cat("a range ends at word ", range_end_, ", but the sentence has ", m, " words"));
    if (!s_.parser.empty()) {
      s_.parser.resize(size_t(m));  // words without a head were not read by the parser
      for (size_t w = 0; w < s_.parser.size(); ++w)
        if (s_.parser[w].empty() && s_.heads.heads[w] >= 0)
          return wrong("some words of the sentence have HeadProbability and others have none");
      for (size_t w = 0; w < s_.parser.size(); ++w)
        for (const auto& [to, p] : s_.parser[w])
          if (to > m || to == int32_t(w) + 1)
            return wrong(cat("word ", w + 1, " has HeadProbability of the head ", to, ", which is no other word"));
    }
    const bool none = std::all_of(s_.heads.heads.begin(), s_.heads.heads.end(), [](int32_t h) { return h < 0; });
    int64_t word = 1;
    if (none) {
      s_.heads = {};
    } else if (headless_) {
      while (s_.heads.heads[size_t(word - 1)] >= 0) ++word;
      s_.fault = cat(at(lines_[size_t(word - 1)]), ": word ", word, " has no head (column 7), but others have");
    } else if (const std::string what = fault_of(s_.heads, &word); !what.empty()) {
      s_.fault = cat(at(lines_[size_t(word - 1)]), ": ", what);
    }
    if (!s_.fault.empty()) {
      problem_(s_.fault);
      s_.heads = {};
    }
    if (m > kLongSentence)
      problem_(
          cat(s_.place, ": the sentence has ", m, " words, more than ", kLongSentence, "; is an empty line missing?"));
    out_.push_back(std::move(s_));
  }
};

}  // namespace

std::string TreeSentence::text() const {
  std::string out;
  for (size_t w = 0; w < words.size(); ++w) {
    out += words[w];
    if (space_after[w] && w + 1 < words.size()) out += ' ';
  }
  return out;
}

OnProblem refusing(std::string operation) {
  return [operation = std::move(operation)](const std::string& problem) {
    fail(operation, problem, "; `lithe tokenize TOKENIZER --trees FILE` lists all that is wrong");
  };
}

std::vector<TreeSentence> parse_conllu_trees(std::string_view text, const std::string& name, const OnProblem& problem,
                                             bool keep_lines) {
  Conllu reader(name, problem, keep_lines);
  for (int64_t number = 1; !text.empty(); ++number) reader.line(line_of(text), number);
  return reader.take();
}

namespace {

std::string extension_of(const std::string& name) {
  std::filesystem::path path = name;
  if (path.extension() == ".gz" || path.extension() == ".zst") path = path.stem();
  return path.extension().string();
}

}  // namespace

bool is_treebank(const std::string& name) {
  const std::string e = extension_of(name);
  return e == ".conllu" || e == ".ptb" || e == ".mrg" || e == ".brackets";
}

TreeFormat tree_format(const std::string& name) {
  check_usage(is_treebank(name), "trees", "the name of '", name,
              "' does not say its format; trees stand in .conllu, or as brackets in .ptb, .mrg or .brackets");
  return extension_of(name) == ".conllu" ? TreeFormat::conllu : TreeFormat::brackets;
}

namespace {

bool is_punctuation(std::string_view character) {
  static const std::string kOther[] = {"\u201C", "\u201D", "\u2018", "\u2019", "\u201E", "\u00AB",
                                       "\u00BB", "\u2013", "\u2014", "\u2026", "\u00BF", "\u00A1"};
  if (character.size() > 1) return std::find(std::begin(kOther), std::end(kOther), character) != std::end(kOther);
  return std::ispunct(static_cast<unsigned char>(character[0]));
}

// The characters of a word at its begin or end.
std::string_view first_of(std::string_view x) {
  size_t end = 1;
  while (end < x.size() && (static_cast<unsigned char>(x[end]) & 0xC0) == 0x80) ++end;
  return x.substr(0, end);
}
std::string_view last_of(std::string_view x) {
  size_t begin = x.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(x[begin]) & 0xC0) == 0x80) --begin;
  return x.substr(begin);
}

// The parts of what stands between white space.
std::vector<std::string> parts_of(std::string_view word) {
  std::vector<std::string> front, back;
  while (word.size() > 1 && is_punctuation(first_of(word)) && word.substr(0, 1) != "'") {
    front.emplace_back(first_of(word));
    word.remove_prefix(front.back().size());
  }
  while (!word.empty() && is_punctuation(last_of(word)) && last_of(word).size() < word.size()) {
    if (word.ends_with("...") && word.size() > 3) {
      back.emplace_back("...");
      word.remove_suffix(3);
      continue;
    }
    back.emplace_back(last_of(word));
    word.remove_suffix(back.back().size());
  }
  static const char* const kEndings[] = {"n't", "'s", "'re", "'ve", "'ll", "'m", "'d", "N'T", "'S"};
  std::string ending;
  for (const char* e : kEndings)
    if (word.ends_with(e) && word.size() > std::string_view(e).size()) ending = e;
  word.remove_suffix(ending.size());
  if (!word.empty()) front.emplace_back(word);
  if (!ending.empty()) front.push_back(ending);
  front.insert(front.end(), back.rbegin(), back.rend());
  return front;
}

}  // namespace

TreeSentence plain_sentence(std::string_view line) {
  TreeSentence out;
  const auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  for (size_t i = 0; i < line.size();) {
    size_t end = i;
    while (end < line.size() && !space(line[end])) ++end;
    if (end > i)
      for (std::string& part : parts_of(line.substr(i, end - i))) {
        out.words.push_back(std::move(part));
        out.space_after.push_back(false);
      }
    if (!out.space_after.empty()) out.space_after.back() = true;
    i = end + 1;
  }
  for (size_t w = 0; w < out.words.size(); ++w)
    out.columns.push_back(
        {cat(w + 1), out.words[w], "_", "_", "_", "_", "_", "_", "_", out.space_after[w] ? "_" : "SpaceAfter=No"});
  return out;
}

std::string to_conllu(const TreeSentence& s) {
  std::string out;
  size_t next = 0;
  const auto lines_before = [&](size_t word) {
    for (; next < s.between.size() && s.between[next].first <= int64_t(word); ++next)
      out += s.between[next].second + "\n";
  };
  for (size_t w = 0; w < s.words.size(); ++w) {
    lines_before(w);
    std::vector<std::string> cells =
        s.columns.empty() ? std::vector<std::string>{cat(w + 1), s.words[w], "_", "_", "_", "_", "_", "_", "_", "_"}
                          : s.columns[w];
    if (!s.heads.heads.empty()) cells[head] = s.heads.heads[w] < 0 ? "_" : cat(s.heads.heads[w]);
    for (const auto& [name, column] : kTags)
      if (const auto found = s.tags.find(name); found != s.tags.end()) cells[column] = found->second[w];
    if (!s.parser.empty()) {
      std::string kept;
      std::string_view all = cells[misc];
      while (all != "_" && !all.empty()) {
        const size_t end = std::min(all.find('|'), all.size());
        if (!all.starts_with("HeadProbability=")) kept += cat(kept.empty() ? "" : "|", std::string(all.substr(0, end)));
        all.remove_prefix(std::min(end + 1, all.size()));
      }
      std::string given;
      for (const auto& [to, p] : s.parser[w]) {
        char digits[32];
        std::snprintf(digits, sizeof digits, "%s%d:%.6f", given.empty() ? "" : ",", to, double(p));
        given += digits;
      }
      if (!given.empty()) kept += cat(kept.empty() ? "" : "|", "HeadProbability=", given);
      cells[misc] = kept.empty() ? "_" : kept;
    }
    for (size_t c = 0; c < cells.size(); ++c) out += cells[c] + (c + 1 < cells.size() ? "\t" : "\n");
  }
  lines_before(s.words.size());
  return out + "\n";
}

}  // namespace lithe
