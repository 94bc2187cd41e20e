// Reads and writes JSON for the translations between protocols.
//
// Reading is simdjson's DOM: no recursion, bounded depth, UTF-8 checked, members in order, and unchanged
// subtrees are written back as they were. `Faults` holds the first fault with its path, so that a translation
// is a chain of calls that each return false after a fault. Nothing here throws, or outlives its parser.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conf/json_writer.h"
#include "gateway/api/error.h"

namespace gateway::api {

using Json = simdjson::dom::element;
using JsonArray = simdjson::dom::array;
using JsonObject = simdjson::dom::object;

// No document that Tidegate itself parses may nest deeper.
inline constexpr size_t kMaxNesting = 128;

// The place of a value: a chain through the callers' frames, converted to text only for a fault.
struct Path {
  const Path* parent = nullptr;
  std::string_view key;  // empty: an array's element
  size_t index = 0;

  Path operator/(std::string_view member) const { return {this, member, 0}; }
  Path operator[](size_t element) const { return {this, {}, element}; }
  std::string Text() const;  // `messages[2].content[0].type`; empty for the document itself
};

// The first fault of a document. Every method records and returns false.
struct Faults {
  std::optional<ApiError> first;

  bool Add(Code code, const Path& path, std::string message);
  bool WrongType(const Path& path, std::string_view wanted, Json got);
  bool Missing(const Path& path);
  // `why` continues a sentence that begins with the path: "is not supported for this model".
  bool Unsupported(const Path& path, std::string_view why);
};

// Parses `text` into `root`, which stays valid until the parser is used again. A fault is one of
// kInvalidJson, kNestingTooDeep, or kInvalidType for a document that is not an object.
// `padded`: simdjson::SIMDJSON_PADDING bytes behind the text can be read, so that it need not be copied.
bool ParseObject(simdjson::dom::parser& parser, std::string_view text, Faults& faults, JsonObject& root,
                 bool padded = false);

// The text with U+FFFD in place of each escape of half a surrogate pair, which no parser takes. Programs that count in
// UTF-16 cut their pieces of text there.
std::string WithoutHalfSurrogates(std::string_view text);

// Typed reads: a fault when the value is of another type.
bool Read(Json value, const Path& path, Faults& faults, std::string_view& into);
bool Read(Json value, const Path& path, Faults& faults, bool& into);
bool Read(Json value, const Path& path, Faults& faults, JsonArray& into);
bool Read(Json value, const Path& path, Faults& faults, JsonObject& into);

// The member as a string, or empty when it is absent or of another type.
std::string_view StringOr(JsonObject object, std::string_view key, std::string_view otherwise = {});
// The member unless it is absent or null.
std::optional<Json> Find(JsonObject object, std::string_view key);
// The member, which must be there and be a string.
bool Require(JsonObject object, std::string_view key, const Path& path, Faults& faults,
             std::string_view& into);

// The first key that an object has twice, or empty. For the few members of a request's top level.
std::string_view DuplicateKey(JsonObject object);

using conf::JsonWriter;

// A value as it was but for whitespace, for JsonWriter::Raw.
inline std::string Minified(Json value) {
  return simdjson::minify(value);
}
inline std::string Minified(JsonObject value) {
  return simdjson::minify(value);
}

}  // namespace gateway::api
