// From the last micro-batch of a rank up to the root of the tree, in groups of parameters.
#include <algorithm>
#include <set>

#include "lithe/train/rank_moves.h"

namespace lithe {
struct RankSum::Ascent::Group {
  std::vector<size_t> slots;
  int stage = 0;    // two a level, then two to spread the sum
  size_t node = 0;  // path_[0, node) is left
  Gradients none;   // the half of a node that lies on other ranks alone
  std::optional<Joining> joining;
  std::optional<Moving> spreading;
};

RankSum::Ascent::Ascent(const RankSum& ranks, std::vector<Node> path, int64_t count)
    : ranks_(ranks), path_(std::move(path)), count_(count) {
  sum_.of.resize(ranks_.slots_.size());
  for (Node& node : path_) node.left.of.resize(ranks_.slots_.size());
  std::set<int> levels;
  ranks_.each_shared(0, count, count, [&](int64_t begin, int64_t end) { levels.insert(tree_level(begin, end)); });
  levels_.assign(levels.begin(), levels.end());
}

RankSum::Ascent::~Ascent() = default;

void RankSum::Ascent::begin(std::vector<size_t> slots, Gradients leaf) {
  for (const auto& group : groups_) advance(*group);
  auto group = std::make_unique<Group>();
  group->slots = std::move(slots);
  group->node = path_.size();
  for (const size_t i : group->slots) sum_.of[i] = std::move(leaf.of[i]);
  // Nodes of this rank alone.
  for (; group->node > 0; --group->node) {
    Node& node = path_[group->node - 1];
    if (ranks_.rank_of(node.begin, count_) != ranks_.rank_ || ranks_.rank_of(node.end - 1, count_) != ranks_.rank_)
      break;
    for (const size_t i : group->slots) {
      Tensor left = std::move(node.left.of[i]);
      add_gradient(left, std::move(sum_.of[i]));
      sum_.of[i] = std::move(left);
    }
  }
  advance(*group);
  groups_.push_back(std::move(group));
}

// Every rank does the same stages of the same groups in the same order, whether it has something to do in them or not,
// and waits in one for what others sent in the one before: nobody waits for somebody who waits for him.
bool RankSum::Ascent::advance(Group& group) {
  const int stage = group.stage++, joins = 2 * int(levels_.size());
  if (stage > joins + 2) return false;
  if (stage == joins + 2) {
    group.spreading->end();
    group.spreading.reset();
    for (const size_t i : group.slots)
      if (Tensor& sum = sum_.of[i]) sum = in_dtype(std::move(sum), ranks_.slots_[i].dtype);
  } else if (stage == joins + 1) {
    group.spreading->carry();
  } else if (stage % 2) {
    if (group.joining) group.joining->moving.carry();
  } else {
    take_joined(group);
    if (stage == joins)
      spread(group);
    else
      join(group, levels_[size_t(stage / 2)]);
  }
  return true;
}

void RankSum::Ascent::join(Group& group, int level) {
  if (group.node == 0) return;
  Node& node = path_[group.node - 1];
  if (tree_level(node.begin, node.end) != level) return;
  const bool from_left = ranks_.first_of(ranks_.rank_ + 1, count_) <= node.middle;  // the last micro-batch is there
  group.none.of.assign(ranks_.slots_.size(), Tensor());
  group.joining.emplace(ranks_, group.slots, from_left ? sum_ : node.left, from_left ? group.none : sum_,
                        Joining::Place{node.begin, node.middle, node.end, count_});
}

void RankSum::Ascent::take_joined(Group& group) {
  if (!group.joining) return;
  group.joining->moving.end();
  group.joining->add_into(sum_);
  group.joining.reset();
  --group.node;
}

void RankSum::Ascent::spread(Group& group) {
  std::vector<Move> moves;
  for (const size_t i : group.slots) {
    const Slot& slot = ranks_.slots_[i];
    if (!slot.learns || (ranks_.sharded_ && slot.moved)) continue;
    if (slot.share == ranks_.rank_) sum_.of[i] = ranks_.rounded(i, std::move(sum_.of[i]));  // as all others get it
    for (int to = 0; to < ranks_.size_; ++to)
      if (to != slot.share) moves.push_back({&sum_.of[i], i, slot.share, to});
  }
  group.spreading.emplace(ranks_, std::move(moves));
}

void RankSum::Ascent::poke() {
  for (const auto& group : groups_) {
    if (group->joining) group->joining->moving.poke();
    if (group->spreading) group->spreading->poke();
  }
}

Gradients RankSum::Ascent::end() {
  for (bool more = true; more;) {
    more = false;
    for (const auto& group : groups_) more = advance(*group) || more;
  }
  return std::move(sum_);
}

}  // namespace lithe
