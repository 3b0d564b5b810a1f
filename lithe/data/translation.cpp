#include "lithe/data/translation.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/data/distinct_files.h"
#include "lithe/data/examples_readers.h"
#include "lithe/data/text_file.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

std::vector<std::string_view> checked_lines(std::string_view text, const std::string& name) {
  check(!text.empty(), "translation", "'", name, "' is empty; give a file with one sentence a line");
  refuse_invalid_utf8(text, name, "translation");
  std::vector<std::string_view> lines;
  while (!text.empty()) lines.push_back(take_line(text));
  return lines;
}

// Reads the pairs of one part; `part` is "" or begins its options in errors.
class PairReader {
 public:
  PairReader(DistinctFiles& distinct, std::string part) : distinct_(distinct), part_(std::move(part)) {}

  std::vector<TextPair> read(const ParallelFiles& files) {
    const auto source = distinct_.expand(files.source, part_ + "source"),
               target = distinct_.expand(files.target, part_ + "target"),
               tables = distinct_.expand(files.pairs, part_ + "pairs");
    const auto trees = distinct_.expand(files.source_trees, part_ + "source_trees");
    check_usage(source.empty() || trees.empty(), "translation", part_, "source and ", part_,
                "source_trees both name files; the trees are the sources, so leave one out");
    check_usage(trees.empty() || trees.size() == target.size(), "translation", part_, "source_trees has ", trees.size(),
                " files and ", part_, "target ", target.size(), "; each needs its target file, in the same order");
    for (size_t i = 0; i < trees.size(); ++i)
      add(parse_tree_pairs(read_treebank(trees[i], "translation"), trees[i].string(),
                           read_text(target[i], "translation"), target[i].string()),
          trees[i]);
    check_usage(!trees.empty() || source.size() == target.size(), "translation", part_, "source has ", source.size(),
                " files and ", part_, "target ", target.size(),
                "; each source file needs its target file, in the same order");
    check_usage(!source.empty() || !trees.empty() || !tables.empty(), "translation",
                "no files are given; name some in ", part_, "source and ", part_, "target, or in ", part_, "pairs");
    for (size_t i = 0; i < source.size(); ++i)
      add(parse_pairs(read_text(source[i], "translation"), source[i].string(), read_text(target[i], "translation"),
                      target[i].string()),
          source[i]);
    for (const Path& path : tables) add(parse_pair_table(read_text(path, "translation"), path.string()), path);
    if (one_sided_ > 0)
      log_warning("translation: ", one_sided_, " of ", pairs_.size(),
                  " pairs have text on one side only, the first at ", first_one_sided_,
                  "; check that the lines belong together");
    return std::move(pairs_);
  }

 private:
  DistinctFiles& distinct_;
  std::string part_, first_one_sided_;
  std::vector<TextPair> pairs_;
  int64_t one_sided_ = 0;

  void add(std::vector<TextPair> pairs, const Path& path) {  // one a line of `path`
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (is_blank_text(pairs[i].source) != is_blank_text(pairs[i].target) && one_sided_++ == 0)
        first_one_sided_ = cat(path.string(), ":", i + 1);
      pairs_.push_back(std::move(pairs[i]));
    }
  }
};

}  // namespace

bool is_blank_text(std::string_view text) {
  bool blank = true;
  for_each_character(text, [&](uint32_t c) { blank = blank && is_white_space(c); });
  return blank;
}

void ParallelFiles::fields(Fields& f) {
  f("source", source, "texts to translate, one a line: names or shell patterns, each also .gz or .zst");
  f("target", target, "their translations: as many files, with as many lines, in the same order");
  f("source_trees", source_trees,
    "in place of source: treebanks (.conllu, or brackets in .ptb) whose sentences are the texts, for models that read "
    "their trees");
  f("pairs", pairs, "both in one file: source, tab, target on each line");
}

