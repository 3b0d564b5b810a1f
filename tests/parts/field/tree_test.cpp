#include <bit>

#include "lithe/parts/common/tree_mask.h"
#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

const std::vector<int32_t> kDep4{2, 0, 2, 3};

std::map<std::string, Tensor> dependency(const std::vector<int32_t>& heads) {
  std::vector<int32_t> words(heads.size());
  for (size_t i = 0; i < words.size(); ++i) words[i] = int32_t(i);
  const auto n = int64_t(heads.size());
  return {{"word", tensor_of({n}, words)}, {"head", tensor_of({n}, heads)}};
}

Pass pass_of(const std::map<std::string, Tensor>& columns) {
  Pass pass;
  for (const auto& [name, column] : columns) pass.give(name, column);
  return pass;
}

struct TreeAttention : FieldAttention {
  TreeAttention(const std::string& field, int64_t heads = 1, bool causal = false)
      : FieldAttention(field, causal, heads) {}
  Tensor operator()(const Tensor& x, const std::map<std::string, Tensor>& columns) const {
    const Pass pass = pass_of(columns);
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr, pass}).value();
  }
  MixerMaps maps(const Tensor& x, const std::map<std::string, Tensor>& columns) const {
    const Pass pass = pass_of(columns);
    return mixer->maps({Var(x), Sequences::single(x.rows()), nullptr, pass});
  }
};

std::vector<double> mask_of(const std::string& options, const WordTree& tree) {
  TreeMaskConfig config;
  read_fields(parse_yaml(options, "test"), "field", [&](Fields& f) { config.fields(f); });
  config.validate(1);
  return word_mask(config, tree);
}

WordTree dep4() { return {.word_of = {0, 1, 2, 3}, .heads = {kDep4}, .leaves = {}, .parser = {}}; }

void expect_row(const std::vector<double>& mask, const std::vector<double>& want) {
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(mask[i], want[i], 1e-6) << i;
}

// oracle: syn.dnorm.zscore
TEST(TreeMask, StandardisedDistances) {
  const auto raw = mask_of("{weight: zscore, apply: add}", dep4());
  expect_row(raw, {1.341641, 0.447214, -0.447214, -1.341641});
  expect_row(mask_of("{weight: zscore, squash: sigmoid, apply: add}", dep4()),
             {0.792760, 0.609977, 0.390023, 0.207240});
  expect_row(mask_of("{weight: zscore, squash: min_max, apply: add}", dep4()), {1, 2. / 3, 1. / 3, 0});
  for (size_t row = 0; row < 4; ++row) {
    double mean = 0, square = 0;
    for (size_t j = 0; j < 4; ++j) mean += raw[row * 4 + j] / 4, square += raw[row * 4 + j] * raw[row * 4 + j] / 4;
    EXPECT_NEAR(mean, 0, 1e-12);
    EXPECT_NEAR(square, 1, 1e-12);
  }
  const auto whole = mask_of("{weight: zscore, statistics: matrix, apply: add}", dep4());
  double mean = 0;
  for (const double m : whole) mean += m;
  EXPECT_NEAR(mean, 0, 1e-12);
  const WordTree one{.word_of = {0}, .heads = {{0}}, .leaves = {}, .parser = {}};
  expect_row(mask_of("{weight: zscore, apply: add}", one), {0});
  // No deviation: 0, but where the word would be left without a key.
  for (const char* apply : {"add", "multiply_logits", "log_add", "multiply_weights"})
    expect_row(mask_of(cat("{weight: zscore, squash: min_max, apply: ", apply, "}"), one),
               {std::string(apply).find("log") == 0 || std::string(apply) == "multiply_weights" ? 1.0 : 0.0});
}

// oracle: syn.dnorm.inv_row, syn.dnorm.other
TEST(TreeMask, MapsOfDistances) {
  expect_row(mask_of("{weight: inv_row, apply: log_add}", dep4()), {12. / 25, 6. / 25, 4. / 25, 3. / 25});
  expect_row(mask_of("{weight: inv_row, inverse: plain, self_value: 1, apply: log_add}", dep4()),
             {6. / 17, 6. / 17, 3. / 17, 2. / 17});
  expect_row(mask_of("{weight: linear, apply: add}", dep4()), {1, 0.75, 0.5, 0.25});
  expect_row(mask_of("{weight: linear, max_distance: 2, apply: add}", dep4()), {1, 0.5, 0, 0});
  expect_row(mask_of("{weight: exp, tau: 2, apply: add}", dep4()), {1, std::exp(-.5), std::exp(-1), std::exp(-1.5)});
  expect_row(mask_of("{weight: gauss, sigma: 2, apply: add}", dep4()),
             {1, std::exp(-1. / 8), std::exp(-.5), std::exp(-9. / 8)});
  expect_row(mask_of("{weight: reciprocal, apply: add}", dep4()), {1, 1. / 2, 1. / 3, 1. / 4});
  expect_row(mask_of("{weight: reciprocal, normalise_rows: true, apply: add}", dep4()),
             {12. / 25, 6. / 25, 4. / 25, 3. / 25});
}

