#include "lithe/data/translation.h"

#include <algorithm>
#include <set>

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
  PairReader(DistinctFiles& distinct, std::string part, const std::map<std::string, FurtherSource>& further)
      : distinct_(distinct), part_(std::move(part)), further_(further) {}

  std::vector<TextPair> read(const ParallelFiles& files) {
    const auto source = distinct_.expand(files.source, part_ + "source"),
               target = distinct_.expand(files.target, part_ + "target"),
               tables = distinct_.expand(files.pairs, part_ + "pairs");
    const auto trees = distinct_.expand(files.source_trees, part_ + "source_trees");
    check_usage(source.empty() || trees.empty(), "translation", part_, "source and ", part_,
                "source_trees both name files; the trees are the sources, so leave one out");
    check_usage(trees.empty() || trees.size() == target.size(), "translation", part_, "source_trees has ", trees.size(),
                " files and ", part_, "target ", target.size(), "; each needs its target file, in the same order");
    check_usage(!trees.empty() || source.size() == target.size(), "translation", part_, "source has ", source.size(),
                " files and ", part_, "target ", target.size(),
                "; each source file needs its target file, in the same order");
    check_usage(!source.empty() || !trees.empty() || !tables.empty(), "translation",
                "no files are given; name some in ", part_, "source and ", part_, "target, or in ", part_, "pairs");
    const auto beside = further_files(files, trees.empty() ? source.size() : trees.size(), !tables.empty());
    const auto add_with = [&](std::vector<TextPair> pairs, size_t i, const Path& path) {
      for (const auto& [name, of] : beside) add_lines(pairs, name, of[i], path);
      add(std::move(pairs), path);
    };
    for (size_t i = 0; i < trees.size(); ++i)
      add_with(parse_tree_pairs(read_treebank(trees[i], "translation"), trees[i].string(),
                                read_text(target[i], "translation"), target[i].string()),
               i, trees[i]);
    for (size_t i = 0; i < source.size(); ++i)
      add_with(parse_pairs(read_text(source[i], "translation"), source[i].string(), read_text(target[i], "translation"),
                           target[i].string()),
               i, source[i]);
    for (const Path& path : tables)
      add(parse_pair_table(read_text(path, "translation"), path.string(), further_), path);
    if (one_sided_ > 0)
      log_warning("translation: ", one_sided_, " of ", pairs_.size(),
                  " pairs have text on one side only, the first at ", first_one_sided_,
                  "; check that the lines belong together");
    return std::move(pairs_);
  }

 private:
  DistinctFiles& distinct_;
  std::string part_, first_one_sided_;
  const std::map<std::string, FurtherSource>& further_;
  std::vector<TextPair> pairs_;
  int64_t one_sided_ = 0;

  // The files of the further sources that have some, as many each as there are source files.
  std::map<std::string, std::vector<Path>> further_files(const ParallelFiles& files, size_t count, bool tables) {
    std::map<std::string, std::vector<Path>> out;
    for (const auto& [name, source] : further_) {
      const bool in_files = source.from == FurtherSource::From::file;
      check_usage(!in_files || !tables, "translation", "source '", name, "' has files of its own, and ", part_,
                  "pairs names tables, which have none beside them; give source and target files, or a column of the "
                  "tables (from: column)");
      check_usage(source.from != FurtherSource::From::column || count == 0, "translation", "source '", name,
                  "' is column ", source.column, " of tables, and ", part_,
                  "source names files; give tables alone (pairs), or a file beside each (from: file)");
      const Node* named = files.sources.find(name);
      check_usage(bool(named) == in_files, "translation", part_, "sources has ", named ? "" : "no ", "files of '", name,
                  "', which is from ", in_files ? "files; name them there" : "elsewhere; leave them out");
      if (!in_files) continue;
      std::vector<std::string> patterns;
      if (named->is_list())
        for (const Node& item : named->items()) patterns.push_back(item.text());
      else
        patterns.push_back(named->text());
      out[name] = distinct_.expand(patterns, cat(part_, "sources.", name));
      check_usage(out[name].size() == count, "translation", part_, "source has ", count, " files and ", part_,
                  "sources.", name, " ", out[name].size(), "; each source file needs one beside it, in the same order");
    }
    if (files.sources.is_map())
      for (const auto& [name, value] : files.sources.entries())
        check_usage(further_.count(name), "translation", part_, "sources names files of '", name,
                    "', which translation.sources does not have; add it there, as {", name, ": {from: file}}");
    return out;
  }
  // Line n of a file belongs to pair n.
  static void add_lines(std::vector<TextPair>& pairs, const std::string& name, const Path& path, const Path& source) {
    const std::string text = read_text(path, "translation");
    const auto lines = checked_lines(text, path.string());
    check(lines.size() == pairs.size(), "translation", "'", source.string(), "' has ", pairs.size(), " lines, but '",
          path.string(), "' has ", lines.size(), "; line n of one must belong to line n of the other");
    for (size_t i = 0; i < lines.size(); ++i) pairs[i].sources[name] = lines[i];
  }

  void add(std::vector<TextPair> pairs, const Path& path) {  // one a line of `path`
    for (const auto& [name, source] : further_) {
      if (source.from == FurtherSource::From::source)
        for (TextPair& pair : pairs) pair.sources[name] = pair.source;
      if (source.from != FurtherSource::From::previous) continue;
      std::vector<std::string> lines;
      for (const TextPair& pair : pairs) lines.push_back(pair.source);
      lines = previous_lines(lines, source.lines);
      for (size_t i = 0; i < pairs.size(); ++i) pairs[i].sources[name] = std::move(lines[i]);
    }
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
  f("source", source, "source texts, one per line: file names or shell patterns, also .gz or .zst");
  f("target", target, "target texts (translations): as many files with as many lines as source, in the same order");
  f("source_trees", source_trees,
    "instead of source: treebanks (.conllu, or brackets in .ptb) with the source sentences, for models that read their "
    "trees");
  f("pairs", pairs, "instead of source and target: files with source, tab, target on each line");
  f.free("sources", sources,
         "texts for further encoders (see translation.sources): {name: files}, as many files with as many lines as "
         "`source`");
}

