#include "lithe/data/translation_batches.h"

#include <algorithm>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/data/encode_texts.h"
#include "lithe/data/examples_readers.h"
#include "lithe/data/permutation.h"
#include "lithe/data/tree_columns.h"

namespace lithe {
namespace {

void check_tokenizer(const Tokenizer& tokenizer, const std::string& side) {
  check_usage(tokenizer.width() == 1, "translation", "the ", side, " tokenizer has no vocabulary (its tokens are ",
              tokenizer.width(), " numbers each), but words must be predicted; choose one that has, such as bpe");
  check_usage(tokenizer.specials().eos.has_value(), "translation", "the ", side,
              " tokenizer has no token that ends a text; choose one that has, or name </s> in its specials");
}

// What is wrong with the lengths, or empty.
std::string excess(int64_t source, int64_t target, const TranslationLimits& limits) {
  if (limits.max_length > 0 && std::max(source, target) > limits.max_length)
    return cat("has ", source, " and ", target, " tokens, more than ", limits.max_length);
  const double ratio = double(std::max(source, target)) / double(std::min(source, target));
  if (limits.max_length_ratio > 0 && ratio > limits.max_length_ratio)
    return cat("has ", source, " and ", target, " tokens, a ratio above ", limits.max_length_ratio);
  return "";
}

void check_sampling(const Tokenizer& tokenizer, const SegmentationSampling& sampling, const std::string& side) {
  try {
    sampling.validate();
    tokenizer.sample("a", sampling, {});
  } catch (const Error& error) {
    fail_usage("translation", side, "_segmentation: ", error.what(), "; or leave ", side, "_segmentation out");
  }
}

}  // namespace

void TranslationBatches::Side::add(const std::vector<int32_t>& ids) {
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  offsets.push_back(int64_t(tokens.size()));
}

std::span<const int32_t> TranslationBatches::Side::of(int64_t i) const {
  return std::span(tokens).subspan(size_t(offsets[size_t(i)]), size_t(offsets[size_t(i) + 1] - offsets[size_t(i)]));
}

TranslationBatches::TranslationBatches(std::vector<TextPair> pairs, std::shared_ptr<const Tokenizer> source,
                                       std::shared_ptr<const Tokenizer> target, const TranslationLimits& limits,
                                       int64_t batch_tokens, uint64_t seed, bool shuffle,
                                       const TranslationSampling& sampling)
    : source_{.name = "source", .tokenizer = std::move(source), .sampling = sampling.source},
      target_{.name = "target", .tokenizer = std::move(target), .sampling = sampling.target},
      seed_(seed),
      shuffle_(shuffle) {
  check_usage(!pairs.empty(), "translation", "there are no pairs to make batches of");
  check_usage(batch_tokens >= 1, "translation", "batch_tokens must be at least 1, got ", batch_tokens);
  check_usage(limits.max_length >= 0 && (limits.max_length_ratio == 0 || limits.max_length_ratio >= 1), "translation",
              "max_length must be at least 0, and max_length_ratio at least 1 or 0 for no limit, got ",
              limits.max_length, " and ", limits.max_length_ratio);
  for (const auto& [name, text] : pairs[0].sources)
    further_.push_back({.name = name, .further = true, .tokenizer = source_.tokenizer});
  for (Side* side : sides()) {
    check_tokenizer(*side->tokenizer, side->name);
    check_sampling(*side->tokenizer, side->sampling, side->name);
    side->end = *side->tokenizer->specials().eos;
  }
  target_.begin = target_.tokenizer->specials().bos.value_or(target_.end);
  keep(std::move(pairs), limits);
  divide(batch_tokens);
  for (Side* side : {&source_, &target_})
    if (!side->sampling.off()) make_room(*side, limits.max_length);
  for (const Side* side : sides()) {
    const int32_t specials[] = {side->begin, side->end};
    fingerprint_ = checksum(specials, sizeof specials, fingerprint_);
    fingerprint_ = checksum(side->tokens.data(), side->tokens.size() * sizeof(int32_t), fingerprint_);
    fingerprint_ = checksum(side->offsets.data(), side->offsets.size() * sizeof(int64_t), fingerprint_);
    if (side->sampling.off()) continue;
    const uint64_t tokenizer = side->tokenizer->fingerprint();
    fingerprint_ = checksum(&tokenizer, sizeof tokenizer, fingerprint_);
  }
}

std::vector<TranslationBatches::Side*> TranslationBatches::sides() {
  std::vector<Side*> out{&source_, &target_};
  for (Side& side : further_) out.push_back(&side);
  return out;
}

void TranslationBatches::give_only(const std::vector<std::string>& further) {
  for (Side& side : further_) side.given = std::ranges::find(further, side.name) != further.end();
}

std::map<std::string, int64_t> TranslationBatches::largest_sources() const {
  std::map<std::string, int64_t> out{{source_.name, source_.largest}};
  for (const Side& side : further_)
    if (side.given) out[side.name] = side.largest;
  return out;
}

std::map<std::string, int64_t> TranslationBatches::source_rows() const {
  const auto all = [&](const Side& side) { return side.offsets.back() + count(); };
  std::map<std::string, int64_t> out{{source_.name, all(source_)}};
  for (const Side& side : further_)
    if (side.given) out[side.name] = all(side);
  return out;
}

// Tokenizes, and keeps what the limits allow.
void TranslationBatches::keep(std::vector<TextPair> pairs, const TranslationLimits& limits) {
  const auto all = int64_t(pairs.size());
  const auto tokens = [&](const Side& side) {
    return encode_texts(*side.tokenizer, all,
                        [&](int64_t i) -> std::string_view { return side.text(pairs[size_t(i)]); });
  };
  auto from = tokens(source_);
  const auto to = tokens(target_);
  std::vector<std::vector<std::vector<int32_t>>> beside;
  for (const Side& side : further_) beside.push_back(tokens(side));
  std::vector<std::vector<int32_t>> word_of(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (!pairs[i].tree) continue;
    check_usage(source_.sampling.off(), "translation",
                "source_segmentation cuts texts at random, and source_trees word by word; leave one of them out");
    WordTokens words = encode_words(*source_.tokenizer, pairs[i].tree->words, &pairs[i].tree->space_after);
    from[i] = std::move(words.tokens);
    word_of[i] = std::move(words.word_of);
  }
  if (limits.cut_sources && limits.max_length)
    for (size_t i = 0; i < pairs.size(); ++i)
      for (std::vector<int32_t>* of : {&from[i], &word_of[i]})
        *of = limits.cut_sources->cut(*of, limits.max_length - 1);
  // A further source that is the source is cut as that is.
  for (size_t s = 0; s < beside.size(); ++s)
    for (size_t i = 0; i < pairs.size(); ++i)
      if (further_[s].text(pairs[i]) == pairs[i].source) beside[s][i] = from[i];
  for (size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i].tree) word_of[i].push_back(-1);  // of the end
  int64_t blank = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    TextPair& pair = pairs[i];
    const bool empty = limits.leave_out && (is_blank_text(pair.source) || is_blank_text(pair.target));
    std::string wrong = excess(int64_t(from[i].size()) + 1, int64_t(to[i].size()) + 1, limits);
    for (size_t s = 0; s < beside.size(); ++s)
      if (const int64_t rows = int64_t(beside[s][i].size()) + 1; limits.max_length > 0 && rows > limits.max_length)
        wrong = cat("has ", rows, " tokens of ", further_[s].name, ", more than ", limits.max_length);
    check_usage(wrong.empty() || limits.leave_out, "translation", "pair ", i + 1, " ('", shortened(pair.source), "') ",
                wrong,
                ", and no pair may be left out here; raise that limit (data.sequence_length), or shorten the text");
    blank += empty;
    dropped_ += empty || !wrong.empty();
    if (empty || !wrong.empty()) continue;
    source_.add(from[i]);
    target_.add(to[i]);
    for (size_t s = 0; s < beside.size(); ++s) further_[s].add(beside[s][i]);
    pairs_.push_back(std::move(pair));
    word_of_.push_back(std::move(word_of[i]));
  }
  const std::string ratio =
      limits.max_length_ratio > 0 ? cat("max_length_ratio ", limits.max_length_ratio) : "no max_length_ratio";
  check(!pairs_.empty(), "translation", "none of the ", all, " pairs is left: ", blank,
        " have a side without text, the rest exceeds max_length ", limits.max_length, " (", ratio, "); raise these");
  if (dropped_ > 0)
    log_info("translation: ", dropped_, " of ", all, " pairs are left out, ", blank, " without text on a side and ",
             dropped_ - blank, " that are too long (max_length ", limits.max_length, ", ", ratio, ")");
}

