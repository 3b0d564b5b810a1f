#include "lithe/trees/tree.h"

#include <algorithm>

#include "lithe/base/error.h"

namespace lithe {

std::string fault_of(const DepTree& tree, int64_t* word) {
  const int64_t m = tree.words();
  int64_t at = 0, root = 0;
  const auto found = [&](int64_t w, std::string what) {
    if (word) *word = w;
    return what;
  };
  for (int64_t w = 1; w <= m; ++w) {
    const int64_t head = tree.heads[size_t(w - 1)];
    if (head < 0 || head > m) return found(w, cat("word ", w, " has the head ", head, ", but the words are 1 to ", m));
    if (head == w) return found(w, cat("word ", w, " is its own head"));
    if (head != 0) continue;
    if (root) return found(w, cat("words ", root, " and ", w, " are both roots; a tree has one"));
    root = w;
  }
  if (m && !root) return found(1, "no word is the root: none has the head 0");
  std::vector<int64_t> seen(size_t(m + 1), 0);  // by which walk
  for (int64_t w = 1; w <= m; ++w) {
    for (at = w; at != 0 && seen[size_t(at)] == 0; at = tree.heads[size_t(at - 1)]) seen[size_t(at)] = w;
    if (at == 0 || seen[size_t(at)] != w) continue;
    std::string cycle = cat(at);
    for (int64_t next = tree.heads[size_t(at - 1)]; next != at; next = tree.heads[size_t(next - 1)])
      if (cycle.size() < 60) cycle += cat(" -> ", next);
    return found(at, cat("heads go round: ", cycle, " -> ", at));
  }
  return "";
}

std::vector<std::string> ConstTree::words() const {
  std::vector<std::string> out;
  for (const Node& node : nodes)
    if (node.leaf) out.push_back(node.label);
  return out;
}

LeafPlaces leaf_places(const ConstTree& tree) {
  LeafPlaces out;
  std::vector<int32_t> depth(tree.nodes.size(), 0);
  int32_t before = -1;
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const ConstTree::Node& node = tree.nodes[i];
    if (node.parent >= 0) depth[i] = depth[size_t(node.parent)] + 1;
    if (!node.leaf) continue;
    if (before >= 0) {  // the lowest node above both
      int32_t a = before, b = int32_t(i);
      while (a != b) {
        int32_t& lower = depth[size_t(a)] >= depth[size_t(b)] ? a : b;
        lower = tree.nodes[size_t(lower)].parent;
      }
      out.common.push_back(depth[size_t(a)] + 1);
    }
    out.depth.push_back(depth[i]);
    before = int32_t(i);
  }
  if (!out.depth.empty()) out.common.push_back(0);
  return out;
}

std::vector<int32_t> Spans::of_words(int64_t words) const {
  std::vector<int32_t> out(size_t(words), 0);
  for (size_t s = 0; s < starts.size(); ++s)
    std::fill(out.begin() + std::min<int64_t>(starts[s], words), out.end(), int32_t(s));
  return out;
}

Spans base_phrases(const ConstTree& tree) {
  std::vector<int32_t> height(tree.nodes.size(), 0);  // edges to the deepest leaf below
  for (size_t i = tree.nodes.size(); i-- > 0;)
    if (const int32_t parent = tree.nodes[i].parent; parent >= 0)
      height[size_t(parent)] = std::max(height[size_t(parent)], height[i] + 1);
  Spans out;
  int32_t word = 0, phrase = -1;  // the base phrase that the last word is of
  for (const ConstTree::Node& node : tree.nodes) {
    if (!node.leaf) continue;
    const int32_t above = node.parent >= 0 ? tree.nodes[size_t(node.parent)].parent : -1,
                  now = above >= 0 && height[size_t(above)] == 2 ? above : -1;
    if (now < 0 || now != phrase) out.starts.push_back(word);
    phrase = now;
    ++word;
  }
  return out;
}

Spans top_phrases(const DepTree& tree) {
  const int64_t m = tree.words();
  const auto top = [&](int64_t w) {  // the ancestor right below the root word, or the word itself; steps are bounded
    for (int64_t steps = 0; steps <= m; ++steps) {
      const int64_t head = tree.heads[size_t(w - 1)];
      if (head <= 0 || head > m || tree.heads[size_t(head - 1)] == 0) return w;
      w = head;
    }
    return w;
  };
  Spans out;
  for (int64_t w = 1, before = 0; w <= m; ++w) {
    const int64_t now = top(w);
    if (now != before) out.starts.push_back(int32_t(w - 1));
    before = now;
  }
  return out;
}

std::vector<std::vector<int32_t>> neighbours_of(const DepTree& tree) {
  std::vector<std::vector<int32_t>> out(tree.heads.size());
  for (size_t w = 0; w < tree.heads.size(); ++w) {
    const int32_t head = tree.heads[w];
    if (head <= 0 || head > int32_t(tree.heads.size())) continue;
    out[w].push_back(head - 1);
    out[size_t(head - 1)].push_back(int32_t(w));
  }
  return out;
}

