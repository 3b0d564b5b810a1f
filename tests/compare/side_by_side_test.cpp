// Runs of a comparison as processes beside each other give what they give one after another.
#include "lithe/compare/side_by_side.h"

#include <csignal>
#include <cstdlib>
#include <thread>

#include "lithe/base/stop.h"
#include "tests/compare/compare_kit.h"
#include "tests/support/errors.h"
#include "tests/support/program_test.h"

namespace lithe::compare {
namespace {

TEST(SideBySide, LaunchersBeginTheCommand) {
  const std::vector<std::string> words{"lithe", "compare"};
  using Words = std::vector<std::string>;
  EXPECT_EQ(launched_words({.jobs = 2}, 0, 4, words), words);
  EXPECT_EQ(launched_words({.type = "slurm", .jobs = 2}, 1, 4, words),
            (Words{"srun", "--nodes=1", "--ntasks=1", "--exact", "--cpus-per-task=4", "lithe", "compare"}));
  EXPECT_EQ(launched_words({.type = "mpi", .hosts = {"one", "two"}, .jobs = 3}, 1, 4, words),
            (Words{"mpirun", "--bind-to", "none", "-n", "1", "--host", "two", "lithe", "compare"}));
}

SideJob shell_job(const kit::Scratch& scratch, const std::string& name, const std::string& script) {
  return {name, {"sh", "-c", script}, scratch.path() / (name + ".log")};
}

TEST(SideBySide, AtMostSoManyRunAtTheSameTime) {
  const kit::Scratch scratch;
  const std::string at_work = scratch / "at_work";
  std::vector<SideJob> jobs;
  for (const char* name : {"a", "b", "c", "d", "e"})
    jobs.push_back(shell_job(scratch, name,
                             cat("echo + >> ", at_work, "; sleep 0.2; echo - >> ", at_work, "; echo end of ", name)));
  EXPECT_TRUE(run_side_by_side("compare", {.jobs = 2}, 1, jobs));
  int now = 0, most = 0;
  for (const char sign : read_file(at_work)) {
    if (sign == '+') most = std::max(most, ++now);
    if (sign == '-') --now;
  }
  EXPECT_EQ(now, 0);
  EXPECT_EQ(most, 2);
  EXPECT_EQ(read_file(scratch.path() / "e.log"), "end of e\n");
}

TEST(SideBySide, OneLineSaysWhichFailed) {
  const kit::Scratch scratch;
  const std::string error = kit::error_of([&] {
    run_side_by_side("compare", {.jobs = 2}, 1,
                     {shell_job(scratch, "good", "sleep 0.3; touch " + scratch / "finished"),
                      shell_job(scratch, "bad", "echo much; echo the reason; exit 3"),
                      shell_job(scratch, "later", "touch " + scratch / "begun")});
  });
  EXPECT_NE(error.find("bad ended with exit code 3: the reason (all of it: "), std::string::npos) << error;
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "finished"));  // what ran beside it
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "begun"));
}

TEST(SideBySide, TheReasonIsNotTheRuleBelowIt) {
  const kit::Scratch scratch;
  const auto error = [&](const std::string& said) {
    return kit::error_of([&] {
      run_side_by_side("search", {.jobs = 1}, 1, {shell_job(scratch, "bad", cat("printf -- '", said, "'; exit 1"))});
    });
  };
  const std::string rule(60, '-');
  EXPECT_TRUE(error("lithe: train: no memory\n" + rule + "\nmpirun ended: exit code 1\n" + rule + "\n")
                  .starts_with("search: bad ended with exit code 1: lithe: train: no memory (all of it: "));
  EXPECT_TRUE(error(rule + "\nmpirun was not able to start\n" + rule + "\n\n")
                  .starts_with("search: bad ended with exit code 1: mpirun was not able to start (all of it: "));
  EXPECT_TRUE(error("").starts_with("search: bad ended with exit code 1: it said nothing (all of it: "));
}

