// Documents of zero-shot tasks, and what the templates of a task make of them.
#pragma once

#include "lithe/base/json.h"
#include "lithe/eval/zero_shot.h"

namespace lithe {

/// All documents of the files, objects of fields.
std::vector<Json> zero_shot_documents(const std::vector<std::string>& files);
/// A template with the fields of a document in its places.
std::string rendered(const std::string& text, const Json& document, const std::string& task);
std::vector<std::string> choices_of(const ZeroShotTask& task, const Json& document);
/// The texts that are right, of a task whose model writes its answers: one, or those of a list.
std::vector<std::string> right_answers(const ZeroShotTask& task, const Json& document);
/// The number of the right one.
size_t right_choice(const ZeroShotTask& task, const Json& document, const std::vector<std::string>& choices);

}  // namespace lithe
