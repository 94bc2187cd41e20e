#include "router/facts/body_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <charconv>
#include <cmath>

#include "conf/text.h"
#include "conf/words.h"
#include "router/facts/body_keys.h"

namespace router {
namespace {

using Failure = std::optional<FactsError>;

constexpr std::array<std::string_view, kBoundKeyCount> kBoundNames = {"max_tokens", "max_completion_tokens",
                                                                      "max_output_tokens", "n_predict"};
constexpr size_t kMinMediaBytes = 1024;  // a shorter "data" member counts as text
constexpr double kMaxCount = 1e12;       // larger counts are cut to this
constexpr double kTwoTo63 = 9223372036854775808.0;

std::string ListKinds(uint8_t accepts) {
  constexpr std::array<std::string_view, 6> kNames = {"a string", "an array",  "an object",
                                                      "a number", "a boolean", "null"};
  std::string out;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if ((accepts >> i & 1) == 0) continue;
    if (!out.empty()) out += " or ";
    out += kNames[i];
  }
  return out;
}

struct Integer {
  std::optional<int64_t> value;  // none: it is none, or out of range
  bool out_of_range = false;     // no engine that counts in 64 bits could read it
};

// An integer, also when it is written as 1e3 or 5.0.
Integer ParseInteger(std::string_view raw) {
  if (const std::optional<int64_t> whole = conf::ReadNumber<int64_t>(raw)) {
    return {std::clamp<int64_t>(*whole, -static_cast<int64_t>(kMaxCount), static_cast<int64_t>(kMaxCount))};
  }
  double value = 0;
  const auto parsed = std::from_chars(raw.data(), raw.data() + raw.size(), value);
  if (parsed.ec == std::errc::result_out_of_range || std::abs(value) >= kTwoTo63) return {{}, true};
  if (value != std::trunc(value)) return {};
  return {static_cast<int64_t>(std::clamp(value, -kMaxCount, kMaxCount))};
}

// Counts text, media and numbers of a prompt.
struct PromptVisitor : JsonVisitor {
  explicit PromptVisitor(BodyFacts& body_facts) : facts(body_facts) {}

  void Key(std::string_view raw) { media_key = raw == "data" || raw == "file_data" || raw == "b64_json"; }
  void String(std::string_view raw) {
    if (raw.starts_with("data:") || (media_key && raw.size() >= kMinMediaBytes)) {
      facts.media_bytes += raw.size();
      ++facts.media_parts;
    } else {
      facts.prompt_bytes += raw.size();
    }
    media_key = false;
  }
  void Number(std::string_view) { ++numbers; }

  BodyFacts& facts;
  uint64_t numbers = 0;
  bool media_key = false;
};

class Reader {
 public:
  Reader(std::string_view text, std::span<const uint32_t> positions, Api api, BodyFacts& facts)
      : text_(text), positions_(positions), cursor_(text, positions), api_(api), facts_(facts) {}

  Failure ReadBody();
  Failure Check(JsonError error) const;

 private:
  Failure ReadMember(ByteRange key);
  Failure ReadValue(const KeySpec& spec);
  Failure ReadCount(const KeySpec& spec, std::optional<int64_t>& value, int64_t least);
  Failure ReadBound(const KeySpec& spec, BoundKey key);
  Failure ReadText(BodyText& out);
  Failure ReadPrompt(const KeySpec& spec, std::optional<PromptPart> part);
  Failure ReadPromptEmbeds();
  Failure ReadTools(PromptPart part);
  Failure ReadStreamOptions();
  Failure ReadMetadata();

  // Calls `member(name)` for each member of the object at the cursor; the cursor is then at the value.
  template <class Member>
  Failure ForEachMember(Member member);

  Failure Skip(size_t depth) {
    JsonVisitor nobody;
    return Check(cursor_.SkipValue(depth, nobody));
  }
  Failure Malformed() const { return Check(JsonError::kMalformed); }
  Failure BadEscape() const;
  Failure DecodeName(ByteRange key, std::string_view& name);
  ByteRange From(size_t begin) const { return {begin, cursor_.TrimmedEnd() - begin}; }

