// Unigram: of all ways to cut a word into pieces the one of largest summed score.
#include <algorithm>
#include <limits>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/utf8.h"
#include "lithe/text/word_model.h"

namespace lithe {
namespace {

constexpr int32_t no_piece = -1;

/// Pieces by their bytes: of each node the bytes that go on, in order, and where they lead.
class PieceTrie {
 public:
  explicit PieceTrie(const std::vector<UnigramPiece>& pieces) : pieces_(pieces), order_(pieces.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
      return std::pair(std::string_view(pieces[size_t(a)].text), a) <
             std::pair(std::string_view(pieces[size_t(b)].text), b);
    });
    nodes_.push_back({});
    std::vector<Range> ranges = {{0, order_.size(), 0}};  // of order_, of each node
    for (size_t node = 0; node < nodes_.size(); ++node) grow(node, ranges);
    order_ = {};
  }

  /// Calls f(length, piece) for the pieces that start `text`, shortest first.
  template <class F>
  void prefixes(std::string_view text, F&& f) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const Node& at = nodes_[node];
      const uint8_t* first = bytes_.data() + at.first;
      const uint8_t* found = std::find(first, first + at.count, uint8_t(text[i]));
      if (found == first + at.count) return;
      node = at.child + uint32_t(found - first);
      if (nodes_[node].piece != no_piece) f(i + 1, nodes_[node].piece);
    }
  }

 private:
  struct Node {
    uint32_t first = 0, count = 0, child = 0;  // of bytes_; the node of the first of them
    int32_t piece = no_piece;
  };
  struct Range {
    size_t begin, end, depth;
  };
  const std::vector<UnigramPiece>& pieces_;
  std::vector<int32_t> order_;
  std::vector<Node> nodes_;
  std::vector<uint8_t> bytes_;

  void grow(size_t node, std::vector<Range>& ranges) {
    auto [begin, end, depth] = ranges[node];
    const auto text = [&](size_t i) { return std::string_view(pieces_[size_t(order_[i])].text); };
    // Of pieces spelt alike the last counts, as in Hugging Face's library.
    for (; begin < end && text(begin).size() == depth; ++begin) nodes_[node].piece = order_[begin];
    nodes_[node].first = uint32_t(bytes_.size());
    nodes_[node].child = uint32_t(nodes_.size());
    while (begin < end) {
      const char byte = text(begin)[depth];
      size_t next = begin;
      while (next < end && text(next)[depth] == byte) ++next;
      bytes_.push_back(uint8_t(byte));
      nodes_.push_back({});
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
    nodes_[node].count = uint32_t(bytes_.size()) - nodes_[node].first;
  }
};

class UnigramModel final : public WordModel {
 public:
  UnigramModel(std::vector<UnigramPiece> pieces, std::optional<int32_t> unk, bool byte_fallback, std::string place)
      : pieces_(std::move(pieces)), trie_(pieces_), unk_(unk), place_(std::move(place)) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < pieces_.size(); ++i) {
      least = std::min(least, pieces_[i].score);
      if (const auto byte = fallback_byte(pieces_[i].text)) bytes_[uint8_t(*byte)] = int32_t(i);
    }
    unknown_score_ = least - 10;
    if (!byte_fallback) bytes_.fill(no_piece);
  }

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    thread_local std::vector<Best> best;
    best.assign(word.size() + 1, {});
    for (size_t at = 0; at < word.size();) {
      const size_t character = std::min(utf8_unit(word.substr(at)).length, word.size() - at);
      const double so_far = best[at].score;
      bool single = false;
      const auto reach = [&](size_t end, double score, int32_t piece) {
        if (best[end].piece == unreached || score > best[end].score) best[end] = {score, uint32_t(at), piece};
      };
      trie_.prefixes(word.substr(at), [&](size_t length, int32_t piece) {
        reach(at + length, so_far + pieces_[size_t(piece)].score, piece);
        single = single || length == character;
      });
      if (!single) reach(at + character, so_far + unknown_score_, no_piece);
      at += character;
    }
    thread_local std::vector<std::pair<uint32_t, int32_t>> path;  // the begins and pieces, from the end
    path.clear();
    for (size_t at = word.size(); at > 0; at = best[at].begin) path.emplace_back(best[at].begin, best[at].piece);
    std::reverse(path.begin(), path.end());
    for (size_t i = 0; i < path.size();) {
      if (path[i].second != no_piece) {
        ids.push_back(path[i++].second);
        continue;
      }
      const size_t begin = path[i].first;
      while (i < path.size() && path[i].second == no_piece) ++i;
      unknown(word.substr(begin, (i < path.size() ? path[i].first : word.size()) - begin), ids);
    }
  }

 private:
  static constexpr int32_t unreached = -2;
  struct Best {
    double score = 0;
    uint32_t begin = 0;
    int32_t piece = unreached;
  };
  std::vector<UnigramPiece> pieces_;
  PieceTrie trie_;
  std::optional<int32_t> unk_;
  std::string place_;
  double unknown_score_ = 0;
  std::array<int32_t, 256> bytes_ = [] {
    std::array<int32_t, 256> none;
    none.fill(no_piece);
    return none;
  }();

  // Characters without a piece, in a row.
  void unknown(std::string_view text, std::vector<int32_t>& ids) const {
    if (std::all_of(text.begin(), text.end(), [&](char c) { return bytes_[uint8_t(c)] != no_piece; })) {
      for (const char c : text) ids.push_back(bytes_[uint8_t(c)]);
      return;
    }
    check(unk_.has_value(), "tokenizer", place_, " has no unk_id, and '", valid_utf8(text), "' is none of its pieces");
    ids.push_back(*unk_);
  }
};

}  // namespace

std::unique_ptr<WordModel> make_unigram_model(std::vector<UnigramPiece> pieces, std::optional<int32_t> unk,
                                              bool byte_fallback, std::string place) {
  return std::make_unique<UnigramModel>(std::move(pieces), unk, byte_fallback, std::move(place));
}

}  // namespace lithe