void TranslationConfig::fields(Fields& f) {
  f.section("train", train, "pairs to learn from");
  f.section("validation", validation, "pairs to evaluate on while training");
  f.section("test", test, "pairs for the final result");
  f("max_length", max_length,
    "pairs with a longer side, in tokens with its end token, are left out of training; 0: data.sequence_length",
    at_least(0));
  f("max_length_ratio", max_length_ratio,
    "pairs whose longer side has more than this many times the tokens of the shorter one are left out of training; "
    "0: no limit",
    at_least(0));
  f.section("source_segmentation", source_segmentation,
            "training: sources cut at random, anew every epoch; validation and test are always cut as usual");
  f.section("target_segmentation", target_segmentation, "the same of targets");
  f("metric_for_best_model", metric_for_best_model,
    "by what the best weights are chosen, and early stopping decides; bleu and chrf translate the validation part at "
    "each evaluation, greedily",
    one_of({"loss", "bleu", "chrf"}));
}

std::vector<TextPair> parse_pairs(std::string_view source, const std::string& source_name, std::string_view target,
                                  const std::string& target_name) {
  const auto from = checked_lines(source, source_name), to = checked_lines(target, target_name);
  check(from.size() == to.size(), "translation", "'", source_name, "' has ", from.size(), " lines, but '", target_name,
        "' has ", to.size(), "; line n of one must be the translation of line n of the other");
  std::vector<TextPair> pairs;
  for (size_t i = 0; i < from.size(); ++i) pairs.push_back({std::string(from[i]), std::string(to[i])});
  return pairs;
}

std::vector<TreeSentence> read_treebank(const Path& file, std::string_view operation) {
  const std::string text = read_text(file, operation), name = file.string();
  refuse_invalid_utf8(text, name, operation);
  // A tree that is none matters to those who read it; a line that is none, to all.
  std::string fault;
  const OnProblem note = [&](const std::string& problem) {
    if (fault.empty()) fault = problem;
  };
  std::vector<TreeSentence> out = tree_format(name) == TreeFormat::conllu ? parse_conllu_trees(text, name, note)
                                                                          : parse_bracketed_trees(text, name, note);
  const bool of_tree = std::any_of(out.begin(), out.end(), [&](const TreeSentence& s) { return s.fault == fault; });
  if (!fault.empty() && !of_tree && fault.find("words, more than") == std::string::npos)
    refusing(std::string(operation))(fault);
  check(!out.empty(), operation, "'", name, "' holds no sentences");
  return out;
}

std::vector<TextPair> parse_tree_pairs(std::vector<TreeSentence> source, const std::string& source_name,
                                       std::string_view target, const std::string& target_name) {
  const auto to = checked_lines(target, target_name);
  check(source.size() == to.size(), "translation", "'", source_name, "' has ", source.size(), " sentences, but '",
        target_name, "' has ", to.size(), " lines; line n must be the translation of sentence n");
  std::vector<TextPair> pairs;
  for (size_t i = 0; i < source.size(); ++i) {
    std::string text = source[i].text();
    pairs.push_back({std::move(text), std::string(to[i]), std::make_shared<const TreeSentence>(std::move(source[i]))});
  }
  return pairs;
}

std::vector<TextPair> parse_pair_table(std::string_view text, const std::string& name) {
  std::vector<TextPair> pairs;
  std::vector<std::string> cells;
  for (const std::string_view line : checked_lines(text, name)) {
    split(line, '\t', cells);
    check(cells.size() == 2, "translation", name, ":", pairs.size() + 1,
          ": a line must be a source, one tab and a target, got ", cells.size() - 1, " tabs in '", shortened(line),
          "'");
    pairs.push_back({std::move(cells[0]), std::move(cells[1])});
  }
  return pairs;
}

std::vector<TextPair> read_pairs(const ParallelFiles& files) {
  DistinctFiles distinct("translation");
  return PairReader(distinct, "").read(files);
}

TranslationData load_translation(const TranslationConfig& config) {
  check_usage(!config.train.empty() || !config.validation.empty() || !config.test.empty(), "translation",
              "no files are given; name some in translation.train, translation.validation or translation.test");
  DistinctFiles distinct("translation");
  const auto read = [&](const ParallelFiles& files, const char* part) {
    return files.empty() ? std::vector<TextPair>() : PairReader(distinct, part).read(files);
  };
  TranslationData data;
  data.train = read(config.train, "train.");
  data.validation = read(config.validation, "validation.");
  data.test = read(config.test, "test.");
  log_info("translation: ", data.train.size(), " pairs to train on, ", data.validation.size(), " to validate, ",
           data.test.size(), " to test");
  return data;
}

}  // namespace lithe
