#include "lithe/ops/ngram.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lithe/base/error.h"

namespace lithe {

uint64_t split_mix(uint64_t h) {
  h += 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

namespace {

void check_tokens(const char* op, const NgramTokens& t, int64_t order) {
  check(order >= 1 && order <= 8, op, "n-grams have 1 to 8 tokens, got order ", order);
  const auto column = [&](const Tensor& x, const char* name) {
    check(!x.defined() || (x.dtype() == DType::i32 && x.numel() == t.ids.numel()), op, name, " must be i32 [",
          t.ids.numel(), "], one a token, got ", x.defined() ? x.dtype() : DType::i32,
          x.defined() ? x.shape() : Shape{0});
  };
  check(t.ids.defined(), op, "there are no tokens");
  column(t.ids, "ids"), column(t.positions, "positions"), column(t.segments, "segments");
}

bool begins_sequence(const NgramTokens& t, int64_t n) {
  return n == 0 || (t.positions.defined() && t.positions.data<int32_t>()[n] == 0);
}
int32_t segment(const NgramTokens& t, int64_t n) { return t.segments.defined() ? t.segments.data<int32_t>()[n] : 0; }

// each(n, hash, start) for each n-gram, n the token that ends it, start the one that begins its sequence.
template <class Each>
void for_each_ngram(const NgramTokens& t, int64_t order, Each each) {
  const int32_t* id = t.ids.data<int32_t>();
  int64_t length = 0, start = 0;  // of the text up to token n
  for (int64_t n = 0; n < t.ids.numel(); ++n) {
    if (begins_sequence(t, n)) start = n;
    length = n == start || segment(t, n) != segment(t, n - 1) ? 1 : length + 1;
    if (length < order) continue;
    auto h = uint64_t(order);
    for (int64_t i = n - order + 1; i <= n; ++i) h = split_mix(h ^ uint32_t(id[i]));
    each(n, h, start);
  }
}

Tensor none_of(const NgramTokens& t) {
  Tensor out = empty({t.ids.numel()}, DType::i32, t.ids.device());
  if (!out.is_meta()) std::fill_n(out.data<int32_t>(), out.numel(), -1);
  return out;
}

}  // namespace

Tensor ngram_ids(const NgramTokens& tokens, int64_t order, int64_t buckets) {
  check_tokens("ngram_ids", tokens, order);
  check(buckets >= 1, "ngram_ids", "there must be at least one bucket, got ", buckets);
  const Tensor out = none_of(tokens);
  if (!out.is_meta())
    for_each_ngram(tokens, order,
                   [&](int64_t n, uint64_t h, int64_t) { out.data<int32_t>()[n] = int32_t(h % uint64_t(buckets)); });
  return out;
}

Tensor shared_ngrams(const NgramTokens& tokens, int64_t order) {
  check_tokens("shared_ngrams", tokens, order);
  const Tensor out = none_of(tokens);
  if (out.is_meta() || !tokens.segments.defined()) return out;
  struct Gram {
    uint64_t hash;
    int32_t segment;
    int64_t n;
  };
  std::vector<Gram> grams;  // of one sequence
  const auto finish = [&] {
    std::sort(grams.begin(), grams.end(),
              [](const Gram& a, const Gram& b) { return std::pair(a.hash, a.segment) < std::pair(b.hash, b.segment); });
    for (size_t from = 0, to = 0; from < grams.size(); from = to) {
      while (to < grams.size() && grams[to].hash == grams[from].hash) ++to;
      if (grams[from].segment != grams[to - 1].segment)
        for (size_t i = from; i < to; ++i) out.data<int32_t>()[grams[i].n] = grams[i].segment;
    }
    grams.clear();
  };
  int64_t sequence = 0;  // where the one that is gathered begins
  for_each_ngram(tokens, order, [&](int64_t n, uint64_t h, int64_t start) {
    if (start != sequence) finish(), sequence = start;
    grams.push_back({h, segment(tokens, n), n});
  });
  finish();
  return out;
}

Tensor distinct_ngrams(const NgramTokens& tokens, int64_t order, int64_t buckets, bool shared) {
  constexpr uint64_t kShared = 1;
  check_tokens("distinct_ngrams", tokens, order);
  check(buckets >= 1, "distinct_ngrams", "there must be at least one bucket, got ", buckets);
  const Tensor out = none_of(tokens);
  if (out.is_meta()) return out;
  const Tensor also = shared ? shared_ngrams(tokens, order) : Tensor();
  std::unordered_set<uint64_t> had;  // of one sequence
  int64_t sequence = 0;
  for_each_ngram(tokens, order, [&](int64_t n, uint64_t h, int64_t start) {
    if (start != sequence) had.clear(), sequence = start;
    if (shared && also.data<int32_t>()[n] < 0) return;
    h = split_mix(h ^ (shared ? kShared : kShared + 1 + uint64_t(segment(tokens, n))));
    if (had.insert(h).second) out.data<int32_t>()[n] = int32_t(h % uint64_t(buckets));
  });
  return out;
}

Tensor hashed_tokens(const Tensor& tokens) {
  check(tokens.shape().rank() <= 2, "hashed_tokens", "tokens are i32 [N] or [N, w], got ", tokens.shape());
  if (tokens.shape().rank() == 1) return tokens;
  const int64_t n = tokens.dim(0), width = tokens.dim(1);
  const Tensor out = empty({n}, DType::i32, tokens.device());
  for (int64_t i = 0; i < n && !out.is_meta(); ++i) {
    uint64_t h = uint64_t(width);
    for (int64_t k = 0; k < width; ++k) h = split_mix(h ^ uint32_t(tokens.data<int32_t>()[i * width + k]));
    out.data<int32_t>()[i] = int32_t(h >> 33);
  }
  return out;
}

}  // namespace lithe