// oracle: syn.mask_parser
TEST(TreeMask, ProbabilitiesOfAParser) {
  WordTree tree{
      .word_of = {0, 1, 2}, .heads = {}, .leaves = {}, .parser = {{{2, 0.75}, {3, 0.25}}, {{0, 1}}, {{2, 1}}}};
  const auto directed = mask_of("{tree: parser, weight: probability, direction: directed, apply: add}", tree),
             both = mask_of("{tree: parser, weight: probability, apply: add}", tree),
             literal = mask_of("{tree: parser, weight: probability, diagonal: 0, apply: add}", tree);
  expect_row(directed, {1, 0, 0, 0.75, 1, 1, 0.25, 0, 1});  // row i: how likely i is the head of j
  expect_row(both, {1, 0.75, 0.25, 0.75, 1, 1, 0.25, 1, 1});
  EXPECT_EQ(literal[0], 0);
  for (size_t i = 0; i < 9; ++i) EXPECT_GE(both[i], directed[i]);
  // A parser that is sure of the gold tree: the mask within distance 1.
  tree = {.word_of = {0, 1, 2, 3}, .heads = {}, .leaves = {}, .parser = {{{2, 1}}, {{0, 1}}, {{2, 1}}, {{3, 1}}}};
  EXPECT_EQ(mask_of("{tree: parser, weight: probability, apply: add}", tree), mask_of("{}", dep4()));
}

// oracle: syn.mask01
TEST(Tree, HardMaskShowsNearWords) {
  const Tensor x = kit::normal({4, 8}, DType::f64, 1);
  const auto columns = dependency(kDep4);
  const MixerMaps maps = TreeAttention("tree").maps(x, columns);
  const std::vector<std::vector<int>> want{{1, 1, 0, 0}, {1, 1, 1, 0}, {0, 1, 1, 1}, {0, 0, 1, 1}};
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_EQ(value_at(maps.weights, i * 4 + j) > 0, want[size_t(i)][size_t(j)]) << i << j;
  const Tensor full = FieldAttention("full", false)(x);
  for (const char* field : {"{type: tree, max_distance: 3}", "{type: tree, max_distance: 3, apply: multiply_logits}"})
    EXPECT_LT(kit::largest_difference(TreeAttention(field)(x, columns), full), 1e-12) << field;
  // Only itself: the output is that of each row alone.
  const Tensor own = TreeAttention("{type: tree, max_distance: 0}")(x, columns);
  for (int64_t i = 0; i < 4; ++i) {
    const Tensor one = FieldAttention("full", false)(clone(x.slice(i, i + 1)));
    EXPECT_LT(kit::largest_difference(clone(own.slice(i, i + 1)), one), 1e-12);
  }
}

// oracle: syn.mask_mul, syn.mask_add
TEST(Tree, ApplicationsThatComeToTheSame) {
  const Tensor x = kit::normal({9, 8}, DType::f64, 2);
  const auto columns = dependency({2, 0, 2, 3, 4, 2, 6, 7, 2});
  const auto of = [&](const std::string& field) { return TreeAttention(field)(x, columns); };
  const auto same = [&](const std::string& a, const std::string& b) {
    EXPECT_LT(kit::largest_difference(of(a), of(b)), 1e-10) << a << " and " << b;
  };
  same("{type: tree, apply: log_add}", "{type: tree, apply: hard}");
  same("{type: tree, max_distance: 2, apply: log_add}", "{type: tree, max_distance: 2}");
  // 1 everywhere is a constant of each row, and a factor of 1.
  same("{type: tree, max_distance: 20, apply: add}", "full");
  same("{type: tree, max_distance: 20, apply: multiply_logits}", "full");
  same("{type: tree, max_distance: 20, apply: multiply_weights}", "full");
  // A number per row, 1 / sum, does not matter in a softmax.
  same("{type: tree, weight: reciprocal, apply: log_add}", "{type: tree, weight: inv_row, apply: log_add}");
  same("{type: tree, weight: reciprocal, apply: log_add}",
       "{type: tree, weight: reciprocal, normalise_rows: true, apply: log_add}");
}

