#include "lithe/eval/translation_edit_rate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "lithe/eval/text_ngrams.h"

namespace lithe {
namespace {

using Words = std::vector<int32_t>;  // each word a number

constexpr int64_t kLongestMove = 10, kFarthestMove = 50, kBeam = 25, kMostCandidates = 1000;

enum class Edit : uint8_t { none, keep, substitute, insert, remove };

// What makes the reference of the hypothesis, or the other way round.
struct EditPath {
  int64_t cost = 0;
  std::vector<Edit> edits;
};

// Within a beam around the diagonal, as Tercom looks for it.
EditPath edit_path(const Words& hypothesis, const Words& reference) {
  struct Cell {
    int64_t cost = std::numeric_limits<int32_t>::max();
    Edit edit = Edit::none;
  };
  const auto rows = int64_t(hypothesis.size()), columns = int64_t(reference.size());
  std::vector<Cell> cells(size_t((rows + 1) * (columns + 1)));
  const auto cell = [&](int64_t i, int64_t j) -> Cell& { return cells[size_t(i * (columns + 1) + j)]; };
  for (int64_t j = 0; j <= columns; ++j) cell(0, j) = {j, Edit::insert};
  const double ratio = rows ? double(columns) / double(rows) : 1;
  const int64_t beam = double(kBeam) < ratio / 2 ? int64_t(std::ceil(ratio / 2 + double(kBeam))) : kBeam;
  for (int64_t i = 1; i <= rows; ++i) {
    const auto diagonal = int64_t(std::floor(double(i) * ratio));
    const int64_t last = i == rows ? columns + 1 : std::min(columns + 1, diagonal + beam);
    for (int64_t j = std::max<int64_t>(0, diagonal - beam); j < last; ++j) {
      Cell& here = cell(i, j);
      const auto offer = [&](int64_t cost, Edit edit) {
        if (here.cost > cost) here = {cost, edit};
      };
      if (!j) {
        here = {cell(i - 1, j).cost + 1, Edit::remove};
        continue;
      }
      const bool same = hypothesis[size_t(i - 1)] == reference[size_t(j - 1)];
      offer(cell(i - 1, j - 1).cost + !same, same ? Edit::keep : Edit::substitute);
      offer(cell(i - 1, j).cost + 1, Edit::remove);
      offer(cell(i, j - 1).cost + 1, Edit::insert);
    }
  }
  EditPath out{cell(rows, columns).cost, {}};
  for (int64_t i = rows, j = columns; i || j;) {
    const Edit edit = cell(i, j).edit;
    out.edits.push_back(edit);
    i -= edit != Edit::insert;
    j -= edit != Edit::remove;
  }
  std::reverse(out.edits.begin(), out.edits.end());
  return out;
}

// For each word of the reference where the hypothesis has got to, and which words of both are wrong.
struct Alignment {
  std::vector<int64_t> at;
  std::vector<bool> reference_wrong, hypothesis_wrong;
};
Alignment aligned(const EditPath& path) {
  Alignment out;
  int64_t at = -1;
  for (const Edit edit : path.edits) {
    at += edit != Edit::insert;
    if (edit != Edit::insert) out.hypothesis_wrong.push_back(edit != Edit::keep);
    if (edit == Edit::remove) continue;
    out.at.push_back(at);
    out.reference_wrong.push_back(edit != Edit::keep);
  }
  return out;
}

Words moved(const Words& words, int64_t from, int64_t length, int64_t to) {
  Words rest(words.begin(), words.begin() + from);
  rest.insert(rest.end(), words.begin() + from + length, words.end());
  // Within what moves: so many words later.
  const int64_t place = to < from ? to : to > from + length ? to - length : std::min(to, int64_t(rest.size()));
  rest.insert(rest.begin() + place, words.begin() + from, words.begin() + from + length);
  return rest;
}

bool any(const std::vector<bool>& flags, int64_t begin, int64_t length) {
  return std::find(flags.begin() + begin, flags.begin() + begin + length, true) != flags.begin() + begin + length;
}

// The move that saves most edits; of those the longest, then the first from and to.
struct Move {
  int64_t saved = 0;
  Words words;
};
Move best_move(const Words& hypothesis, const Words& reference, int64_t& candidates) {
  const EditPath path = edit_path(hypothesis, reference);
  const Alignment align = aligned(path);
  using Rank = std::tuple<int64_t, int64_t, int64_t, int64_t, Words>;
  std::optional<Rank> best;
  const auto try_moves = [&](int64_t h, int64_t r, int64_t length) {
    if (!any(align.hypothesis_wrong, h, length) || !any(align.reference_wrong, r, length)) return;
    if (h <= align.at[size_t(r)] && align.at[size_t(r)] < h + length) return;
    int64_t previous = -1;
    for (int64_t offset = -1; offset < length; ++offset) {
      if (r + offset >= int64_t(align.at.size())) break;
      const int64_t to = r + offset == -1 ? 0 : align.at[size_t(r + offset)] + 1;
      if (to == previous) continue;
      previous = to;
      Words words = moved(hypothesis, h, length, to);
      const int64_t saved = path.cost - edit_path(words, reference).cost;
      Rank rank{saved, length, -h, -to, std::move(words)};
      ++candidates;
      if (!best || rank > *best) best = std::move(rank);
    }
  };
  const auto finish = [&]() -> Move {
    return best ? Move{std::get<0>(*best), std::get<4>(*best)} : Move{0, hypothesis};
  };
  for (int64_t h = 0; h < int64_t(hypothesis.size()); ++h)
    for (int64_t r = 0; r < int64_t(reference.size()); ++r) {
      if (std::abs(r - h) > kFarthestMove) continue;
      for (int64_t length = 0; length < kLongestMove && h + length < int64_t(hypothesis.size()) &&
                               r + length < int64_t(reference.size()) &&
                               hypothesis[size_t(h + length)] == reference[size_t(r + length)];) {
        ++length;
        try_moves(h, r, length);
        if (candidates >= kMostCandidates) return finish();
      }
    }
  return finish();
}

int64_t edits_between(Words hypothesis, const Words& reference) {
  if (reference.empty()) return int64_t(hypothesis.size());
  int64_t moves = 0, candidates = 0;
  while (true) {
    Move move = best_move(hypothesis, reference, candidates);
    if (candidates >= kMostCandidates || move.saved <= 0) break;
    ++moves;
    hypothesis = std::move(move.words);
  }
  return moves + edit_path(hypothesis, reference).cost;
}

}  // namespace

std::string TranslationEditRate::signature(int64_t references) const {
  return metric_signature(references, "case:lc|tok:tercom|norm:no|punct:yes|asian:no");
}

TextCounts TranslationEditRate::counts(std::string_view hypothesis, std::span<const std::string> references) const {
  std::map<std::string, int32_t> numbers;
  const auto words_of = [&](std::string_view text) {
    Words out;
    for (const std::string& word : split_words(lower_text(text)))
      out.push_back(numbers.emplace(word, int32_t(numbers.size())).first->second);
    return out;
  };
  const Words mine = words_of(hypothesis);
  int64_t edits = std::numeric_limits<int64_t>::max(), words = 0;
  for (const std::string& reference : references) {
    const Words right = words_of(reference);
    edits = std::min(edits, edits_between(mine, right));
    words += int64_t(right.size());
  }
  return {edits, words, int64_t(references.size()), 1};
}

double TranslationEditRate::score(const TextCounts& counts) const {
  const double edits = double(counts[0]), words = double(counts[1]) / (double(counts[2]) / double(counts[3]));
  return words > 0 ? 100 * (edits / words) : edits > 0 ? 100 : 0;
}

}  // namespace lithe