void FurtherSource::fields(Fields& f) {
  static const std::vector<std::string> names = {"file", "column", "previous", "source"};
  std::string name = names[size_t(from)];
  f("from", name,
    "file: a line of train.sources.NAME (validation.…, test.…) for each source line; column: of the tables `pairs`; "
    "previous: the source lines before, as context; source: the source itself, for an encoder of other rows",
    one_of(names));
  from = From(std::ranges::find(names, name) - names.begin());
  f("column", column, "column: which one of the table, from 3", at_least(0));
  f("lines", lines, "previous: how many lines before", between(1, 64));
}

std::map<std::string, FurtherSource> TranslationConfig::further_sources() const {
  std::map<std::string, FurtherSource> out;
  if (sources.is_null()) return out;
  check_usage(sources.is_map(), "recipe", to_string(sources.mark()),
              ": translation.sources must hold sources by name, as {context: {from: previous}}");
  for (const auto& [name, keys] : sources.entries()) {
    FurtherSource& source = out[name];
    read_fields(keys, "translation.sources." + name, [&](Fields& f) { source.fields(f); });
    const bool column = source.from == FurtherSource::From::column;
    check_usage(column ? source.column >= 3 : source.column == 0, "translation", "sources.", name,
                column ? ".column must be 3 or more, source and target being 1 and 2, got "
                       : ".column is for from: column; leave it out, got ",
                source.column);
    check_usage(name != "source", "translation",
                "sources.source has the name of the texts that are translated; rename it, and its encoder");
  }
  return out;
}

std::vector<std::string> previous_lines(const std::vector<std::string>& lines, int64_t count) {
  std::vector<std::string> out(lines.size());
  for (size_t i = 0; i < lines.size(); ++i)
    for (size_t before = i - std::min(i, size_t(count)); before < i; ++before) {
      if (!out[i].empty() && !lines[before].empty()) out[i] += ' ';
      out[i] += lines[before];
    }
  return out;
}

