// The subcommands: one file each, gathered in commands().
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace lithe {

/// What a subcommand adds: its options on `app`, and the function that runs it and returns the exit code.
using Command = std::function<int()>;
Command add_train(CLI::App& app);
Command add_eval(CLI::App& app);
Command add_generate(CLI::App& app);
Command add_translate(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_compare(CLI::App& app);
Command add_finetune(CLI::App& app);
Command add_predict(CLI::App& app);
Command add_encode(CLI::App& app);
Command add_quantize(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_list(CLI::App& app);
Command add_doctor(CLI::App& app);

/// Writes what std::cout holds; throws when nobody takes it, so that no work is done for results that are lost.
void flush_results();

/// The whole program: parses, runs, turns errors into one line on stderr and an exit code.
int run_program(int argc, char** argv);

/// `to` becomes what an option gave, and stays when it was not given.
template <class T>
void take_given(T& to, const std::optional<T>& option) {
  if (option) to = *option;
}

/// Options --weights and --precision: which weights of a run are loaded, and as what.
void add_weights_options(CLI::App& app, std::string& weights, std::string& precision);

/// A flag --el-rewrite: what load_model() calls el_rewrite.
void add_el_rewrite_option(CLI::App& app, bool& el_rewrite);

/// An option --threads that takes effect when parsed.
void add_threads_option(CLI::App& app);

}  // namespace lithe
