#include "lithe/base/spanning_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr double kForbidden = -std::numeric_limits<double>::infinity();

void check_scores(const char* operation, std::span<const double> scores, int64_t n) {
  check(n >= 0 && int64_t(scores.size()) == n * (n + 1), operation, "scores of ", n, " words must be ", n * (n + 1),
        " numbers, n rows of n+1, got ", scores.size());
  for (size_t k = 0; k < scores.size(); ++k)
    check(scores[k] < std::numeric_limits<double>::infinity(), operation, "a score must be a number or -inf, got ",
          scores[k], " for head ", k % size_t(n + 1), " of word ", k / size_t(n + 1) + 1);
}

// The weight of an arc. Sums are compared by the number of roots first, then by the score: pairs in lexicographic
// order can be added and subtracted as numbers can, and that is all the algorithm asks for [after Zmigrod et al.
// 2020, who subtract a large number].
struct Arc {
  int32_t roots = 0;  // -1 for the root's arcs where roots count
  int32_t head = -1, word = 0;
  double score = kForbidden;

  bool allowed() const { return score != kForbidden; }
  bool beats(const Arc& other) const {
    if (!allowed() || !other.allowed()) return allowed();
    return roots != other.roots ? roots > other.roots : score > other.score;
  }
};

// Arcs into and between nodes, some of which stand for cycles of others.
class Arborescence {
 public:
  Arborescence(std::span<const double> scores, int64_t n, Roots roots)
      : size_(2 * n + 1), arcs_(size_t(n + 1) * (n + 1)) {
    place_.resize(size_t(size_), -1);
    cycle_.assign(size_t(size_), -1);
    into_.resize(size_t(size_));
    members_.resize(size_t(size_));
    for (int64_t i = 0; i <= n; ++i) place_[size_t(i)] = i, at_.push_back(i);
    for (int64_t word = 1; word <= n; ++word)
      for (int64_t head = 0; head <= n; ++head)
        if (head != word)
          arc(head, word) = {head == 0 && roots == Roots::one ? -1 : 0, int32_t(head), int32_t(word),
                             scores[size_t((word - 1) * (n + 1) + head)]};
    next_ = n + 1;
  }

  std::vector<int32_t> solve(int64_t n) {
    std::vector<int8_t> state(size_t(size_), 0);  // 1: on the path, 2: hangs on the root
    state[0] = 2;
    std::vector<int64_t> path;
    for (int64_t start = 1; start <= n; ++start) {
      if (state[size_t(top(start))] == 2) continue;
      path = {top(start)};
      state[size_t(path.back())] = 1;
      while (!path.empty()) {
        const int64_t node = path.back();
        const Arc best = into_[size_t(node)] = best_into(node);
        check(best.allowed(), "spanning tree", "no tree is allowed: every arc to word ", into_word(node),
              " from outside its cycle has the score -inf");
        const int64_t from = top(best.head);
        if (state[size_t(from)] == 2) {
          for (const int64_t done : path) state[size_t(done)] = 2;
          path.clear();
        } else if (state[size_t(from)] == 1) {
          const auto begin = std::find(path.begin(), path.end(), from);
          const int64_t joined = contract({begin, path.end()});
          path.erase(begin, path.end());
          path.push_back(joined);
          state[size_t(joined)] = 1;
        } else {
          state[size_t(from)] = 1;
          path.push_back(from);
        }
      }
    }
    return heads(n);
  }

 private:
  Arc& arc(int64_t from, int64_t to) {
    return arcs_[size_t(place_[size_t(from)]) * at_.size() + size_t(place_[size_t(to)])];
  }

  // The node that stands for another now.
  int64_t top(int64_t node) {
    int64_t out = node;
    while (cycle_[size_t(out)] >= 0) out = cycle_[size_t(out)];
    return out;
  }

  int64_t into_word(int64_t node) const {
    while (!members_[size_t(node)].empty()) node = members_[size_t(node)].front();
    return node;
  }

  Arc best_into(int64_t node) {
    Arc best;
    for (const int64_t from : at_)
      if (from >= 0 && from != node && arc(from, node).beats(best)) best = arc(from, node);
    return best;
  }

