// Training on several ranks of a job: the same bits as on one, and one line when something goes wrong.
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "lithe/base/json.h"
#include "tests/parallel/mpirun_kit.h"

namespace lithe {
namespace {

using kit::RanksTest;

struct Case {
  const char *name, *model, *train;
};

// oracle: hpc.parallel
TEST_F(RanksTest, AnyNumberOfRanksGivesTheSameBits) {
  const Case cases[] = {
      {"plain", ", hidden_dropout: 0.1", ", spike_deviations: 6, spike_window: 4"},
      {"bf16", "", ", precision: bf16, optimizer_states: int8, loss_scaling: {type: dynamic}"},
      {"experts", ", ffn: {type: moe, num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 16}", ""},
      {"means",
       ", mixer: {type: attention, num_attention_heads: 2, field: {type: kmeans, clusters: 2, centroids: ema, decay: "
       "0.9}}",
       ""},
      {"recompute", ", hidden_dropout: 0.1, stack: {type: early_exit, layers: [1]}",
       ", gradient_checkpointing: true, auxiliary_objectives: {low: {type: layer_prediction, layer: 1}}"},
      {"growth", "", ", growth: {steps: [4], layers: [4]}"},
      {"lora", "", ", adapters: {type: lora, rank: 2}"},
  };
  for (const Case& of : cases) {
    const std::string file = recipe(of.name, of.model, of.train);
    const std::string one = scratch / cat(of.name, "1");
    // Adapters are of a run that was trained.
    const std::string base =
        std::string(of.name) == "lora" ? cat(" --set from_pretrained=", scratch / "plain1") : std::string();
    const Ended alone = on(1, cat("train ", file, " --out ", one, base));
    ASSERT_EQ(alone.code, 0) << of.name << alone.err;
    for (const int ranks : {2, 3, 4}) {
      if (ranks == 4 && of.name != cases[0].name) continue;
      const std::string out = scratch / cat(of.name, ranks);
      const Ended ended = on(ranks, cat("train ", file, " --out ", out, base));
      ASSERT_EQ(ended.code, 0) << of.name << ended.err;
      EXPECT_EQ(ended.out.find("finished after"), 0u) << ended.out;  // one rank speaks
      EXPECT_EQ(ended.out.find("finished after", 1), std::string::npos) << ended.out;
      expect_same_run(out, one);
    }
  }
}

TEST_F(RanksTest, AnotherNumberOfRanksResumesWithTheSameBits) {
  const std::string file = recipe("recipe", ", hidden_dropout: 0.1", ", optimizer_states: int8");
  const std::string whole = scratch / "whole", parts = scratch / "parts";
  ASSERT_EQ(on(1, cat("train ", file, " --out ", whole)).code, 0);
  std::filesystem::copy(whole, parts, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(Path(parts) / "training_state" / "step-00000007");
  std::filesystem::remove_all(Path(parts) / "training_state" / "step-00000006");
  const Ended ended = on(3, cat("train ", file, " --out ", parts, " --resume"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("resuming after step 3"), std::string::npos) << ended.err;
  expect_same_run(parts, whole);
}

// Each rank has a part of the moments; files and bits are those of one.
TEST_F(RanksTest, ShardedOptimizerStatesGiveTheSameBits) {
  for (const char* more : {", optimizer_states: int8, precision: bf16", ""}) {
    const std::string file = recipe("recipe", "", more), one = scratch / cat("one", more[0] ? "a" : "b");
    ASSERT_EQ(on(1, cat("train ", file, " --out ", one)).code, 0);
    for (const int ranks : {2, 3}) {
      const std::string out = cat(one, ranks);
      const Ended ended =
          on(ranks, cat("train ", file, " --out ", out, " --set train.parallel.optimizer_states=sharded"));
      ASSERT_EQ(ended.code, 0) << ended.err;
      expect_same_run(out, one);
      const Path state = Path("training_state") / "step-00000007" / "optimizer.safetensors";
      EXPECT_TRUE(read_file(out / state) == read_file(one / state)) << out;
      const Json memory = parse_json(read_file(Path(out) / "memory.json"), "memory");
      EXPECT_EQ(memory["planned"]["optimizer"], memory["measured"]["optimizer"]) << dump(memory);
      EXPECT_EQ(memory["planned"]["peak"], memory["measured"]["peak"]) << dump(memory);
      const Json whole = parse_json(read_file(Path(one) / "memory.json"), "memory");
      EXPECT_LT(memory["measured"]["optimizer"].get<int64_t>(), whole["measured"]["optimizer"].get<int64_t>() * 2 / 3);
    }
    // One rank goes on with what three have saved.
    const std::string parts = cat(one, 3);
    for (const char* step : {"step-00000006", "step-00000007"})
      std::filesystem::remove_all(Path(parts) / "training_state" / step);
    ASSERT_EQ(on(1, cat("train ", file, " --out ", parts, " --resume")).code, 0);
    expect_same_run(parts, one);
  }
}

// Other bits than one rank's, the same each time; memory as planned, and half the bytes.
TEST_F(RanksTest, MessagesInBf16AreTheSameEachTime) {
  const std::string file = recipe("recipe", "", "");
  const std::string exact = scratch / "exact";
  ASSERT_EQ(on(1, cat("train ", file, " --out ", exact)).code, 0);
  for (const char* states : {"whole", "sharded"})
    for (const int ranks : {2, 3}) {
      const auto run = [&](const std::string& name) {
        const Ended ended =
            on(ranks, cat("train ", file, " --out ", scratch / name,
                          " --set train.parallel.messages=bf16 --set train.parallel.optimizer_states=", states));
        EXPECT_EQ(ended.code, 0) << ended.err;
        return Path(scratch / name);
      };
      const Path a = run(cat("a", states, ranks)), b = run(cat("b", states, ranks));
      expect_same_run(a, b);
      EXPECT_FALSE(read_file(a / "model.safetensors") == read_file(Path(exact) / "model.safetensors"));
      const Json memory = parse_json(read_file(a / "memory.json"), "memory");
      EXPECT_EQ(memory["planned"]["peak"], memory["measured"]["peak"]) << dump(memory);
      const Json got = parse_json(read_file(a / "result.json"), "result"),
                 want = parse_json(read_file(Path(exact) / "result.json"), "result");
      EXPECT_NEAR(got["final_loss"].get<double>(), want["final_loss"].get<double>(), 0.02) << dump(got);
    }
  const auto bytes = [&](const std::string& more) {
    const Ended plan = on(1, cat("plan ", file, " --json --ranks 2 --network 1GB/s,1us", more));
    EXPECT_EQ(plan.code, 0) << plan.err;
    return parse_json(plan.out, "plan")["ranks"][1]["message_bytes"].get<int64_t>();
  };
  EXPECT_EQ(2 * bytes(" --set train.parallel.messages=bf16"), bytes(""));
  const Ended refused = on(1, cat("train ", file, " --out ", scratch / "f64",
                                  " --set train.parallel.messages=bf16 --set train.precision=f64"));
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_NE(refused.err.find("parallel.messages bf16 is for"), std::string::npos) << refused.err;
}

// Each rank keeps its share of the layers' weights; bits and files are those of one, whoever goes on.
TEST_F(RanksTest, ShardedWeightsGiveTheSameBits) {
  const std::string keys =
      " --set train.parallel.weights=sharded --set train.parallel.optimizer_states=sharded --set "
      "model.num_hidden_layers=3";
  for (const char* more : {", optimizer_states: int8, precision: bf16", ""}) {
    const std::string file = recipe("recipe", ", hidden_dropout: 0.1", cat(", gradient_checkpointing: true", more)),
                      one = scratch / cat("one", more[0] ? "a" : "b");
    ASSERT_EQ(on(1, cat("train ", file, " --out ", one, keys)).code, 0);
    const Json whole = parse_json(read_file(Path(one) / "memory.json"), "memory");
    for (const int ranks : {2, 4}) {
      const std::string out = cat(one, ranks);
      const Ended ended = on(ranks, cat("train ", file, " --out ", out, keys));
      ASSERT_EQ(ended.code, 0) << ended.err;
      expect_same_run(out, one);
      const Json memory = parse_json(read_file(Path(out) / "memory.json"), "memory");
      for (const char* what : {"peak", "weights", "optimizer"})
        EXPECT_EQ(memory["planned"][what], memory["measured"][what]) << dump(memory);
      EXPECT_LT(memory["measured"]["peak"].get<int64_t>(), whole["measured"]["peak"].get<int64_t>());
      EXPECT_LT(memory["measured"]["weights"].get<int64_t>(), whole["measured"]["weights"].get<int64_t>());
    }
    EXPECT_EQ(on(3, cat("eval ", one, "2 --json")).out, on(1, cat("eval ", one, " --json")).out);
    // One rank goes on with what four have saved, and two with what one has.
    for (const int ranks : {1, 2}) {
      const std::string parts = cat(one, ranks == 1 ? 4 : 2);
      for (const char* step : {"step-00000006", "step-00000007"})
        std::filesystem::remove_all(Path(parts) / "training_state" / step);
      const Ended ended = on(ranks, cat("train ", file, " --out ", parts, keys, " --resume"));
      ASSERT_EQ(ended.code, 0) << ended.err;
      expect_same_run(parts, one);
    }
  }
  const std::string file = recipe("recipe", "", "");
  const auto refused = [&](int ranks, const std::string& more, const std::string& why) {
    const Ended ended = on(ranks, cat("train ", file, " --out ", scratch / "no", keys, more));
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_EQ(ended.said(), 1) << ended.err;
    EXPECT_NE(ended.err.find(why), std::string::npos) << ended.err;
  };
  refused(1, "", "needs parallel.optimizer_states sharded and gradient_checkpointing true");
  const std::string recomputes = " --set train.gradient_checkpointing=true";
  refused(1, recomputes + " --set train.freeze='[embedding.*]'", "leave rounding, adapters, growth, freeze");
  refused(2, recomputes + " --set model.share.layers=all", "for one plain stack of layers");
  refused(3, recomputes, "set gradient_accumulation_steps to the number of ranks (3) times a power of two, got 8");
  const auto linformer = [&](const std::string& share) {
    return cat(recomputes,
               " --set model.architecture=encoder --set model.position=learned --set train.objective=mlm "
               "--set train.sample_steps=0 --set "
               "data.tokenizer='{type: wordpiece, vocab_size: 300}' --set model.mixer='{type: linformer, "
               "num_attention_heads: 2, projected_keys: 4, share: ",
               share, "}'");
  };
  refused(2, linformer("layers"), "mixer linformer with share: layers reads those of the first");
  for (const int ranks : {1, 2}) {
    const Ended ended =
        on(ranks, cat("train ", file, " --out ", scratch / cat("maps", ranks), keys, linformer("none")));
    ASSERT_EQ(ended.code, 0) << ended.err;
  }
  expect_same_run(scratch / "maps2", scratch / "maps1");
}

// Each tokenizes its share of the documents; what is in the cache, printed or stored has the bytes of one process.
TEST_F(RanksTest, TextsAreTokenizedTogether) {
  const std::string file = recipe("recipe", "", ""), cache = scratch / "cache";
  const auto kept = [&] {
    std::map<std::string, std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(cache))
      if (entry.path().filename().string().find(".tokens") != std::string::npos)
        out[entry.path().filename().string()] = read_file(entry.path());
    return out;
  };
  const Ended one = on(1, cat("tokenize ", file, " --cache --json"));
  ASSERT_EQ(one.code, 0) << one.err;
  const auto want = kept();
  ASSERT_EQ(want.size(), 2u);  // training and validation
  for (const int ranks : {2, 3}) {
    for (const auto& [name, bytes] : want) std::filesystem::remove(Path(cache) / name);
    if (ranks == 3)  // left over by a job that was killed
      write_file(Path(cache) / (want.begin()->first + ".share-0-of-5"), "half");
    const Ended ended = on(ranks, cat("tokenize ", file, " --cache --json"));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, one.out);
    EXPECT_EQ(ended.err.find("tokenized again"), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("shares"), std::string::npos) << ended.err;
    EXPECT_TRUE(kept() == want) << ranks;
  }
  const std::string run = scratch / "run";
  ASSERT_EQ(on(1, cat("train ", file, " --out ", run)).code, 0);
  const std::string lines = cat("tokenize ", run, " ", scratch / "text.txt");
  for (const char* form : {"", " --ids", " --json"})
    EXPECT_EQ(shell(cat(mpirun(), "-n 3 ", program(), " ", lines, form)).out,
              shell(cat(program(), " ", lines, form)).out);
  for (const std::string& words :
       {cat("tokenize ", run), cat("datastore build ", run, " --data - --out ", scratch / "x")}) {
    const Ended refused = shell(cat(mpirun(), "-n 2 ", program(), " ", words, " < /dev/null"));
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_EQ(refused.said(), 1) << refused.err;
  }
  EXPECT_EQ(on(1, cat("tokenize ", file, " --cache --text a")).code, 2);
  // Stores of nearest neighbours.
  for (const std::string& more : {std::string(" --lists 4 --key-type bf16"),
                                  cat(" --data ", scratch / "text.txt", " --batch-tokens 50 --context-length 12")}) {
    const Path store = scratch / "store", other = scratch / "other";
    ASSERT_EQ(on(1, cat("datastore build ", run, " --overwrite --out ", store.string(), more)).code, 0);
    for (const int ranks : {2, 3}) {
      const Ended ended = on(ranks, cat("datastore build ", run, " --overwrite --out ", other.string(), more));
      ASSERT_EQ(ended.code, 0) << ended.err;
      EXPECT_TRUE(read_file(other / "datastore.bin") == read_file(store / "datastore.bin")) << more << ranks;
    }
  }
}

// Texts, a text that is carried on, and an objective that masks; every digit.
TEST_F(RanksTest, EvaluationHasTheDigitsOfOneRank) {
  const std::string file = recipe("recipe", "", ""), run = scratch / "run";
  ASSERT_EQ(on(2, cat("train ", file, " --out ", run)).code, 0);
  const auto same = [&](const std::string& words) {
    const Ended one = on(1, words);
    ASSERT_EQ(one.code, 0) << one.err;
    for (const int ranks : {2, 3}) {
      const Ended all = on(ranks, words);
      ASSERT_EQ(all.code, 0) << all.err;
      EXPECT_EQ(all.out, one.out) << words << ranks;
    }
  };
  same(cat("eval ", run, " --json"));
  same(cat("eval ", run, " --json --context-length 16 --stride 5 --batch-tokens 48 --by-position"));
  same(cat("eval ", run, " --json --carry-state --batch-tokens 40 ", scratch / "text.txt"));
  const std::string masked = scratch / "masked";
  ASSERT_EQ(on(1, cat("train ", recipe("masked", ", architecture: encoder, head: mlm", ", objective: mlm"),
                      " --set train.sample_steps=0 --set 'data.tokenizer={type: bpe, vocab_size: 300, specials: "
                      "[<|endoftext|>, <mask>]}' --out ",
                      masked))
                .code,
            0);
  same(cat("eval ", masked, " --json"));
  const Ended refused = on(2, cat("eval ", run, " --exit entropy=0.5"));
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_EQ(refused.said(), 1) << refused.err;
}

TEST_F(RanksTest, OneLineSaysWhatIsRefused) {
  const std::string file = recipe("recipe", "", ""), out = scratch / "run";
  Ended ended = on(3, cat("train ", file, " --out ", out, " --set train.gradient_accumulation_steps=2"));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_EQ(ended.said(), 1) << ended.err;
  EXPECT_NE(ended.err.find("gradient_accumulation_steps 2 is below the 3 ranks"), std::string::npos) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(out));

