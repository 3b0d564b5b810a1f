// Grammars of JSON: of any object, and of what a JSON Schema describes.
#pragma once

#include "lithe/base/json.h"
#include "lithe/infer/grammar.h"

namespace lithe {

/// Any JSON object, with little white space and numbers that a double holds.
Grammar json_object_grammar();

/// JSON that is valid under a schema (2020-12). Members come in the order of `properties`, those that are not required
/// may be missing; members that the schema does not name come only where `additionalProperties` says so, behind the
/// others. Keywords: type, enum, const, anyOf, oneOf of alternatives that exclude each other, $ref within the schema,
/// properties, required, additionalProperties, items, prefixItems, minItems, maxItems, minLength, maxLength, pattern,
/// format (date, time, date-time, uuid, ipv4), minimum, maximum, exclusiveMinimum, exclusiveMaximum; and annotations.
/// Fails (usage) on others, naming the place: what is let through is always valid.
Grammar json_schema_grammar(const Json& schema);

/// The characters of a JSON string, without its quotes, that an ECMAScript pattern finds. Fails (usage) on what no
/// grammar says (look-around, back references, word boundaries) and on anchors within.
GrammarBuilder::Sequence json_string_pattern(GrammarBuilder& builder, const std::string& pattern,
                                             const std::string& where);
/// One character of a JSON string, of those ranges, escaped where it must be.
GrammarBuilder::Sequence json_character(GrammarBuilder& builder, const CharRanges& ranges);

}  // namespace lithe
