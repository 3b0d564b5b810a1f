// Rows of encoders at different scales, brought to one length [TB 6.2.4].
#pragma once

#include "lithe/nn/combiner.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/pool.h"

namespace lithe {

// spec: ms.multi_encoder | architecture | encoders of words and of phrases, brought to one length | TB 6.2.4
struct RowAlignment {
  std::string align = "none";
  void fields(Fields& f) {
    f("align", align,
      "how to align encoders of different lengths. words: each row of an encoder with a compressor is repeated for the "
      "tokens that it stands for; phrases: rows of the other encoders are averaged over the spans of its compressor; "
      "none: lengths must be equal",
      one_of({"none", "words", "phrases"}));
  }
  bool row_a_token(bool shortened) const { return align == "words" || (align == "none" && !shortened); }

  /// The rows of each encoder, as many of each text in all.
  std::vector<Rows> aligned(std::vector<Rows> rows) const {
    if (align == "words")
      for (Rows& of : rows) of = words_of(of);
    if (align == "phrases") to_phrases(rows);
    for (const Rows& of : rows)
      check_usage(of.sequences.offsets() == rows[0].sequences.offsets(), "combiner",
                  "the encoders give texts of unlike lengths (", rows[0].sequences.rows(), " and ", of.sequences.rows(),
                  " rows in all); where they read the same tokens, give align: words or phrases, else combine by "
                  "concat_len or pool");
    return rows;
  }

 private:
  // Each token gets the row that stands for it.
  static Rows words_of(Rows rows) {
    while (rows.shortened) {
      const Shortening from = *rows.shortened;
      for (const int64_t row : from.row_of)
        check_usage(row >= 0, "combiner", "align words needs a row for every token, and the compressor dropped some; ",
                    "choose compressor pool");
      rows = {pick_rows(rows.x, from.row_of), from.before.sequences, {}, from.before.shortened};
    }
    return rows;
  }
  // The groups of tokens that became a row of the first shortened encoder.
  static void to_phrases(std::vector<Rows>& rows) {
    const Rows* shorter = nullptr;
    for (const Rows& of : rows)
      if (of.shortened && !shorter) shorter = &of;
    check_usage(shorter, "combiner", "align phrases needs an encoder with a compressor; none has one");
    check_usage(!shorter->shortened->before.shortened, "combiner",
                "align phrases averages over the spans of one compressor, and an encoder has two; set align: words");
    const Sequences phrases = shorter->sequences, words = shorter->shortened->before.sequences;
    std::vector<int64_t> groups(size_t(phrases.rows()) + 1, 0);
    for (size_t word = 0; word < shorter->shortened->row_of.size(); ++word) {
      const int64_t phrase = shorter->shortened->row_of[word];
      check_usage(phrase >= 0, "combiner",
                  "align phrases needs a row for every token, and the compressor dropped some");
      groups[size_t(phrase) + 1] = int64_t(word) + 1;
    }
    const Sequences spans(groups, {}, words.positions().device());
    for (Rows& of : rows) {
      if (of.shortened) continue;
      check_usage(of.sequences.offsets() == words.offsets(), "combiner",
                  "align phrases needs encoders of the same tokens, got ", of.sequences.rows(), " and ", words.rows());
      of = {pool(of.x, spans, "mean"), phrases};
    }
  }
};

}  // namespace lithe
