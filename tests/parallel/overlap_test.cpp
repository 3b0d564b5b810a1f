// Gradients of upper layers are on their way while the backward pass makes those of lower ones.
#include <cmath>

#include "lithe/autograd/between.h"
#include "lithe/train/rank_sum.h"
#include "tests/parallel/divided_kit.h"

namespace lithe {
namespace {

// Passes messages on, and notices which were sent before the last gradient was there.
class Watched final : public Communicator {
 public:
  explicit Watched(Communicator& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  std::unique_ptr<Request> send(std::span<const std::byte> bytes, int to, int tag) override {
    early += !complete;
    return ranks_.send(bytes, to, tag);
  }
  std::unique_ptr<Request> receive(std::span<std::byte> bytes, int from, int tag) override {
    return ranks_.receive(bytes, from, tag);
  }
  std::unique_ptr<Communicator> split(int color) override { return ranks_.split(color); }
  bool complete = false;  // the last gradient of the micro-batch that runs is there
  int early = 0;

 private:
  Communicator& ranks_;
};

constexpr int64_t kParts = 8, kVocab = 61;

std::vector<Tensor> gradients(const Model& model) {
  std::vector<Tensor> out;
  for (const Parameter& p : model.parameters().all())
    out.push_back(p.master.grad().defined() ? clone(p.master.grad()) : Tensor());
  return out;
}

// The gradients of one step on so many ranks, and how many messages went early.
std::pair<std::vector<Tensor>, int> step(const ModelConfig& config, const TrainConfig& train, int ranks) {
  std::vector<std::vector<Tensor>> of_rank(static_cast<size_t>(ranks));
  std::vector<int> early(static_cast<size_t>(ranks));
  set_threads(1);
  run_local_ranks(ranks, [&](Communicator& all) {
    Model model(config, {.seed = 5, .trainable = true});
    model.set_recompute(train.gradient_checkpointing);
    const TrainedObjective objective(train, model);
    Watched watched(all);
    const RankSum sum(&watched, all.rank(), ranks, {&model.parameters()}, train.parallel);
    const std::vector<DeviceBatch> batches = kit::clm_batches(1, kParts, kVocab);
    const int64_t first = sum.first_of(all.rank(), kParts), end = sum.first_of(all.rank() + 1, kParts);
    const Parameter* const last = model.parameters().find("embedding.weight");
    ASSERT_NE(last, nullptr);
    const BetweenOperations between([&] { watched.complete = last->master.grad().defined(); });
    accumulate_gradients(model, objective,
                         {.own = std::span(batches).subspan(size_t(first), size_t(end - first)),
                          .first = first,
                          .count = kParts,
                          .labelled = labels_of(batches)},
                         train, 1, nullptr, 1, &sum);
    of_rank[size_t(all.rank())] = gradients(model);
    early[size_t(all.rank())] = watched.early;
  });
  for (const std::vector<Tensor>& other : of_rank)
    for (size_t i = 0; i < other.size(); ++i) EXPECT_EQ(kit::bit_difference(other[i], of_rank[0][i]), "");
  return {of_rank[0], early[0]};
}

ModelConfig model_of(const std::string& more) {
  return kit::model_config(
      cat("{vocab_size: ", kVocab,
          ", hidden_size: 16, num_hidden_layers: 3, max_position_embeddings: 32, mixer: {type: "
          "attention, num_attention_heads: 4}, ffn: {type: swiglu, intermediate_size: 24}, tie_word_embeddings: false",
          more, "}"));
}

// oracle: hpc.parallel
TEST(Overlap, LayersGoEarlyAndTheSumIsThatOfOneRank) {
  for (const char* more : {"", ", hidden_dropout: 0.1", ", share: {layers: all}"})
    for (const bool recompute : {false, true}) {
      SCOPED_TRACE(cat(more, " ", recompute));
      TrainConfig train;
      train.gradient_checkpointing = recompute;
      const ModelConfig config = model_of(more);
      const auto want = step(config, train, 1).first;
      for (const int ranks : {2, 3, 4, 5, 8}) {
        const auto [got, early] = step(config, train, ranks);
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(kit::bit_difference(got[i], want[i]), "") << ranks;
        // Where a rank goes on behind a sum with others, or layers share parameters, all goes at the end.
        const bool goes = (kParts % ranks) == 0 && std::string(more).find("share") == std::string::npos;
        EXPECT_EQ(early > 0, goes) << ranks << " ranks, " << early;
      }
    }
}

// Rounded on their way, and the same on every rank (step() looks at that) and each time.
TEST(Overlap, MessagesInBf16AreNearAndTheSameEachTime) {
  TrainConfig exact, rounded;
  rounded.parallel.messages = "bf16";
  const ModelConfig config = model_of("");
  const auto want = step(config, exact, 1).first;
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(kit::bit_difference(step(config, rounded, 1).first[i], want[i]), "");
  for (const int ranks : {2, 3, 8}) {
    const auto once = step(config, rounded, ranks).first, again = step(config, rounded, ranks).first;
    bool differs = false;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(once[i].dtype(), DType::f32);
      EXPECT_EQ(kit::bit_difference(once[i], again[i]), "");
      differs = differs || kit::bit_difference(once[i], want[i]) != "";
      double error = 0, size = 0;
      for (int64_t k = 0; k < want[i].numel(); ++k) {
        error += std::pow(value_at(once[i], k) - value_at(want[i], k), 2);
        size += std::pow(value_at(want[i], k), 2);
      }
      // Each of the at most 4 messages on a gradient's way rounds it by 2^-9 of itself at most.
      EXPECT_LE(std::sqrt(error), 4 * 0x1p-9 * 2 * std::sqrt(size) + 1e-12) << ranks << " ranks, " << i;
    }
    EXPECT_TRUE(differs) << ranks;
  }
}

}  // namespace
}  // namespace lithe