  ended = on(2, cat("train ", file, " --out ", out, " --set train.carry_state=true"));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_NE(ended.err.find("2 ranks cannot divide them"), std::string::npos) << ended.err;

  ASSERT_EQ(on(2, cat("train ", file, " --out ", out)).code, 0);
  ended = on(2, cat("train ", file, " --out ", out));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_EQ(ended.said(), 1) << ended.err;
  EXPECT_NE(ended.err.find("already holds a run"), std::string::npos) << ended.err;

  ended = shell(cat("LITHE_MPI_PLUGIN=/nowhere.so ", mpirun(), "-n 2 ", program(), " train ", file, " --out ", out));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_EQ(ended.said(), 1) << ended.err;
  EXPECT_NE(ended.err.find("apt install lithe-mpi"), std::string::npos) << ended.err;
  // Rank 0 says it; another one of any launcher gives it time to.
  for (const char* numbers : {"PMI_SIZE=2 PMI_RANK=1", "SLURM_STEP_NUM_TASKS=2 PMIX_RANK=1 SLURM_PROCID=1"})
    EXPECT_EQ(shell(cat(numbers, " LITHE_MPI_PLUGIN=/nowhere.so timeout -s KILL 2 ", program(), " train ", file,
                        " --out ", out))
                  .said(),
              0);
}

TEST_F(RanksTest, SlurmIsAskedToRunTheJobAgain) {
  const std::string file = recipe("recipe", "", ""), out = scratch / "run", called = scratch / "called";
  scratch.add("scontrol", cat("#!/bin/sh\necho \"$@\" > ", called, "\n"));
  std::filesystem::permissions(scratch.path() / "scontrol", std::filesystem::perms::owner_all);
  const std::string train = cat(program(), " train ", file, " --threads 1 --requeue --out ", out);
  EXPECT_NE(shell(cat("SLURM_JOB_ID=7 ", train)).err.find("give --resume auto"), std::string::npos);
  EXPECT_NE(shell(cat(train, " --resume auto")).err.find("SLURM_JOB_ID is not set"), std::string::npos);
  const Ended ended =
      shell(cat("PATH=", scratch.path().string(), ":$PATH SLURM_JOB_ID=7 timeout --preserve-status -s USR1 8 ", train,
                " --resume auto --set train.max_steps=1000000"));
  EXPECT_EQ(ended.code, 128 + SIGUSR1) << ended.err;
  ASSERT_TRUE(std::filesystem::exists(called)) << ended.err;
  EXPECT_EQ(read_file(called), "requeue 7\n");
}

TEST_F(RanksTest, OneLineNamesTheRankThatFails) {
  const std::string file = recipe("recipe", "", "");
  const std::string train = cat(program(), " train ", file, " --threads 1 --out ", scratch / "run");
  // Rank 1 cannot read what the others can.
  Ended ended = shell(cat(mpirun(), "-n 1 ", train, " : -n 1 ", train, " --set data.files=/nowhere.txt"));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_EQ(ended.said(), 1) << ended.err;
  EXPECT_NE(ended.err.find("(rank 1)"), std::string::npos) << ended.err;
  // A disk that is full.
  const std::string script = scratch.add(
      "limited.sh", cat("ulimit -f 12000; exec ", train,
                        " --overwrite --set model.hidden_size=256 --set model.ffn.intermediate_size=1024\n"));
  ended = shell(cat(mpirun(), "-n 2 bash ", script));
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_EQ(ended.said(), 1) << ended.err;
  EXPECT_NE(ended.err.find("could not be saved"), std::string::npos) << ended.err;
}

// A job of two ranks whose rank 1 is known by its process, for as long as it takes.
class LongJob {
 public:
  LongJob(const std::string& mpirun, const std::string& train, const kit::Scratch& scratch)
      : err_(scratch / "job.err"), pid_file_(scratch / "rank1.pid"), code_file_(scratch / "job.code") {
    for (const std::string& file : {pid_file_, code_file_}) std::filesystem::remove(file);
    const std::string rank1 = scratch.add("rank1.sh", cat("echo $$ > ", pid_file_, "; exec ", train, "\n"));
    const std::string all = cat("(", mpirun, "-n 1 ", train, " : -n 1 bash ", rank1, " >", scratch / "job.out", " 2>",
                                err_, "; echo $? > ", code_file_, ") &");
    EXPECT_EQ(std::system(all.c_str()), 0);
  }
  // Waits until the run has a checkpoint.
  bool begun(const std::string& out) const {
    for (int i = 0; i < 1200; ++i) {
      if (std::filesystem::exists(Path(out) / "model.safetensors")) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  pid_t rank1() const { return std::stoi(read_file(pid_file_)); }
  // Exit code of mpirun, and the seconds until then.
  std::pair<int, double> end() const {
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    while (seconds() < 60) {
      if (std::filesystem::exists(code_file_) && std::filesystem::file_size(code_file_) > 1)
        return {std::stoi(read_file(code_file_)), seconds()};
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return {-1, seconds()};
  }
  std::string err() const { return read_file(err_); }

 private:
  std::string err_, pid_file_, code_file_;
};

TEST_F(RanksTest, ADeadRankEndsTheJobAndTheRunGoesOn) {
  const std::string train = cat("train ", recipe("recipe", "", ""), " --set train.max_steps=400 --out "),
                    whole = scratch / "whole", out = scratch / "run";
  ASSERT_EQ(on(1, train + whole).code, 0);
  {
    const LongJob job(mpirun(), cat(program(), " ", train, out, " --threads 1"), scratch);
    ASSERT_TRUE(job.begun(out)) << job.err();
    ASSERT_EQ(::kill(job.rank1(), SIGKILL), 0);
    const auto [code, seconds] = job.end();
    EXPECT_NE(code, 0);
    EXPECT_LT(seconds, 5);
    EXPECT_NE(job.err().find("rank 1"), std::string::npos) << job.err();
  }
  const Ended ended = on(3, cat(train, out, " --resume"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  expect_same_run(out, whole);
}

TEST_F(RanksTest, AHungRankIsNoticed) {
  const std::string file = recipe("recipe", "", ""), out = scratch / "run";
  const std::string train = cat("env LITHE_RANK_TIMEOUT=2 ", program(), " train ", file,
                                " --set train.max_steps=100000 --threads 1 --out ", out);
  const LongJob job(mpirun(), train, scratch);
  ASSERT_TRUE(job.begun(out)) << job.err();
  ASSERT_EQ(::kill(job.rank1(), SIGSTOP), 0);
  const auto [code, seconds] = job.end();
  EXPECT_EQ(code, 1);
  EXPECT_LT(seconds, 10);
  EXPECT_NE(job.err().find("lithe: ranks: no word from rank 1 of 2 for 2 seconds"), std::string::npos) << job.err();
}

TEST_F(RanksTest, ASignalSavesAndAnotherNumberGoesOn) {
  const std::string train = cat("train ", recipe("recipe", "", ""), " --set train.max_steps=400 --out "),
                    whole = scratch / "whole", out = scratch / "run";
  ASSERT_EQ(on(1, train + whole).code, 0);
  {
    const LongJob job(mpirun(), cat(program(), " ", train, out, " --threads 1"), scratch);
    ASSERT_TRUE(job.begun(out)) << job.err();
    ASSERT_EQ(::kill(job.rank1(), SIGUSR1), 0);  // one rank alone: all stop after the same step
    const auto [code, seconds] = job.end();
    EXPECT_EQ(code, 128 + SIGUSR1);
    EXPECT_NE(job.err().find("stopped by signal"), std::string::npos) << job.err();
  }
  const Ended ended = on(3, cat(train, out, " --resume"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  expect_same_run(out, whole);
}

// It waits until what all ranks do together is done: evaluations and samples, too.
TEST_F(RanksTest, ASignalStopsRanksThatShareWeights) {
  const std::string train = cat("train ", recipe("recipe", "", ", gradient_checkpointing: true"),
                                " --set train.parallel.weights=sharded --set train.parallel.optimizer_states=sharded "
                                "--set train.eval_steps=1 --set train.sample_steps=2 --set train.max_steps=40 --out "),
                    whole = scratch / "whole", out = scratch / "run";
  ASSERT_EQ(on(1, train + whole).code, 0);
  {
    const LongJob job(mpirun(), cat("env LITHE_RANK_TIMEOUT=30 ", program(), " ", train, out, " --threads 1"), scratch);
    ASSERT_TRUE(job.begun(out)) << job.err();
    ASSERT_EQ(::kill(job.rank1(), SIGUSR1), 0);
    EXPECT_EQ(job.end().first, 128 + SIGUSR1) << job.err();
  }
  const Ended rest = on(2, cat(train, out, " --resume"));
  ASSERT_EQ(rest.code, 0) << rest.err;
  expect_same_run(out, whole);
}

}  // namespace
}  // namespace lithe
