// The subcommands: one file each, gathered in commands().
#pragma once

#include <optional>
#include <string>

#include "lithe/cli/options.h"

namespace lithe {

/// Each adds its options to `app`.
Command add_train(CommandLine& app);
Command add_init(CommandLine& app);
Command add_eval(CommandLine& app);
Command add_generate(CommandLine& app);
Command add_serve(CommandLine& app);
Command add_chat(CommandLine& app);
Command add_translate(CommandLine& app);
Command add_plan(CommandLine& app);
Command add_compare(CommandLine& app);
Command add_finetune(CommandLine& app);
Command add_predict(CommandLine& app);
Command add_transcribe(CommandLine& app);
Command add_encode(CommandLine& app);
Command add_tokenize(CommandLine& app);
Command add_quantize(CommandLine& app);
Command add_convert(CommandLine& app);
Command add_import(CommandLine& app);
Command add_export(CommandLine& app);
Command add_grow(CommandLine& app);
Command add_distill(CommandLine& app);
Command add_prune(CommandLine& app);
Command add_fit(CommandLine& app);
Command add_search(CommandLine& app);
Command add_inspect(CommandLine& app);
Command add_probe(CommandLine& app);
Command add_synth(CommandLine& app);
Command add_datastore(CommandLine& app);
Command add_bench(CommandLine& app);
Command add_list(CommandLine& app);
Command add_doctor(CommandLine& app);
Command add_completion(CommandLine& app);
Command add_man(CommandLine& app);

/// All of them, with what --help says of each, and of the program.
std::span<const Verb> verbs();
ProgramHelp program_help();

/// Writes what std::cout holds; throws when that fails, so that no work is done for results that are lost. Where it is
/// a pipe that nobody reads any more, ends the process by SIGPIPE as other programs end.
void flush_results();

/// The whole program: parses, runs, turns errors into one line on stderr and an exit code.
int run_program(int argc, char** argv);

/// `to` becomes what an option gave, and stays when it was not given.
template <class T>
void take_given(T& to, const std::optional<T>& option) {
  if (option) to = *option;
}

/// Options --weights and --precision: which weights of a run are loaded, and as what.
void add_weights_options(CommandLine& app, std::string& weights, std::string& precision);

/// An option --adapter: a directory of Adapter's, beside the weights.
void add_adapter_option(CommandLine& app, std::string& adapter);

/// A flag --el-rewrite: what load_model() calls el_rewrite.
void add_el_rewrite_option(CommandLine& app, bool& el_rewrite);

/// An option --threads that takes effect when parsed.
Option add_threads_option(CommandLine& app);

}  // namespace lithe