  // A new node in the place of the first: an arc into it costs what the arc that it replaces in the cycle gives.
  int64_t contract(const std::vector<int64_t>& nodes) {
    for (const int64_t node : nodes) at_[size_t(place_[size_t(node)])] = -1;
    const int64_t joined = next_++, first = nodes.front();
    for (const int64_t other : at_) {
      if (other < 0) continue;
      Arc in, out;
      for (const int64_t node : nodes) {
        Arc enters = arc(other, node);
        const Arc& kept = into_[size_t(node)];
        if (enters.allowed()) enters.roots -= kept.roots, enters.score -= kept.score;
        if (enters.beats(in)) in = enters;
        if (arc(node, other).beats(out)) out = arc(node, other);
      }
      arc(other, first) = in;
      arc(first, other) = out;
    }
    for (const int64_t node : nodes) cycle_[size_t(node)] = joined;
    members_[size_t(joined)] = nodes;
    place_[size_t(joined)] = place_[size_t(first)];
    at_[size_t(place_[size_t(first)])] = joined;
    return joined;
  }

  // Opens the cycles again: the arc that enters one takes the place of the arc to the word that it enters.
  std::vector<int32_t> heads(int64_t n) {
    std::vector<int32_t> out(size_t(n), 0);
    std::vector<int64_t> open;
    for (const int64_t node : at_)
      if (node > 0) open.push_back(node);
    while (!open.empty()) {
      const int64_t node = open.back();
      open.pop_back();
      const Arc& entering = into_[size_t(node)];
      out[size_t(entering.word - 1)] = entering.head;
      for (int64_t inner = entering.word; inner != node; inner = cycle_[size_t(inner)])
        for (const int64_t other : members_[size_t(cycle_[size_t(inner)])])
          if (other != inner) open.push_back(other);
    }
    return out;
  }

  int64_t size_, next_ = 0;
  std::vector<Arc> arcs_;            // by places
  std::vector<int64_t> place_, at_;  // of a node, its place; at a place, its node or -1
  std::vector<int64_t> cycle_;       // the node that a node is part of, or -1
  std::vector<Arc> into_;            // the arc chosen for a node
  std::vector<std::vector<int64_t>> members_;
};

}  // namespace

