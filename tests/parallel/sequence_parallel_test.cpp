// Tokens of a sequence over ranks are those of one process.
#include "lithe/parallel/ring_attention.h"

#include "lithe/ops/basic.h"
#include "tests/parallel/divided_kit.h"

namespace lithe {
namespace {

std::string text_model(const std::string& mixer, const std::string& more = "") {
  return "{vocab_size: 61, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 32, mixer: {" + mixer +
         "}, ffn: {type: swiglu, intermediate_size: 24}" + more + "}";
}

// oracle: hpc.parallel
TEST(RingAttention, EqualsAttentionOfWholeSequences) {
  set_threads(1);
  for (const bool causal : {true, false}) {
    const std::vector<int64_t> offsets{0, 7, 9, 21};
    const Sequences whole(offsets);
    const auto random = [&](int64_t cols, uint64_t seed) { return kit::normal({21, cols}, DType::f64, seed); };
    const AttendOptions options{.heads = 4, .kv_heads = 2, .mask = {.causal = causal}};
    const Tensor q = random(12, 1), k = random(6, 2), v = random(10, 3), dy = random(20, 4);
    Tensor want, dq, dk, dv;
    {
      const Var a = Var::leaf(q), b = Var::leaf(k), c = Var::leaf(v);
      Tape tape;
      const Var y = attend(a, b, c, whole, whole, options);
      want = y.value();
      tape.backward(y, dy);
      dq = a.grad(), dk = b.grad(), dv = c.grad();
    }
    for (const int count : {2, 3}) {
      run_local_ranks(count, [&](Communicator& ranks) {
        const Group group{&ranks, ranks.rank(), count};
        std::vector<int64_t> rows, mine{0};
        for (int64_t b = 0; b < 3; ++b) {
          const int64_t length = whole.length(b);
          for (int64_t t = length * group.rank / count; t < length * (group.rank + 1) / count; ++t)
            rows.push_back(whole.offset(b) + t);
          mine.push_back(int64_t(rows.size()));
        }
        const auto part = [&](const Tensor& x) { return pick_rows(Var(x), rows).value(); };
        const Var a = Var::leaf(part(q)), b = Var::leaf(part(k)), c = Var::leaf(part(v));
        Tape tape;
        const Sequences own(mine);
        const Var y = ring_attend(a, b, c, own, rows_of_ranks(own, group), options, group);
        const auto near = [&](const Tensor& got, const Tensor& all) {
          const Tensor expected = part(all);
          for (int64_t i = 0; i < got.numel(); ++i)
            ASSERT_NEAR(value_at(got, i), value_at(expected, i), 1e-12) << causal << count << " " << i;
        };
        near(y.value(), want);
        tape.backward(y, part(dy));
        near(a.grad(), dq);
        near(b.grad(), dk);
        near(c.grad(), dv);
      });
    }
  }
}

// oracle: hpc.parallel
TEST(SequenceParallel, TokensEqualOneProcess) {
  kit::expect_equal_courses(text_model("type: attention, num_attention_heads: 4"), "{sequence: 2}");
  kit::expect_equal_courses(
      text_model("type: attention, num_attention_heads: 4, heads: {type: gqa, num_key_value_heads: 2}",
                 ", position: learned"),
      "{sequence: 3}");
  kit::expect_equal_courses(text_model("type: attention, num_attention_heads: 4, heads: mhe_mul"), "{sequence: 2}",
                            "gradient_checkpointing: true");
}

TEST(SequenceParallel, OtherMixersRunOnGatheredRows) {
  kit::expect_equal_courses(text_model("type: gru"), "{sequence: 2}");
  kit::expect_equal_courses(text_model("type: retention, num_attention_heads: 4"), "{sequence: 3}");
  kit::expect_equal_courses(text_model("type: attention, num_attention_heads: 4, field: {type: span, left: 3}"),
                            "{sequence: 2}");
}

TEST(SequenceParallel, GoesWithTheOtherForms) {
  kit::expect_equal_courses(text_model("type: attention, num_attention_heads: 4"), "{sequence: 2, tensor: 2}");
  kit::expect_equal_courses(text_model("type: attention, num_attention_heads: 4"), "{sequence: 2, pipeline: 2}", "", 50,
                            3);
}

TEST(SequenceParallel, RefusesWhatItHasNoRuleFor) {
  const auto refuses = [](const std::string& model, const char* why) {
    const Layout layout({.sequence = 2}, 0);
    const Layout::Use use(&layout);
    kit::expect_error([&] { const Model made(kit::model_config(model), kit::kMeta); }, why);
  };
  refuses(text_model("type: gru", ", hidden_dropout: 0.1"), "needs hidden_dropout 0");
  refuses(text_model("type: gru", ", stack: reversible"), "stack plain");
  const std::string attention = "type: attention, num_attention_heads: 4, ";
  refuses(text_model(attention + "heads: static_emb_qk, field: {type: span, left: 3}"), "reads the embedded rows");
  refuses(text_model("type: fixed_seq_qk, num_attention_heads: 4"), "reads a reference sequence");
  refuses(text_model("type: rnd_emb_qk, num_attention_heads: 4"), "reads a reference sequence");
  refuses(text_model(attention + "map: own",
                     ", layers: {own: {}, again: {mixer: {type: attention, num_attention_heads: 4, map: below}}}, "
                     "layer_types: [own, again]"),
          "reads the attention map of another layer");
}

// Queries and keys of the embedded rows go around the ring as others do.
TEST(SequenceParallel, EmbeddedRowsAreThoseOfTheRank) {
  kit::expect_equal_courses(text_model("type: attention, num_attention_heads: 4, heads: static_emb_qk"),
                            "{sequence: 2}");
}

// Each rank runs the mixer on all rows, and has its losses: they count once.
TEST(SequenceParallel, LossesOfAGatheredMixerCountOnce) {
  kit::expect_equal_courses(
      text_model("type: attention, num_attention_heads: 4, field: {type: local, window: 8, form: adaptive, "
                 "span_penalty: 0.5}"),
      "{sequence: 2}");
}

}  // namespace
}  // namespace lithe
