// The form that answers must have: JSON, JSON of a schema, or texts of a grammar.
#pragma once

#include "lithe/base/json.h"
#include "lithe/serve/served_model.h"

namespace lithe {

/// `response_format` as OpenAI has it (text, json_object, json_schema), or `grammar`, a text in llama.cpp's form
/// (GBNF); null where it is not given. Returns none where any text will do. Fails (usage) on what cannot be compiled.
std::shared_ptr<GrammarMasks> answer_format(const Json* response_format, const Json* grammar, const ServedModel& model);

}  // namespace lithe
