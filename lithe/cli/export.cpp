#include "lithe/interchange/export.h"

#include <cstdio>
#include <iostream>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/cli/adapter_report.h"
#include "lithe/cli/command.h"

namespace lithe {
namespace {

struct ExportArguments {
  std::string run, out, weights, format = "huggingface", dtype;
  bool overwrite = false, json = false, adapter = false;
};

int run_export(const ExportArguments& o) {
  if (o.adapter) return print_adapter(export_adapter(o.run, o.out, o.overwrite), o.out, o.json);
  check_usage(o.format == "gguf" || o.dtype.empty() || o.dtype == "f32" || o.dtype == "bf16", "export", "--type ",
              o.dtype, " is for --format gguf; a directory holds f32 or bf16");
  const ExportReport report = export_model({o.run, o.out, o.weights, o.format, o.dtype, o.overwrite});
  if (o.json) {
    std::cout << dump(Json({{"model_type", report.model_type},
                            {"tensors", report.tensors},
                            {"parameters", report.parameters},
                            {"bytes", report.bytes}}),
                      2)
              << "\n";
    return 0;
  }
  std::printf("%s: %lld parameters in %lld tensors, %llu bytes, in %s\n", report.model_type.c_str(),
              static_cast<long long>(report.parameters), static_cast<long long>(report.tensors),
              static_cast<unsigned long long>(report.bytes), o.out.c_str());
  return 0;
}

}  // namespace

Command add_export(CommandLine& app) {
  auto o = std::make_shared<ExportArguments>();
  app.add_option("run", o->run, "directory of a training run, or of an imported model").required();
  app.add_option("--out", o->out, "new directory, or new GGUF file")
      .output({.kind = OutputRule::Kind::file_or_new})
      .required();
  app.add_flag("--overwrite", o->overwrite, "replace the output of an earlier lithe export in --out, and nothing else");
  const Option adapter =
      app.add_flag("--adapter", o->adapter,
                   "only the run's adapter/ (train.adapters), with the names that PEFT loads onto the exported base");
  app.add_option("--format", o->format, "huggingface: what transformers loads; gguf: what llama.cpp loads")
      .one_of({"huggingface", "gguf"})
      .excludes(adapter);
  app.add_option("--type", o->dtype,
                 "number format of the weights; q8_0 and q4_0 with --format gguf; default: as in the run")
      .one_of({"f32", "bf16", "q8_0", "q4_0"})
      .excludes(adapter);
  app.add_option("--weights", o->weights, "best, averaged, or a safetensors file; default: the last checkpoint's")
      .excludes(adapter);
  app.add_flag("--json", o->json, "print what was written as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe export runs/first --out first-hf\n         lithe export runs/tuned --adapter --out tuned-peft\nA "
      "model with a part that the other program does not have is "
      "refused; the message names the part. See docs/interchange.md.");
  return [o] { return run_export(*o); };
}

}  // namespace lithe
