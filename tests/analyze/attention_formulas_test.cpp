// Published numbers that the formulas must give. Those that do not come out are in docs/cost-model.md.
#include "lithe/analyze/attention_formulas.h"

#include <gtest/gtest.h>

#include "lithe/analyze/memory_formulas.h"
#include "lithe/analyze/model_formulas.h"

namespace lithe::analyze {
namespace {

constexpr MixerShape kBase{.width = 768, .heads = 12};
constexpr MixerShape kGpt3{.width = 12288, .heads = 96};
constexpr MixerShape kDecon{.width = 896, .heads = 14};

int64_t with_output(MixerKind kind, const MixerShape& s) {
  return mixer_parameters(kind, s) + output_parameters(OutputKind::dense, s);
}

struct Counts {
  MixerKind kind;
  int64_t qkv, with_output, twelve_layers, gpt3, translation;
};
const Counts kCounts[] = {
    {MixerKind::sha, 147'456, 737'280, 8'847'360, 452'984'832, 6'488'064},
    {MixerKind::mha, 1'769'472, 2'359'296, 28'311'552, 43'486'543'872, 18'874'368},
    {MixerKind::el_att, 589'824, 1'179'648, 14'155'776, 14'495'514'624, 9'437'184},
    {MixerKind::mqa, 688'128, 1'277'952, 15'335'424, 14'797'504'512, 10'616'832},
    {MixerKind::skv, 1'179'648, 1'769'472, 21'233'664, 28'991'029'248, 14'155'776},
    {MixerKind::mhe_add, 149'760, 739'584, 8'875'008, 456'523'776, 6'515'712},
    {MixerKind::mhe_mul, 149'760, 739'584, 8'875'008, 456'523'776, 6'515'712},
};

// oracle: metric.scaling_projection
TEST(AttentionFormulas, ParametersOfThePublishedTables) {
  const MixerShape translation{.width = 512, .heads = 8};
  for (const Counts& c : kCounts) {
    EXPECT_EQ(mixer_parameters(c.kind, kBase), c.qkv);
    EXPECT_EQ(with_output(c.kind, kBase), c.with_output);
    EXPECT_EQ(projected_parameters(c.kind, kBase, 12, true), c.twelve_layers);
    EXPECT_EQ(projected_parameters(c.kind, kGpt3, 96, false), c.gpt3);
    EXPECT_EQ(projected_parameters(c.kind, translation, attention_sublayers(12, true), true), c.translation);
  }
  EXPECT_EQ(attention_sublayers(12, true), 18);
  EXPECT_EQ(attention_sublayers(12, false), 12);
  const MixerShape large{.width = 1024, .heads = 16};
  EXPECT_EQ(projected_parameters(MixerKind::mha, large, 24, true), 100'663'296);
  EXPECT_EQ(projected_parameters(MixerKind::mhe_mul, large, 24, true), 29'958'144);
}

TEST(AttentionFormulas, ProjectionsToLargeModels) {
  const auto of = [](MixerKind kind, int64_t heads, int64_t layers) {
    return double(projected_parameters(kind, {.width = 64 * heads, .heads = heads}, layers, false));
  };
  const double mha = of(MixerKind::mha, 128, 1);
  EXPECT_EQ(mha, 201'326'592);
  EXPECT_EQ(3 * of(MixerKind::skv, 128, 1), 2 * mha);
  EXPECT_EQ(3 * of(MixerKind::el_att, 128, 1), mha);
  EXPECT_EQ(of(MixerKind::mhe_add, 128, 1), 1'597'440);
  EXPECT_NEAR(of(MixerKind::mhe_add, 128, 1) / mha, 0.0079, 5e-5);
  EXPECT_NEAR(of(MixerKind::mha, 64, 24), 1.208e9, 5e5);
  EXPECT_NEAR(of(MixerKind::el_att, 64, 48), 0.805e9, 5e5);
  EXPECT_NEAR(of(MixerKind::mqa, 64, 48), 0.830e9, 5e5);
  EXPECT_NEAR(of(MixerKind::skv, 64, 24), 0.805e9, 5e5);
  EXPECT_NEAR(of(MixerKind::mhe_mul, 64, 48), 38.3e6, 5e4);
  EXPECT_NEAR(1 - double(projected_parameters(MixerKind::mhe_add, kGpt3, 96, false)) /
                      double(projected_parameters(MixerKind::mha, kGpt3, 96, false)),
              0.9895, 5e-5);
}

TEST(AttentionFormulas, TranslationModelsOfAnyWidth) {
  struct Row {
    int64_t layers, width, heads, head_dim;
    double mha, mhe;  // millions
  };
  for (const Row& r :
       {Row{12, 512, 8, 64, 18.87, 6.52}, Row{12, 512, 16, 32, 18.87, 5.63}, Row{12, 512, 4, 128, 18.87, 8.29},
        Row{8, 512, 8, 64, 12.58, 4.34}, Row{16, 512, 8, 64, 25.17, 8.69}, Row{12, 768, 12, 64, 42.47, 13.31},
        Row{12, 1024, 16, 64, 75.50, 22.47}}) {
    const MixerShape s{.width = r.width, .heads = r.heads, .head_dim = r.head_dim};
    const int64_t sublayers = attention_sublayers(r.layers, true);
    EXPECT_NEAR(double(projected_parameters(MixerKind::mha, s, sublayers, true)) / 1e6, r.mha, 5e-3);
    EXPECT_NEAR(double(projected_parameters(MixerKind::mhe_mul, s, sublayers, true)) / 1e6, r.mhe, 5e-3);
  }
}

// oracle: metric.train_memory
TEST(TrainMemory, IsThePublishedTableByteForByte) {
  struct Row {
    MixerKind kind;
    double total, saving;  // percent of mha
  };
  const Work work{.batch = 32, .length = 512};
  const auto total = [&](MixerKind kind) { return train_memory(with_output(kind, kBase), work, 768).total(); };
  const auto saving = [&](MixerKind kind) { return 100 * (1 - total(kind) / total(MixerKind::mha)); };
  for (const Row& r : {Row{MixerKind::sha, 39'911'424, 44.84}, Row{MixerKind::mha, 72'351'744, 0},
                       Row{MixerKind::el_att, 48'758'784, 32.61}, Row{MixerKind::mqa, 50'724'864, 29.89},
                       Row{MixerKind::skv, 60'555'264, 16.30}, Row{MixerKind::mhe_add, 39'957'504, 44.77}}) {
    EXPECT_EQ(total(r.kind), r.total);
    EXPECT_NEAR(saving(r.kind), r.saving, 5e-3);
  }
  EXPECT_EQ(train_memory(739'584, work, 768).activations, 25'165'824);
  EXPECT_NEAR(saving(MixerKind::mhe_mul) / saving(MixerKind::skv), 2.75, 5e-3);
  EXPECT_NEAR(saving(MixerKind::mhe_mul) / saving(MixerKind::mqa), 1.50, 5e-3);
  EXPECT_NEAR(saving(MixerKind::mhe_mul) / saving(MixerKind::el_att), 1.37, 5e-3);
}

// oracle: acct.flops
TEST(Flops, AreThePublishedRows) {
  const double B = 3, L = 40, d = 24, h = 4;
  const MixerShape s{.width = 24, .heads = 4};
  const Work w{.batch = B, .length = L};
  struct Row {
    MixerKind kind;
    double prefill, decode;
  };
  const double standard = 4 * B * L * L * d + 6 * B * L * d * d, standard_step = 6 * B * d * d + 4 * B * L * d;
  const double shared = 2 * L * L * d + 2 * B * L * L * d, shared_step = 2 * L * d + 2 * B * L * d;
  for (const Row& r :
       {Row{MixerKind::mha, standard, standard_step}, Row{MixerKind::static_emb_qk, standard, standard_step},
        Row{MixerKind::mlp, 6 * B * L * d * d, 6 * B * d * d},
        Row{MixerKind::nonapprox, 6 * B * L * d * d, 6 * B * d * d},
        Row{MixerKind::approx, 14 * B * L * d * d, 10 * B * d * d},
        Row{MixerKind::rnd_emb_qk, shared + 6 * B * L * d * d, shared_step + 6 * B * d * d},
        Row{MixerKind::fixed_seq_qk, shared + 6 * B * L * d * d, shared_step + 6 * B * d * d}}) {
    EXPECT_EQ(prefill_flops(r.kind, s, w, Convention::published), r.prefill);
    EXPECT_EQ(decode_flops(r.kind, s, w, Convention::published), r.decode);
  }
  // Where both conventions agree, and where they do not.
  for (MixerKind kind : {MixerKind::mha, MixerKind::mlp, MixerKind::nonapprox, MixerKind::static_emb_qk})
    EXPECT_EQ(prefill_flops(kind, s, w), prefill_flops(kind, s, w, Convention::published));
  EXPECT_EQ(prefill_flops(MixerKind::approx, s, w), 6 * B * L * d * d + 8 * B * L * d * d / h);
  EXPECT_EQ(decode_flops(MixerKind::approx, s, w), 6 * B * d * d + 8 * B * d * d / h);
  EXPECT_EQ(prefill_flops(MixerKind::approx_full, s, w), 6 * B * L * d * d + 4 * B * L * h * 43 * 6);
  EXPECT_EQ(decode_flops(MixerKind::approx_full, s, w),
            decode_flops(MixerKind::approx_full, s, w, Convention::published));
  EXPECT_EQ(prefill_flops(MixerKind::rnd_emb_qk, s, w), shared + 2 * B * L * d * d + 4 * L * d * d);
  EXPECT_EQ(decode_flops(MixerKind::rnd_emb_qk, s, w), shared_step + 2 * B * d * d + 4 * d * d);
  const Work one{.batch = 1, .length = L};
  for (MixerKind kind : {MixerKind::rnd_emb_qk, MixerKind::fixed_seq_qk})
    EXPECT_EQ(prefill_flops(kind, s, one), prefill_flops(kind, s, one, Convention::published));
  const MixerShape one_head{.width = 24, .heads = 1};
  EXPECT_EQ(prefill_flops(MixerKind::approx, one_head, w),
            prefill_flops(MixerKind::approx, one_head, w, Convention::published));
  EXPECT_EQ(prefill_flops(MixerKind::mha, kDecon, {.batch = 1, .length = 2048}), 24'897'388'544);
}

TEST(Flops, OfTheMheBaselines) {
  const double T = 40, d = 24, e = 6;
  const MixerShape s{.width = 24, .heads = 4};
  const Work w{.batch = 1, .length = T};
  const auto whole = [&](MixerKind kind) { return prefill_flops(kind, s, w) + output_flops(OutputKind::dense, s, T); };
  EXPECT_EQ(whole(MixerKind::sha), 6 * T * d * e + 4 * T * T * e + 2 * T * d * d);
  EXPECT_EQ(whole(MixerKind::mhe_mul), 6 * T * d * e + 4 * T * T * d + 2 * T * d * d);
  EXPECT_EQ(whole(MixerKind::mqa), 2 * T * d * d + 4 * T * d * e + 4 * T * T * d + 2 * T * d * d);
  EXPECT_EQ(whole(MixerKind::skv), 4 * T * d * d + 4 * T * T * d + 2 * T * d * d);
  EXPECT_EQ(whole(MixerKind::el_att), 2 * T * d * d + 4 * T * T * d + 2 * T * d * d);
  const MixerShape grouped{.width = 24, .heads = 4, .kv_heads = 2};
  EXPECT_EQ(prefill_flops(MixerKind::gqa, grouped, w), 2 * T * d * d + 4 * T * d * 2 * e + 4 * T * T * d);
  EXPECT_EQ(mixer_parameters(MixerKind::gqa, grouped), 24 * 24 + 2 * 24 * 2 * 6);
}

// oracle: acct.activation
TEST(Activations, AreThePublishedRows) {
  const double B = 3, L = 40, d = 24, h = 4;
  const MixerShape s{.width = 24, .heads = 4};
  const Work w{.batch = B, .length = L};
  const auto published = [&](MixerKind kind) { return *activation_bytes(kind, s, w, Convention::published); };
  EXPECT_EQ(published(MixerKind::mha), 8 * B * L * d + 2 * B * L * L * h);
  EXPECT_EQ(published(MixerKind::static_emb_qk), published(MixerKind::mha));
  EXPECT_EQ(published(MixerKind::mlp), 8 * B * L * d);
  EXPECT_EQ(published(MixerKind::nonapprox), 8 * B * L * d + 4 * B * L * h);
  EXPECT_EQ(published(MixerKind::rnd_emb_qk), 4 * B * L * d + 8 * L * d + 2 * L * L * h);
  EXPECT_EQ(published(MixerKind::approx), 11 * B * L * d + 3 * B * d * d / h);
  // The items that the text names give another sum in two rows.
  EXPECT_EQ(*activation_bytes(MixerKind::rnd_emb_qk, s, w), 4 * B * L * d + 6 * L * d + 2 * L * L * h);
  EXPECT_EQ(*activation_bytes(MixerKind::approx, s, w), 12 * B * L * d + 4 * B * d * d / h);
  EXPECT_EQ(*activation_bytes(MixerKind::mha, s, w), published(MixerKind::mha));
  EXPECT_EQ(*activation_bytes(MixerKind::mha, s, w, Convention::exact, 8), published(MixerKind::mha) / 8);
  EXPECT_FALSE(activation_bytes(MixerKind::mhe_mul, s, w));
  // The maps of a reference sequence are there once: the term with L^2 does not grow with the batch.
  const auto slope = [&](double L) {
    const auto at = [&](double B) { return *activation_bytes(MixerKind::fixed_seq_qk, s, {.batch = B, .length = L}); };
    return at(2) - at(1);
  };
  EXPECT_EQ(slope(80), 2 * slope(40));
}

// oracle: acct.cache
TEST(Cache, IsThePublishedTable) {
  const Work one{.batch = 1, .length = 2048}, many{.batch = 32, .length = 2048};
  EXPECT_EQ(cache_bytes(MixerKind::mha, kDecon, one), 7'340'032);
  EXPECT_EQ(cache_bytes(MixerKind::static_emb_qk, kDecon, one), 7'340'032);
  EXPECT_EQ(cache_bytes(MixerKind::mlp, kDecon, one), 0);
  EXPECT_EQ(cache_bytes(MixerKind::approx, kDecon, one), 234'752);
  EXPECT_EQ(cache_bytes(MixerKind::approx_full, kDecon, one), 2.0 * 14 * 65 * (1 + 64 + 64 * 64));
  EXPECT_EQ(cache_bytes(MixerKind::nonapprox, kDecon, one), 1'848);
  EXPECT_EQ(cache_bytes(MixerKind::rnd_emb_qk, kDecon, one), 7'340'032);
  EXPECT_EQ(cache_bytes(MixerKind::mha, kDecon, many), 234'881'024);
  EXPECT_EQ(cache_bytes(MixerKind::fixed_seq_qk, kDecon, many), 121'110'528);
  EXPECT_NEAR(121'110'528.0 / 234'881'024.0, 0.516, 5e-4);
  for (MixerKind kind : {MixerKind::approx, MixerKind::nonapprox})
    EXPECT_EQ(cache_bytes(kind, kDecon, one), cache_bytes(kind, kDecon, {.batch = 1, .length = 1}));
  // Scalars of the MHE family, T = 2048.
  EXPECT_EQ(cache_bytes(MixerKind::mhe_add, kBase, one), 2.0 * 2 * 2048 * 64);
  EXPECT_EQ(cache_bytes(MixerKind::skv, kBase, one), 2.0 * 2048 * 768);
  EXPECT_EQ(cache_bytes(MixerKind::el_att, kBase, one), 2.0 * 2048 * 768);
  EXPECT_EQ(cache_bytes(MixerKind::mha, kBase, one, 4), 4.0 * 2 * 2048 * 768);
}

// oracle: acct.hadamard
TEST(HadamardModels, HaveThePublishedSizes) {
  struct Row {
    double base, ours, change, without_biases;  // millions, percent
  };
  const Row rows[] = {
      {123.70, 116.63, -5.71, 116.53}, {353.81, 328.67, -7.11, 328.39}, {757.28, 700.69, -7.47, 700.27}};
  for (size_t i = 0; i < 3; ++i) {
    const HadamardModel& m = hadamard_models()[i];
    const double base = double(model_parameters(m, OutputKind::dense, 50304)),
                 ours = double(model_parameters(m, OutputKind::hadamard, 50304));
    EXPECT_NEAR(base / 1e6, rows[i].base, 5e-3) << m.name;
    EXPECT_NEAR(ours / 1e6, rows[i].ours, 5e-3) << m.name;
    EXPECT_NEAR(100 * (ours / base - 1), rows[i].change, 5e-3) << m.name;
    EXPECT_NEAR(double(model_parameters(m, OutputKind::hadamard, 50304, false)) / 1e6, rows[i].without_biases, 5e-3);
    const MixerShape s{.width = m.width};
    EXPECT_EQ(output_parameters(OutputKind::dense, s) - output_parameters(OutputKind::hadamard, s),
              m.width * m.width - 2 * m.width);
  }
  EXPECT_EQ(mixer_parameters(MixerKind::mhe_mul, kBase) + output_parameters(OutputKind::hadamard, kBase), 151'296);
  EXPECT_EQ(hadamard_additions(768), 13'056);
  EXPECT_EQ(hadamard_additions(1536), 27'648);
  EXPECT_EQ(hadamard_additions(8), 24);
  EXPECT_EQ(output_flops(OutputKind::hadamard, kBase, 10), 10.0 * (13'056 + 2 * 768));
}

// oracle: decon.model_sizes
TEST(DeconModels, HaveThePublishedSizes) {
  struct Row {
    int64_t layers;
    double tied, untied;  // with 50,304 rows, millions
    double digit;
  };
  const Row rows[] = {{25'181'184, 50.9, 76.7, 0.05},
                      {113'292'288, 151.9, 190.6, 0.05},
                      {390'964'224, 436.0, 481.1, 0.05},
                      {1'526'848'512, 1630, 1733, 0.5}};
  for (size_t i = 0; i < 4; ++i) {
    const DeconModel& m = decon_models()[i];
    EXPECT_EQ(layer_parameters(m), rows[i].layers) << m.name;
    EXPECT_NEAR(double(model_parameters(m, 50304, true)) / 1e6, rows[i].tied, rows[i].digit) << m.name;
    EXPECT_NEAR(double(model_parameters(m, 50304, false)) / 1e6, rows[i].untied, rows[i].digit) << m.name;
  }
}

}  // namespace
}  // namespace lithe::analyze
