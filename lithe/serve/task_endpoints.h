// What models of tasks and of translation answer. Nothing here knows of HTTP.
#pragma once

#include "lithe/serve/endpoints.h"

namespace lithe {

// Each fails (usage) with a sentence that names the key.
/// /v1/classify: what the model says of each text, as `lithe predict --json` prints it.
Json classify(const Chosen& chosen, const Json& body, const StillWanted& wanted = {});
/// /v1/translations: the translations of each text, the best first.
Json translations(const Chosen& chosen, const Json& body, const StillWanted& wanted = {});

}  // namespace lithe