// oracle: syn.mask_mul, attn.local_prior_mul
TEST(Tree, MultipliedWeightsAreThoseOfLogsBeforeTheyAreNormalised) {
  const Tensor x = kit::normal({70, 8}, DType::f64, 2);
  std::vector<int32_t> heads;
  for (int32_t w = 0; w < 70; ++w) heads.push_back(w == 0 ? 0 : 1 + (w * 3) % w);
  const auto columns = dependency(heads);
  for (const bool causal : {false, true}) {
    const auto of = [&](const char* apply) {
      return TreeAttention(cat("{type: tree, weight: exp, tau: 3, apply: ", apply, "}"), 1, causal);
    };
    const TreeAttention times = of("multiply_weights"), logs = of("log_add");
    const Tensor weights = times.maps(x, columns).weights, a = times(x, columns), b = logs(x, columns);
    for (int64_t i = 0; i < 70; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < 70; ++j) sum += value_at(weights, i * 70 + j);
      EXPECT_LT(sum, 1 + 1e-6);
      for (int64_t c = 0; c < 8; ++c)
        EXPECT_NEAR(value_at(a, i * 8 + c), value_at(b, i * 8 + c) * sum, 1e-6) << causal << i;
    }
  }
}

TEST(Tree, SupervisedHeadLearnsTheWeightThatItHas) {
  // Multiplied weights are not normalised: the loss is -log(M p) of the head, and not of M p / sum M p.
  const Tensor x = kit::normal({4, 8}, DType::f64, 5);
  const auto columns = dependency(kDep4);
  const TreeAttention attention("{type: tree, weight: exp, apply: multiply_weights, supervise: 1}");
  const Tensor weights = attention.maps(x, columns).weights;
  double want = 0;
  for (int64_t i = 0; i < 4; ++i)
    if (const int32_t head = kDep4[size_t(i)]) want -= std::log(value_at(weights, i * 4 + head - 1)) / 3;
  Tape tape;
  const Pass pass = pass_of(columns);
  attention.mixer->forward({Var(x), Sequences::single(4), nullptr, pass});
  EXPECT_NEAR(value_at(pass.losses().at("tree").value(), 0), want, 1e-6);
}

// oracle: syn.mask_mul
TEST(Tree, LiteralProductRaisesNegativeLogits) {
  // Logits (-4, 0) with M = (0.5, 1), and 0 everywhere: uniform.
  const Tensor q = tensor_of({1, 1}, std::vector<double>{1}), k = tensor_of({2, 1}, std::vector<double>{-4, 0}),
               v = tensor_of({2, 1}, std::vector<double>{1, 0});
  const auto weight = [&](std::vector<double> m, bool given) {
    AttendOptions o{.heads = 1, .kv_heads = 1, .scale = 1};
    if (given) o.bias.pairs = tensor_of({2}, m), o.bias.pair_offsets = {0}, o.bias.pairs_multiply = true;
    return value_at(attend(q, k, v, Sequences::single(1), Sequences::single(2), o).value(), 0);
  };
  EXPECT_NEAR(weight({}, false), 0.017986, 1e-6);
  EXPECT_NEAR(weight({0.5, 1}, true), 0.119203, 1e-6);
  EXPECT_NEAR(weight({0, 0}, true), 0.5, 1e-12);
}

// M multiplies all of ((q + u^q)(k + u^k)) / sqrt(d_h): what adds to it apart stays outside, parts of it cannot.
TEST(Tree, MultipliesLogitsAsAWholeOrNotAtAll) {
  const auto refused = [](const std::string& mixer, const std::string& position) {
    const ModelConfig config = kit::model_config(cat(
        "{architecture: encoder, hidden_size: 16, num_hidden_layers: 1, vocab_size: 17, max_position_embeddings: 13, "
        "mixer: ",
        mixer, ", position: ", position, "}"));
    return kit::coded_error_of([&] { Model(config, kit::kMeta); });
  };
  for (const char* apply : {"multiply_logits", "log_add"})
    for (const std::string& tree : {cat("{type: tree, weight: exp, apply: ", apply, "}")})
      for (const std::string& mixer :
           {cat("{type: attention, num_attention_heads: 2, field: ", tree, "}"),
            cat("{type: branch_attention, num_attention_heads: 2, syntax: ", tree, "}"),
            cat("{type: branch_attention, num_attention_heads: 2, share: false, syntax: ", tree, "}")}) {
        for (const char* position : {"rpr", "{type: rpr, use_q: true, use_k: false}", "xl"}) {
          const std::string why = refused(mixer, position);
          const bool told = why.find("2 model: the position adds products of queries or keys") != std::string::npos;
          EXPECT_EQ(told, std::string(apply) == "multiply_logits") << mixer << position << why;
        }
        for (const char* position : {"{type: rpr, use_k: false}", "alibi", "t5_bias", "rotary"})
          EXPECT_EQ(refused(mixer, position), "no error") << mixer << position;
      }
  EXPECT_NE(refused("{type: attention, num_attention_heads: 2, field: {type: per_head, fields: [{type: tree, weight: "
                    "exp, apply: add}, full]}}",
                    "none")
                .find("give the tree alone as the field, with heads: [0]"),
            std::string::npos);
}