TEST(SideBySide, APageShowsTheStateOfEach) {
  const kit::Scratch scratch;
  const Path page = scratch.path() / "page.html";
  SideJob first = shell_job(scratch, "first", "sleep 0.1"), second = shell_job(scratch, "second", "");
  second.words[2] = cat("sleep 0.5; cp ", page.string(), " ", scratch / "seen");
  first.run = second.run = scratch.path() / "run";
  make_directory(first.run);
  write_file(first.run / "metrics.jsonl", "{\"step\":10,\"loss\":3}\n{\"step\":4321,\"loss\":2.125}\n{\"step\":43");
  EXPECT_TRUE(run_side_by_side("compare", {.jobs = 1}, 1, {first, second, shell_job(scratch, "third", "")}, page));
  const std::string seen = read_file(scratch / "seen"), last = read_file(page);
  for (const char* text : {"first", "second", "third", "1 of 3 runs done", "running", "4,321", "2.125"})
    EXPECT_NE(seen.find(text), std::string::npos) << text;
  EXPECT_NE(last.find("3 of 3 runs done"), std::string::npos);
  // Where nothing is done, the page of what was done before stays.
  write_file(page, "the table");
  EXPECT_NE(kit::error_of([&] {
              run_side_by_side("compare", {.jobs = 1}, 1, {shell_job(scratch, "other", "exit 2")}, page);
            }).find("other ended with exit code 2"),
            std::string::npos);
  EXPECT_EQ(read_file(page), "the table");
}

TEST(SideBySide, ASignalIsHandedOn) {
  const kit::Scratch scratch;
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    set_stop_signal(SIGTERM);
  });
  EXPECT_FALSE(
      run_side_by_side("compare", {.jobs = 2}, 1,
                       {shell_job(scratch, "a", "trap 'echo saved; exit 143' TERM; while :; do sleep 0.05; done"),
                        shell_job(scratch, "b", "exec sleep 60"), shell_job(scratch, "c", "echo")}));
  later.join();
  set_stop_signal(0);
  EXPECT_EQ(read_file(scratch.path() / "a.log"), "saved\n");
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "c.log"));
}

class SideBySideTest : public kit::ProgramTest {
 protected:
  const kit::CompareKit kit;
  const std::string experiment =
      kit.experiment("baseline: a\nvariants: {a: {}, b: {model.mixer.heads: sha}}\nseeds: [1, 2]\n" + kit::kNoTiming)
          .string();

