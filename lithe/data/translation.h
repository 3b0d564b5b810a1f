// The section `translation` of a recipe: texts and their translations, line by line.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/base/fields.h"
#include "lithe/base/files.h"
#include "lithe/text/segmentation.h"
#include "lithe/trees/treebank.h"

namespace lithe {

/// The files of one part, training, validation or test. All may end in .gz or .zst.
struct ParallelFiles {
  // Names or shell patterns; line n of a source file and line n of its target file translate each other.
  std::vector<std::string> source, target;
  std::vector<std::string> source_trees;  // in place of source: treebanks whose n-th sentences are the n-th texts
  std::vector<std::string> pairs;         // TSV: source, tab, target; no quoting
  Node sources;                           // texts of further encoders: name -> files, as many as `source`

  void fields(Fields& f);
  bool empty() const { return source.empty() && source_trees.empty() && target.empty() && pairs.empty(); }
};

/// Where the texts that a further encoder reads come from (model.encoders), one a pair.
struct FurtherSource {
  enum class From { file, column, previous, source };
  From from = From::file;
  int64_t column = 0;  // of the tables `pairs`, from 1: source and target are 1 and 2
  int64_t lines = 1;   // previous: so many source lines before this one in its file, fewer at its beginning

  void fields(Fields& f);
};

struct TranslationConfig {
  ParallelFiles train, validation, test;
  int64_t max_length = 0;       // training: tokens of a side and its end token; 0: data.sequence_length
  double max_length_ratio = 0;  // training: of the longer side to the shorter one; 0: no limit
  bool cut_sources = false;     // to max_length, as data.truncation says, instead of leaving the pair out
  SegmentationSampling source_segmentation, target_segmentation;  // training: see TranslationSampling
  std::string metric_for_best_model = "loss";                     // loss | bleu | chrf, of the validation part
  Node sources;                                                   // name -> FurtherSource

  void fields(Fields& f);
  /// `sources`, read. Fails (usage) on what is none.
  std::map<std::string, FurtherSource> further_sources() const;
};

/// One line and its translation, without line ends; valid UTF-8.
struct TextPair {
  std::string source, target;
  std::map<std::string, std::string> sources = {};  // what further encoders read, by name
  std::shared_ptr<const TreeSentence> tree = {};    // of the source, where its words are known
  bool operator==(const TextPair&) const = default;
};

/// The sentences of a treebank: CoNLL-U or bracketed trees, by the file's name. Fails on the first wrong line, but for
/// a sentence whose heads make no tree (TreeSentence::fault). `keep_lines`: see parse_conllu_trees.
std::vector<TreeSentence> read_treebank(const Path& file, std::string_view operation, bool keep_lines = false);

/// True for a text of white space alone.
bool is_blank_text(std::string_view text);

/// All pairs of the files, in order: those of the n-th source file with the n-th target file, then those of `pairs`.
/// Lines end with LF or CRLF alone, a byte order mark is dropped. Every line is kept, also an empty one. One that is
/// blank on one side only often means that lines have slipped; the first is named in a warning.
///
/// Fails on: unequally many source and target files, or lines in two of them (naming both, and both counts); a TSV line
/// without exactly one tab; NUL or invalid UTF-8 (file, line and byte); a file without a line; a file named twice, also
/// once as source and once as target; no files.
/// Further sources are files beside `source`, columns of `pairs`, or made of the source lines. Fails on files where a
/// column is asked for, and the other way round.
std::vector<TextPair> read_pairs(const ParallelFiles& files, const std::map<std::string, FurtherSource>& further = {});

/// The lines before each of `lines`, `count` of them with spaces between: what FurtherSource::From::previous reads.
std::vector<std::string> previous_lines(const std::vector<std::string>& lines, int64_t count);

/// The same of the texts of two files, and of a table, of which each row has so many columns; the names stand in
/// errors. Byte order marks, NUL and compression are read_pairs' matter.
std::vector<TextPair> parse_pairs(std::string_view source, const std::string& source_name, std::string_view target,
                                  const std::string& target_name);
/// Of a treebank's sentences and the lines of a text.
std::vector<TextPair> parse_tree_pairs(std::vector<TreeSentence> source, const std::string& source_name,
                                       std::string_view target, const std::string& target_name);
std::vector<TextPair> parse_pair_table(std::string_view text, const std::string& name,
                                       const std::map<std::string, FurtherSource>& further = {});

struct TranslationData {
  std::vector<TextPair> train, validation, test;
};

/// read_pairs of the parts that name files, of which there must be one. Fails on a file that serves two parts.
TranslationData load_translation(const TranslationConfig& config);
/// Fails (usage) on a file that serves two parts, of those that are here, without reading any.
void check_distinct_files(const TranslationConfig& config);

}  // namespace lithe
