#include "lithe/model/initial_weights.h"

#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/model/safetensors_writer.h"

namespace lithe {
namespace {

bool shares(const ModelConfig& config) {
  bool any = config.share.any();
  for (const std::string& name : config.source_names()) any = any || config.encoder_config(name).share.any();
  return any;
}

}  // namespace

void each_initial_weight(const ModelConfig& config, const ModelOptions& options, const ParametersInTurns::Made& made) {
  if (shares(config)) {
    Model model(config, options);
    std::vector<Parameter*> all;
    for (Parameter& p : model.parameters().all()) all.push_back(&p);
    return made(all);
  }
  ParametersInTurns turns(made);
  const Model model(config, options);
  turns.finish();
}

void save_initial_weights(const ModelConfig& config, const ModelOptions& options, const Path& file) {
  ModelOptions shapes = options;
  shapes.device = Device::meta;
  std::map<std::string, SafetensorsWriter::Entry> entries;
  for (const Model outline(config, shapes); const Parameter& p : outline.parameters().all())
    entries[p.name] = {p.master.shape(), p.master.dtype()};
  SafetensorsWriter out(file, entries, {{"format", "lithe"}});
  each_initial_weight(config, options, [&](const std::vector<Parameter*>& parameters) {
    for (const Parameter* p : parameters) {
      const Tensor& numbers = p->master.value();
      check(kernels::all_finite(numbers), "init", "'", p->name, "' must begin with finite numbers alone, and does not");
      out.put(p->name, numbers);
    }
  });
  out.commit();
}

}  // namespace lithe
