#include "lithe/nn/registry.h"

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::string refused(const std::string& yaml) {
  try {
    read_model_config(parse_yaml(yaml, "recipe.yaml"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(Registry, HasEveryPartOnceAndSorted) {
  const Registry& registry = Registry::instance();
  std::pair<std::string, std::string> previous;
  for (const Registry::Entry* entry : registry.all()) {
    const std::pair<std::string, std::string> key{entry->slot, entry->name};
    EXPECT_LT(previous, key);
    previous = key;
    EXPECT_FALSE(entry->info.summary.empty()) << entry->name;
    EXPECT_EQ(&registry.get(entry->slot, entry->name, {}), entry);
  }
  for (const auto& [slot, name] : {std::pair<std::string, std::string>{"mixer", "attention"},
                                   {"heads", "gqa"},
                                   {"position", "rotary"},
                                   {"residual", "res_post"},
                                   {"head", "lm"}})
    EXPECT_EQ(registry.get(slot, name, {}).name, name);
}

TEST(Registry, RefusesASecondPartOfOneName) {
  class Twin final : public Norm {
   public:
    Twin(const Scope&, const NoOptions&, const Args&) {}
    Var forward(const Var& x) const override { return x; }
  };
  EXPECT_THROW((Registry::instance().add<Norm, Twin, NoOptions>("layer", {})), Error);
}

// A mixer for the tests below; it does nothing.
class Still final : public Mixer {
 public:
  Still(const Scope&, const NoOptions&, const Args&) {}
  Var forward(const SubLayerInput& in) const override { return in.x; }
  std::unique_ptr<State> make_state(const StateShape&) const override { return nullptr; }
  int64_t state_bytes(const std::vector<int64_t>&, DType) const override { return 0; }
};

TEST(Registry, PartsWithoutTheFormThatIsNeededAreRefused) {
  Registry& registry = Registry::instance();
  registry.add<Mixer, Still, NoOptions>("both_ways_only", {.summary = "for this test", .causal = false});
  registry.add<Mixer, Still, NoOptions>("causal_only", {.summary = "for this test", .bidirectional = false});
  const auto build = [&](const std::string& name, bool causal) -> std::string {
    try {
      kit::Bench().make<Mixer>(name, {.hidden_size = 4, .causal = causal});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "built";
  };
  EXPECT_EQ(build("both_ways_only", false), "built");
  EXPECT_EQ(build("both_ways_only", true),
            "model: slot mixer: part 'both_ways_only' has no causal form, which this architecture needs; choose "
            "another, or model.architecture: encoder");
  EXPECT_EQ(build("causal_only", true), "built");
  EXPECT_EQ(build("causal_only", false),
            "model: slot mixer: part 'causal_only' has no bidirectional form, which this architecture needs; "
            "choose another, or model.architecture: decoder");
  EXPECT_THROW(
      Model(kit::model_config("{vocab_size: 5, hidden_size: 8, max_position_embeddings: 4, mixer: both_ways_only}"),
            {}),
      Error);
}

TEST(Registry, MisspeltPartsAreNamedWithTheirPlaceAndTheNearest) {
  EXPECT_EQ(refused("hidden_size: 8\nposition: {type: rotory}\n"),
            "recipe: recipe.yaml:2:18: slot position has no part 'rotory'; it has alibi, learned, none, rotary, rpr, "
            "sinusoidal, "
            "t5_bias, xl; "
            "did you mean 'rotary'?");
  // The short form, and a part inside a part.
  EXPECT_EQ(refused("norm: layr\n"),
            "recipe: recipe.yaml:1:7: slot norm has no part 'layr'; it has layer, none, rms; did you mean 'layer'?");
  const std::string inside = refused("mixer:\n  type: attention\n  heads: {type: mga}\n");
  EXPECT_TRUE(inside.starts_with("recipe: recipe.yaml:3:17: slot heads has no part 'mga'; it has ")) << inside;
  EXPECT_TRUE(inside.ends_with("; did you mean 'mha'?") || inside.ends_with("; did you mean 'mqa'?") ||
              inside.ends_with("; did you mean 'gqa'?"))
      << inside;
}

TEST(Registry, MisspeltOptionsAreNamedWithTheirPlaceAndTheNearest) {
  EXPECT_EQ(refused("ffn:\n  type: relu\n  intermediat_size: 4\n"),
            "recipe: recipe.yaml:3:21: unknown key 'intermediat_size' in section 'ffn relu'; did you mean "
            "'intermediate_size'?");
  const std::string inside = refused("mixer: {type: attention, heads: {type: gqa, num_kv_heads: 2}}\n");
  EXPECT_TRUE(inside.starts_with("recipe: recipe.yaml:1:59: unknown key 'num_kv_heads' in section 'heads gqa'"))
      << inside;
  // An option of another part of the slot is as unknown.
  const std::string other = refused("norm: {type: rms, eps_mode: sigma}\n");
  EXPECT_TRUE(other.starts_with("recipe: recipe.yaml:1:29: unknown key 'eps_mode' in section 'norm rms'")) << other;
}

TEST(Registry, ValuesOutsideTheirRuleAreNamedWithTheRule) {
  EXPECT_EQ(refused("norm: {type: layer, eps_mode: sigm}\n"),
            "recipe: recipe.yaml:1:31: 'norm layer.eps_mode' must be one of sigma, variance, got 'sigm'; did you mean "
            "'sigma'?");
  EXPECT_EQ(refused("norm: {type: layer, eps: -1}\n"),
            "recipe: recipe.yaml:1:26: 'norm layer.eps' must be at least 0, got -1");
  EXPECT_EQ(refused("mixer: {type: attention, num_attention_heads: many}\n"),
            "recipe: recipe.yaml:1:47: 'mixer attention.num_attention_heads' must be an integer, got 'many'");
}

TEST(Registry, ChoicesAreFilledInWithTheirDefaults) {
  const ModelConfig config = kit::model_config("{mixer: {type: attention, heads: gqa}, ffn: relu}");
  EXPECT_EQ(config.mixer.type, "attention");
  const Node* heads = config.mixer.options.find("heads");
  ASSERT_NE(heads, nullptr);
  EXPECT_EQ(heads->find("type")->text(), "gqa");
  EXPECT_EQ(heads->find("num_key_value_heads")->text(), "0");
  EXPECT_EQ(config.mixer.options.find("num_attention_heads")->text(), "8");
  EXPECT_EQ(config.ffn.options.find("bias")->text(), "true");
  // Another type drops the options of the default one.
  EXPECT_EQ(config.norm.type, "rms");
  EXPECT_EQ(kit::model_config("{norm: layer}").norm.options.find("eps_mode")->text(), "sigma");
}

TEST(Registry, PartsDescribeTheirFields) {
  const auto fields = Registry::instance().get("mixer", "attention", {}).describe();
  const auto found = [&](const std::string& path) {
    for (const FieldDoc& f : fields)
      if (f.path == path) return f;
    return FieldDoc{};
  };
  EXPECT_EQ(found("num_attention_heads").default_value, "8");
  EXPECT_EQ(found("num_attention_heads").rule, "at least 1");
  EXPECT_EQ(found("heads").type, "part of slot heads");
  EXPECT_EQ(found("scale").rule, "one of sqrt_head_dim, sqrt_hidden");
}

}  // namespace
}  // namespace lithe