  std::string_view text_;
  std::span<const uint32_t> positions_;
  JsonCursor cursor_;
  Api api_;
  BodyFacts& facts_;
  std::bitset<kKeyCount> seen_;
  std::string scratch_;  // a name decoded from escapes
};

Failure Reader::Check(JsonError error) const {
  switch (error) {
    case JsonError::kNone:
      return std::nullopt;
    case JsonError::kTooDeep:
      return FactsError{
          FactsErrorCode::kTooDeep, "",
          fmt::format("the body nests deeper than {} levels at byte {}", kMaxJsonDepth, cursor_.offset())};
    case JsonError::kInvalidUtf8:
      return FactsError{FactsErrorCode::kInvalidUtf8, "", "the body is not valid UTF-8"};
    case JsonError::kUnclosedString:
      return FactsError{FactsErrorCode::kInvalidJson, "",
                        "the body is not valid JSON: a string is not closed"};
    case JsonError::kBadEscape:
      return BadEscape();
    case JsonError::kTooLarge:
      return FactsError{FactsErrorCode::kInvalidJson, "", "the body is too large to be read"};
    case JsonError::kMalformed:
      break;
  }
  return FactsError{FactsErrorCode::kInvalidJson, "",
                    fmt::format("the body is not valid JSON near byte {}", cursor_.offset())};
}

// Of the string before the cursor.
Failure Reader::BadEscape() const {
  std::string path = JsonPathAt(text_, positions_, cursor_.last_offset());
  std::string message =
      fmt::format("{}: the string has an escape that JSON does not know, or half a surrogate pair", path);
  return FactsError{FactsErrorCode::kInvalidJson, "", std::move(message), std::move(path)};
}

Failure Reader::ReadBody() {
  if (!cursor_.Take('{')) {
    return FactsError{FactsErrorCode::kNotAnObject, "", "the body must be a JSON object"};
  }
  facts_.insert_at = static_cast<size_t>(text_.find('{')) + 1;
  if (!cursor_.Take('}')) {
    while (true) {
      ByteRange key;
      if (!cursor_.TakeKey(key)) return Malformed();
      if (Failure failure = ReadMember(key)) return failure;
      if (cursor_.Take('}')) break;
      if (!cursor_.Take(',')) return Malformed();
    }
  }
  if (!cursor_.AtEnd()) return Malformed();
  if (facts_.model.empty()) {
    return FactsError{FactsErrorCode::kMissingModel, "model",
                      "model must be given, as a string that is not empty"};
  }
  return std::nullopt;
}

Failure Reader::DecodeName(ByteRange key, std::string_view& name) {
  name = key.In(text_);
  if (name.find('\\') == std::string_view::npos) return std::nullopt;
  if (!UnescapeJson(name, scratch_)) return Malformed();
  name = scratch_;
  return std::nullopt;
}

Failure Reader::ReadMember(ByteRange key) {
  std::string_view name;
  if (Failure failure = DecodeName(key, name)) return failure;
  bool exact = false;
  const KeySpec* spec = FindKey(name, exact);
  if (spec != nullptr && IsRefused(*spec, api_)) {
    const bool counts = spec->key >= Key::kN && spec->key <= Key::kBestOf;
    if (counts && KindOf(cursor_.Peek()) == kNull) return Skip(1);
    return FactsError{
        FactsErrorCode::kUnsupportedMember, spec->name,
        counts ? fmt::format("{} is not a parameter of this API, which gives one answer", spec->name)
               : fmt::format("{} is not a parameter of this API; its bound of the answer is {}", spec->name,
                             SpecOf(api_).bound)};
  }
  if (spec == nullptr || !Means(*spec, api_)) return Skip(1);
  if (!exact) {
    return FactsError{FactsErrorCode::kAmbiguousKey, spec->name,
                      fmt::format("{} must be written in lower case", spec->name)};
  }
  if (seen_.test(static_cast<size_t>(spec->key))) {
    return FactsError{FactsErrorCode::kDuplicateKey, spec->name,
                      fmt::format("{} must be given only once", spec->name)};
  }
  seen_.set(static_cast<size_t>(spec->key));
  const uint8_t kind = KindOf(cursor_.Peek());
  if (kind == 0) return Malformed();
  if ((kind & spec->accepts) == 0) {
    return FactsError{FactsErrorCode::kInvalidType, spec->name,
                      fmt::format("{} must be {}", spec->name, ListKinds(spec->accepts))};
  }
  if (kind != kNull) return ReadValue(*spec);
  const size_t begin = cursor_.offset();
  if (Failure failure = Skip(1)) return failure;
  if (spec->key == Key::kStreamOptions) {
    facts_.stream_options = From(begin);
    facts_.stream_options_null = true;
  } else if (spec->key >= Key::kMaxTokens && spec->key <= Key::kNPredict) {
    static_assert(static_cast<size_t>(Key::kNPredict) - static_cast<size_t>(Key::kMaxTokens) + 1 ==
                  kBoundKeyCount);
    const auto bound = static_cast<size_t>(spec->key) - static_cast<size_t>(Key::kMaxTokens);
    facts_.bounds[bound] = {true, std::nullopt, From(begin)};
  } else if (spec->key == Key::kCacheSalt) {
    facts_.cache_salt = From(begin);
    facts_.cache_salt_null = true;
  } else if (spec->key >= Key::kKvTransferParams && spec->key <= Key::kBootstrapRoom) {
    facts_.has_transfer_members = true;
  }
  return std::nullopt;
}

Failure Reader::ReadValue(const KeySpec& spec) {
  const size_t begin = cursor_.offset();
  std::optional<int64_t> count;
  switch (spec.key) {
    case Key::kModel:
      if (Failure failure = ReadText(facts_.model)) return failure;
      facts_.model_range = From(begin);
      return std::nullopt;
    case Key::kStream:
      facts_.stream = facts_.stream || cursor_.Peek() == 't';
      if (Failure failure = Skip(1)) return failure;
      facts_.stream_range = From(begin);
      return std::nullopt;
    case Key::kStreamFormat: {
      BodyText format;
      if (Failure failure = ReadText(format)) return failure;
      facts_.stream = facts_.stream || format.view() == "sse";
      return std::nullopt;
    }
    case Key::kStreamOptions:
      return ReadStreamOptions();
    case Key::kMaxTokens:
      return ReadBound(spec, BoundKey::kMaxTokens);
    case Key::kMaxCompletionTokens:
      return ReadBound(spec, BoundKey::kMaxCompletionTokens);
    case Key::kMaxOutputTokens:
      return ReadBound(spec, BoundKey::kMaxOutputTokens);
    case Key::kMaxNewTokens:
    case Key::kMaxTokensToSample:
    case Key::kNumPredict:
      return Skip(1);
    case Key::kNPredict:
      return ReadBound(spec, BoundKey::kNPredict);
    case Key::kN:
    case Key::kNCmpl:
    case Key::kBestOf:
      if (Failure failure = ReadCount(spec, count, 0)) return failure;
      if (*count > kMaxN) {
        return FactsError{FactsErrorCode::kInvalidValue, spec.name,
                          fmt::format("{} must be at most {}, not {}", spec.name, kMaxN, *count)};
      }
      facts_.n = std::max(facts_.n, static_cast<uint32_t>(*count));
      return std::nullopt;
    case Key::kMessages:
      return ReadPrompt(spec, PromptPart::kMessages);
    case Key::kTools:
    case Key::kFunctions:
      return ReadTools(PromptPart::kTools);
    case Key::kSystem:
    case Key::kInstructions:
      return ReadPrompt(spec, PromptPart::kSystem);
    case Key::kPrompt:
      return ReadPrompt(spec, PromptPart::kPrompt);
    case Key::kPromptEmbeds:
      return ReadPromptEmbeds();
    case Key::kInput:
      return ReadPrompt(spec, PromptPart::kInput);
    case Key::kQuery:
    case Key::kText1:
      return ReadPrompt(spec, PromptPart::kQuery);
    case Key::kDocuments:
    case Key::kText2:
      return ReadPrompt(spec, PromptPart::kDocuments);
    case Key::kTokens:
      return ReadPrompt(spec, std::nullopt);
    case Key::kUser:
    case Key::kSafetyIdentifier:
      return ReadText(facts_.user);
    case Key::kMetadata:
      return ReadMetadata();
    case Key::kPromptCacheKey:
      return ReadText(facts_.prompt_cache_key);
    case Key::kSessionId:
      return ReadText(facts_.session);
    case Key::kPreviousResponseId:
      if (Failure failure = ReadText(facts_.previous_response)) return failure;
      facts_.session = facts_.previous_response;
      return std::nullopt;
    case Key::kServiceTier:
      return ReadText(facts_.service_tier);
    case Key::kPriority:
      return ReadCount(spec, facts_.priority, INT64_MIN);
    case Key::kMinTokens:
      if (Failure failure = Skip(1)) return failure;
      facts_.min_tokens = From(begin);
      return std::nullopt;
    case Key::kCacheSalt:
      if (Failure failure = Skip(1)) return failure;
      facts_.cache_salt = From(begin);
      return std::nullopt;
    case Key::kKvTransferParams:
    case Key::kBootstrapHost:
    case Key::kBootstrapPort:
    case Key::kBootstrapRoom:
      facts_.has_transfer_members = true;
      return Skip(1);
    case Key::kLoraPath:
      facts_.names_adapter = true;
      return Skip(1);
  }
  return Malformed();
}

Failure Reader::ReadCount(const KeySpec& spec, std::optional<int64_t>& value, int64_t least) {
  const std::string_view raw = cursor_.TakeToken().In(text_);
  if (!IsJsonNumber(raw)) return Malformed();
  const Integer integer = ParseInteger(raw);
  value = integer.value;
  if (value && *value >= least) return std::nullopt;
  if (integer.out_of_range) {
    return FactsError{FactsErrorCode::kInvalidValue, spec.name,
                      fmt::format("{} must be an integer of 64 bits", spec.name)};
  }
  const FactsErrorCode code = value ? FactsErrorCode::kInvalidValue : FactsErrorCode::kInvalidType;
  return FactsError{code, spec.name,
                    least == INT64_MIN
                        ? fmt::format("{} must be an integer", spec.name)
                        : fmt::format("{} must be an integer of at least {}", spec.name, least)};
}

Failure Reader::ReadBound(const KeySpec& spec, BoundKey key) {
  OutputBound& bound = facts_.bounds[static_cast<size_t>(key)];
  const size_t begin = cursor_.offset();
  if (Failure failure = ReadCount(spec, bound.value, 0)) return failure;
  bound.present = true;
  bound.range = From(begin);
  return std::nullopt;
}

Failure Reader::ReadText(BodyText& out) {
  const std::string_view quoted = cursor_.TakeToken().In(text_);
  if (quoted.size() < 2) return Malformed();
  const std::string_view raw = quoted.substr(1, quoted.size() - 2);
  if (raw.find('\\') == std::string_view::npos) {
    out = BodyText(raw);
    return std::nullopt;
  }
  std::string decoded;
  if (!UnescapeJson(raw, decoded)) return BadEscape();
  out = BodyText(std::move(decoded));
  return std::nullopt;
}

Failure Reader::ReadPrompt(const KeySpec& spec, std::optional<PromptPart> part) {
  const size_t begin = cursor_.offset();
  const bool counted = spec.key == Key::kInput || spec.key == Key::kPrompt || spec.key == Key::kDocuments ||
                       spec.key == Key::kText2;
  PromptVisitor visitor(facts_);
  uint32_t inputs = 1;
  const bool conversation = api_ == Api::kResponses || api_ == Api::kInputTokens;
  if (counted && !conversation && cursor_.Take('[')) {
    inputs = 0;
    bool of_numbers = true;  // one prompt, as token ids
    if (!cursor_.Take(']')) {
      do {
        of_numbers = of_numbers && KindOf(cursor_.Peek()) == kNumber;
        if (Failure failure = Check(cursor_.SkipValue(2, visitor))) return failure;
        ++inputs;
      } while (cursor_.Take(','));
      if (!cursor_.Take(']')) return Malformed();
    }
    if (of_numbers && inputs > 0) inputs = 1;
  } else if (Failure failure = Check(cursor_.SkipValue(1, visitor))) {
    return failure;
  }
  if (counted) facts_.inputs += inputs;
  const bool token_ids = spec.key == Key::kTokens || spec.key == Key::kPrompt || spec.key == Key::kInput;
  if (token_ids) facts_.prompt_tokens += visitor.numbers;
  if (part) facts_.prompt_parts[static_cast<size_t>(*part)] = From(begin);
  return std::nullopt;
}

// Tensors in base64, of a length in tokens that only the engine knows: each counts as a medium.
Failure Reader::ReadPromptEmbeds() {
  const uint64_t text = facts_.prompt_bytes;
  const uint32_t inputs = facts_.inputs;
  const size_t begin = cursor_.offset();
  uint32_t embeds = 1;
  PromptVisitor visitor(facts_);
  if (cursor_.Take('[')) {
    embeds = 0;
    if (!cursor_.Take(']')) {
      do {
        if (Failure failure = Check(cursor_.SkipValue(2, visitor))) return failure;
        ++embeds;
      } while (cursor_.Take(','));
      if (!cursor_.Take(']')) return Malformed();
    }
  } else if (Failure failure = Check(cursor_.SkipValue(1, visitor))) {
    return failure;
  }
  facts_.prompt_bytes = text;
  facts_.inputs = inputs + embeds;
  facts_.media_parts += embeds;
  facts_.media_bytes += From(begin).size;
  return std::nullopt;
}

Failure Reader::ReadTools(PromptPart part) {
  const size_t begin = cursor_.offset();
  if (Failure failure = Skip(1)) return failure;
  const ByteRange range = From(begin);
  facts_.prompt_parts[static_cast<size_t>(part)] = range;
  const std::string_view inside = text_.substr(range.begin + 1, range.size - 2);
  const bool some = std::any_of(inside.begin(), inside.end(), [](char c) { return !JsonCursor::IsSpace(c); });
  facts_.uses_tools = facts_.uses_tools || some;
  if (some) facts_.prompt_bytes += range.size;
  return std::nullopt;
}

template <class Member>
Failure Reader::ForEachMember(Member member) {
  if (!cursor_.Take('{')) return Malformed();
  if (cursor_.Take('}')) return std::nullopt;
  do {
    ByteRange key;
    std::string_view name;
    if (!cursor_.TakeKey(key)) return Malformed();
    if (Failure failure = DecodeName(key, name)) return failure;
    if (Failure failure = member(name)) return failure;
  } while (cursor_.Take(','));
  return cursor_.Take('}') ? std::nullopt : Malformed();
}

Failure Reader::ReadStreamOptions() {
  const size_t begin = cursor_.offset();
  bool some = false;
  Failure failure = ForEachMember([&](std::string_view name) -> Failure {
    some = true;
    if (name != "include_usage") return Skip(2);
    constexpr std::string_view kParam = "stream_options.include_usage";
    if (!facts_.include_usage.empty()) {
      return FactsError{FactsErrorCode::kDuplicateKey, kParam,
                        fmt::format("{} must be given only once", kParam)};
    }
    const char first = cursor_.Peek();
    if ((KindOf(first) & (kBool | kNull)) == 0) {
      return FactsError{FactsErrorCode::kInvalidType, kParam,
                        fmt::format("{} must be a boolean or null", kParam)};
    }
    const size_t value = cursor_.offset();
    if (Failure bad = Skip(2)) return bad;
    facts_.include_usage = From(value);
    facts_.usage_asked = first == 't';
    return std::nullopt;
  });
  if (failure) return failure;
  facts_.stream_options = From(begin);
  facts_.stream_options_empty = !some;
  return std::nullopt;
}

Failure Reader::ReadMetadata() {
  bool seen = false;
  return ForEachMember([&](std::string_view name) -> Failure {
    if (name != "user_id") return Skip(2);
    constexpr std::string_view kParam = "metadata.user_id";
    if (seen) {
      return FactsError{FactsErrorCode::kDuplicateKey, kParam,
                        fmt::format("{} must be given only once", kParam)};
    }
    seen = true;
    if (KindOf(cursor_.Peek()) == kNull) return Skip(2);
    if (KindOf(cursor_.Peek()) != kString) {
      return FactsError{FactsErrorCode::kInvalidType, kParam,
                        fmt::format("{} must be a string or null", kParam)};
    }
    return ReadText(facts_.user);
  });
}

}  // namespace

