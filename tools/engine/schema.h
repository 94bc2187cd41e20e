// An instance of a JSON schema: what a model under structured output, or one that calls a tool, would write.
//
// Knows type (also as a list), enum, const, default, properties, required, items, prefixItems, minItems,
// maxItems, uniqueItems, minLength, maxLength, pattern (literals, classes, groups, alternatives, counts),
// format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, anyOf, oneOf, allOf, $ref within
// the document. What it does not know it does not obey. Recursion ends as soon as the schema permits, at
// depth 32 in any case.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tidegate_engine {

using Json = nlohmann::ordered_json;

// Properties come in the schema's own order, all of them up to depth 4, below that the required ones.
Json MakeInstance(const Json& schema, uint64_t seed);

// A string that the regular expression matches as a whole; nothing when it uses what is not known here.
bool MakeMatch(std::string_view pattern, uint64_t seed, std::string& out);

}  // namespace tidegate_engine
