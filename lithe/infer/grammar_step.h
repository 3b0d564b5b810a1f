// Tokens that a grammar lets through: masks over a vocabulary, and the step that applies them.
#pragma once

#include "lithe/infer/grammar_machine.h"
#include "lithe/infer/logit_steps.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// The bytes of each token of a tokenizer, which outlives it; special tokens have none.
class TokenBytes {
 public:
  explicit TokenBytes(const Tokenizer& tokenizer);
  int64_t size() const { return int64_t(bytes_.size()); }
  const std::string& of(int32_t id) const { return bytes_[size_t(id)]; }
  /// What it is where nothing stands before it.
  std::string first(int32_t id) const;

  /// Tokens that are not empty, ordered by their bytes, with how many bytes each begins with of the one before.
  struct Entry {
    int32_t id;
    int32_t shared;
  };
  const std::vector<Entry>& sorted() const { return sorted_; }

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::string> bytes_;
  std::vector<Entry> sorted_;
};

/// A grammar over a vocabulary: the tokens that may follow, kept for each state that was met. One thread at a time.
class GrammarMasks {
 public:
  GrammarMasks(std::shared_ptr<const TokenBytes> tokens, Grammar grammar)
      : tokens_(std::move(tokens)), machine_(std::move(grammar)) {}
  const TokenBytes& tokens() const { return *tokens_; }
  GrammarMachine& machine() { return machine_; }
  /// GrammarMachine::next() for each byte; kNowhere stays.
  int32_t after(int32_t state, std::string_view bytes);

  struct Mask {
    std::vector<uint64_t> allowed;  // a bit a token
    bool any = false;
    bool has(int32_t id) const { return allowed[size_t(id) / 64] >> (id % 64) & 1; }
  };
  /// May be read until the next call. `first`: no text stands before the token.
  const Mask& of(int32_t state, bool first);
  /// Frees what is kept when it is much.
  void trim();

 private:
  static constexpr int64_t kMostBytes = int64_t(8) << 20;
  std::shared_ptr<const TokenBytes> tokens_;
  GrammarMachine machine_;
  std::unordered_map<int32_t, Mask> masks_;
  Mask of_first_;

  Mask made(int32_t state);
};

/// Only tokens follow after which the text behind the prompt may still become one of the grammar; `end` tokens follow a
/// whole text alone, and where nothing may follow it the text ends. `first`: the prompt has no text, so that the first
/// token has none before it. Fails the request where no token of the vocabulary may follow.
std::shared_ptr<const LogitStep> grammar_step(std::shared_ptr<GrammarMasks> masks, std::vector<int32_t> end,
                                              bool first);

}  // namespace lithe
