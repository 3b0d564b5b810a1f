// What is answered beside texts: rows, orders, tokens, lists and counters. Nothing here knows of HTTP.
#pragma once

#include "lithe/base/json.h"
#include "lithe/serve/served_model.h"

namespace lithe {

using ServedModels = std::vector<std::unique_ptr<ServedModel>>;

/// A model, or one with an adapter, and what it is called.
struct Chosen {
  ServedModel& model;
  std::string name;
  const Adapter* adapter = nullptr;
};
/// By the name of a model, of an adapter, or "MODEL:ADAPTER"; empty: the first. None: none is named so.
std::optional<Chosen> find_model(const ServedModels& models, const std::string& name);
/// All that find_model() knows, as a message lists them.
std::string model_names(const ServedModels& models);

// Each fails (usage) with a sentence that names the key.
/// /v1/embeddings, of texts or of their tokens.
Json embeddings(const Chosen& chosen, const Json& body, const StillWanted& wanted = {});
/// /v1/rerank: by the cosine of rows, the highest first, equal ones in their order; `return_documents`: with the texts.
Json rerank(const Chosen& chosen, const Json& body, const StillWanted& wanted = {});
/// /tokenize; the harness calls the text `prompt`, llama.cpp `content`.
Json tokenize(const ServedModel& model, const Json& body);
/// /detokenize
Json detokenize(const ServedModel& model, const Json& body);
/// /tokenizer_info
Json tokenizer_info(const ServedModel& model);
/// /v1/models, and one of them; null: none is named so.
Json model_list(const ServedModels& models);
Json model_entry(const ServedModels& models, const std::string& name);
/// /metrics, in the format of Prometheus.
std::string metrics(const ServedModels& models, uint64_t requests, uint64_t refused);

}  // namespace lithe