// The number of batches, and how large they can become.
void TranslationBatches::divide(int64_t batch_tokens) {
  int64_t longest = 0;
  for (int64_t i = 0; i < count(); ++i) {
    rows_ += pair_rows(i);
    longest = std::max(longest, pair_rows(i));
  }
  // A batch may end inside of its last pair, so that its stretch leaves room for the rest of the longest. With rows/B
  // at least the longest pair, a pair begins in every stretch.
  const int64_t stretch = std::max(batch_tokens - longest + 1, longest);
  batches_ = rows_ <= batch_tokens ? 1 : std::min((rows_ + stretch - 1) / stretch, rows_ / longest);
  if (shuffle_) {
    for (Side* side : sides()) side->largest = shuffled_bound(*side);
    return;
  }
  const auto order = order_of(0);
  for (int64_t k = 0; k < batches_; ++k) {
    const auto [first, last] = places(*order, k);
    for (Side* side : sides()) {
      int64_t rows = 0;
      for (int64_t i = first; i < last; ++i) rows += side->rows(i);
      side->largest = std::max(side->largest, rows);
    }
  }
}

// All pairs of a batch but the last lie within fewer than rows/B rows. Of so many rows, those of `side` are at most
// what a knapsack of divisible pairs holds; to these comes the longest pair.
int64_t TranslationBatches::shuffled_bound(const Side& side) const {
  std::vector<int64_t> by_share(pairs_.size());
  std::iota(by_share.begin(), by_share.end(), int64_t(0));
  std::sort(by_share.begin(), by_share.end(),
            [&](int64_t a, int64_t b) { return side.rows(a) * pair_rows(b) > side.rows(b) * pair_rows(a); });
  int64_t room = (rows_ - 1) / batches_, bound = 0, longest = 0, all = 0;
  for (const int64_t i : by_share) {
    const int64_t taken = std::min(room, pair_rows(i));
    bound += (side.rows(i) * taken + pair_rows(i) - 1) / pair_rows(i);
    room -= taken;
    longest = std::max(longest, side.rows(i));
    all += side.rows(i);
  }
  return std::min(bound + longest, all);
}

