// Steps of exporting that formats share.
#pragma once

#include "lithe/interchange/export.h"
#include "lithe/interchange/weights.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

struct RunToExport {
  ModelConfig config;
  std::map<std::string, PendingTensor> parameters;  // read from the run's file, each when it is asked for
  std::shared_ptr<const Tokenizer> tokenizer;
};
RunToExport read_run(const ExportOptions& options);

/// The config.json by which a family describes the model, and its mapping.
struct Described {
  Json config;
  Mapping mapping;
};
/// Fails (usage) with the first difference to the family that comes nearest. `types`: model types that serve.
Described describe_model(const ModelConfig& model, const std::vector<std::string>& types = {});

ExportReport export_gguf(const ExportOptions& options);

/// Writes a tokenizer's files for transformers: SentencePiece's model as a tokenizer.json of its kind, with
/// tokenizer.model beside it. `framed`: what lithe puts around the texts that a model of this architecture reads is put
/// there, too; `segments`: the second of two texts has the token type 1.
void export_tokenizer(const Path& directory, const Tokenizer& tokenizer, Architecture architecture, bool framed,
                      bool segments);

}  // namespace lithe
