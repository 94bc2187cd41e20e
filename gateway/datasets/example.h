// A request and its answer as one line of a data set, in the form that OpenAI's fine-tuning takes:
//
//   {"messages":[{"role":"user","content":"…"},{"role":"assistant","content":"…"}],"tools":[…]}
//
// From the stored bytes of the body and of the answer, which is a JSON document or a stream of events.
//
// Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gateway::datasets {

// Whether requests of this API (its name in the ledger) have such a form: chat_completions, messages.
bool IsExported(std::string_view api);

// The message of the answer's first choice; nothing: it has neither text nor calls of tools.
std::optional<nlohmann::ordered_json> AnswerMessage(std::string_view api, std::string_view answer);

// Nothing: the body is not one of that API. `correction`: takes the place of the answer, unless it is empty.
std::optional<nlohmann::ordered_json> MakeExample(std::string_view api, std::string_view body,
                                                  std::string_view answer, std::string_view correction);

}  // namespace gateway::datasets
