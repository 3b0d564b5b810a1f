// The small tools: initial weights, tokens, losses of tokens, several texts a prompt, completion and manual pages; and
// what plan and train refuse alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/model/safetensors.h"
#include "tests/support/program_test.h"
#include "tests/support/text.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::Finished;
using kit::run_program;

class Tools : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    scratch_->add("text.txt", kit::small_text(3000));
    recipe_ = scratch_->add(
        "recipe.yaml",
        cat("model: {hidden_size: 16, num_hidden_layers: 1, position: learned, mixer: {type: attention, "
            "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 32}}\ndata: {files: [\"",
            *scratch_ / "text.txt",
            "\"], documents: paragraph, validation_fraction: 0.1, sequence_length: 16, cache_directory: \"",
            *scratch_ / "cache",
            "\"}\ntrain: {max_steps: 6, batch_tokens: 64, learning_rate: 0.01, save_steps: 3}\ngenerate: {prompt: "
            "the, max_new_tokens: 6}\n"));
    run_ = *scratch_ / "run";
    ASSERT_EQ(run_program({"train", recipe_, "--out", run_}).code, 0);
  }
  static void TearDownTestSuite() { delete scratch_; }
  static Finished works(const std::vector<std::string>& arguments) {
    Finished f = run_program(arguments);
    EXPECT_EQ(f.code, 0) << arguments[0] << ": " << f.err;
    return f;
  }
  // Both refuse it, for the same reason.
  static void both_refuse(const std::vector<std::string>& set, const std::string& reason) {
    std::vector<std::string> plan = {"plan", "--no-speed", recipe_},
                             train = {"train", recipe_, "--out", *scratch_ / "refused"};
    for (const std::string& key : set)
      for (auto* words : {&plan, &train}) words->insert(words->end(), {"--set", key});
    for (const auto* words : {&plan, &train}) {
      const Finished f = run_program(*words);
      EXPECT_EQ(f.code, 2) << (*words)[0] << " " << set[0] << f.err;
      EXPECT_NE(f.err.find(reason), std::string::npos) << (*words)[0] << " " << set[0] << "\n" << f.err;
    }
  }
  static inline kit::Scratch* scratch_ = nullptr;
  static inline std::string recipe_, run_;
};

TEST_F(Tools, PlanAndTrainRefuseTheSame) {
  both_refuse({"train.batch_tokens=8"}, "must hold at least one sequence");
  both_refuse({"train.batch_tokens=65", "train.gradient_accumulation_steps=2"}, "multiple of gradient_accumulation");
  both_refuse({"model.max_position_embeddings=8"}, "max_position_embeddings 8 is below data.sequence_length 16");
  both_refuse({"model.vocab_size=100", "data.tokenizer.type=bytes"}, "vocab_size 100 is below the tokenizer's 257");
  both_refuse({"train.objective=mlm"}, "objective mlm");
  both_refuse({"train.objective=task"}, "objective task needs a section task");
  both_refuse({"train.objective=seq2seq"}, "belong together");
  both_refuse({"train.parallel.tensor=4294967296"}, "tensor' must be between 1 and 65536");
  both_refuse({"train.parallel.data=4294967298"}, "data' must be between 0 and 65536");
  both_refuse({"train.parallel={tensor: 65536, pipeline: 65536, sequence: 65536, expert: 65536}"},
              "needs more than 65536 ranks");
  both_refuse({"model.architecture=encoder", "data.tokenizer.type=bytes"}, "objective clm predicts the next token");
  both_refuse({"model.head=tag", "model.num_labels=2"}, "objective clm needs model.head lm");
}

