// Encoder-decoder models: what the decoder reads of the source, published sizes, configuration, and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "lithe/base/json.h"
#include "lithe/nn/registry.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

ModelConfig small(const std::string& more = "") {
  return kit::model_config(
      "{architecture: encoder_decoder, vocab_size: 11, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: "
      "16, mixer: {type: attention, num_attention_heads: 2}}",
      more);
}

std::unique_ptr<Model> build(const ModelConfig& config) {
  auto model = std::make_unique<Model>(config, kit::kExact);
  kit::randomise(model->parameters(), 3);
  return model;
}

ModelInput pair_of(const Tensor& ids, const Tensor& source) {
  ModelInput input{ids, Sequences::single(ids.dim(0))};
  input.sources[kSource] = {source, Sequences::single(source.dim(0))};
  return input;
}

Rows read_rows(const Model& model, const Tensor& ids, const Tensor& source) {
  Pass pass;
  return model.run(pair_of(ids, source), pass);
}

Tensor read(const Model& model, const Tensor& ids, const Tensor& source) {
  return read_rows(model, ids, source).x.value();
}

int64_t count(const std::string& yaml) { return Model(kit::model_config(yaml), kit::kMeta).parameters().count(); }

// ---- sizes

std::string base(const std::string& more) {
  return cat(
      "{architecture: encoder_decoder, vocab_size: 7, hidden_size: 512, position: sinusoidal, norm: layer, ffn: {type: "
      "relu, intermediate_size: 2048}, max_position_embeddings: 16, ",
      more, "}");
}

// oracle: arch.encdec, arch.encoder, arch.decoder
TEST(EncoderDecoder, CountsThePublishedParameters) {
  const auto layers = [](int64_t encoder, int64_t decoder) {
    return count(base(cat("residual: post, num_hidden_layers: ", decoder, ", encoder: {num_hidden_layers: ", encoder,
                          "}, mixer: {type: attention, num_attention_heads: 8}"))) -
           7 * 512;
  };
  EXPECT_EQ(layers(0, 0), 0);
  EXPECT_EQ(layers(1, 0), 3'150'336);
  EXPECT_EQ(layers(0, 1), 4'199'936);
  EXPECT_EQ(layers(6, 0), 18'902'016);
  EXPECT_EQ(layers(0, 6), 25'199'616);
  EXPECT_EQ(layers(6, 6), 44'101'632);
  // A stock library's: biases in attention, and a norm after each stack, as our pre-norm stacks have.
  EXPECT_EQ(count(base("residual: pre, num_hidden_layers: 6, mixer: {type: attention, num_attention_heads: 8, "
                       "attention_bias: true, output_bias: true}")) -
                7 * 512,
            44'140'544);
}

// All attention of N = 12 sub-stacks, output projections included [TH Table 3.3, 3.15].
TEST(EncoderDecoder, CountsTheThesisAttentionParameters) {
  const auto attention = [](const std::string& heads, int64_t layers, int64_t d, int64_t h) {
    const Model model(
        kit::model_config(cat("{architecture: encoder_decoder, vocab_size: 7, num_hidden_layers: ", layers,
                              ", hidden_size: ", d, ", max_position_embeddings: 16, mixer: {type: attention, ",
                              "num_attention_heads: ", h, ", heads: ", heads, "}}")),
        kit::kMeta);
    int64_t total = 0;
    for (const Parameter& p : model.parameters().all())
      if (p.name.find(".mixer.") != std::string::npos || p.name.find(".cross.") != std::string::npos)
        total += p.master.shape().numel();
    return total;
  };
  for (const auto& [heads, published] : std::map<std::string, int64_t>{{"sha", 6'488'064},
                                                                       {"mha", 18'874'368},
                                                                       {"el_att", 9'437'184},
                                                                       {"mqa", 10'616'832},
                                                                       {"skv", 14'155'776},
                                                                       {"mhe_add", 6'515'712},
                                                                       {"mhe_mul", 6'515'712}})
    EXPECT_EQ(attention(heads, 6, 512, 8), published) << heads;
  struct Row {
    int64_t layers, d, h;
    double mha, mhe;
  };
  for (const Row& row : {Row{6, 512, 8, 18.87, 6.52}, Row{6, 512, 16, 18.87, 5.63}, Row{6, 512, 4, 18.87, 8.29},
                         Row{4, 512, 8, 12.58, 4.34}, Row{8, 512, 8, 25.17, 8.69}, Row{6, 768, 12, 42.47, 13.31},
                         Row{6, 1024, 16, 75.50, 22.47}}) {
    const auto millions = [&](const char* heads) {
      return std::round(double(attention(heads, row.layers, row.d, row.h)) / 1e4) / 100;
    };
    EXPECT_EQ(millions("mha"), row.mha) << row.layers << " " << row.d;
    EXPECT_EQ(millions("mhe_mul"), row.mhe) << row.layers << " " << row.d;
  }
  EXPECT_EQ(attention("mha", 8, 1024, 16), 100'663'296);
  EXPECT_EQ(attention("mhe_mul", 8, 1024, 16), 29'958'144);
}

