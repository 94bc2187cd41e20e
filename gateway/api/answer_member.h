// Members of an answer that the gateway changes or remembers, though it relays the answer unread: the name of
// the model and the id. Found in the bytes, without a tree.
//
// Pure. Cost: a search for the key; the structure is looked at only where the key is found.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "router/facts/json_index.h"

namespace gateway::api {

// The first string member `key` of the document, or of its member `response` or `message`, which the events
// of streams have: its value with the quotes. `json` may be cut off after it.
std::optional<router::ByteRange> FindAnswerMember(std::string_view json, std::string_view key);

// Its text, without the quotes, in the first of whole events that has it; empty when none has.
std::string_view TextInEvents(std::string_view events, std::string_view key);

// Whether the text of a JSON string names a file of the engine's machine, as engines that were given no other
// name for a model report it.
bool IsLocalPath(std::string_view raw);

// Puts `name` in the place of a local path in the model's name. Decides by the first event, or the document,
// that names the model: one answer comes from one engine.
class PublicModelName {
 public:
  // `name` outlives this.
  explicit PublicModelName(std::string_view name) : name_(name) {}

  // The document, or the beginning of one. The text is the argument where nothing is to be changed, else
  // `changed`.
  std::string_view InDocument(std::string_view json, std::string& changed);
  // Whole events of a stream.
  std::string_view InEvents(std::string_view events, std::string& changed);

 private:
  enum class State : uint8_t { kUnknown, kKeep, kReplace };
  std::optional<router::ByteRange> PathIn(std::string_view json);

  const std::string_view name_;
  State state_ = State::kUnknown;
};

}  // namespace gateway::api