// oracle: hpc.parallel
TEST_F(Tools, PlanDividesModelsAmongRanks) {
  const std::vector<std::string> plan{
      "plan", recipe_, "--json", "--set", "train.gradient_accumulation_steps=4", "--set", "train.batch_tokens=256"};
  const auto ranks = [&](std::vector<std::string> more) {
    more.insert(more.begin(), plan.begin(), plan.end());
    return parse_json(works(more).out, "plan")["ranks"];
  };
  const Json divided = ranks({"--ranks", "8", "--set", "train.parallel={tensor: 2}"});
  ASSERT_EQ(divided.size(), 4u);  // a whole model, then 1, 2 and 4 copies
  const int64_t want[] = {1, 2, 4, 8};
  for (size_t i = 0; i < divided.size(); ++i) EXPECT_EQ(divided[i]["ranks"], want[i]);
  EXPECT_EQ(divided[0]["messages"], 0);
  EXPECT_GT(divided[1]["messages"].get<int64_t>(), 0);
  EXPECT_LT(divided[1]["peak_bytes"].get<int64_t>(), divided[0]["peak_bytes"].get<int64_t>());
  const Json proposed = ranks({"--ranks", "4", "--propose"});
  ASSERT_GE(proposed.size(), 3u);  // data, tensor, and both at least
  double before = 0;
  for (const Json& one : proposed) {
    EXPECT_EQ(one["ranks"], 4);
    EXPECT_GE(one["step_seconds"].get<double>(), before);
    before = one["step_seconds"].get<double>();
  }
  const auto refused = [&](std::vector<std::string> more, const std::string& why) {
    more.insert(more.begin(), {"plan", recipe_});
    const Finished f = run_program(more);
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_NE(f.err.find(why), std::string::npos) << f.err;
  };
  refused({"--propose"}, "--propose belongs to --ranks");
  refused({"--ranks", "3", "--set", "train.parallel={tensor: 2}"}, "--ranks 3 is no multiple");
  refused({"--ranks", "4", "--propose", "--memory-budget", "1KiB"}, "no division of 4 ranks");
  refused({"--ranks", "4", "--memory-budget", "1GiB"}, "unless --propose is given");
}

TEST_F(Tools, PlanReadsTheTokenizerAndTheExamplesThatAreHere) {
  works({"plan", "--no-speed", recipe_, "--set", "data.tokenizer={type: file, file: " + run_ + "/tokenizer.json}"});
  scratch_->add("classes.txt", "0 a b\n1 c d\n2 e f\n");
  const std::string recipe = scratch_->add(
      "task.yaml",
      cat("model: {architecture: encoder, hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, "
          "num_attention_heads: 2}}\ntask: {format: label_text, train: [\"",
          *scratch_ / "classes.txt",
          "\"]}\ndata: {tokenizer: {type: bytes}, sequence_length: 16}\ntrain: {objective: task, max_steps: "
          "2, batch_tokens: 64}\n"));
  EXPECT_NE(works({"plan", "--no-speed", recipe}).out.find("bound"), std::string::npos);
  EXPECT_EQ(works({"plan", "--no-speed", recipe}).out.find("decode state"), std::string::npos);
  works({"train", recipe, "--out", *scratch_ / "task"});
  const Json scores = parse_json(works({"eval", *scratch_ / "task", *scratch_ / "classes.txt", "--json"}).out, "eval");
  EXPECT_TRUE(scores["baselines"]["logistic regression"].contains("accuracy")) << scores.dump();
  EXPECT_EQ(scores["baselines"]["logistic regression"]["accuracy"], 1.0);
  EXPECT_NEAR(scores["baselines"]["majority"]["accuracy"].get<double>(), 1.0 / 3, 1e-12);
  EXPECT_EQ(scores["confusion"].size(), 3u);
  EXPECT_EQ(scores["classes"][2]["class"], "2");
  EXPECT_EQ(scores["weights"], "last");
  EXPECT_EQ(scores["weights_step"], 2);
  EXPECT_NE(works({"eval", *scratch_ / "task", *scratch_ / "classes.txt"}).out.find("truth \\ predicted"),
            std::string::npos);
  scratch_->add("asked.txt", "a b\n");
  const Json predicted =
      kit::json_lines_of(works({"predict", *scratch_ / "task", *scratch_ / "asked.txt", "--json"}).out).at(0);
  double sum = 0;
  for (const auto& [name, p] : predicted["probabilities"].items()) sum += p.get<double>();
  EXPECT_EQ(predicted["probabilities"].size(), 3u);
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_EQ(predicted["probabilities"][predicted["label"].get<std::string>()], predicted["probability"]);
}