std::vector<TreeEdge> minimum_spanning_tree(std::span<const double> weights, int64_t n) {
  check(n >= 0 && int64_t(weights.size()) == n * n, "minimum_spanning_tree", "weights of ", n, " nodes must be ", n * n,
        " numbers, got ", weights.size());
  for (const double w : weights) check(!std::isnan(w), "minimum_spanning_tree", "a weight is not a number");
  struct Reach {
    TreeEdge edge;
    double weight;
    bool before(const Reach& other) const { return weight != other.weight ? weight < other.weight : edge < other.edge; }
  };
  const auto reach = [&](int64_t a, int64_t b) {
    const auto low = std::min(a, b), high = std::max(a, b);
    return Reach{{int32_t(low), int32_t(high)}, weights[size_t(low * n + high)]};
  };
  std::vector<TreeEdge> out;
  std::vector<Reach> best(size_t(n), Reach{});
  std::vector<char> in_tree(size_t(n), 0);
  for (int64_t i = 1; i < n; ++i) best[size_t(i)] = reach(0, i);
  for (int64_t step = 1; step < n; ++step) {
    int64_t next = -1;
    for (int64_t i = 1; i < n; ++i)
      if (!in_tree[size_t(i)] && (next < 0 || best[size_t(i)].before(best[size_t(next)]))) next = i;
    out.push_back(best[size_t(next)].edge);
    in_tree[size_t(next)] = 1;
    for (int64_t i = 1; i < n; ++i)
      if (const Reach r = reach(next, i); !in_tree[size_t(i)] && r.before(best[size_t(i)])) best[size_t(i)] = r;
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<int32_t> maximum_arborescence(std::span<const double> scores, int64_t n, Roots roots) {
  check_scores("maximum_arborescence", scores, n);
  std::vector<int32_t> heads = Arborescence(scores, n, roots).solve(n);
  check(roots == Roots::any || std::count(heads.begin(), heads.end(), 0) <= 1, "maximum_arborescence",
        "no tree with one root is allowed by the arcs of score -inf; allow several roots");
  return heads;
}

std::vector<int32_t> maximum_projective_tree(std::span<const double> scores, int64_t n, Roots roots) {
  check_scores("maximum_projective_tree", scores, n);
  const auto arc = [&](int64_t head, int64_t word) { return scores[size_t((word - 1) * (n + 1) + head)]; };
  // Of the words from .. to: the best score, and where it is divided. Left spans hang on their last word, right ones
  // on their first; open ones lack the words on the other side of their dependent, whole ones do not.
  struct Span {
    double score = kForbidden;
    int32_t cut = 0;
    void offer(double candidate, int64_t at) {
      if (candidate > score) score = candidate, cut = int32_t(at);
    }
  };
  const auto size = size_t(n + 2);
  std::vector<Span> open_left(size * size), open_right(size * size), left(size * size), right(size * size);
  const auto index = [&](int64_t from, int64_t to) { return size_t(from) * size + size_t(to); };
  for (int64_t i = 1; i <= n; ++i) left[index(i, i)].score = right[index(i, i)].score = 0;
  for (int64_t width = 1; width < n; ++width)
    for (int64_t from = 1, to = from + width; to <= n; ++from, ++to) {
      const size_t here = index(from, to);
      Span inner;  // both halves between the two, which are joined by an arc either way
      for (int64_t cut = from; cut < to; ++cut)
        inner.offer(right[index(from, cut)].score + left[index(cut + 1, to)].score, cut);
      open_left[here] = {inner.score + arc(to, from), inner.cut};
      open_right[here] = {inner.score + arc(from, to), inner.cut};
      for (int64_t cut = from; cut < to; ++cut)
        left[here].offer(left[index(from, cut)].score + open_left[index(cut, to)].score, cut);
      for (int64_t cut = from + 1; cut <= to; ++cut)
        right[here].offer(open_right[index(from, cut)].score + right[index(cut, to)].score, cut);
    }
  // Trees side by side, each with its root: with one root, the only one is of all words.
  std::vector<Span> up_to(size), root_of(size);  // up_to[j]: of words 1..j; its last tree begins after `cut`
  up_to[0].score = 0;
  for (int64_t to = 1; to <= n; ++to) {
    if (roots == Roots::one && to < n) continue;
    for (int64_t before = 0; before < to; ++before) {
      if (roots == Roots::one && before > 0) break;
      Span tree;
      for (int64_t root = before + 1; root <= to; ++root)
        tree.offer(left[index(before + 1, root)].score + right[index(root, to)].score + arc(0, root), root);
      const double old = up_to[size_t(to)].score;
      up_to[size_t(to)].offer(up_to[size_t(before)].score + tree.score, before);
      if (up_to[size_t(to)].score > old) root_of[size_t(to)] = tree;
    }
  }
  check(n == 0 || up_to[size_t(n)].score != kForbidden, "maximum_projective_tree",
        "no projective tree is allowed: the arcs of score -inf leave none");
  std::vector<int32_t> heads(size_t(n), 0);
  enum class Kind { left, right, open_left, open_right };
  struct Piece {
    Kind kind;
    int64_t from, to;
  };
  std::vector<Piece> todo;
  for (int64_t to = n; to > 0; to = up_to[size_t(to)].cut) {
    const int64_t root = root_of[size_t(to)].cut;
    todo.push_back({Kind::left, up_to[size_t(to)].cut + 1, root});
    todo.push_back({Kind::right, root, to});
  }
  while (!todo.empty()) {
    const auto [kind, from, to] = todo.back();
    todo.pop_back();
    if (from == to) continue;
    const size_t here = index(from, to);
    switch (kind) {
      case Kind::left:
        todo.push_back({Kind::left, from, left[here].cut});
        todo.push_back({Kind::open_left, left[here].cut, to});
        break;
      case Kind::right:
        todo.push_back({Kind::open_right, from, right[here].cut});
        todo.push_back({Kind::right, right[here].cut, to});
        break;
      default: {
        const bool leftward = kind == Kind::open_left;
        heads[size_t((leftward ? from : to) - 1)] = int32_t(leftward ? to : from);
        const int64_t cut = (leftward ? open_left : open_right)[here].cut;
        todo.push_back({Kind::right, from, cut});
        todo.push_back({Kind::left, cut + 1, to});
      }
    }
  }
  return heads;
}

}  // namespace lithe