constexpr conf::Word<FactsErrorCode> kFactsErrorCodes[] = {
    {"invalid_json", FactsErrorCode::kInvalidJson},
    {"invalid_type", FactsErrorCode::kInvalidType},
    {"invalid_value", FactsErrorCode::kInvalidValue},
    {"unsupported_member", FactsErrorCode::kUnsupportedMember},
    {"missing_model", FactsErrorCode::kMissingModel},
    {"duplicate_key", FactsErrorCode::kDuplicateKey},
    {"ambiguous_key", FactsErrorCode::kAmbiguousKey},
    {"not_an_object", FactsErrorCode::kNotAnObject},
    {"too_deep", FactsErrorCode::kTooDeep},
    {"invalid_utf8", FactsErrorCode::kInvalidUtf8},
    {"invalid_multipart", FactsErrorCode::kInvalidMultipart}};

std::string_view CodeName(FactsErrorCode code) {
  return conf::WordOf(kFactsErrorCodes, code);
}

std::string_view BoundKeyName(BoundKey key) {
  return kBoundNames[static_cast<size_t>(key)];
}

std::optional<int64_t> BodyFacts::MaxOutputTokens() const {
  std::optional<int64_t> most;
  if (bound(BoundKey::kNPredict).present && !bound(BoundKey::kNPredict).value) return most;
  for (size_t key = 0; key < kBoundKeyCount; ++key) {
    if (key == static_cast<size_t>(BoundKey::kNPredict) && !most)
      continue;  // only one engine would stop there
    const OutputBound& bound = bounds[key];
    if (bound.present && bound.value) most = std::max(most.value_or(0), *bound.value);
  }
  return most;
}