// Widens the bounds of a side for drawn tokens, by what drawing makes of pairs from everywhere.
void TranslationBatches::make_room(Side& side, int64_t max_length) const {
  for (int64_t i = 0; i < count(); ++i) side.longest = std::max(side.longest, side.rows(i));
  if (max_length > 0) side.longest = max_length;
  int64_t encoded_rows = 0, drawn_rows = 0, too_long = 0, seen = 0;
  bool has_merges = side.sampling.dropout == 0;
  for (int64_t i = 0; i < count(); i += (count() + 999) / 1000, ++seen) {
    const auto rows = int64_t(drawn(side, 0, i).size()) + 1;
    too_long += rows > side.longest;
    encoded_rows += side.rows(i);
    drawn_rows += rows > side.longest ? side.rows(i) : rows;
    const auto unmerged = [&] { return side.tokenizer->sample(side.text(pairs_[size_t(i)]), {.dropout = 1}, {}); };
    has_merges = has_merges || !std::ranges::equal(unmerged(), side.of(i));
  }
  check_usage(has_merges, "translation", side.name, "_segmentation: dropout ", side.sampling.dropout,
              " passes over merges, but the tokenizer merges nothing in the first text of each of ", seen,
              " stretches; take data.tokenizer.type bpe, or leave ", side.name, "_segmentation out");
  drawn_rows = std::max(drawn_rows, encoded_rows);
  const int64_t percent = drawn_rows * 100 / encoded_rows;
  log_info("translation: drawn anew every epoch, the ", side.name, " side has ", double(percent) / 100,
           " times the tokens; ", too_long, " of ", seen, " pairs keep theirs, above ", side.longest, " tokens");
  side.largest = int64_t(double(side.largest) * 1.1 * double(drawn_rows) / double(encoded_rows));
}

// Of pair i, whatever its length.
std::vector<int32_t> TranslationBatches::drawn(const Side& side, int64_t epoch, int64_t i) const {
  const RandomKey key{seed_, uint64_t(epoch), uint32_t(i), purpose_of(cat("translation.", side.name))};
  return side.tokenizer->sample(side.text(pairs_[size_t(i)]), side.sampling, key);
}

