// The text of an answer, for a comparison of two answers: without ids, times and the split into events, which always
// differ.
//
// Pure. It may parse and allocate, because only few answers are compared.
#pragma once

#include <string>
#include <string_view>

namespace gateway::routing {

// The texts of all choices, and the called tools with their arguments. `body` is a whole answer, a JSON document or a
// stream of events, of any API that generates text. Empty for other APIs, such as embeddings.
std::string AnswerText(std::string_view body, bool stream);

}  // namespace gateway::routing