std::optional<FactsError> FactsScanner::Scan(std::string_view body, Api api, BodyFacts& facts) {
  facts = BodyFacts();
  const JsonError error = index_.Build(body);
  Reader reader(body, index_.positions(), api, facts);
  if (error != JsonError::kNone) return reader.Check(error);
  return reader.ReadBody();
}

std::vector<BodyMember> FactsScanner::Members(std::string_view body) const {
  std::vector<BodyMember> members;
  JsonCursor cursor(body, index_.positions());
  JsonVisitor nobody;
  if (!cursor.Take('{') || cursor.Take('}')) return members;
  do {
    ByteRange key;
    if (!cursor.TakeKey(key)) return members;
    BodyMember& member = members.emplace_back();
    const std::string_view raw = key.In(body);
    if (raw.find('\\') == std::string_view::npos || !UnescapeJson(raw, member.name)) member.name = raw;
    member.value.begin = cursor.offset();
    if (cursor.SkipValue(1, nobody) != JsonError::kNone) return members;
    member.value.size = cursor.TrimmedEnd() - member.value.begin;
  } while (cursor.Take(','));
  return members;
}

JsonCursor FactsScanner::CursorOf(std::string_view body, ByteRange value) const {
  const std::span<const uint32_t> all = index_.positions();
  const auto begin = std::lower_bound(all.begin(), all.end(), value.begin);
  const auto end = std::lower_bound(begin, all.end(), value.end());
  return {body.substr(0, value.end()),
          all.subspan(static_cast<size_t>(begin - all.begin()), static_cast<size_t>(end - begin))};
}

}  // namespace router