// Ten words with ten labels: what a baseline has not learnt it cannot know, and held-out examples show whether it has.
TEST_F(Tools, BaselinesLearnFromTheExamplesThatTheModelLearntFrom) {
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += cat("label", i, " word", i, "\n");
  scratch_->add("distinct.txt", lines);
  const std::string recipe = scratch_->add(
      "distinct.yaml",
      cat("model: {architecture: encoder, hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, "
          "num_attention_heads: 2}}\ntask: {format: label_text, train: [\"",
          *scratch_ / "distinct.txt",
          "\"], validation_fraction: 0.3}\ndata: {tokenizer: {type: bytes}, sequence_length: 16}\ntrain: {objective: "
          "task, max_steps: 1, batch_tokens: 64}\n"));
  works({"init", recipe, "--out", *scratch_ / "distinct"});
  const Json held_out = parse_json(works({"eval", *scratch_ / "distinct", "--json"}).out, "eval");
  EXPECT_EQ(held_out["part"], "validation");
  EXPECT_EQ(held_out["examples"], 3);
  EXPECT_EQ(held_out["baselines"]["logistic regression"]["accuracy"], 0.0) << held_out.dump();
  const Json all =
      parse_json(works({"eval", *scratch_ / "distinct", *scratch_ / "distinct.txt", "--json"}).out, "eval");
  EXPECT_NEAR(all["baselines"]["logistic regression"]["accuracy"].get<double>(), 0.7, 1e-12) << all.dump();
}

TEST_F(Tools, InitialWeightsAreThoseThatTrainingBeginsWith) {
  const std::string out = *scratch_ / "init";
  works({"init", recipe_, "--out", out});
  EXPECT_EQ(parse_json(read_file(Path(out) / "result.json"), "result")["status"], "initialised");
  works({"eval", out});
  works({"generate", out});
  works({"train", recipe_, "--out", out, "--resume"});  // and goes on as if it had never stopped
  EXPECT_EQ(read_file(Path(out) / "model.safetensors"), read_file(Path(run_) / "model.safetensors"));
  EXPECT_EQ(run_program({"init", recipe_, "--out", run_}).code, 2);
}

TEST_F(Tools, TokensOfTextsAreShown) {
  const Json line = kit::json_lines_of(works({"tokenize", run_, "--text", "the a", "--json"}).out).at(0);
  std::string pieces;
  size_t end = 0;
  for (const Json& t : line["tokens"]) {
    EXPECT_EQ(t["begin"], end);
    end = t["end"];
    pieces += t["piece"].get<std::string>();
  }
  EXPECT_EQ(pieces, "the a");
  EXPECT_EQ(end, 5u);
  EXPECT_NE(works({"tokenize", run_, "--text", "the a"}).out.find("tokens: the a"), std::string::npos);
}

TEST_F(Tools, LossesOfTokensAddUpToTheLoss) {
  const std::string lines = *scratch_ / "tokens.json", tensors = *scratch_ / "tokens.safetensors";
  const Json scores = parse_json(works({"eval", run_, "--json", "--per-token", lines}).out, "eval");
  double sum = 0;
  const std::vector<Json> tokens = kit::json_lines_of(read_file(lines));
  for (const Json& t : tokens) sum += t["nll"].get<double>();
  ASSERT_EQ(int64_t(tokens.size()), scores["tokens"].get<int64_t>());
  EXPECT_NEAR(sum / double(tokens.size()), scores["loss"].get<double>(), 1e-5);
  const Json by_position = parse_json(works({"eval", run_, "--json", "--by-position"}).out, "eval")["by_position"];
  int64_t counted = 0;
  for (const Json& p : by_position) counted += p["tokens"].get<int64_t>();
  EXPECT_EQ(counted, int64_t(tokens.size()));
  EXPECT_NE(works({"eval", run_, "--by-position"}).out.find("tokens before"), std::string::npos);
  EXPECT_NE(read_file(Path(run_) / "report.html").find("Loss by position"), std::string::npos);
  works({"eval", run_, "--per-token", tensors});
  SafetensorsFile file(tensors);
  const auto tensor = [&](const std::string& name) {
    const auto& entry = file.entries().at(name);
    const Tensor out = empty(entry.shape, entry.dtype);
    file.read(name, out);
    return out;
  };
  const Tensor nll = tensor("nll"), logits = tensor("logits"), ids = tensor("tokens");
  ASSERT_EQ(logits.rows(), int64_t(tokens.size()));
  for (int64_t i = 0; i < nll.numel(); ++i) {  // nll = log sum exp - the token's logit
    double all = 0;
    for (int64_t c = 0; c < logits.cols(); ++c) all += std::exp(value_at(logits, i * logits.cols() + c));
    const double own = value_at(logits, i * logits.cols() + int64_t(value_at(ids, i)));
    ASSERT_NEAR(value_at(nll, i), std::log(all) - own, 1e-4);
  }
}

