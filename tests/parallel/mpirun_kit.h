// Jobs of several ranks, as mpirun starts them.
#pragma once

#include <sys/wait.h>

#include <cstdlib>

#include "lithe/base/error.h"
#include "tests/support/program_test.h"

namespace lithe::kit {

/// Skipped where there is no mpirun, or lithe was built without it.
class RanksTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed (openmpi-bin)";
    if (!std::getenv("LITHE_MPI_PLUGIN") && !std::filesystem::exists(Path(program()).parent_path() / "liblithe-mpi.so"))
      GTEST_SKIP() << "built without the MPI plug-in (libopenmpi-dev)";
    // More ranks than processors, as root, in a container.
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
    ::setenv("OMPI_MCA_btl", "self,vader", 1);
  }

  static std::string program() { return std::getenv("LITHE_BINARY"); }
  static std::string mpirun() { return "mpirun --oversubscribe --bind-to none "; }

  struct Ended {
    int code = -1;
    std::string out, err;
    /// Lines on stderr that are ours, and no log.
    int said() const {
      int count = 0;
      for (size_t at = 0; (at = err.find("lithe: ", at)) != err.npos; ++at) count += at == 0 || err[at - 1] == '\n';
      return count;
    }
  };
  Ended shell(const std::string& command) const {
    const std::string out = scratch / "stdout", err = scratch / "stderr";
    const int status = std::system(cat("(", command, ") >", out, " 2>", err).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
  }
  /// `lithe WORDS --threads 1` on that many ranks; on one without mpirun.
  Ended on(int ranks, const std::string& words) const {
    return shell(cat(ranks > 1 ? cat(mpirun(), "-n ", ranks, " ") : "", program(), " ", words, " --threads 1"));
  }

  /// A recipe of a small model on a small text, in eight parts a step.
  std::string recipe(const std::string& name, const std::string& model, const std::string& train) const {
    scratch.add("text.txt", small_text(6000));
    return scratch.add(
        name + ".yaml",
        cat("model: {hidden_size: 16, num_hidden_layers: 2",
            model.find("mixer:") == model.npos ? ", mixer: {type: attention, num_attention_heads: 2}" : "",
            model.find("ffn:") == model.npos ? ", ffn: {type: swiglu, intermediate_size: 24}" : "", model,
            "}\ndata: {files: [", scratch / "text.txt",
            "], documents: paragraph, validation_fraction: 0.1, sequence_length: 16, cache_directory: ",
            scratch / "cache",
            "}\ntrain: {max_steps: 7, batch_tokens: 256, gradient_accumulation_steps: 8, "
            "learning_rate: 0.01, logging_steps: 1, eval_steps: 3, save_steps: 3, save_total_limit: 9, sample_steps: 5",
            train, "}\ngenerate: {prompt: the, max_new_tokens: 4}\n"));
  }

  void expect_same_run(const Path& got, const Path& want) const {
    for (const char* name : {"model.safetensors", "best/model.safetensors", "metrics.jsonl", "samples.jsonl"})
      EXPECT_TRUE(read_file(got / name) == read_file(want / name)) << name << " differs in " << got;
  }

  Scratch scratch;
};

}  // namespace lithe::kit
