// The costs of a run on tensors without data against the formulas.
#include "lithe/analyze/model_cost.h"

#include <gtest/gtest.h>

#include "lithe/analyze/memory_formulas.h"
#include "tests/support/model_kit.h"

namespace lithe::analyze {
namespace {

constexpr int64_t B = 3, L = 40, D = 24, H = 4;

ModelConfig one_layer(const std::string& mixer, const std::string& more = "") {
  return kit::model_config(
      "{hidden_size: 24, num_hidden_layers: 1, vocab_size: 50, max_position_embeddings: 64, mixer: " + mixer +
      ", ffn: {type: relu, intermediate_size: 32}, position: none" + more + "}");
}

std::string attention(const std::string& heads, const std::string& output) {
  return "{type: attention, num_attention_heads: 4, heads: " + heads + ", output: " + output + "}";
}

CostOfPart mixer_of(const ModelCost& cost, const std::string& part = "layers.*.mixer") {
  for (const CostOfPart& p : cost.parts)
    if (p.part == part) return p;
  ADD_FAILURE() << "no part " << part;
  return {};
}

// Of causal attention the kernel counts the pairs that are seen, the formulas all of them.
double hidden_pairs(int64_t batch, int64_t length) { return double(batch) * double(length * (length - 1) / 2); }

const char* const kHeads[] = {"mha", "gqa", "mqa", "skv", "el_att", "sha", "mhe_add", "mhe_mul", "static_emb_qk"};

TEST(ModelCost, ParametersAreTheFormulasForAllHeadsAndOutputs) {
  for (const std::string heads : kHeads)
    for (const std::string output : {"dense", "none"})
      for (const char* bias : {"false", "true"}) {
        if (heads == "sha" && output == "none") continue;  // one head is narrower than the rows
        const std::string mixer = "{type: attention, num_attention_heads: 4, heads: " + heads + ", output: " + output +
                                  ", attention_bias: " + bias + "}";
        const CostOfPart cost = mixer_of(model_cost(one_layer(mixer), {.batch = B, .length = L}));
        ASSERT_TRUE(cost.published.parameters) << mixer;
        EXPECT_EQ(double(cost.parameters), *cost.published.parameters) << mixer;
      }
  for (const std::string mixer :
       {"{type: rnd_emb_qk, num_attention_heads: 4", "{type: fixed_seq_qk, num_attention_heads: 4",
        "{type: nonapprox, num_attention_heads: 4", "{type: approx, num_attention_heads: 4", "{type: mlp"})
    for (const std::string more : {"}", ", attention_bias: true, output_bias: true}", ", output: none}"}) {
      const CostOfPart cost = mixer_of(model_cost(one_layer(mixer + more), {.batch = B, .length = L}));
      EXPECT_EQ(double(cost.parameters), cost.published.parameters) << mixer << more;
    }
}

// oracle: acct.flops
TEST(ModelCost, ProductsAreTheFormulasWithoutTheHiddenPairs) {
  for (const std::string heads : kHeads) {
    const std::string output = heads == "sha" ? "dense" : "none";
    const CostOfPart cost = mixer_of(model_cost(one_layer(attention(heads, output)), {.batch = B, .length = L}));
    // Heads that are formed from one seed are all there when they meet.
    const double pair = 4.0 * double(heads == "sha" ? D / H : D);
    EXPECT_EQ(cost.prefill_products, *cost.published.prefill_flops - pair * hidden_pairs(B, L)) << heads;
    EXPECT_EQ(cost.decode_products, *cost.published.decode_flops) << heads;
    EXPECT_EQ(double(cost.cache_bytes), *cost.published.cache_bytes) << heads;
    EXPECT_GE(cost.prefill_flops, cost.prefill_products);
  }
}

TEST(ModelCost, MapsOfAReferenceSequenceAreMadeOnceForTheBatch) {
  for (const std::string type : {"rnd_emb_qk", "fixed_seq_qk"}) {
    const std::string mixer = "{type: " + type + ", num_attention_heads: 4, output: none}";
    const MixerKind kind = *mixer_kind(type);
    const MixerShape s{.width = D, .heads = H};
    for (const int64_t batch : {int64_t(1), B}) {
      const CostOfPart cost = mixer_of(model_cost(one_layer(mixer), {.batch = batch, .length = L}));
      const Work work{.batch = double(batch), .length = double(L)};
      EXPECT_EQ(cost.forward_products, prefill_flops(kind, s, work)) << type;
      EXPECT_EQ(double(cost.cache_bytes), cache_bytes(kind, s, work, 4)) << type;
      // Into a cache each text has its own queries and logits; the keys are made once.
      const double rows = double(batch * L), d = double(D);
      EXPECT_EQ(cost.prefill_products, (2 * rows + double(L)) * 2 * d * d + double(batch * L * (L + 1)) * 2 * d)
          << type;
      EXPECT_EQ(cost.decode_products, double(batch) * (4 * d * d + 4 * double(L) * d)) << type;
    }
  }
}

TEST(ModelCost, TheReferenceSequenceIsAPartOfItsOwn) {
  const ModelConfig config = kit::model_config(
      "{hidden_size: 24, num_hidden_layers: 3, vocab_size: 50, max_position_embeddings: 64, position: none, ffn: "
      "{type: "
      "relu, intermediate_size: 32}, mixer: {type: rnd_emb_qk, num_attention_heads: 4}}");
  const ModelCost cost = model_cost(config, {.batch = B, .length = L});
  // Two layers in front of the last one that asks: their mixers' four maps and the feed-forward's two.
  const CostOfPart reference = mixer_of(cost, "reference");
  const double d = D, pairs = double(L) * double(L);
  EXPECT_EQ(reference.forward_products, 2 * (double(L) * (8 * d * d + 4 * d * 32) + 2 * double(L * (L + 1)) * d));
  EXPECT_EQ(mixer_of(cost).forward_products, 3 * (2 * pairs * d * (1 + B) + (4.0 + 4.0 * B) * double(L) * d * d));
}

TEST(ModelCost, MixersWithoutPairs) {
  const MixerShape s{.width = D, .heads = H};
  const Work work{.batch = double(B), .length = double(L)};
  for (const std::string type :
       {"{type: mlp, output: none}", "{type: nonapprox, num_attention_heads: 4, output: none}"}) {
    const CostOfPart cost = mixer_of(model_cost(one_layer(type), {.batch = B, .length = L}));
    const MixerKind kind = type.find("mlp") != std::string::npos ? MixerKind::mlp : MixerKind::nonapprox;
    EXPECT_EQ(cost.forward_products, prefill_flops(kind, s, work));
    EXPECT_EQ(cost.prefill_products, prefill_flops(kind, s, work));
    EXPECT_EQ(cost.decode_products, decode_flops(kind, s, work));
    EXPECT_EQ(double(cost.cache_bytes), cache_bytes(kind, s, work, 4));
  }
  for (const std::string mode : {"full", "diag"}) {
    const CostOfPart cost =
        mixer_of(model_cost(one_layer("{type: approx, num_attention_heads: 4, output: none, mode: " + mode + "}"),
                            {.batch = B, .length = L}));
    const MixerKind kind = mode == "full" ? MixerKind::approx_full : MixerKind::approx;
    EXPECT_EQ(double(cost.cache_bytes), cache_bytes(kind, s, work, 4)) << mode;
    // Beside the formula: the sums of weights in the state, and the pair of the token with itself.
    const double e = D / H, features = mode == "full" ? 1 + e + e * e : 3 * e, pair = mode == "full" ? 2 * e : 3 * e;
    EXPECT_EQ(cost.decode_products, decode_flops(kind, s, work) + double(B * H) * (4 * features + 2 * pair)) << mode;
  }
}

// oracle: acct.cache
TEST(ModelCost, CachesOfThePublishedModelAreThePublishedBytes) {
  const CostOptions one{.batch = 1, .length = 2048, .compute = DType::bf16},
      many{.batch = 32, .length = 2048, .compute = DType::bf16};
  const auto bytes = [](const std::string& mixer, const CostOptions& o) {
    const ModelConfig config = kit::model_config(
        "{hidden_size: 896, num_hidden_layers: 1, vocab_size: 50, max_position_embeddings: 2048, mixer: " + mixer +
        "}");
    return mixer_of(model_cost(config, o)).cache_bytes;
  };
  const std::string standard = "{type: attention, num_attention_heads: 14}",
                    fixed = "{type: fixed_seq_qk, num_attention_heads: 14}";
  EXPECT_EQ(bytes(standard, one), 7'340'032);
  EXPECT_EQ(bytes(fixed, one), 7'340'032);
  EXPECT_EQ(bytes(standard, many), 234'881'024);
  EXPECT_EQ(bytes(fixed, many), 121'110'528);
}

// oracle: acct.activation
TEST(ModelCost, ActivationsOfAPartAreWhatTheTrainingStepKeeps) {
  // What a layer of attention without output keeps beyond its input: queries, keys, values and its result of B L d
  // scalars, and one number for each row and head with which the weights are made again. The sources count the weights
  // instead.
  const CostOptions o{.batch = B, .length = L};
  const CostOfPart mixer = mixer_of(model_cost(one_layer(attention("mha", "none")), o));
  const double rows = double(B * L);
  EXPECT_EQ(double(mixer.activation_bytes), 4 * (4 * rows * D + rows * H));
  EXPECT_EQ(*mixer.published.activation_bytes, 2 * (8 * rows * D + 2 * rows * L * H));

  const ModelConfig config = one_layer(attention("mha", "dense"));
  const ModelCost kept = model_cost(config, o),
                  again = model_cost(config, {.batch = B, .length = L, .recompute = true});
  EXPECT_LT(again.total.activation_bytes, kept.total.activation_bytes);
  int64_t sum = 0;
  for (const CostOfPart& p : kept.parts) sum += p.activation_bytes;
  EXPECT_EQ(sum, kept.total.activation_bytes);
  // The ledger of a model that runs says the same.
  Model model(config, {.trainable = true});
  const kit::Batch batch = kit::random_batch({L, L, L}, 50, 1);
  const int64_t before = ledger(Device::cpu).current(MemoryClass::activations);
  Tape tape;
  const Var loss = kit::loss(model, batch.ids, batch.labels, batch.sequences, 0, 1);
  EXPECT_EQ(ledger(Device::cpu).current(MemoryClass::activations) - before, kept.total.activation_bytes);
}

TEST(ModelCost, HadamardOutputsHaveTwoVectors) {
  for (const std::string heads : kHeads) {
    if (heads == "sha") continue;
    const ModelConfig config = kit::model_config(
        "{hidden_size: 24, num_hidden_layers: 2, vocab_size: 50, max_position_embeddings: 64, position: none, mixer: "
        "{type: attention, num_attention_heads: 4, output_bias: true, output: hadamard, heads: " +
        heads + "}}");
    const CostOfPart cost = mixer_of(model_cost(config, {.batch = B, .length = L}));
    EXPECT_EQ(double(cost.parameters), cost.published.parameters) << heads;
    const MixerShape s{.width = D};
    EXPECT_EQ(output_flops(OutputKind::hadamard, s, 1), double(D) * (11 + 1 + 2));
    EXPECT_GE(cost.prefill_flops - cost.prefill_products, 2 * output_flops(OutputKind::hadamard, s, double(B * L)));
  }
}

TEST(ModelCost, HybridsHaveALineForEachMixer) {
  const ModelConfig config = kit::model_config(
      "{hidden_size: 24, num_hidden_layers: 3, vocab_size: 50, max_position_embeddings: 64, layer_pattern: hybrid, "
      "mixers: "
      "{standard: {type: attention, num_attention_heads: 4}, replaced: {type: attention, num_attention_heads: 4, "
      "heads: "
      "skv}}}");
  const ModelCost cost = model_cost(config, {.batch = B, .length = L});
  const CostOfPart standard = mixer_of(cost, "layers.*.mixer (standard)"),
                   replaced = mixer_of(cost, "layers.*.mixer (replaced)");
  EXPECT_EQ(standard.parameters, 4 * D * D);
  EXPECT_EQ(replaced.parameters, 2 * 3 * D * D);
  EXPECT_EQ(standard.cache_bytes, 2 * B * L * D * 4);
  EXPECT_EQ(replaced.cache_bytes, 2 * B * L * D * 4);
  EXPECT_EQ(replaced.published.parameters, double(replaced.parameters));
  int64_t parameters = 0;
  for (const CostOfPart& p : cost.parts) parameters += p.parameters;
  EXPECT_EQ(parameters, cost.total.parameters);
}

// The encoder reads B sources of S tokens, the decoder attends to itself and to them.
TEST(ModelCost, EncoderDecodersReadASource) {
  constexpr int64_t S = 30, N = 2;
  const ModelConfig config = kit::model_config(
      "{architecture: encoder_decoder, hidden_size: 24, num_hidden_layers: 2, vocab_size: 50, max_position_embeddings: "
      "64, position: none, mixer: {type: attention, num_attention_heads: 4}, ffn: {type: relu, intermediate_size: "
      "32}}");
  const CostOptions o{.batch = B, .length = L, .source_length = S};
  const ModelCost cost = model_cost(config, o);
  EXPECT_EQ(cost.source_length, S);
  EXPECT_EQ(model_cost(config, {.batch = B, .length = L}).source_length, L);
  const CostOfPart encoder = mixer_of(cost, "encoder.layers.*.mixer"), self = mixer_of(cost, "decoder.layers.*.mixer"),
                   cross = mixer_of(cost, "decoder.layers.*.cross"), ffn = mixer_of(cost, "encoder.layers.*.ffn");
  const double d = D, b = B, l = L, s = S;
  EXPECT_EQ(encoder.parameters, N * 4 * D * D);
  EXPECT_EQ(cross.parameters, N * 4 * D * D);
  // Every pair of a source counts, so that the formula is exact; a source is read once and needs no cache.
  EXPECT_EQ(encoder.forward_products, N * (8 * b * s * d * d + 4 * b * s * s * d));
  EXPECT_EQ(encoder.prefill_products, *encoder.published.prefill_flops);
  EXPECT_EQ(encoder.decode_flops, 0);
  EXPECT_EQ(encoder.cache_bytes, 0);
  EXPECT_FALSE(encoder.published.decode_flops || encoder.published.cache_bytes);
  EXPECT_EQ(ffn.forward_products, N * 4 * b * s * d * 32);
  EXPECT_EQ(ffn.decode_flops, 0);
  EXPECT_EQ(self.prefill_products, *self.published.prefill_flops - N * 4 * d * hidden_pairs(B, L));
  // Queries and output of the text, keys and values of the source, all pairs.
  const double cross_products = N * (4 * b * l * d * d + 4 * b * s * d * d + 4 * b * l * s * d);
  EXPECT_EQ(cross.forward_products, cross_products);
  EXPECT_EQ(cross.prefill_products, cross_products);
  EXPECT_EQ(cross.decode_products, N * (4 * b * d * d + 4 * b * s * d));
  EXPECT_EQ(cross.cache_bytes, N * 2 * B * S * D * 4);
  EXPECT_FALSE(cross.published.any());

  Model model(config, {.trainable = true});
  EXPECT_EQ(cost.total.parameters, model.parameters().count());
  EXPECT_EQ(cost.total.cache_bytes, model.state_bytes(std::vector<int64_t>(B, L), std::vector<int64_t>(B, S)));
  kit::Batch batch = kit::random_batch({L, L, L}, 50, 1);
  const kit::Batch sources = kit::random_batch({S, S, S}, 50, 2);
  batch.source = sources.ids;
  batch.sources = sources.sequences;
  const int64_t before = ledger(Device::cpu).current(MemoryClass::activations);
  Tape tape;
  const Var loss = kit::loss(model, batch, batch.labels, 0, 1);
  EXPECT_EQ(ledger(Device::cpu).current(MemoryClass::activations) - before, cost.total.activation_bytes);
  EXPECT_THROW(model_cost(one_layer(attention("mha", "dense")), o), Error);
}

TEST(ModelCost, EmbeddingsOfCodesAreTheirProducts) {
  const struct {
    const char* type;
    int64_t width, parameters;
    double flops;  // of a token
  } cases[] = {{"hash_pool", 5, 1037 * D, 13 * 2 * D},
               {"hash_add", 5, 2 * 128 * D, 2 * 256 * D},
               {"hash_proj", 5, 128 * D, 2 * 128 * D},
               {"proformer", 15, 420 * D, 2 * 420 * D}};
  for (const auto& c : cases) {
    const ModelCost cost =
        model_cost(one_layer(attention("mha", "dense"),
                             cat(", embedding: ", c.type, ", token_width: ", c.width, ", tie_word_embeddings: false")),
                   {.batch = 64, .length = L});
    const CostOfPart embedding = mixer_of(cost, "embedding");
    EXPECT_EQ(embedding.parameters, c.parameters + 6 * D) << c.type;
    // Beside them what does not grow with the tokens, and the special tokens' additions.
    EXPECT_GE(embedding.forward_flops, 64 * L * c.flops) << c.type;
    EXPECT_LE(embedding.forward_flops, 64 * L * (c.flops + 2 * D) + 20 * 128 * D) << c.type;
  }
}

// A token's products with the router and with the two experts that read it.
TEST(ModelCost, ExpertsAreProducts) {
  const ModelConfig config = kit::model_config(
      "{hidden_size: 24, num_hidden_layers: 1, vocab_size: 50, max_position_embeddings: 64, mixer: {type: attention, "
      "num_attention_heads: 4}, position: none, ffn: {type: moe, num_experts: 4, num_experts_per_tok: 2, "
      "moe_intermediate_size: 8}}");
  const CostOfPart ffn = mixer_of(model_cost(config, {.batch = B, .length = L}), "layers.*.ffn");
  EXPECT_EQ(ffn.forward_products, B * L * (2 * 24 * 4 + 2 * (2 * 24 * 8 + 2 * 8 * 24)));
  EXPECT_EQ(ffn.decode_products, B * (2 * 24 * 4 + 2 * (2 * 24 * 8 + 2 * 8 * 24)));
}

TEST(ModelCost, FormsWithoutAFormulaHaveNone) {
  const auto published = [](const std::string& mixer) {
    return mixer_of(model_cost(one_layer(mixer), {.batch = 1, .length = 8})).published.any();
  };
  EXPECT_FALSE(published(attention("identity", "dense")));
  EXPECT_FALSE(published(attention("{type: sha, output: narrow}", "dense")));
  EXPECT_TRUE(published(attention("mha", "dense")));
  for (const char* more : {"field: {type: span, left: 3}", "field: lsh", "map: below_context"}) {
    const ModelConfig config = one_layer(cat("{type: attention, num_attention_heads: 4, ", more, "}"));
    EXPECT_FALSE(published_cost(config, config.mixer, {.batch = 1, .length = 8}).any()) << more;
  }
  const ModelConfig full = one_layer("{type: attention, num_attention_heads: 4, field: full, map: own}");
  EXPECT_TRUE(published_cost(full, full.mixer, {.batch = 1, .length = 8}).any());
  EXPECT_THROW(model_cost(one_layer(attention("mha", "dense")), {.batch = 0}), Error);
}

// Encoders have one pass and no cache; heads with a label a text or two are measured with so many.
TEST(ModelCost, EncodersHaveAForwardPassAlone) {
  for (const std::string head : {"classify", "tag", "span", "{type: classify, problem_type: regression}", "mlm"})
    for (const std::string mixer : {"{type: attention, num_attention_heads: 4}", "fnet"}) {
      const ModelConfig config = one_layer(mixer, ", architecture: encoder, num_labels: 3, head: " + head);
      const ModelCost cost = model_cost(config, {.batch = B, .length = L});
      EXPECT_FALSE(cost.decodes);
      EXPECT_GT(cost.total.forward_flops, 0) << head << mixer;
      EXPECT_GT(cost.total.activation_bytes, 0) << head << mixer;
      EXPECT_EQ(cost.total.decode_flops, 0) << head << mixer;
      EXPECT_EQ(cost.total.cache_bytes, 0) << head << mixer;
    }
  const std::string attention = "{type: attention, num_attention_heads: 4}";
  const ModelConfig pooled = one_layer(attention,
                                       ", architecture: encoder, num_labels: 3, head: classify, layers: {a: "
                                       "{compressor: {type: pool, size: 2}}}, layer_types: [a]");
  EXPECT_GT(model_cost(pooled, {.batch = B, .length = L}).total.forward_flops, 0);
}

// Three stages of two layers, each on half the rows: what a layer costs is what it costs on as many.
TEST(ModelCost, CountsTheRowsOfEachStage) {
  const ModelConfig config = kit::model_config(
      "{architecture: encoder, hidden_size: 8, num_hidden_layers: 6, vocab_size: 11, max_position_embeddings: 40, "
      "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, "
      "intermediate_size: 6}, head: classify, layers: {whole: {}, down: {compressor: strided_conv}}, layer_types: "
      "[down, "
      "whole, down, whole, down, whole]}");
  const auto flops = [](const ModelConfig& of) {
    for (const CostOfPart& one : model_cost(of, {.batch = 1, .length = 32}).parts)
      if (one.part == "layers.*.ffn") return one.forward_flops;
    return -1.;
  };
  const ModelConfig plain = kit::model_config(
      "{architecture: encoder, hidden_size: 8, num_hidden_layers: 6, vocab_size: 11, max_position_embeddings: 40, "
      "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, "
      "intermediate_size: 6}, head: classify}");
  EXPECT_GT(flops(config), 0);
  EXPECT_EQ(flops(config) * 6 * 32, flops(plain) * 2 * (16 + 8 + 4));
}

}  // namespace
}  // namespace lithe::analyze
