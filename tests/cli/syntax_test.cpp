// Treebanks, parsers and translators that read trees, as a person meets them.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "lithe/base/error.h"
#include "lithe/base/files.h"
#include "lithe/base/json.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

class Syntax : public kit::ProgramTest {};

std::vector<std::string> lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

TEST_F(Syntax, AParserLearnsWritesTreesAndATranslatorReadsThem) {
  kit::Scratch scratch;
  const std::string run = scratch / "parser", trees = "recipes/head/trees.conllu";
  const Finished trained =
      run_program({"train", "recipes/head/biaffine.yaml", "--out", run, "--set", "train.max_steps=150"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Finished scored = run_program({"eval", run, trees, "--json"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  const Json json = parse_json(scored.out, "eval");
  EXPECT_GT(json["uas"].get<double>(), 0.9) << scored.out;

  const std::string text = scratch.add("en.txt", "the dog sees the cat.\nthe cat sees the dog.\n");
  const Finished parsed = run_program({"predict", run, "--conllu", "--probabilities", text});
  ASSERT_EQ(parsed.code, 0) << parsed.err;
  const auto rows = lines(parsed.out);
  ASSERT_EQ(rows.size(), 14u);
  EXPECT_NE(rows[5].find("HeadProbability="), std::string::npos);
  EXPECT_NE(rows[4].find("SpaceAfter=No"), std::string::npos) << rows[4];
  const std::string treebank = scratch.add("en.conllu", parsed.out), target = scratch.add("de.txt", "a b\nb a\n");
  const Finished checked = run_program({"tokenize", run, "--trees", treebank, "--check"});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_EQ(checked.out, "2 sentences, no problem\n");
  const std::string odd = scratch.add("odd.conllu",  // a word of which the tokenizer leaves nothing
                                      "1\tdog\t_\tX\t_\t_\t0\troot\t_\t_\n2\t\u200B\t_\tX\t_\t_\t1\tdep\t_\t_\n\n");
  const Finished no_token = run_program({"tokenize", run, "--trees", odd, "--check"});
  EXPECT_EQ(no_token.code, 1);
  ASSERT_EQ(lines(no_token.err).size(), 1u) << no_token.err;
  EXPECT_TRUE(lines(no_token.err)[0].starts_with(odd + ":1: word 2 '")) << no_token.err;

  for (const char* field :
       {"{type: tree, max_distance: 2}", "{type: tree, tree: parser, weight: probability, apply: log_add}"}) {
    const std::string recipe = scratch.add(
        "trees.yaml", cat("model: {architecture: encoder_decoder, hidden_size: 16, num_hidden_layers: 1, "
                          "mixer: {type: attention, num_attention_heads: 2}, share_encoder_decoder_embeddings: false, "
                          "encoder: {embedding: {type: tag_sum, tags: [deprel]}, mixer: {type: attention, "
                          "num_attention_heads: 2, field: ",
                          field, "}}}\ntranslation: {train: {source_trees: [\"", treebank, "\"], target: [\"", target,
                          "\"]}}\ndata: {sequence_length: 32, tokenizer: {type: bytes}, cache_directory: \"",
                          scratch / "cache", "\"}\ntrain: {objective: seq2seq, max_steps: 5, batch_tokens: 256}\n"));
    const std::string out = scratch / "trees";
    const Finished translator = run_program({"train", recipe, "--out", out, "--overwrite"});
    ASSERT_EQ(translator.code, 0) << translator.err;
    const Finished translated = run_program({"translate", out, treebank, "--max-new-tokens", "4"});
    EXPECT_EQ(translated.code, 0) << translated.err;
    EXPECT_EQ(lines(translated.out).size(), 2u);
    expect_error({"translate", out, text}, 2, "of a treebank");
  }
}

TEST_F(Syntax, WhatIsWrongWithATreebankIsSaidLineByLine) {
  kit::Scratch scratch;
  kit::train_small_run(scratch,
                       "{hidden_size: 8, num_hidden_layers: 1, mixer: {type: attention, num_attention_heads: 1}}");
  const std::string bad = scratch.add("bad.conllu",
                                      "1\ta\t_\tX\t_\t_\t2\tdep\t_\t_\n2\tb\t_\tX\t_\t_\t1\tdep\t_\t_\n\n"
                                      "1\tc\t_\tX\t_\t_\t0\troot\t_\t_\n3\td\t_\tX\t_\t_\t1\tdep\t_\t_\n\n"
                                      "1\te\t_\tX\t_\t_\t0\troot\t_\t_\n\n");
  const Finished f = run_program({"tokenize", scratch / "run", "--trees", bad});
  EXPECT_EQ(f.code, 1);
  EXPECT_EQ(lines(f.err), (std::vector<std::string>{
                              bad + ":1: no word is the root: none has the head 0",
                              bad + ":5: the id must be 2, the next word of the sentence, got 3; sentences stand "
                                    "between empty lines"}));
  EXPECT_NE(f.out.find("e"), std::string::npos);
  const std::string brackets = scratch.add("it.ptb", "(S (NP (PRP It)) (VP (VBZ 's) (ADJP (JJ interesting))) (. !))\n");
  const Finished linear = run_program({"tokenize", scratch / "run", "--trees", brackets, "--linear"});
  EXPECT_EQ(linear.out, "(S (NP (PRP It )PRP )NP (VP (VBZ 's )VBZ (ADJP (JJ interesting )JJ )ADJP )VP (. ! ). )S\n");
  expect_error({"tokenize", scratch / "run", "--check"}, 2, "--check is of treebanks");
}

// Variants may read a treebank in their own ways, the baseline not at all: translators and taggers.
TEST_F(Syntax, ComparesModelsWithAndWithoutTrees) {
  kit::Scratch scratch;
  std::string target;
  for (int i = 0; i < 24; ++i) target += cat("ein Hund ", i, "\n");
  const std::string bank = scratch.add("bank.conllu", read_file("recipes/head/trees.conllu"));
  const auto texts = [&](const std::string& trees, const std::string& name) {
    return cat("{source_trees: [\"", trees, "\"], target: [\"", scratch.add(name, target), "\"]}");
  };
  const std::string translator =
      scratch.add("translator.yaml",
                  cat("model: {architecture: encoder_decoder, hidden_size: 16, num_hidden_layers: 1, mixer: {type: "
                      "attention, num_attention_heads: 2}, share_encoder_decoder_embeddings: false}\n"
                      "translation: {train: ",
                      texts("recipes/head/trees.conllu", "de.txt"), ", test: ", texts(bank, "test.de"),
                      "}\ndata: {sequence_length: 64, tokenizer: {type: bytes}, cache_directory: \"", scratch / "cache",
                      "\"}\ntrain: {objective: seq2seq, max_steps: 3, batch_tokens: 512}\n"));
  const std::string of_encoder =
      "baseline: plain\nvariants:\n  plain: {}\n"
      "  tags: {model.encoder.embedding: {type: tag_sum, tags: [upos]}}\n"
      "  joint: {model.encoder.embedding: {type: input_joint, tags: [upos]}}\n"
      "  tree: {model.encoder.mixer: {type: attention, num_attention_heads: 2, field: tree}}\n"
      "measure: {sentences: 2, repeats: 1, train_steps: 1}\nbudget: {match: none}\n";
  const std::string of_model =
      cat("baseline: plain\nvariants:\n  plain: {model.mixer.field: full}\n"
          "  tags: {model.mixer.field: full, model.embedding: {type: tag_sum, tags: [upos]}}\n"
          "  tree: {}\nmeasure: {repeats: 1, train_steps: 1}\nbudget: {match: none}\n"
          "set: {train.max_steps: 3, task.test: [\"",
          bank, "\"], model.mixer.field: {type: tree}}\n");
  const std::string tagger = std::filesystem::absolute("recipes/field/tree.yaml");
  for (const auto& [recipe, variants] : {std::pair{translator, of_encoder}, {tagger, of_model}}) {
    const std::string file = scratch.add("forms.yaml", cat("recipe: \"", recipe, "\"\n", variants));
    const Finished f = run_program({"compare", file, "--out", scratch / "forms", "--overwrite"});
    EXPECT_EQ(f.code, 0) << recipe << ": " << f.err;
    EXPECT_NE(f.out.find("tree"), std::string::npos) << f.out;
  }
}

// A task whose model reads tags and trees: trained, resumed to the bit, evaluated.
TEST_F(Syntax, TasksReadColumns) {
  kit::Scratch scratch;
  for (const char* recipe :
       {"recipes/embedding/tag_sum.yaml", "recipes/embedding/tag_ffn.yaml", "recipes/embedding/input_joint.yaml",
        "recipes/field/tree.yaml", "recipes/mixer/branch_attention.yaml"}) {
    const std::string out = scratch / "run";
    const Finished f = run_program({"train", recipe, "--out", out, "--overwrite", "--set", "train.max_steps=8"});
    ASSERT_EQ(f.code, 0) << recipe << ": " << f.err;
    const Finished scored = run_program({"eval", out, "recipes/head/trees.conllu"});
    EXPECT_EQ(scored.code, 0) << recipe << ": " << scored.err;
  }
}

// Further encoders read trees and tags of the source where their text is that: mixers, compressors, embeddings.
TEST_F(Syntax, FurtherEncodersReadWhatTheTreebankSays) {
  kit::Scratch scratch;
  std::string target;
  for (int i = 0; i < 24; ++i) target += cat("ein Hund ", i, "\n");
  const std::string trees = "recipes/head/trees.conllu", de = scratch.add("de.txt", target), out = scratch / "run";
  const std::string translator =
      scratch.add("translator.yaml",
                  cat("model: {architecture: encoder_decoder, hidden_size: 16, num_hidden_layers: 1, mixer: "
                      "{type: attention, num_attention_heads: 2}, share_encoder_decoder_embeddings: false, "
                      "combine: sum}\ntranslation: {train: {source_trees: [\"",
                      trees, "\"], target: [\"", de,
                      "\"]}, sources: {syn: {from: source}}}\ndata: {sequence_length: 64, tokenizer: {type: bpe, "
                      "vocab_size: 300}, cache_directory: \"",
                      scratch / "cache", "\"}\ntrain: {objective: seq2seq, max_steps: 2, batch_tokens: 512}\n"));
  const auto train = [&](const std::string& recipe, const std::vector<std::string>& sets) {
    std::vector<std::string> words = {"train", recipe, "--out", out, "--overwrite"};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const Finished f = run_program(words);
    EXPECT_EQ(f.code, 0) << sets[0] << ": " << f.err;
  };
  const std::string tree = "mixer: {type: attention, num_attention_heads: 2, field: {type: tree}}";
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{cat("model.encoders={syn: {", tree, "}}")},
        {cat("model.encoders={syn: {", tree, "}}"), cat("model.encoder={", tree, "}")},
        {"model.encoders={syn: {embedding: {type: tag_sum, tags: [upos]}}}"},
        {"model.encoders={syn: {embedding: {type: input_joint, tags: [upos]}}}",
         "model.encoder={embedding: {type: tag_sum, tags: {upos: [VERB]}}}"},
        {"model.encoders={syn: {layers: {short: {compressor: {type: pool, spans: span}}}, layer_types: [short]}}",
         "model.combine={type: concat_len, mixer: {type: attention, num_attention_heads: 2}}"}}) {
    train(translator, sets);
    const Finished scored = run_program({"eval", out, trees, de});
    EXPECT_EQ(scored.code, 0) << sets[0] << ": " << scored.err;
    const Finished translated = run_program({"translate", out, trees, "--max-new-tokens", "3"});
    EXPECT_EQ(translated.code, 0) << sets[0] << ": " << translated.err;
    EXPECT_EQ(lines(translated.out).size(), 24u);
  }
  const std::string other = scratch.add("other.txt", target);
  expect_error(
      {"train", translator, "--out", out, "--overwrite", "--set",
       cat("translation.train.sources={syn: [\"", other, "\"]}"), "--set", "translation.sources={syn: {from: file}}",
       "--set", "model.combine={type: concat_len, mixer: {type: attention, num_attention_heads: 2}}", "--set",
       cat("model.encoders={syn: {", tree, "}}")},
      2, "the encoder syn reads the columns word, head of a treebank");
  for (const char* embedding : {"tag_sum", "tag_ffn", "input_joint"}) {
    train("recipes/field/tree.yaml", {cat("model.encoders={syn: {embedding: {type: ", embedding, ", tags: [upos]}}}"),
                                      "model.combine=sum", "model.mixer.field=full", "train.max_steps=2"});
    EXPECT_EQ(run_program({"eval", out, trees}).code, 0) << embedding;
  }
  train("recipes/field/tree.yaml", {"model.encoders={syn: {embedding: {type: tag_sum, tags: {upos: [NOUN, VERB]}}}}",
                                    "model.combine=sum", "train.max_steps=2"});
  train("recipes/field/tree.yaml",
        {cat("model.mixer={type: cnn_branch, attention: {type: attention, num_attention_heads: 2, field: tree}}"),
         "train.max_steps=2"});
  expect_error({"inspect", out, "--text", "the dog"}, 2, "reads the columns word, head of a treebank");
  const std::string bank = scratch.add("bank.conllu", read_file(trees));
  const Finished tagged = run_program({"predict", out, bank});
  EXPECT_EQ(tagged.code, 0) << tagged.err;
  EXPECT_EQ(lines(tagged.out).size(), 24u);
  // No sentence is lost without a word.
  const std::string nine = scratch.add("nine.conllu", read_file(trees) + "1\tdog\t_\tX\t_\t_\t0\troot\t_\n\n");
  expect_error({"predict", out, "--conllu", nine}, 1, "a line of CoNLL-U has 10 columns between tabs, got 9");
  const std::string brackets = scratch.add("it.ptb", "(S (NP (PRP It)) (VP (VBZ 's) (ADJP (JJ odd))) (. !))\n");
  expect_error({"predict", out, "--conllu", brackets}, 1, "it.ptb:1: the sentence has no heads");
}

}  // namespace
}  // namespace lithe