// Of the pairs of a batch: those of encode(), or drawn where they are short enough.
std::vector<std::vector<int32_t>> TranslationBatches::tokens_of(const Side& side, std::span<const int64_t> pairs,
                                                                int64_t epoch) const {
  std::vector<std::vector<int32_t>> out;
  int64_t room = side.largest;  // beyond the rows of encode()
  for (const int64_t i : pairs) {
    const auto tokens = side.of(i);
    out.emplace_back(tokens.begin(), tokens.end());
    room -= side.rows(i);
  }
  if (side.sampling.off()) return out;
  for (size_t b = 0; b < pairs.size(); ++b) {
    std::vector<int32_t> other = drawn(side, epoch, pairs[b]);
    const int64_t more = int64_t(other.size()) - int64_t(out[b].size());
    if (int64_t(other.size()) + 1 > side.longest || more > room) continue;
    room -= more;
    out[b] = std::move(other);
  }
  return out;
}

std::shared_ptr<const TranslationBatches::Order> TranslationBatches::order_of(int64_t epoch) const {
  if (!shuffle_) epoch = 0;
  const std::lock_guard lock(last_->mutex);
  if (!last_->order || last_->order->epoch != epoch) {
    auto order = std::make_shared<Order>();
    order->epoch = epoch;
    if (shuffle_) {
      order->pairs = permutation({seed_, uint64_t(epoch), 0, purpose_of("translation.order")}, count());
    } else {
      order->pairs.resize(pairs_.size());
      std::iota(order->pairs.begin(), order->pairs.end(), int64_t(0));
    }
    order->starts.push_back(0);
    for (const int64_t i : order->pairs) order->starts.push_back(order->starts.back() + pair_rows(i));
    last_->order = std::move(order);
  }
  return last_->order;
}

// The places in the order that batch `index` has: [first, last).
std::pair<int64_t, int64_t> TranslationBatches::places(const Order& order, int64_t index) const {
  const auto place = [&](int64_t k) {  // of the first pair that begins at k rows/B or later
    const int64_t row = (k * rows_ + batches_ - 1) / batches_;
    return std::lower_bound(order.starts.begin(), order.starts.end() - 1, row) - order.starts.begin();
  };
  return {place(index), place(index + 1)};
}

Batch TranslationBatches::batch(int64_t epoch, int64_t index) const {
  check(epoch >= 0 && index >= 0 && index < batches_, "translation", "batch ", index, " of epoch ", epoch,
        " does not exist; an epoch has ", batches_);
  const auto order = order_of(epoch);
  const auto [first, last] = places(*order, index);
  const auto pairs = std::span(order->pairs).subspan(size_t(first), size_t(last - first));
  Batch batch{.offsets = {0}};
  const auto add_source = [&](const Side& side) {
    Batch& source = batch.sources[side.name];
    source.offsets = {0};
    for (const std::vector<int32_t>& from : tokens_of(side, pairs, epoch)) {
      source.tokens.insert(source.tokens.end(), from.begin(), from.end());
      source.tokens.push_back(side.end);
      source.offsets.push_back(int64_t(source.tokens.size()));
    }
    for (const int64_t i : pairs) {
      const TextPair& pair = pairs_[size_t(i)];
      if (!pair.tree || side.text(pair) != pair.source) continue;
      const std::vector<int32_t>& word_of = word_of_[size_t(i)];
      source.words.sentences.push_back(pair.tree);
      source.words.word_of.insert(source.words.word_of.end(), word_of.begin(), word_of.end());
    }
    if (int64_t(source.words.sentences.size()) < source.sequences()) source.words = {};  // some have no tree
  };
  add_source(source_);
  for (const Side& side : further_)
    if (side.given) add_source(side);
  for (const std::vector<int32_t>& to : tokens_of(target_, pairs, epoch)) {
    batch.tokens.push_back(target_.begin);
    batch.tokens.insert(batch.tokens.end(), to.begin(), to.end());
    batch.labels.insert(batch.labels.end(), to.begin(), to.end());
    batch.labels.push_back(target_.end);
    batch.offsets.push_back(int64_t(batch.tokens.size()));
  }
  return batch;
}

}  // namespace lithe
