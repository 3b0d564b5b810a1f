// Labelled examples: sentences and pairs with a class or a number, words with tags, questions with answers in a text.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/base/files.h"
#include "lithe/trees/treebank.h"

namespace lithe {

enum class TaskType { classification, regression, tagging, span, transcription, parsing, text };

/// An answer as it stands in Example::pair: `text` is the bytes of `pair` from `begin` on.
struct Answer {
  std::string text;
  int64_t begin = 0;  // byte
};

/// One labelled example. What is set depends on the type of the task; the rest keeps its default.
struct Example {
  std::string text;                // classification, regression: the (first) text. span: the question
  std::string pair;                // the second text of a pair. span: the context that holds the answers
  bool has_pair = false;           // a pair may be empty and still be one
  int32_t label = -1;              // classification: index into the names of the labels
  double value = 0;                // regression: finite
  std::vector<std::string> words;  // tagging: at least one
  std::vector<int32_t> tags;    // tagging, parsing (of arcs): one a word, -1: it has none; transcription: any number.
                                // Indices into the names of the labels
  std::vector<Answer> answers;  // span: all that are right; none: the context has no answer. text: the one
  std::string id;               // span: the question's id, or empty
  std::shared_ptr<const TreeSentence> tree = {};  // conllu, brackets: what the treebank says of the words
  /// What it has beside its text, by modality: references that its FeatureReader reads. One that it lacks is not here.
  std::map<std::string, std::string> features = {};
  std::string transcript = {};                      // of the sound, for compressor ctc_adapter; empty: it has none
  std::map<std::string, std::string> sources = {};  // classification, regression: what further encoders read, by name
  std::string place = {};                           // file and line of what may have features, for errors
};

/// The names of labels and their indices. Given names are fixed; otherwise names are learnt until sort().
class LabelNames {
 public:
  /// Fails on a name given twice. No names: learn them.
  explicit LabelNames(std::vector<std::string> names = {});

  bool learns() const { return learns_; }
  const std::vector<std::string>& names() const { return names_; }
  /// The index of `name`, which is learnt or must be known; the error begins with `where` (file and line).
  int32_t index(const std::string& name, const std::string& where);
  /// Ends learning: names are sorted by their bytes and the labels and tags of `examples` follow them.
  void sort(std::vector<Example>& examples);

 private:
  std::vector<std::string> names_;
  std::map<std::string, int32_t> index_;
  bool learns_ = false;
};

/// How a file of examples is laid out. A column is the name in the header, the key of a JSON object, or a number
/// from 1.
struct ExampleLayout {
  TaskType type = TaskType::classification;
  std::string format;   // of example_formats(type); empty: from the name of the file
  bool header = false;  // tsv, csv: the first line names the columns
  std::string text;     // tsv, csv, jsonl: default "text"; conllu: default "form"
  std::string text_pair;
  std::string label;  // tsv, csv, jsonl: default "label"; conllu: default "upos"
  /// tsv, csv, jsonl: columns of references by modality. Where there are some, an empty `text` says that there is none.
  std::map<std::string, std::string> features = {};
  std::string transcript = {};                      // tsv, csv, jsonl: the column of it; empty: none
  std::map<std::string, std::string> sources = {};  // tsv, csv, jsonl: columns of Example::sources, by name
};

/// The options of a layout that `format` has no use for: header, text, label and the like, as keys of section task.
std::vector<std::string> idle_options(const std::string& format, const ExampleLayout& layout);

/// A reference as it stands in a file, seen from the current directory: paths in a manifest are relative to it, and
/// may begin with `$LITHE_DATA/`.
std::string reference_in(const std::string& manifest, const std::string& reference);

/// Formats that hold examples of a type.
///
/// tsv: columns between tabs as GLUE writes them; no quoting, a quote is a character like any other.
///
/// csv: columns between commas, RFC 4180; a field in double quotes may hold commas, line ends and "" for a quote.
///
/// jsonl: an object a line; for tagging, text and label are lists of equal length, null is no label; for transcription
/// label is a list, or a text whose characters are the labels, as in tsv, csv and label_text.
///
/// label_text: the label, one space, the text.
///
/// conllu: CoNLL-U, ten columns, sentences between empty lines; multiword ranges and empty nodes are passed over.
/// Classes and numbers of sentences stand in comments, `# label = value`.
///
/// brackets: trees as the Penn Treebank has them; the tag of a word is the label right above it (pos).
///
/// squad: SQuAD v1.1 and v2.0 JSON.
///
/// idx: pictures of an IDX file (...-images-idx3-ubyte), their classes from ...-labels-idx1-ubyte beside it.
///
/// cifar10: CIFAR-10's binary layout, a class and 3,072 pixels an entry.
///
/// image_folder: picture files, or a tar of them; the folder that a picture stands in is its label.
///
/// The classes of idx and cifar10 are numbers: of the given names, or names themselves ("7").
const std::vector<std::string>& example_formats(TaskType type);

/// Appends the examples of a file (UTF-8; also .gz and .zst) to `out`. Line ends may be CRLF, a byte order mark is
/// dropped, empty lines of tsv, csv, jsonl and label_text are passed over. An `answer_start` of SQuAD counts characters
/// (code points), or bytes in a file of whose answers some do not stand at those characters and all do at those bytes.
///
/// Fails, naming file, line and column, on: a file without examples, NUL or invalid UTF-8, a wrong number of columns, a
/// missing or repeated column name, a line that is a header where none is announced and the reverse, an unknown or
/// empty label, what is no finite number, an answer that does not stand in its context.
void read_examples(const Path& path, const ExampleLayout& layout, LabelNames& labels, std::vector<Example>& out);

/// The same from the text of a file; `name` stands in errors and decides an empty format.
void parse_examples(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                    std::vector<Example>& out);

}  // namespace lithe