  kit::Finished compare(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> words{"compare", experiment, "--out", (kit.directory / out).string(), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return kit::run_program(words);
  }
  void expect_same(const std::string& got, const std::string& want) const {
    for (const char* run : {"a/seed-1", "a/seed-2", "b/seed-1", "b/seed-2"})
      for (const char* file : {"model.safetensors", "metrics.jsonl"}) {
        const Path of = Path("runs") / run / file;
        EXPECT_TRUE(read_file(kit.directory / got / of) == read_file(kit.directory / want / of)) << of;
      }
    const Json a = kit.json(got), b = kit.json(want);
    EXPECT_EQ(a.at("variants").size(), b.at("variants").size());
    for (size_t v = 0; v < b.at("variants").size(); ++v)
      EXPECT_EQ(a["variants"][v].at("loss"), b["variants"][v].at("loss")) << v;
  }
};

TEST_F(SideBySideTest, GivesTheNumbersOfOneAfterAnother) {
  ASSERT_EQ(compare("one", {}).code, 0);
  const kit::Finished two = compare("two", {"-j", "3"});
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_NE(two.err.find("variant 'b', seed 2: done"), std::string::npos) << two.err;
  expect_same("two", "one");
  // Runs of an array of jobs are found done.
  const kit::Finished single = compare("array", {"--only", "b/2"});
  ASSERT_EQ(single.code, 0) << single.err;
  EXPECT_EQ(single.out, "b/2 done\n");
  const kit::Finished rest = compare("array", {"--jobs", "2"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(rest.err.find("variant 'b', seed 2: begins"), std::string::npos) << rest.err;
  expect_same("array", "one");
}

// Of search: its candidates, also where the choice of one waits for the results of others.
TEST_F(SideBySideTest, ASearchTakesTheSameWay) {
  const auto search = [&](const std::string& method, const std::string& out, std::vector<std::string> more) {
    const Path file = kit.directory / (method + ".yaml");
    write_file(file, cat("recipe: base.yaml\nset: {train.max_steps: 4, train.eval_steps: 0}\nchoices: "
                         "{model.ffn.intermediate_size: [16, 24, 32], model.mixer.num_attention_heads: [2, 3, 4]}\n",
                         "method: ", method, "\ncandidates: 7\n",
                         method == "evolution" ? "population: 3\ntournament: 2\n" : ""));
    more.insert(more.begin(),
                {"search", file.string(), "--out", (kit.directory / (method + out)).string(), "--threads", "1"});
    const kit::Finished ended = kit::run_program(more);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended;
  };
  const auto result = [&](const std::string& directory) {
    Json json = parse_json(read_file(kit.directory / directory / "search.json"), "search.json");
    for (Json& candidate : json["candidates"]) candidate.erase("seconds");
    return json;
  };
  for (const std::string method : {"random", "evolution"}) {
    search(method, "-one", {});
    const kit::Finished two = search(method, "-two", {"-j", "2"});
    EXPECT_NE(two.err.find("candidate c-"), std::string::npos) << two.err;
    EXPECT_EQ(result(method + "-two"), result(method + "-one"));
  }
  const std::string best = result("random-one")["best"];
  EXPECT_EQ(search("random", "-array", {"--only", best}).out, best + " done\n");
  EXPECT_FALSE(std::filesystem::exists(kit.directory / "random-array" / "search.html"));
  const Path other = kit.directory / "other.yaml";
  write_file(other, "recipe: base.yaml\nchoices: {model.ffn.intermediate_size: [48, 64]}\n");
  expect_error({"search", other.string(), "--out", (kit.directory / "random-array").string()}, 2,
               "holds a search over other choices (model.ffn.intermediate_size: [16, 24, 32]; ");
  const kit::Finished rest = search("random", "-array", {"-j", "2"});
  EXPECT_EQ(rest.err.find(best + ": begins"), std::string::npos) << rest.err;
  EXPECT_EQ(result("random-array"), result("random-one"));
  for (const char* wrong : {"c-0-3", "c-0", "d-0-0", "c-0-0x"})
    expect_error(
        {"search", (kit.directory / "random.yaml").string(), "--out", (kit.directory / "no").string(), "--only", wrong},
        2, "is no candidate of this search, which are c-0-0 to c-2-2");
}

// As srun would, in a job.
TEST_F(SideBySideTest, StartsRunsByALauncher) {
  ASSERT_EQ(compare("one", {}).code, 0);
  const std::string called = (kit.directory / "called").string(), bin = (kit.directory / "bin").string();
  make_directory(bin);
  write_file(Path(bin) / "srun", cat("#!/bin/sh\necho \"$*\" >> ", called, "\nshift 4\nexec \"$@\"\n"));
  std::filesystem::permissions(Path(bin) / "srun", std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (bin + ":" + path).c_str(), 1);
  const kit::Finished ended = compare("slurm", {"--launcher", "slurm", "-j", "2"});
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(read_file(called).find("--nodes=1 --ntasks=1 --exact --cpus-per-task=1 "), std::string::npos);
  expect_same("slurm", "one");
}

TEST_F(SideBySideTest, RefusesWhatWouldBeIgnored) {
  const std::string out = (kit.directory / "out").string();
  expect_error({"compare", experiment, "--out", out, "--only", "c/1"}, 2, "its runs: a/1, b/1, a/2, b/2");
  expect_error({"compare", experiment, "--out", out, "--only", "a/1", "-j", "2"}, 2, "leave one of them out");
  expect_error({"compare", experiment, "--out", out, "--hosts", "one"}, 2, "--hosts is for --launcher mpi");
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", kit.directory.c_str(), 1);
  expect_error({"compare", experiment, "--out", out, "--launcher", "slurm"}, 2,
               "--launcher slurm starts runs by srun, which is in no directory of PATH");
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace lithe::compare