std::vector<int32_t> near_words(const std::vector<std::vector<int32_t>>& neighbours, int32_t word, int64_t reach) {
  std::vector<int32_t> out{word};
  std::vector<int32_t> from{word}, came{-1};  // by what each was reached: a tree has no other way back
  for (int64_t step = 0; step < reach && !from.empty(); ++step) {
    std::vector<int32_t> next, by;
    for (size_t i = 0; i < from.size(); ++i)
      for (const int32_t other : neighbours[size_t(from[i])])
        if (other != came[i] && std::find(out.begin(), out.end(), other) == out.end()) {
          next.push_back(other), by.push_back(from[i]);
          out.push_back(other);
        }
    from = std::move(next), came = std::move(by);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<WordAt> known_words(const DepTree& tree, const std::vector<std::vector<int32_t>>& neighbours, int32_t word,
                                int64_t reach) {
  std::vector<WordAt> out;
  struct Step {
    int32_t word, from, distance;
  };
  std::vector<Step> queue{{word, -1, 0}};
  for (size_t at = 0; at < queue.size(); ++at) {
    const Step step = queue[at];
    if (step.word <= word) out.emplace_back(step.word, step.distance);
    if (step.distance >= reach) continue;
    for (const int32_t next : neighbours[size_t(step.word)]) {
      const int32_t dependent = tree.heads[size_t(step.word)] == next + 1 ? step.word : next;
      if (next == step.from || dependent > word) continue;
      if (queue.size() < neighbours.size()) queue.push_back({next, step.word, step.distance + 1});  // but for cycles
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

namespace {

// Words (from 0) so that each stands behind its head; fewer than all where heads go round.
std::vector<int32_t> heads_first(const DepTree& tree, const std::vector<std::vector<int32_t>>& neighbours) {
  std::vector<int32_t> order;
  const auto m = int32_t(tree.words());
  for (int32_t w = 0; w < m; ++w)
    if (tree.heads[size_t(w)] <= 0 || tree.heads[size_t(w)] > m) order.push_back(w);
  for (size_t at = 0; at < order.size(); ++at)
    for (const int32_t next : neighbours[size_t(order[at])])
      if (tree.heads[size_t(next)] == order[at] + 1) order.push_back(next);
  return order;
}

}  // namespace

std::vector<int32_t> tree_distances(const DepTree& tree) {
  const auto m = size_t(tree.words());
  const auto neighbours = neighbours_of(tree);
  if (const std::vector<int32_t> order = heads_first(tree, neighbours); order.size() == m) {
    // From a word to those before it in this order there is no way but over its head.
    std::vector<int32_t> place(m), by_place(m * m, kApart), out(m * m);
    for (size_t at = 0; at < m; ++at) place[size_t(order[at])] = int32_t(at);
    for (size_t at = 0; at < m; ++at) {
      int32_t* row = by_place.data() + at * m;
      const int32_t head = tree.heads[size_t(order[at])];
      if (head > 0 && size_t(head) <= m) {
        const int32_t* of_head = by_place.data() + size_t(place[size_t(head - 1)]) * m;
        for (size_t j = 0; j < at; ++j) row[j] = of_head[j] + (of_head[j] != kApart);
        for (size_t j = 0; j < at; ++j) by_place[j * m + at] = row[j];
      }
      row[at] = 0;
    }
    for (size_t i = 0; i < m; ++i) {
      const int32_t* row = by_place.data() + size_t(place[i]) * m;
      for (size_t j = 0; j < m; ++j) out[i * m + j] = row[place[j]];
    }
    return out;
  }
  std::vector<int32_t> out(m * m, kApart), queue;
  for (size_t i = 0; i < m; ++i) {
    int32_t* row = out.data() + i * m;
    queue.assign(1, int32_t(i));
    row[i] = 0;
    for (size_t at = 0; at < queue.size(); ++at)
      for (const int32_t next : neighbours[size_t(queue[at])])
        if (row[next] == kApart) {
          row[next] = row[queue[at]] + 1;
          queue.push_back(next);
        }
  }
  return out;
}

std::vector<int32_t> tree_distances(const LeafPlaces& leaves, bool collapse_pos) {
  const size_t m = leaves.depth.size();
  std::vector<int32_t> out(m * m, 0);
  for (size_t i = 0; i < m; ++i) {
    int32_t shared = INT32_MAX;
    for (size_t j = i + 1; j < m; ++j) {
      shared = std::min(shared, leaves.common[j - 1]);
      // `shared` nodes are above both, the lowest of them at depth shared - 1.
      out[i * m + j] = out[j * m + i] =
          shared <= 0 ? kApart : leaves.depth[i] + leaves.depth[j] - 2 * (shared - 1) - (collapse_pos ? 2 : 0);
    }
  }
  return out;
}

}  // namespace lithe