// oracle: syn.head_guided
TEST(Tree, OnlyNamedHeadsHaveTheMask) {
  const Tensor x = kit::normal({9, 8}, DType::f64, 3);
  const auto columns = dependency({2, 0, 2, 3, 4, 2, 6, 7, 2});
  for (const char* mask : {"", ", weight: exp, apply: add", ", apply: multiply_logits"}) {
    const TreeAttention some(cat("{type: tree, heads: [1]", mask, "}"), 2), all(cat("{type: tree", mask, "}"), 2),
        none("full", 2);
    const auto maps = [&](const TreeAttention& a) { return a.maps(x, columns).weights; };
    const Tensor mixed = maps(some), masked = maps(all), plain = maps(none);
    EXPECT_EQ(kit::bit_difference(clone(mixed.slice(0, 9)), clone(plain.slice(0, 9))), "") << mask;
    EXPECT_EQ(kit::bit_difference(clone(mixed.slice(9, 18)), clone(masked.slice(9, 18))), "") << mask;
    EXPECT_NE(kit::bit_difference(masked, plain), "") << mask;
    EXPECT_LT(kit::largest_difference(TreeAttention(cat("{type: tree, heads: [0, 1]", mask, "}"), 2)(x, columns),
                                      all(x, columns)),
              1e-12);
  }
}

// oracle: syn.mask_add, syn.mask_mul, syn.mask01
TEST(Tree, CausalModelsReadTheTreeSoFar) {
  // Heads stand before their words: what is known at a word are the distances of the whole tree.
  const std::vector<int32_t> heads{0, 1, 1, 3, 2, 5, 1, 4, 8};
  const Tensor x = kit::normal({9, 8}, DType::f64, 6);
  const auto columns = dependency(heads);
  const Tensor logits = TreeAttention("full", 1, true).maps(x, columns).logits;
  WordTree tree{.word_of = {0, 1, 2, 3, 4, 5, 6, 7, 8}, .heads = {heads}, .leaves = {}, .parser = {}};
  for (const char* apply : {"add", "multiply_logits", "log_add", "multiply_weights", "hard"})
    for (const char* weight : {"{weight: within, max_distance: 2", "{weight: exp, tau: 3"}) {
      const bool exp = std::string(weight).find("exp") != std::string::npos;
      if (exp && std::string(apply) == "hard") continue;
      const std::string options = cat(weight, ", apply: ", apply, "}");
      const std::vector<double> m = mask_of(options, tree);
      const Tensor got = TreeAttention("{type: tree, " + options.substr(1), 1, true).maps(x, columns).weights;
      for (int64_t i = 0; i < 9; ++i) {
        std::vector<double> want(9, 0);
        double sum = 0;
        for (int64_t j = 0; j <= i; ++j) {
          const double of = m[size_t(i * 9 + j)], s = value_at(logits, i * 9 + j);
          const std::string how = apply;
          want[size_t(j)] = how == "add"               ? std::exp(s + of)
                            : how == "multiply_logits" ? std::exp(s * of)
                            : how == "hard"            ? (of > 0) * std::exp(s)
                                                       : of * std::exp(s);
          sum += how == "multiply_weights" ? std::exp(s) : want[size_t(j)];
        }
        for (int64_t j = 0; j < 9; ++j)
          EXPECT_NEAR(value_at(got, i * 9 + j), want[size_t(j)] / sum, 1e-6) << options << i << j;
      }
    }
}

