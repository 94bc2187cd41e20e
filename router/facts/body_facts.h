// What the gateway must know of a JSON request before it forwards it. The body is scanned, never rebuilt.
//
// The whole body is checked against JSON's grammar, so that Tidegate and the engine cannot read it
// differently. Members that decide who pays, who answers or how much may occur only once. Owner: one
// FactsScanner per shard. A BodyFacts holds views into the body, which must outlive it. Cost: linear; no
// allocation for bodies up to 64 KiB, unless a string that is read has escapes or the body is refused.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/facts/api.h"
#include "router/facts/json_index.h"

namespace router {

enum class FactsErrorCode : uint8_t {
  kInvalidJson,
  kInvalidType,
  kInvalidValue,
  kUnsupportedMember,
  kMissingModel,
  kDuplicateKey,
  kAmbiguousKey,  // differs from a known member only in case; engines disagree whether it is that member
  kNotAnObject,
  kTooDeep,
  kInvalidUtf8,
  kInvalidMultipart,
};
std::string_view CodeName(FactsErrorCode code);  // "invalid_json", stable: clients match on it

struct FactsError {
  FactsErrorCode code;
  std::string_view param;  // the faulty member, or empty; static text
  std::string message;
  std::string path = {};  // of a value deeper down, in place of `param`: `messages[2].content`
};

// A string of the body: a view of it, or a decoded copy where it has escapes.
class BodyText {
 public:
  BodyText() = default;
  explicit BodyText(std::string_view raw) : raw_(raw) {}
  explicit BodyText(std::string decoded) : decoded_(std::move(decoded)) {}

  std::string_view view() const { return decoded_.empty() ? raw_ : std::string_view(decoded_); }
  bool empty() const { return view().empty(); }

 private:
  std::string_view raw_;
  std::string decoded_;
};

// The members that bound the output. Engines differ in which of two wins.
// `n_predict` is llama.cpp's, which obeys it over the API's own; other engines ignore it.
enum class BoundKey : uint8_t { kMaxTokens, kMaxCompletionTokens, kMaxOutputTokens, kNPredict };
inline constexpr size_t kBoundKeyCount = 4;
std::string_view BoundKeyName(BoundKey key);

struct OutputBound {
  bool present = false;          // a null is present without a value
  std::optional<int64_t> value;  // none: unbounded (null)
  ByteRange range;               // of the value
};

// The members whose bytes form the prompt, in the order in which the engine sees them: prefixes are hashed
// so.
enum class PromptPart : uint8_t { kTools, kSystem, kMessages, kPrompt, kInput, kQuery, kDocuments };
inline constexpr size_t kPromptPartCount = 7;

struct BodyFacts {
  BodyText model;
  ByteRange model_range;  // of the value, with its quotes
  // Just after the opening brace. The object is not empty when a model was found.
  size_t insert_at = 0;

  bool stream = false;
  ByteRange stream_range;    // of the value; empty when absent
  ByteRange stream_options;  // of the value; empty when absent
  bool stream_options_null = false;
  bool stream_options_empty = false;  // `{}`
  ByteRange include_usage;            // of its value; empty when absent
  bool usage_asked = false;

  ByteRange min_tokens;  // of the value; empty when absent
  ByteRange cache_salt;  // likewise
  bool cache_salt_null = false;
  bool names_adapter = false;         // has a member that names a LoRA adapter beside `model`
  bool has_transfer_members = false;  // has members with which engines transfer KV caches

  uint32_t n = 1;  // completions asked for, of each prompt: the largest of n, n_cmpl and best_of
  std::array<OutputBound, kBoundKeyCount> bounds;

  std::array<ByteRange, kPromptPartCount> prompt_parts;
  uint64_t prompt_bytes = 0;   // of the prompt's string values, with escapes
  uint64_t prompt_tokens = 0;  // number of token ids, where the prompt is given so
  uint64_t media_bytes = 0;    // base64 in the prompt
  uint32_t media_parts = 0;
  uint32_t inputs = 0;  // prompts, embedding inputs, documents

  BodyText user;  // user, safety_identifier, or metadata.user_id
  BodyText prompt_cache_key;
  BodyText session;  // session_id or previous_response_id
  BodyText previous_response;
  BodyText service_tier;
  std::optional<int64_t> priority;
  bool uses_tools = false;

  const OutputBound& bound(BoundKey key) const { return bounds[static_cast<size_t>(key)]; }
  const ByteRange& part(PromptPart part) const { return prompt_parts[static_cast<size_t>(part)]; }

  // The most output tokens of one completion, whichever bound the engine obeys; none: unbounded. A bound that
  // not every engine obeys does not count where it stands alone.
  std::optional<int64_t> MaxOutputTokens() const;
  // Completions asked for, of all prompts.
  int64_t choices() const { return int64_t{n} * (inputs > 1 ? inputs : 1); }
};

// A member of a body's object.
struct BodyMember {
  std::string name;  // decoded
  ByteRange value;
};

// More completions of one prompt are refused: no client needs them, and one request would reserve a day's
// tokens.
inline constexpr int64_t kMaxN = 128;

class FactsScanner {
 public:
  // Reads `body` as a request to `api`. On an error `facts` holds what was read before it.
  std::optional<FactsError> Scan(std::string_view body, Api api, BodyFacts& facts);

  // All members of the body that was scanned last without an error, in order; and a cursor that passes over
  // one value.
  std::vector<BodyMember> Members(std::string_view body) const;
  JsonCursor CursorOf(std::string_view body, ByteRange value) const;

 private:
  JsonIndex index_;
};

}  // namespace router