// oracle: arch.decoder
TEST(EncoderDecoder, KeepsTwoRowsATokenOfEachText) {
  const Model model(small(), kit::kMeta);
  const int64_t layers = 2, d = 8, f32 = 4;
  EXPECT_EQ(model.state_bytes({5, 3}, {7, 1}), layers * f32 * (2 * d * (5 + 3) + 2 * d * (7 + 1)));
  EXPECT_EQ(Model(small("cross_attention: {type: attention, num_attention_heads: 2, heads: mqa}"), kit::kMeta)
                .state_bytes({5}, {7}),
            layers * f32 * (2 * d * 5 + d * 7));
}

// ---- the source

// oracle: arch.decoder
TEST(EncoderDecoder, WithoutACrossOutputTheSourceDoesNotMatter) {
  const auto model = build(small());
  const Tensor ids = kit::ids_of({1, 4, 2, 9}), one = kit::ids_of({3, 5, 8}), other = kit::ids_of({7});
  EXPECT_GT(kit::largest_difference(read(*model, ids, one), read(*model, ids, other)), 1e-3);
  for (Parameter& p : model->parameters().all())
    if (p.name.ends_with("cross.output.weight"))
      for (int64_t i = 0; i < p.master.value().numel(); ++i) set_value(p.master.value(), i, 0);
  EXPECT_EQ(kit::bit_difference(read(*model, ids, one), read(*model, ids, other)), "");
}

TEST(EncoderDecoder, ASourceWithoutPositionsMayBePermuted) {
  const auto model = build(small("encoder: {position: none}"));
  const auto plain = build(small());
  const Tensor ids = kit::ids_of({1, 4, 2}), source = kit::ids_of({3, 5, 8, 1}), permuted = kit::ids_of({8, 1, 3, 5});
  EXPECT_EQ(kit::close(read(*model, ids, permuted), read(*model, ids, source), 500), "");
  EXPECT_GT(kit::largest_difference(read(*plain, ids, permuted), read(*plain, ids, source)), 1e-3);
}

// oracle: arch.encdec
TEST(EncoderDecoder, ProbabilitiesOfAllStringsSumToOne) {
  const auto model = build(small("vocab_size: 3"));
  const Tensor source = kit::ids_of({2, 0});
  const auto next = [&](const std::vector<int>& target) {  // the probabilities of the token after `target`
    const Tensor logits = model->logits(read_rows(*model, kit::ids_of(target), source)).value();
    const int64_t last = logits.dim(0) - 1;
    std::vector<double> p;
    double sum = 0;
    for (int64_t v = 0; v < 3; ++v) p.push_back(std::exp(value_at(logits, last * 3 + v))), sum += p.back();
    for (double& x : p) x /= sum;
    return p;
  };
  double finished = 0, unfinished = 0;  // token 1 ends a string
  const std::function<void(std::vector<int>, double)> extend = [&](std::vector<int> target, double probability) {
    if (target.size() == 4) {
      unfinished += probability;
      return;
    }
    const std::vector<double> p = next(target);
    finished += probability * p[1];
    for (const int v : {0, 2}) {
      std::vector<int> longer = target;
      longer.push_back(v);
      extend(longer, probability * p[size_t(v)]);
    }
  };
  extend({0}, 1);
  EXPECT_GT(finished, 0.1);
  EXPECT_NEAR(finished + unfinished, 1, 64 * epsilon_of(DType::f64));
}