// oracle: sparse.hybrid_heads, sparse.hybrid_union
TEST(Tree, StandsInListsOfFields) {
  const Tensor x = kit::normal({9, 8}, DType::f64, 7);
  auto columns = dependency({2, 0, 2, 3, 4, 2, 6, 7, 2});
  for (const bool causal : {false, true}) {
    const auto of = [&](const std::string& field) { return TreeAttention(field, 2, causal)(x, columns); };
    const auto same = [&](const std::string& a, const std::string& b) {
      EXPECT_LT(kit::largest_difference(of(a), of(b)), 1e-12) << a << " and " << b;
    };
    same("{type: per_head, fields: [tree, full]}", "{type: tree, heads: [0]}");
    same("{type: per_head, fields: [full, {type: tree, max_distance: 2}], heads: [0, 1]}",
         "{type: tree, max_distance: 2, heads: [1]}");
    same("{type: union, fields: [tree, {type: tree, max_distance: 2}]}", "{type: tree, max_distance: 2}");
    same("{type: union, fields: [tree, {type: span, left: 0}]}", "tree");
    same("{type: union, fields: [tree, full]}", "full");
    EXPECT_GT(kit::largest_difference(of("{type: union, fields: [tree, {type: global, tokens: 1}]}"), of("tree")),
              1e-3);
  }
  EXPECT_THROW(TreeAttention("{type: union, fields: [{type: tree, weight: exp, apply: add}]}"), Error);
}

TEST(Tree, PiecesShareTheirWordAndSpecialsMeetAll) {
  // [CLS] a a b c [SEP]: a hangs on b, c on b.
  const std::map<std::string, Tensor> columns{{"word", tensor_of({6}, std::vector<int32_t>{-1, 0, 0, 1, 2, -1})},
                                              {"head", tensor_of({6}, std::vector<int32_t>{-1, 2, 2, 0, 2, -1})}};
  const Tensor x = kit::normal({6, 8}, DType::f64, 4);
  for (const char* field : {"tree", "{type: tree, apply: log_add}"}) {
    const MixerMaps maps = TreeAttention(field).maps(x, columns);
    const std::vector<std::string> want{"111111", "111101", "111101", "111111", "100111", "111111"};
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 6; ++j)
        EXPECT_EQ(value_at(maps.weights, i * 6 + j) > 0, want[size_t(i)][size_t(j)] == '1') << field << i << j;
  }
}

TEST(Tree, ConstituencyFromDepths) {
  // (S (NP It) (VP 's (ADJP interesting)) .) with the parts of speech left out: see tests/trees.
  const std::map<std::string, Tensor> columns{{"word", tensor_of({4}, std::vector<int32_t>{0, 1, 2, 3})},
                                              {"depth", tensor_of({4}, std::vector<int32_t>{3, 3, 4, 2})},
                                              {"common", tensor_of({4}, std::vector<int32_t>{1, 2, 1, 0})}};
  const Tensor x = kit::normal({4, 8}, DType::f64, 4);
  const MixerMaps maps = TreeAttention("{type: tree, tree: constituency, max_distance: 5}").maps(x, columns);
  const std::vector<std::string> want{"1001", "0111", "0110", "1101"};
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_EQ(value_at(maps.weights, i * 4 + j) > 0, want[size_t(i)][size_t(j)] == '1') << i << j;
}

TEST(Tree, RefusesWhatDoesNotGoTogether) {
  const auto refused = [](const std::string& field, const std::string& why) {
    try {
      TreeAttention made(field);
      ADD_FAILURE() << field;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      EXPECT_EQ(error.code(), ExitCode::usage);
    }
  };
  refused("{type: tree, weight: exp}", "apply hard hides by 0 and 1");
  refused("{type: tree, tree: parser}", "do not go together");
  refused("{type: tree, weight: zscore, apply: log_add}", "set squash: sigmoid");
  refused("{type: tree, tau: 2}", "tau is of exp");
  refused("{type: tree, heads: [3]}", "there is no head 3");
  refused("{type: tree, tree: constituency, supervise: 1}", "set tree: dependency");
  const auto refused_causal = [](const std::string& field, const std::string& why) {
    try {
      TreeAttention made(field, 1, true);
      ADD_FAILURE() << field;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      EXPECT_EQ(error.code(), ExitCode::usage);
    }
  };
  refused_causal("{type: tree, weight: zscore, apply: add}", "statistics of all words");
  refused_causal("{type: tree, weight: inv_row, apply: log_add}", "statistics of all words");
  refused_causal("{type: tree, weight: exp, apply: add, normalise_rows: true}", "the sum over all words");
  refused_causal("{type: tree, weight: linear, apply: add}", "set max_distance");
  refused_causal("{type: tree, tree: parser, weight: probability, apply: add}", "has only read a part");
  EXPECT_THROW(TreeAttention("tree")(kit::normal({2, 8}, DType::f64, 1), {}), Error);
}

}  // namespace
}  // namespace lithe