TEST_F(Tools, APromptHasAsManyTextsAsAsked) {
  const auto lines =
      kit::json_lines_of(works({"generate", run_, "--prompt", "the", "--prompt", "a", "--samples", "3", "--json"}).out);
  ASSERT_EQ(lines.size(), 6u);
  std::vector<std::string> first;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(lines[i]["prompt"], i < 3 ? "the" : "a");
    EXPECT_EQ(lines[i]["sample"], i % 3 + 1);
    if (i < 3) first.push_back(lines[i]["text"]);
  }
  EXPECT_FALSE(first[0] == first[1] && first[1] == first[2]);
  EXPECT_EQ(run_program({"generate", run_, "--samples", "2", "--greedy"}).code, 2);
  EXPECT_EQ(run_program({"generate", run_, "--min-p", "0.1", "--greedy"}).code, 2);
  EXPECT_EQ(run_program({"generate", run_, "--min-p", "2"}).code, 2);
}

// Of several that a launcher starts, each would do the same work and write to the same place.
TEST_F(Tools, OneProcessIsEnoughForMostCommands) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"generate", run_}, {"init", recipe_, "--out", *scratch_ / "ranks"}, {"quantize", run_, "--out", "x"}}) {
    const Finished f = run_program(words, {.environment = {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0"}});
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_NE(f.err.find("Open MPI started 2 processes of it"), std::string::npos) << f.err;
  }
  EXPECT_FALSE(fs::exists(*scratch_ / "ranks"));
}

TEST_F(Tools, AConversationGoesOnWherePositionsEnd) {
  const std::string chat = scratch_->add("chat.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  const Finished f =
      run_program({"chat", run_, "--chat-template", chat, "--max-new-tokens", "4", "--top-k", "20", "--top-p", "0.9"},
                  {.stdin_text = "aaaa\nbbbb\ncccc\ndddd\n" + std::string(40, 'x') + "\neeee\n/history\n"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("the oldest turn of the conversation is forgotten"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("this question has 40 tokens with what"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("user: eeee\n"), std::string::npos) << f.out;
  EXPECT_EQ(f.out.find("user: xxxx"), std::string::npos) << f.out;
  EXPECT_EQ(f.out.find("user: aaaa"), std::string::npos) << f.out;
}

TEST_F(Tools, ShellsCompleteEveryVerbAndOption) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string script = works({"completion", shell}).out;
    for (const std::string word : {"generate", "top-p", "int8", "completion"})
      EXPECT_NE(script.find(word), std::string::npos) << shell << " " << word;
  }
  EXPECT_EQ(run_program({"completion", "csh"}).code, 2);
  // What bash itself makes of it.
  const std::string script = scratch_->add("lithe.bash", works({"completion", "bash"}).out),
                    out = *scratch_ / "completed";
  const std::string command =
      cat(". ", script, "; COMP_WORDS=(lithe gen) COMP_CWORD=1; _lithe; echo ${COMPREPLY[*]} > ", out,
          "; COMP_WORDS=(lithe eval run --cache-type i) COMP_CWORD=4; _lithe; echo ", "${COMPREPLY[*]} >> ", out);
  if (std::system(("command -v bash >/dev/null && bash -c '" + command + "'").c_str()) == 0) {
    EXPECT_EQ(read_file(out), "generate\nint8 int4\n");
  }
}

TEST_F(Tools, ManualPagesAreOfTheHelp) {
  works({"man", "--out", *scratch_ / "man"});
  const std::string page = read_file(*scratch_ / "man/lithe-generate.1");
  EXPECT_EQ(page, works({"man", "generate"}).out);
  EXPECT_EQ(page.substr(0, 19), ".TH LITHE-GENERATE ");
  EXPECT_NE(page.find("\\-\\-top\\-p"), std::string::npos);
  EXPECT_TRUE(fs::exists(*scratch_ / "man/lithe.1"));
  EXPECT_EQ(run_program({"man", "generat"}).code, 2);
}

}  // namespace
}  // namespace lithe
