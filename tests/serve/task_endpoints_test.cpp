// Models of tasks and of translation behind HTTP, of random weights over bytes.
#include "lithe/model/model.h"
#include "tests/serve/serve_kit.h"

namespace lithe {
namespace {

class TaskEndpointsTest : public ServeTest {
 protected:
  void add_run(const std::string& name, const std::string& model, const std::string& recipe) {
    const Path run = kit_.scratch.path() / name;
    make_directory(run);
    const Model made(read_model_config(parse_yaml(
                         cat("{vocab_size: 257, hidden_size: 16, num_hidden_layers: 1, max_position_embeddings: 32, "
                             "position: learned, mixer: {type: attention, num_attention_heads: 2}, init: {std: 0.5}, ",
                             model, "}"),
                         "test")),
                     ModelOptions{});
    save_config(made.config(), run / "config.json");
    save_weights(made, run / "model.safetensors");
    save_tokenizer(*make_byte_tokenizer(), run);
    write_file(run / "resolved_recipe.yaml", recipe);
    models_.push_back(std::make_unique<ServedModel>(run, ServeOptions{}));
  }
};

TEST_F(TaskEndpointsTest, TextsAreClassifiedAndTranslated) {
  add_run("classes",
          "architecture: encoder, head: {type: classify, pooling: mean, dense: false}, num_labels: 2, label_names: "
          "[bad, good]",
          "task: {format: label_text, train: [none.txt]}\ndata: {sequence_length: 32}\ntrain: {objective: task}\n");
  add_run("translator", "architecture: encoder_decoder", "translate: {num_beams: 2}\n");
  listen();
  for (const char* path : {"/v1/classify", "/classify"}) {
    const Json said = post(path, R"({"input": ["a film", "x", "a film"]})");
    ASSERT_EQ(said["data"].size(), 3u) << said;
    EXPECT_EQ(said["data"][1]["index"], 1);
    EXPECT_EQ(said["usage"]["prompt_tokens"], 13);
    const Json& first = said["data"][0];
    EXPECT_TRUE(first["label"] == "bad" || first["label"] == "good") << first;
    EXPECT_EQ(first["probabilities"], said["data"][2]["probabilities"]);
    EXPECT_EQ(first["probabilities"].size(), 2u);
  }
  EXPECT_NE(refused("/classify", R"({"input": ["a", ")" + std::string(40, 'a') + "\"]}").find("than the 32 that"),
            std::string::npos);
  EXPECT_NE(refused("/classify", R"({"model": "translator", "input": "a"})").find("learnt no task of texts"),
            std::string::npos);
  EXPECT_NE(refused("/v1/completions", R"({"prompt": "a"})").find("ask it for /v1/classify"), std::string::npos);

  const Json two = post("/v1/translations", R"({"model": "translator", "input": ["one", "another"], "n": 2})");
  ASSERT_EQ(two["data"].size(), 2u) << two;
  const Json& both = two["data"][0]["translations"];
  ASSERT_EQ(both.size(), 2u);
  EXPECT_GE(both[0]["score"].get<double>(), both[1]["score"].get<double>());
  const Json one = post("/v1/translations", R"({"model": "translator", "input": "another"})");
  EXPECT_EQ(one["data"][0]["translations"][0], two["data"][1]["translations"][0]);
  EXPECT_NE(refused("/v1/translations", R"({"input": "a"})").find("'classes' does not translate"), std::string::npos);
}

}  // namespace
}  // namespace lithe
