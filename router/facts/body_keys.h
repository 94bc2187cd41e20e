// The members of a request body that Tidegate reads, as a table for FactsScanner.
#pragma once

#include <cstdint>
#include <string_view>

#include "router/facts/api.h"

namespace router {

enum class Key : uint8_t {
  kModel,
  kStream,
  kStreamFormat,
  kStreamOptions,
  kMaxTokens,
  kMaxCompletionTokens,
  kMaxOutputTokens,
  kNPredict,  // from kMaxTokens to here: in the order of BoundKey
  kMaxNewTokens,
  kMaxTokensToSample,
  kNumPredict,
  kN,
  kNCmpl,
  kBestOf,
  kMessages,
  kTools,
  kFunctions,
  kSystem,
  kInstructions,
  kPrompt,
  kPromptEmbeds,
  kInput,
  kQuery,
  kDocuments,
  kText1,
  kText2,
  kTokens,
  kUser,
  kSafetyIdentifier,
  kMetadata,
  kPromptCacheKey,
  kSessionId,
  kPreviousResponseId,
  kServiceTier,
  kPriority,
  kMinTokens,
  kCacheSalt,
  kKvTransferParams,
  kBootstrapHost,
  kBootstrapPort,
  kBootstrapRoom,
  kLoraPath,
};
inline constexpr size_t kKeyCount = static_cast<size_t>(Key::kLoraPath) + 1;

// Kinds of JSON values, by first character, as a bit mask of what a member may be. 0: no value begins so.
enum : uint8_t { kString = 1, kArray = 2, kObject = 4, kNumber = 8, kBool = 16, kNull = 32 };
inline uint8_t KindOf(char first) {
  switch (first) {
    case '"':
      return kString;
    case '[':
      return kArray;
    case '{':
      return kObject;
    case 't':
    case 'f':
      return kBool;
    case 'n':
      return kNull;
    default:
      return first == '-' || (first >= '0' && first <= '9') ? kNumber : 0;
  }
}

struct KeySpec {
  Key key;
  std::string_view name;
  uint8_t accepts;
  uint32_t apis;         // a bit per Api that gives the member a meaning; elsewhere it passes unread
  uint32_t refused = 0;  // ... and per Api that does not have it, although some engine obeys it
};

inline constexpr size_t kMaxKeyName = 32;  // the longest name in the table

// The row for a member's decoded name, or null. `exact` is false when only the case differs.
const KeySpec* FindKey(std::string_view name, bool& exact);

inline bool Means(const KeySpec& spec, Api api) {
  return (spec.apis >> static_cast<unsigned>(api) & 1U) != 0;
}
inline bool IsRefused(const KeySpec& spec, Api api) {
  return (spec.refused >> static_cast<unsigned>(api) & 1U) != 0;
}

}  // namespace router
