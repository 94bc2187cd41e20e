// An instance of a JSON schema, like the answer of a model with structured output or a tool call.
//
// Supports type (also as a list), enum, const, default, properties, required, items, prefixItems, minItems,
// maxItems, uniqueItems, minLength, maxLength, pattern (literals, classes, groups, alternatives, counts),
// format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, anyOf, oneOf, allOf, and $ref
// within the document. Ignores other keywords. Recursion ends as soon as the schema permits, at the latest at
// depth 32.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tidegate_engine {

using Json = nlohmann::ordered_json;

// Properties come in the schema's own order, all of them up to depth 4, below that the required ones.
Json MakeInstance(const Json& schema, uint64_t seed);

// A string that the regular expression matches as a whole; nothing if it uses an unsupported construct.
bool MakeMatch(std::string_view pattern, uint64_t seed, std::string& out);

}  // namespace tidegate_engine
