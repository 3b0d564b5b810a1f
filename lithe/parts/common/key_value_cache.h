// Keys and values of past tokens: the decode state of attention [TB 6.1.7, Fig 6.5].
#pragma once

#include <functional>

#include "lithe/nn/slots.h"
#include "lithe/parts/common/continuations.h"

namespace lithe {

/// Per sequence its keys and its values (one for both where they are the same rows), in pages that are made when
/// tokens come and freed when they go, so that `capacity` is a limit and no allocation. Sequences that continue the
/// same tokens share their pages; the one page that both would write is copied by the first that does. Rows of dtype i8
/// are rounded to 8 bits, with a scale for each of the `heads` of a row, and those of dtype u8 to 4 bits, as
/// int4_rows.h says. With a `reach`, pages go back that no later query sees, and where it is at most a page, rows. With
/// `most`, each head keeps so many rows of its own, those that its field says. Labels are formed once, of a key as it
/// is read back.
class KeyValueCache final : public State {
 public:
  static constexpr int64_t kPageTokens = kernels::kPageRows;

  /// What is kept of a token.
  struct Columns {
    int64_t keys = 0, values = 0;
    bool shared = false;  // values are the keys
    int64_t heads = 1;
    int64_t reach = 0;             // no query sees a key so far before it; 0: all may be seen
    int64_t sinks = 0;             // but for the first so many, which stay
    const Field* sight = nullptr;  // says how far from the front (first_seen), where there is a reach
    int64_t most = 0;              // a head keeps so many, those that `field` names; 0: all
    bool differentiable = false;   // State::differentiable(): the mixer that owns it sees to that
    const Field* field = nullptr;  // whose labels of keys are kept beside them, if it has some
  };
  KeyValueCache(const StateShape& shape, const Columns& columns);

  /// Stores the rows of k and v behind what sequence b has, and labels that are not of the keys themselves
  /// (Field::label_rows), [rows, count].
  void append(const Tensor& k, const Tensor& v, const Sequences& sequences, const Tensor& labels = {});
  /// Gives back pages that no later query sees. To be called when the rows appended last have been attended to.
  void forget();
  /// What attention reads, from the first page that is kept; no pages for a sequence without tokens.
  const std::vector<KeyValues>& entries() const { return entries_; }
  /// Its keys are those that `other` keeps, a cache that lives as long; itself it keeps values alone (`shared`).
  void read_keys_of(const KeyValueCache& other) { keys_of_ = &other; }
  const KeyValueCache* keys_of() const { return keys_of_; }
  /// Tokens of each sequence whose rows are kept, the last ones; and how many came before them.
  std::vector<int64_t> kept() const;
  int64_t forgotten(int64_t b) const { return forgotten_[size_t(b)]; }
  /// Rows of the pages that so many tokens need. Those of sinks stay, before the rows behind the forgotten ones.
  static int64_t whole_pages(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens * kPageTokens; }
  /// Rows that stay for the sinks, before those behind the forgotten ones.
  static int64_t rows_of_sinks(const Columns& columns) {
    return goes_by_row(columns) ? columns.sinks : whole_pages(columns.sinks);
  }
  /// Keys and values of sequence b in one piece [kept tokens, cols] each, as numbers of `dtype`.
  struct Rows {
    Tensor keys, values;
  };
  Rows gather(int64_t b, DType dtype) const;
  /// The keys alone.
  Tensor gather_keys(int64_t b, DType dtype) const;
  /// Labels of the kept keys of all sequences, one after another: FieldInput::labels. None where none are kept.
  Tensor gather_labels() const;
  bool keeps_labels() const { return columns_.field && columns_.field->key_labels(shape_.dtype).count > 0; }
  /// Which are columns of the input.
  bool labels_rows() const { return keeps_labels() && columns_.field->labels_rows(); }
  /// Tokens of each sequence.
  const std::vector<int64_t>& tokens() const { return lengths_.all(); }
  /// Tokens of the longest sequence.
  int64_t longest() const;

  /// Bytes that sequences of `tokens` tokens keep.
  static int64_t bytes_of(const std::vector<int64_t>& tokens, const Columns& columns, DType dtype);
  /// Of the tokens in use, shared or not; the ledger has what is allocated: less than a page a sequence more.
  int64_t bytes() const override;
  void reorder(const std::vector<int64_t>& from) override;
  /// With a reach, only while the rows that the last of the kept tokens saw are there; with `most`, while all are.
  bool truncates() const override { return columns_.reach == 0 && columns_.most == 0; }
  void truncate(int64_t sequence, int64_t tokens) override;
  bool differentiable() const override { return columns_.differentiable; }
  NamedTensors save() const override;
  void restore(const NamedTensors& kept) override;

 private:
  StateShape shape_;
  Columns columns_;
  TokenCounts lengths_;
  std::vector<int64_t> forgotten_;  // tokens of each sequence before its first page
  std::vector<KeyValues> entries_;
  std::vector<std::vector<Tensor>> labels_;  // of each sequence a page [rows, count] beside each page of keys
  const KeyValueCache* keys_of_ = nullptr;

  static bool goes_by_row(const Columns& columns) { return columns.reach > 0 && columns.reach <= kPageTokens; }
  static int64_t forgotten_of(int64_t tokens, const Columns& columns);
  // Rows of a page of sequence b, which is to hold `rows` rows: whole pages up to its capacity, or no more than what
  // stays and a row.
  int64_t page_rows(size_t b, int64_t page, int64_t rows) const;
  // A page that nobody else reads and that has room for its share of `rows` rows, `kept` of them there.
  void make_writable(size_t b, int64_t page, int64_t kept, int64_t rows);
  // Each of `heads` parts of sequence b's rows keeps those that rows(head) names, ascending, all equally many.
  void keep_rows(size_t b, int64_t heads, int64_t count, const std::function<std::vector<int64_t>(int64_t)>& rows);
  void forget_by_row(size_t b, int64_t kept);
  // Rows [at, at + n) of a page get their labels, as keys that are read back as numbers of `dtype`.
  void label(size_t b, size_t page, int64_t at, int64_t n, DType dtype) const;
  std::vector<std::vector<Tensor>*> lists(size_t b);  // all pages of sequence b
};

}  // namespace lithe
