#include "lithe/objective/teacher.h"

#include "lithe/model/quantized_weights.h"

namespace lithe {

Path TeacherConfig::file() const {
  namespace fs = std::filesystem;
  check_usage(!directory.empty(), "distillation", "needs a teacher: the --out directory of a training run");
  check_usage(fs::exists(Path(directory) / "config.json"), "distillation", "teacher '", directory,
              "' has no config.json; give the --out directory of a training run, or of `lithe import`");
  const Path file = Path(directory) / weights / "model.safetensors";
  check_usage(fs::exists(file), "distillation", "teacher '", directory, "' has no ",
              weights.empty() ? "" : weights + "/", "model.safetensors",
              weights.empty() ? "; it has not saved a checkpoint yet" : "; leave `weights` out for the last ones");
  return file;
}

ModelConfig TeacherConfig::model() const { return file(), load_config(Path(directory) / "config.json"); }

void TeacherConfig::check_vocabulary(const Tokenizer& tokenizer) const {
  file();
  const uint64_t own = load_tokenizers(directory).tokenizer->fingerprint(), other = tokenizer.fingerprint();
  check_usage(own == other, "distillation", "the tokenizer of teacher '", directory, "' (checksum ", own,
              ") is not that of the recipe (", other,
              "), so that their predictions are of other words; give data.tokenizer {type: file, file: ",
              (Path(directory) / "tokenizer.json").string(), "}, and no from_pretrained with another tokenizer");
}

uint64_t TeacherConfig::fingerprint() const {
  const MappedFile weights_of(file());
  return checksum(weights_of.data(), weights_of.size());
}

std::unique_ptr<Model> load_teacher(const TeacherConfig& config, Device device) {
  const Path file = config.file();
  const DType dtype = dtype_named(config.precision);
  const std::set<std::string> integers = integer_weights(file);
  check_usage(integers.empty() || dtype != DType::f64, "distillation", "'", file.string(),
              "' holds integer weights, which have no f64 products; choose precision f32 or bf16");
  const MemoryScope memory(MemoryClass::weights);
  auto model = std::make_unique<Model>(config.model(), ModelOptions{.device = device,
                                                                    .dtype = dtype,
                                                                    .compute = dtype,
                                                                    .integers = &integers,
                                                                    .initialised = device == Device::meta});
  if (device != Device::meta)
    load_weights(*model, file);
  else
    outline_integers(model->parameters(), {file, integers});
  return model;
}

Var Taught::tap(const Model& teacher, const Tap& tap) const {
  const Var out = pass.get(tap);
  check_usage(out.defined(), "distillation", "reads the ", name_of(tap.kind), " of the teacher's layer ", tap.layer + 1,
              ", and that layer gives none: ", teacher.config().num_hidden_layers, " layers, stack ",
              teacher.config().stack.type, "; name a layer that has them");
  return out;
}

Taught teach(const Model& teacher, const ModelInput& input, const std::vector<Tap>& taps) {
  const NoGrad frozen;
  const kernels::PartScope part("teacher", true);
  Taught out;
  for (const Tap& tap : taps) out.pass.want(tap);
  out.rows = teacher.run(input, out.pass);
  return out;
}

}  // namespace lithe
