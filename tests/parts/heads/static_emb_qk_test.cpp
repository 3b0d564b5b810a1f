#include <gtest/gtest.h>

#include "tests/parts/mixer/fixed_maps_kit.h"

namespace lithe {
namespace {

std::unique_ptr<Model> with_heads(const std::string& heads) {
  return three_layers_of("{type: attention, num_attention_heads: 3, heads: " + heads + "}");
}

// oracle: decon.staticembqk
TEST(StaticEmbQk, TheFirstLayersMapsAreThoseOfAttention) {
  const auto standard = with_heads("mha"), fixed = with_heads("static_emb_qk");
  kit::copy_values(fixed->parameters(), standard->parameters());
  const Tensor ids = kit::random_ids(7, 19, 3);
  const auto a = kit::maps(*standard, ids), b = kit::maps(*fixed, ids);
  EXPECT_EQ(kit::close(b[0].weights, a[0].weights, 4), "");
  EXPECT_GT(kit::largest_difference(b[1].weights, a[1].weights), 1e-3);
}

TEST(StaticEmbQk, MapsDoNotDependOnTheLayersBelow) {
  const auto m = with_heads("static_emb_qk");
  const Tensor ids = kit::random_ids(7, 19, 3);
  const auto before = kit::maps(*m, ids);
  const Tensor rows = kit::forward(*m, ids, Sequences::single(7)).value();
  for (Parameter& p : m->parameters().all())
    if (p.name.starts_with("layers.0.") || p.name.starts_with("layers.1."))
      kit::assign(p.master.value(), kit::normal(p.master.shape(), DType::f64, 77));
  const auto after = kit::maps(*m, ids);
  EXPECT_EQ(kit::bit_difference(after[2].weights, before[2].weights), "");
  EXPECT_GT(kit::largest_difference(after[1].weights, before[1].weights), 1e-3);
  EXPECT_GT(kit::largest_difference(kit::forward(*m, ids, Sequences::single(7)).value(), rows), 1e-3);
}

TEST(StaticEmbQk, CountsAndCachesAsAttention) {
  EXPECT_EQ(with_heads("static_emb_qk")->parameters().count(), with_heads("mha")->parameters().count());
  EXPECT_EQ(with_heads("static_emb_qk")->state_bytes({5, 3}), with_heads("mha")->state_bytes({5, 3}));
}

// With everything but v held fixed, the mixer is linear in the rows that make the values.
TEST(StaticEmbQk, IsLinearInTheValues) {
  kit::Bench bench;
  const auto mixer = bench.make<Mixer>("attention", {.hidden_size = 6, .max_position_embeddings = 9},
                                       "{num_attention_heads: 3, heads: static_emb_qk}");
  kit::randomise(bench.parameters(), 2);
  const Sequences sequences = Sequences::single(5);
  const Tensor e = kit::normal({5, 6}, DType::f64, 1), x = kit::normal({5, 6}, DType::f64, 2),
               y = kit::normal({5, 6}, DType::f64, 3);
  const Pass pass;
  pass.set_embedded(e);
  const auto run = [&](const Tensor& rows) { return mixer->forward({Var(rows), sequences, nullptr, pass}).value(); };
  EXPECT_EQ(kit::close(run(kit::sum(x, y)), kit::sum(run(x), run(y)), 64), "");
}

// In cross-attention the map is of both texts' embeddings: what layers made of the source is in the values alone.
TEST(StaticEmbQk, CrossMapsAreOfTheSourcesEmbeddings) {
  kit::Bench bench;
  const auto mixer = bench.make<Mixer>("attention", {.hidden_size = 6, .max_position_embeddings = 9, .cross = true},
                                       "{num_attention_heads: 3, heads: static_emb_qk}");
  kit::randomise(bench.parameters(), 2);
  const Sequences sequences = Sequences::single(4), of_source = Sequences::single(5);
  const auto rows = [](int64_t n, uint64_t seed) { return kit::normal({n, 6}, DType::f64, seed); };
  const Pass pass;
  pass.set_embedded(rows(4, 1));
  const auto run = [&](const Tensor& target, const Tensor& source, const Tensor& embedded) {
    const Rows from{source, of_source, embedded};
    return mixer->forward({.x = target, .sequences = sequences, .pass = pass, .source = &from}).value();
  };
  const Tensor x = rows(5, 2), y = rows(5, 3), e = rows(5, 4), target = rows(4, 5);
  EXPECT_EQ(kit::close(run(target, kit::sum(x, y), e), kit::sum(run(target, x, e), run(target, y, e)), 64), "");
  EXPECT_EQ(kit::bit_difference(run(rows(4, 6), x, e), run(target, x, e)), "");
  EXPECT_GT(kit::largest_difference(run(target, x, rows(5, 7)), run(target, x, e)), 1e-3);
}

}  // namespace
}  // namespace lithe
