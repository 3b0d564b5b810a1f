#include "lithe/interchange/import.h"

#include <cstdio>
#include <iostream>

#include "lithe/base/json.h"
#include "lithe/cli/adapter_report.h"
#include "lithe/cli/command.h"

namespace lithe {
namespace {

struct ImportArguments {
  std::string from, out, tokenizer, base;
  int64_t context_length = 0;
  bool overwrite = false, json = false, dequantize = false;
};

int run_import(const ImportArguments& o) {
  if (!o.base.empty()) return print_adapter(import_adapter(o.from, o.base, o.out, o.overwrite), o.out, o.json);
  check_usage(!std::filesystem::exists(Path(o.from) / "adapter_config.json") ||
                  std::filesystem::exists(Path(o.from) / "config.json"),
              "import", "'", o.from, "' holds an adapter; give --base, the run of the model that it was trained on");
  const ImportReport report = import_model({o.from, o.out, o.tokenizer, o.context_length, o.overwrite, o.dequantize});
  if (o.json) {
    std::cout << dump(Json({{"model_type", report.model_type},
                            {"parameters", report.parameters},
                            {"tensors", report.tensors},
                            {"dtype", report.dtype},
                            {"dropped", report.dropped},
                            {"notes", report.notes}}),
                      2)
              << "\n";
    return 0;
  }
  std::printf("%s: %lld parameters (%s) of %lld tensors in %s\n", report.model_type.c_str(),
              static_cast<long long>(report.parameters), report.dtype.c_str(), static_cast<long long>(report.tensors),
              o.out.c_str());
  for (const std::string& name : report.dropped) std::printf("not needed        %s\n", name.c_str());
  for (const std::string& note : report.notes) std::printf("note              %s\n", note.c_str());
  return 0;
}

}  // namespace

Command add_import(CommandLine& app) {
  auto o = std::make_shared<ImportArguments>();
  app.add_option("model", o->from,
                 "directory of the Hugging Face format (config.json, safetensors, tokenizer files), or a GGUF file")
      .required();
  app.add_option("--out", o->out, "new directory, which generate, eval, encode, inspect, quantize and train take")
      .output({.kind = OutputRule::Kind::new_directory})
      .required();
  app.add_flag("--overwrite", o->overwrite, "replace the output of an earlier lithe import in --out, and nothing else");
  const Option base = app.add_option(
      "--base", o->base,
      "the directory holds an adapter that PEFT saved: the run of the model that it was trained on; the result is for "
      "lithe generate --adapter");
  app.add_option("--tokenizer", o->tokenizer, "file or directory of the tokenizer; default: with the model")
      .excludes(base);
  app.add_option("--context-length", o->context_length,
                 "tokens of the longest text, for models with rotary positions: chooses the frequencies of longrope "
                 "and dynamic scaling; default: the length of the training by config.json")
      .positive()
      .excludes(base);
  app.add_flag(
         "--dequantize", o->dequantize,
         "blocks of integers of a GGUF file become numbers, which can be trained, converted, pruned and exported; "
         "default: they are kept and computed as they are")
      .excludes(base);
  app.add_flag("--json", o->json, "print what was read as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe import models/SmolLM-135M --out runs/smollm\n         lithe import peft-adapter --base "
      "runs/smollm --out runs/adapter\nKeys of config.json and tensors that lithe does not "
      "know are refused by name; see docs/interchange.md.");
  return [o] { return run_import(*o); };
}

}  // namespace lithe
