// What an answer says, without what every answer has of its own (ids, times, how it was cut into events): so
// that two of them can be compared.
//
// Pure; for the few answers that are compared: it parses and allocates.
#pragma once

#include <string>
#include <string_view>

namespace gateway::routing {

// Of a whole answer, a JSON document or a stream of events, in any of the APIs that generate: the texts of
// all choices, and the tools that are called with their arguments. Empty where there is none, as of
// embeddings.
std::string AnswerText(std::string_view body, bool stream);

}  // namespace gateway::routing