void TranslationConfig::fields(Fields& f) {
  f.section("train", train, "pairs to train on");
  f.section("validation", validation, "pairs to evaluate on during training");
  f.section("test", test, "pairs for the final result");
  f("max_length", max_length,
    "training leaves out pairs with a side of more tokens than this, end token included; 0: data.sequence_length",
    at_least(0));
  f("cut_sources", cut_sources,
    "instead of leaving a pair out, cut sources of more than max_length tokens (see data.truncation), also in "
    "translation");
  f("max_length_ratio", max_length_ratio,
    "training leaves out pairs if the longer side has more than this many times the tokens of the shorter side; 0: no "
    "limit",
    at_least(0));
  f.section("source_segmentation", source_segmentation,
            "subword regularisation: in training, sources are cut into tokens at random, anew in every epoch; "
            "validation and test are not");
  f.section("target_segmentation", target_segmentation, "the same for targets");
  f("metric_for_best_model", metric_for_best_model,
    "validation metric that chooses the best weights and stops early; bleu and chrf translate the validation part at "
    "each evaluation, greedily",
    one_of({"loss", "bleu", "chrf"}));
  f.free("sources", sources,
         "inputs of the encoders of model.encoders, by their names: {context: {from: previous}}, {syntax: {from: "
         "file}}, {syntax: {from: column, column: 3}} or {phrases: {from: source}}; all use the source's tokenizer");
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

std::vector<TreeSentence> read_treebank(const Path& file, std::string_view operation, bool keep_lines) {
  const std::string text = read_text(file, operation), name = file.string();
  refuse_invalid_utf8(text, name, operation);
  // A tree that is none matters to those who read it; a line that is none, to all.
  std::vector<std::string> problems;
  const OnProblem note = [&](const std::string& problem) { problems.push_back(problem); };
  std::vector<TreeSentence> out = tree_format(name) == TreeFormat::conllu
                                      ? parse_conllu_trees(text, name, note, keep_lines)
                                      : parse_bracketed_trees(text, name, note);
  std::set<std::string> of_trees;
  for (const TreeSentence& s : out) of_trees.insert(s.fault);
  for (const std::string& problem : problems)
    if (!of_trees.count(problem) && problem.find("words, more than") == std::string::npos)
      refusing(std::string(operation))(problem);
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
    pairs.push_back(
        {std::move(text), std::string(to[i]), {}, std::make_shared<const TreeSentence>(std::move(source[i]))});
  }
  return pairs;
}

std::vector<TextPair> parse_pair_table(std::string_view text, const std::string& name,
                                       const std::map<std::string, FurtherSource>& further) {
  size_t columns = 2;
  for (const auto& [source, of] : further) columns = std::max(columns, size_t(of.column));
  std::vector<TextPair> pairs;
  std::vector<std::string> cells;
  for (const std::string_view line : checked_lines(text, name)) {
    split(line, '\t', cells);
    check(cells.size() == columns, "translation", name, ":", pairs.size() + 1,
          ": a line must be a source, one tab and a target",
          columns > 2 ? cat(", and ", columns - 2, " more behind tabs") : "", ", got ", cells.size() - 1, " tabs in '",
          shortened(line), "'");
    TextPair& pair = pairs.emplace_back();
    for (const auto& [source, of] : further)
      if (of.from == FurtherSource::From::column) pair.sources[source] = cells[size_t(of.column) - 1];
    pair.source = std::move(cells[0]);
    pair.target = std::move(cells[1]);
  }
  return pairs;
}

std::vector<TextPair> read_pairs(const ParallelFiles& files, const std::map<std::string, FurtherSource>& further) {
  DistinctFiles distinct("translation");
  return PairReader(distinct, "", further).read(files);
}

void check_distinct_files(const TranslationConfig& config) {
  DistinctFiles distinct("translation");
  const auto here = [](const std::string& pattern) {
    try {
      return !glob(pattern).empty();
    } catch (const Error&) {
      return false;
    }
  };
  for (const auto& [part, files] :
       {std::pair("train.", &config.train), {"validation.", &config.validation}, {"test.", &config.test}})
    for (const auto& [option, patterns] : {std::pair("source", &files->source),
                                           {"target", &files->target},
                                           {"pairs", &files->pairs},
                                           {"source_trees", &files->source_trees}})
      for (const std::string& pattern : *patterns)
        if (here(pattern)) distinct.expand({pattern}, cat(part, option));
}

TranslationData load_translation(const TranslationConfig& config) {
  check_usage(!config.train.empty() || !config.validation.empty() || !config.test.empty(), "translation",
              "no files are given; name some in translation.train, translation.validation or translation.test");
  DistinctFiles distinct("translation");
  const std::map<std::string, FurtherSource> further = config.further_sources();
  const auto read = [&](const ParallelFiles& files, const char* part) {
    return files.empty() ? std::vector<TextPair>() : PairReader(distinct, part, further).read(files);
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