TEST(EncoderDecoder, TeacherForcingIsDecodingStepByStep) {
  const auto model = build(small());
  const Tensor target = kit::ids_of({0, 5, 2, 8}), source = kit::ids_of({4, 4, 1});
  const Tensor whole = model->logits(read_rows(*model, target, source)).value();
  const auto state = model->make_state(1, 4);
  model->read_sources(*state, {{kSource, {source, Sequences::single(3)}}});
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 4; ++t)
    rows.push_back(
        kit::logits(*model, clone(target.slice(t, t + 1)), model->continue_sequences(*state, {1}), state.get())
            .value());
  EXPECT_EQ(kit::close(kit::concatenate(rows), whole, 500), "");
  EXPECT_EQ(state->bytes(), model->state_bytes({4}, {3}));
}

// ---- configuration

TEST(EncoderDecoder, TheEncoderMayDifferFromTheDecoder) {
  const Tensor ids = kit::ids_of({1, 4}), source = kit::ids_of({3, 5, 8});
  for (const char* encoder :
       {"{num_hidden_layers: 1}", "{num_hidden_layers: 0}", "{mixer: fnet}", "{mixer: {type: mlp}}",
        "{mixer: {type: attention, num_attention_heads: 4, heads: static_emb_qk}}",
        "{ffn: {type: gelu, intermediate_size: 5}, norm: layer, residual: post}",
        "{position: learned, max_position_embeddings: 3}", "{embedding_norm: true}",
        "{mixers: {a: {type: fnet}, b: {type: linear}}, layer_types: [a, b]}"}) {
    SCOPED_TRACE(encoder);
    const auto model = build(small(cat("encoder: ", encoder)));
    EXPECT_EQ(read(*model, ids, source).shape(), (Shape{2, 8}));
  }
  const auto shallow = build(small("encoder: {num_hidden_layers: 1, mixer: fnet}"));
  EXPECT_EQ(shallow->parameters().find("encoder.layers.1.ffn.up.weight"), nullptr);
  EXPECT_EQ(shallow->parameters().find("encoder.layers.0.mixer.heads.q.weight"), nullptr);
  EXPECT_NE(shallow->parameters().find("decoder.layers.1.cross.heads.q.weight"), nullptr);
  EXPECT_EQ(build(small("encoder: {position: learned, max_position_embeddings: 3}"))->source_limit(), 3);
}

TEST(EncoderDecoder, TheEncodersInitIsOfItsOwnDepthAndKeys) {
  const auto deviation = [](const Model& model, const std::string& name) {
    const std::vector<double> x = kit::values(const_cast<Model&>(model).parameters().find(name)->master.value());
    double squares = 0;
    for (double v : x) squares += v * v;
    return std::sqrt(squares / double(x.size()));
  };
  const char* sizes = "hidden_size: 64, num_hidden_layers: 8";
  const Model model(small(cat(sizes, ", encoder: {num_hidden_layers: 2}")), kit::kExact),
      other(small(cat(sizes, ", encoder: {init: {std: 0.2}}")), kit::kExact);
  // Matrices that feed the residual stream start smaller by sqrt(2 layers); the spread of 4096 draws is below 5 %.
  EXPECT_NEAR(deviation(model, "decoder.layers.0.mixer.output.weight"), 0.02 / 4, 0.05 * 0.02 / 4);
  EXPECT_NEAR(deviation(model, "encoder.layers.0.mixer.output.weight"), 0.02 / 2, 0.05 * 0.02 / 2);
  EXPECT_NEAR(deviation(other, "encoder.layers.0.mixer.heads.q.weight"), 0.2, 0.05 * 0.2);
  EXPECT_NEAR(deviation(other, "decoder.layers.0.mixer.heads.q.weight"), 0.02, 0.05 * 0.02);
}

