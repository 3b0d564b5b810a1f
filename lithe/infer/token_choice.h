// What the next token is chosen from: the scores of all tokens, and how many of them are left.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lithe {

/// A choice as probabilities.
struct TokenDistribution {
  std::optional<int32_t> certain;     // the one token
  std::vector<double> probabilities;  // else of every token, which add up to 1
  double of(int32_t token) const { return certain ? double(token == *certain) : probabilities[size_t(token)]; }
};

/// The highest score is taken, the lower id on ties, until sample() says otherwise. Fails where the highest score is
/// not finite.
class TokenChoice {
 public:
  /// One score a token, which may be written to.
  explicit TokenChoice(std::span<float> scores) : scores_(scores), keep_(scores.size()) {}

  /// To be changed before tokens are left out.
  std::span<float> scores();
  /// Tokens from this one on are never chosen.
  void limit(int64_t tokens);
  void forbid(int32_t token);
  /// Whatever the scores are.
  void take(int32_t token) { certain_ = token; }

  /// A token is drawn from softmax(scores / temperature).
  void sample(double temperature);
  // What is drawn from, when it is drawn.
  void keep_likeliest(int64_t tokens);
  /// The fewest tokens whose probabilities reach this share of the sum of those that are left.
  void keep_share(double share);
  /// Those at least so likely as this share of the most likely one's probability; that one stays.
  void keep_above(double share);

  /// `uniform` in [0, 1): where the draw falls.
  int32_t choose(double uniform);
  TokenDistribution distribution();

 private:
  std::span<float> scores_;
  std::optional<int32_t> certain_;
  std::optional<float> best_;
  double temperature_ = 0;  // 0: no draw
  size_t keep_;             // tokens that are left, the likeliest
  std::optional<double> total_;
  std::vector<int32_t> order_;  // ids from the likeliest on, as far as `sorted_`
  size_t sorted_ = 0;

  float best();
  int32_t ranked(size_t rank);
  double weight(size_t id);
  double total();
};

}  // namespace lithe
