// Cutting text into the pieces (words, roughly) that merges and word pieces never cross.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/text/pattern.h"

namespace lithe {

/// One cut: what becomes of the matches of a pattern and of the text between them.
struct Split {
  enum class Behavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };
  Pattern pattern;
  Behavior behavior = Behavior::isolated;
  bool invert = false;  // the roles of matches and the text between them are exchanged
};

/// SentencePiece's spaces: each becomes `replacement`, which also stands before pieces that do not start with it.
struct Metaspace {
  enum class Prefix { always, first, never };  // first: only before the text's first piece
  std::string replacement = "\u2581";
  Prefix prefix = Prefix::always;
};

/// A step of pre-tokenization: a cut by expression or by script, a space put before pieces that do not start with one,
/// or Metaspace.
struct PreTokenizerStep {
  enum class Kind { split, scripts, prefix_space, metaspace } kind;
  std::vector<Split> split;  // one for Kind::split
  Metaspace metaspace = {};
  bool spelled =
      false;  // cuts the bytes' spelling (spell_bytes()), which stands behind ByteLevel: not only at characters
};

/// One character of category P, or of all of ASCII's punctuation and symbols. Characters that became punctuation with
/// Unicode 9 to 15 are none to the reference library, nor to the models trained with it.
inline constexpr std::string_view punctuation_pattern =
    R"((?![\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B7D}-\x{1B7E}\x{2E43}-\x{2E5D}\x{10EAD}\x{10F55}-\x{10F59})"
    R"(\x{10F86}-\x{10F89}\x{1144B}-\x{1144F}\x{1145A}-\x{1145D}\x{11660}-\x{1166C}\x{116B9}\x{1183B})"
    R"(\x{11944}-\x{11946}\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11AA2}\x{11B00}-\x{11B09}\x{11C41}-\x{11C45})"
    R"(\x{11C70}-\x{11C71}\x{11EF7}-\x{11EF8}\x{11F43}-\x{11F4F}\x{11FFF}\x{12FF1}-\x{12FF2}\x{16E97}-\x{16E9A})"
    R"(\x{16FE2}\x{1E95E}-\x{1E95F}])[\p{P}$+<=>^`|~\x{166D}\x{111C9}])";

/// Words as Rust's \w has them, and what lies between words and white space.
inline constexpr std::string_view words_pattern =
    R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}]+)"
    R"(|[^\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}\s]+)";

class PreTokenizer {
 public:
  using Piece = std::string_view;
  using Sink = std::function<void(std::span<const Piece>)>;

  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}
  void add_split(Pattern pattern, Split::Behavior behavior = Split::Behavior::isolated, bool invert = false);
  /// BERT's: white space goes, each punctuation character is a piece.
  void add_bert();
  /// cut_by_script().
  void add_scripts() { steps_.push_back({PreTokenizerStep::Kind::scripts, {}, {}, spelled_}); }
  void add_prefix_space() { steps_.push_back({PreTokenizerStep::Kind::prefix_space, {}}); }

  void add_metaspace(Metaspace metaspace, bool split);
  /// Cuts that are added from now on see bytes in their spelling.
  void spell() { spelled_ = true; }

  /// Calls sink with the non-empty pieces of `text` in order, many at a time; the pieces live until sink returns.
  /// `first`: nothing stands before it.
  /// Bytes that are no UTF-8 are pieces of their own, and the text on their two sides is cut separately. Big texts are
  /// cut by many threads, with the same result as by one.
  void pieces(std::string_view text, const Sink& sink, bool first = true) const;

 private:
  using Storage = std::deque<std::string>;  // spaced pieces; addresses stay valid
  std::vector<PreTokenizerStep> steps_;
  bool spelled_ = false;

  void valid_text(std::string_view text, bool first, std::vector<Piece>& out, Storage& storage,
                  const std::function<void()>& flush) const;
  void apply(size_t step, Piece piece, bool first, std::vector<Piece>& out, Storage& storage) const;
};

}  // namespace lithe