TEST(EncoderDecoder, HybridsHaveCrossAttentionOfTheirOwn) {
  const std::string mixers =
      "mixers: {simple: {type: nonapprox, num_attention_heads: 2}, full: {type: attention, "
      "num_attention_heads: 4, heads: mhe_mul}}, layer_types: [simple, full]";
  const auto model = build(small(mixers + ", cross_attention: {type: attention, num_attention_heads: 1}"));
  for (const char* layer : {"0", "1"})
    EXPECT_NE(model->parameters().find(cat("decoder.layers.", layer, ".cross.heads.k.weight")), nullptr);
  EXPECT_EQ(read(*model, kit::ids_of({1, 4}), kit::ids_of({3})).shape(), (Shape{2, 8}));
  const std::string refusal = kit::coded_error_of([&] { build(small(mixers)); });
  EXPECT_NE(refusal.find("2 model: slot mixer: part 'nonapprox' has no cross form"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("model.cross_attention: {type: attention}"), std::string::npos) << refusal;
}

TEST(EncoderDecoder, TablesAreSharedAsAsked) {
  const auto names = [](const std::string& more) {
    std::vector<std::string> out;
    const auto model = build(small(more));
    for (const Parameter& p : model->parameters().all())
      if (p.name.find("embedding.") != std::string::npos || p.name.starts_with("head.")) out.push_back(p.name);
    std::sort(out.begin(), out.end());
    return out;
  };
  using Names = std::vector<std::string>;
  const std::string apart = "share_encoder_decoder_embeddings: false, ";
  EXPECT_EQ(names("tie_word_embeddings: true"), Names{"embedding.weight"});
  EXPECT_EQ(names("tie_word_embeddings: false"), (Names{"embedding.weight", "head.weight"}));
  EXPECT_EQ(names(apart + "tie_word_embeddings: true"),
            (Names{"decoder.embedding.weight", "encoder.embedding.weight"}));
  EXPECT_EQ(names(apart + "tie_word_embeddings: false"),
            (Names{"decoder.embedding.weight", "encoder.embedding.weight", "head.weight"}));
  // Two vocabularies.
  const auto model = build(small(apart + "encoder: {vocab_size: 30}"));
  EXPECT_EQ(read(*model, kit::ids_of({10}), kit::ids_of({29})).shape(), (Shape{1, 8}));
  EXPECT_EQ(kit::coded_error_of([] { build(small("encoder: {vocab_size: 30}")); }),
            "2 model: share_encoder_decoder_embeddings needs one vocabulary, the source's has 30 entries, the target's "
            "11; set it to false");
  EXPECT_EQ(kit::coded_error_of([] { build(small("encoder: {embedding: {type: lookup, scale: sqrt_hidden}}")); }),
            "2 model: share_encoder_decoder_embeddings needs one embedding, model.encoder has another (lookup); set it "
            "to false");
}

TEST(EncoderDecoder, ConfigurationsComeBackFromTheirFile) {
  const kit::Scratch scratch;
  const Path file = scratch.path() / "config.json";
  for (const char* more :
       {"", "encoder: {num_hidden_layers: 1, mixer: fnet}", "encoder: {mixers: {a: {type: fnet}}, layer_types: [a, a]}",
        "cross_attention: {type: attention, num_attention_heads: 4, heads: {type: gqa, num_key_value_heads: 2}}",
        "share_encoder_decoder_embeddings: false, encoder: {vocab_size: 30, init: {std: 0.1}}"}) {
    SCOPED_TRACE(more);
    const ModelConfig config = small(more);
    save_config(config, file);
    const std::string first = read_file(file);
    const ModelConfig again = load_config(file);
    save_config(again, file);
    EXPECT_EQ(read_file(file), first);
    const Model a(config, kit::kMeta), b(again, kit::kMeta);
    std::vector<std::string> x, y;
    for (const Parameter& p : a.parameters().all()) x.push_back(cat(p.name, p.master.shape()));
    for (const Parameter& p : b.parameters().all()) y.push_back(cat(p.name, p.master.shape()));
    EXPECT_EQ(x, y);
  }
}

TEST(EncoderDecoder, WrongKeysAreNamedWithTheirPlace) {
  const auto error = [](const std::string& more) { return kit::coded_error_of([&] { build(small(more)); }); };
  const std::string misspelt = error("encoder: {num_hiden_layers: 1}");
  for (const char* part : {"2 ", "test:1:", "num_hiden_layers", "model.encoder", "num_hidden_layers"})
    EXPECT_NE(misspelt.find(part), std::string::npos) << part << " is missing in: " << misspelt;
  const std::string cross = error("cross_attention: {type: attention, num_heads: 2}");
  for (const char* part : {"2 ", "test:1:", "num_heads", "num_attention_heads"})
    EXPECT_NE(cross.find(part), std::string::npos) << part << " is missing in: " << cross;
  for (const char* key : {"hidden_size: 4", "tie_word_embeddings: false", "head: lm", "architecture: decoder",
                          "cross_attention: {type: attention}", "encoder: {}"}) {
    const std::string whole = error(cat("encoder: {", key, "}"));
    EXPECT_NE(whole.find("is the whole model's; give it in section model"), std::string::npos) << whole;
  }
  EXPECT_EQ(error("layer_types: [mixer, mixer], mixers: {mixer: {type: attention}}, encoder: {num_hidden_layers: 1}"),
            "2 model.encoder: model: layer_types has 2 names, num_hidden_layers is 1; give one name a layer");
  for (const char* list : {"encoder: [1]", "encoder: 5", "encoder: text"})
    EXPECT_EQ(error(list).substr(0, 2), "2 ") << error(list);
  for (const char* mixer : {"cross_attention: [1]", "cross_attention: 5", "cross_attention: no_such_mixer"})
    EXPECT_EQ(error(mixer).substr(0, 2), "2 ") << error(mixer);
  for (const char* key : {"encoder: {num_hidden_layers: 1}", "cross_attention: {type: attention}"}) {
    const std::string text = cat("{vocab_size: 3, max_position_embeddings: 4, ", key, "}");
    const std::string lone = kit::coded_error_of([&] { Model(kit::model_config(text), kit::kMeta); });
    EXPECT_NE(lone.find("is for architecture encoder_decoder, not decoder; leave it out"), std::string::npos) << lone;
  }
}

// ---- refusals

TEST(EncoderDecoder, MixersWithoutACrossFormAreRefusedWithTheRemedy) {
  for (const char* mixer :
       {"{type: fnet}", "{type: linear}", "{type: mlp}", "{type: rnd_emb_qk, num_attention_heads: 2}",
        "{type: fixed_seq_qk, num_attention_heads: 2}", "{type: nonapprox, num_attention_heads: 2}"}) {
    const std::string refusal = kit::coded_error_of([&] { build(small(cat("cross_attention: ", mixer))); });
    EXPECT_EQ(refusal.substr(0, 2), "2 ") << refusal;
    EXPECT_NE(refusal.find("cross form"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("model.cross_attention"), std::string::npos) << refusal;
  }
  const std::string dropout = kit::coded_error_of(
      [] { build(small("cross_attention: {type: attention, num_attention_heads: 2, attention_dropout: 0.1}")); });
  EXPECT_NE(dropout.find("2 model: attention_dropout 0.1 has no cross form"), std::string::npos) << dropout;
}

// It takes none, so that one which self-attention alone can take is right.
TEST(EncoderDecoder, CrossAttentionIsNotAskedAboutPositions) {
  for (const char* position : {"alibi", "t5_bias", "xl", "rpr"})
    EXPECT_NO_THROW(
        build(small(cat("position: ", position, ", cross_attention: {type: attention, num_attention_heads: 1}"))))
        << position;
  for (const char* mixer : {"linformer", "conv_kv", "multi_scale"})
    EXPECT_NO_THROW(
        build(small(cat("position: t5_bias, cross_attention: {type: ", mixer, ", num_attention_heads: 2}"))))
        << mixer;
}

// The layers below one that reads a reference sequence run over it too, and it has no source.
TEST(EncoderDecoder, DecodersReadNoReferenceSequenceThatNeedsASource) {
  const auto config = [](int64_t layers) {
    return small(cat("num_hidden_layers: ", layers, ", mixer: {type: rnd_emb_qk, num_attention_heads: 2}, ",
                     "encoder: {mixer: {type: attention, num_attention_heads: 2}}, cross_attention: {type: attention, ",
                     "num_attention_heads: 2}"));
  };
  EXPECT_EQ(kit::coded_error_of([&] { build(config(2)); }),
            "2 model: decoder.layers.1: the reference sequence that this layer reads has no source for the "
            "cross-attention of the layers below; give the decoder another mixer");
  const auto one = build(config(1));
  EXPECT_EQ(read(*one, kit::ids_of({1, 4}), kit::ids_of({3, 2, 2})).shape(), (Shape{2, 8}));
  EXPECT_NE(one->make_state(2, 4), nullptr);
}

TEST(EncoderDecoder, WrongUseSaysTheRemedy) {
  const auto model = build(small());
  const Model lone(kit::model_config("{vocab_size: 11, hidden_size: 8, max_position_embeddings: 16, mixer: {type: "
                                     "attention, num_attention_heads: 2}}"),
                   kit::kExact);
  const Tensor ids = kit::ids_of({1, 2, 3});
  const Sequences one = Sequences::single(3), two({0, 1, 3});
  const ModelInput source{ids, one};
  const std::map<std::string, ModelInput> sources{{kSource, source}};
  const auto fresh = [&](int64_t sequences) { return model->make_state(sequences, 8); };
  const auto error_of_run = [&](const Model& of, const ModelInput& input, DecodeState* state = nullptr) {
    return kit::coded_error_of([&] {
      Pass pass;
      of.run(input, pass, state);
    });
  };
  const auto error_of_encode = [&](const Model& of, const ModelInput& input) {
    return kit::coded_error_of([&] {
      Pass pass;
      of.encode(input, pass);
    });
  };
  EXPECT_EQ(error_of_run(*model, {ids, one}),
            "1 model: an encoder-decoder reads one source a sequence: 1 sequences, got sources of 0");
  EXPECT_EQ(error_of_run(*model, {.tokens = ids, .sequences = two, .sources = sources}),
            "1 model: an encoder-decoder reads one source a sequence: 2 sequences, got sources of 1");
  EXPECT_EQ(error_of_run(lone, {.tokens = ids, .sequences = one, .sources = sources}),
            "1 model: architecture decoder reads no 'source'; give it none");
  EXPECT_EQ(error_of_run(*model, {.tokens = ids, .sequences = one, .sources = {{"syntax", source}}}),
            "1 model: architecture encoder_decoder reads no 'syntax'; give it none");
  EXPECT_EQ(error_of_encode(lone, source), "1 model: architecture decoder has no encoder that reads a source");
  EXPECT_EQ(kit::coded_error_of([&] { lone.read_sources(*lone.make_state(1, 4), sources); }),
            "1 model: architecture decoder reads no 'source'; give it none");
  EXPECT_EQ(error_of_encode(*model, {ids, Sequences({0, 3, 3})}),
            "1 model: source 1 of 2 has no tokens; leave it out, or give it at least one");
  EXPECT_EQ(kit::coded_error_of([&] { model->read_sources(*fresh(2), sources); }),
            "1 model: the state has 2 sequences, got sources of 1; give one source a sequence");
  const auto state = fresh(1);
  EXPECT_EQ(error_of_run(*model, source, state.get()),
            "1 model: the state has no source; give it one by read_sources() first");
  model->read_sources(*state, sources);
  EXPECT_EQ(error_of_run(*model, {.tokens = ids, .sequences = one, .sources = sources}, state.get()),
            "1 model: a state keeps its own sources; give it these by read_sources(), none here");
  kit::forward(*model, ids, one, state.get());  // what was refused left no trace
  EXPECT_EQ(state->bytes(), model->state_bytes({3}, {3}));
  EXPECT_EQ(kit::coded_error_of([&] { model->read_sources(*state, sources); }),
            "1 model: sequence 0 of the state has 3 tokens already, which read another source; make a new state");
  // Sources and targets that are too long, wrong ids, rows of another model.
  const auto few = build(small("position: learned, max_position_embeddings: 2"));
  EXPECT_NE(error_of_encode(*few, source).find("longer than max_position_embeddings 2"), std::string::npos);
  EXPECT_EQ(error_of_encode(*model, {kit::ids_of({11}), Sequences::single(1)}).substr(0, 2), "1 ");
  for (const Rows& other : {Rows{kit::normal({3, 4}, DType::f64, 1), one}, {kit::normal({2, 8}, DType::f64, 1), one}})
    EXPECT_EQ(kit::coded_error_of([&] {
                Pass pass;
                pass.set_source(kSource, other);
                model->run({ids, one}, pass);
              }).substr(0, 2),
              "1 ");
}

}  // namespace
}  // namespace lithe
