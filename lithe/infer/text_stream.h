// The text of a continuation, as its tokens come.
#pragma once

#include <functional>

#include "lithe/text/tokenizer.h"

namespace lithe {

/// Complete UTF-8 characters only, and never past a stop string.
class TextStream {
 public:
  /// False: no more is wanted.
  using OnText = std::function<bool(std::string_view piece)>;
  /// `first`: nothing stands before the text.
  TextStream(const Tokenizer& tokenizer, bool first, std::vector<std::string> stops, OnText on_text = {})
      : decoder_(tokenizer, first), stops_(std::move(stops)), on_text_(std::move(on_text)) {}

  /// False: the text is done, as stopped() or refused().
  bool push(int32_t token);
  /// What was held back comes out. `whole`: as far as a stop string that it may still hold.
  void finish(bool whole);
  /// A stop string ended it.
  bool stopped() const { return stopped_; }
  /// on_text wanted no more.
  bool refused() const { return refused_; }
  const std::string& text() const { return text_; }

 private:
  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  OnText on_text_;
  std::string text_, pending_;  // pending: may still turn out to be the start of a stop string
  bool stopped_ = false, refused_ = false;

  void cut_at_stop();
  size_t held_back() const;
  void emit(size_t bytes);
};

}  // namespace lithe
