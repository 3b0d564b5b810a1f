// Corpora: text, gzip, zstd and JSONL files, read as a stream of documents.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/base/files.h"

namespace lithe {

/// How the bytes of text files become documents. A JSONL record is always one document.
struct CorpusOptions {
  std::string text_field = "text";  // JSONL: the key whose string is the document
  std::string documents = "file";   // text files: file | paragraph | line
  bool allow_invalid_utf8 = false;
};

/// The files of a corpus, in the order of the patterns (each pattern's matches sorted by name).
///
/// A name decides the format: `.jsonl` or `.ndjson` is JSON lines, anything else is text; a further `.gz` or
/// `.zst` is decompressed on the way. A UTF-8 byte order mark is dropped, and CRLF is a line end like LF: documents
/// have LF alone. Documents are delivered without the line end or blank lines that separate them, and documents without
/// any text but white space are passed over.
class Corpus {
 public:
  using DocumentFn = std::function<void(std::string_view document)>;

  /// Fails when a pattern matches nothing, names a directory or unreadable file, or names a file twice.
  Corpus(const std::vector<std::string>& patterns, CorpusOptions options);

  const std::vector<Path>& files() const { return files_; }
  const CorpusOptions& options() const { return options_; }

  /// Calls f on each document, in order; the view is valid during the call. Errors name file and line or byte:
  /// truncated or damaged compression, NUL bytes (not a text file), invalid UTF-8, a JSONL line that is no object with
  /// the field, an empty corpus.
  void for_each_document(const DocumentFn& f) const;

  /// Identifies what for_each_document delivers: contents and formats of the files, options, and part; not their names
  /// and times, so that a moved corpus keeps its caches. Reads every file once, then remembers.
  uint64_t fingerprint() const;

  /// The corpus without, and the corpus reduced to, its last `fraction` (0 < fraction < 1), counted in bytes of text.
  /// The cut is the document boundary nearest to that place; when it is off by more than half of the held-out size (a
  /// long document), the document is divided instead: at the next line start, or if none is near, after the next space.
  /// A pure function of the corpus.
  Corpus training_part(double fraction) const;
  Corpus held_out_part(double fraction) const;

 private:
  enum class Part { all, training, held_out };
  struct Cut;  // where training ends and the held-out part begins

  std::vector<Path> files_;
  CorpusOptions options_;
  Part part_ = Part::all;
  double fraction_ = 0;
  std::shared_ptr<uint64_t> contents_;  // checksum of the files, shared with the parts
  std::shared_ptr<Cut> cut_;

  void for_all_documents(const DocumentFn& f) const;
  const Cut& cut() const;
};

}  // namespace lithe
