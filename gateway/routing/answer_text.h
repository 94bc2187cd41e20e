// The text of an answer, without ids, times and the split into events, which differ from answer to answer: so
// two answers can be compared.
//
// Pure. It parses and allocates, since only few answers are compared.
#pragma once

#include <string>
#include <string_view>

namespace gateway::routing {

// The texts of all choices and the called tools with their arguments. `answer` is whole: a JSON document or a
// stream of events, of any API that generates text. Empty for other APIs, such as embeddings.
std::string AnswerText(std::string_view body, bool stream);

}  // namespace gateway::routing
