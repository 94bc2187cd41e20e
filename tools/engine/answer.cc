#include "tools/engine/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tools/engine/prose.h"
#include "tools/engine/tokenizer.h"

namespace tidegate_engine {
namespace {

constexpr uint32_t kShortest = 16;
constexpr uint32_t kLongest = 200;

void AppendTokens(std::string_view text, Answer& answer) {
  auto at = static_cast<uint32_t>(answer.text.size());
  answer.text += text;
  ForEachToken(text, [&](std::string_view token) {
    at += static_cast<uint32_t>(token.size());
    answer.ends.push_back(at);
  });
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// Whether the message contains a word of the tool's name that has at least four letters.
bool Mentions(const std::string& message, const std::string& tool) {
  std::string name = Lower(tool);
  for (size_t begin = 0; begin < name.size();) {
    size_t end = std::min(name.find_first_of("_-. ", begin), name.size());
    if (end - begin >= 4 && message.find(name.substr(begin, end - begin)) != std::string::npos) return true;
    begin = end + 1;
  }
  return false;
}

std::vector<const Tool*> ChooseTools(const Generation& request) {
  std::vector<const Tool*> chosen;
  if (request.tool_choice == ToolChoice::kNone || request.tools.empty()) return chosen;
  if (request.tool_choice == ToolChoice::kNamed) {
    for (const Tool& tool : request.tools) {
      if (tool.name == request.tool_name) return {&tool};
    }
  }
  std::string message = Lower(request.last_user);
  for (const Tool& tool : request.tools) {
    if (Mentions(message, tool.name)) chosen.push_back(&tool);
  }
  if (chosen.empty() && request.tool_choice == ToolChoice::kRequired)
    chosen.push_back(&request.tools.front());
  if (chosen.size() > 1 && !request.parallel_tools) chosen.resize(1);
  return chosen;
}

void AppendCalls(const std::vector<const Tool*>& tools, uint64_t seed, Answer& answer) {
  Draw draw(seed);
  for (const Tool* tool : tools) {
    Call call{.id = fmt::format("call_{:016x}", draw.Next()), .name = tool->name};
    Json arguments =
        tool->parameters.is_object() ? MakeInstance(tool->parameters, draw.Next()) : Json::object();
    call.begin = static_cast<uint32_t>(answer.text.size());
    AppendTokens(arguments.is_object() ? arguments.dump() : "{}", answer);
    call.end = static_cast<uint32_t>(answer.text.size());
    answer.calls.push_back(std::move(call));
  }
}

// Keeps `count` tokens; removes calls that lose all of their tokens.
void Truncate(uint32_t count, Answer& answer) {
  answer.ends.resize(count);
  auto size = count == 0 ? 0 : answer.ends.back();
  answer.text.resize(size);
  answer.content = std::min(answer.content, size);
  std::erase_if(answer.calls, [size](const Call& call) { return call.begin >= size; });
  for (Call& call : answer.calls) call.end = std::min(call.end, size);
}

// Ends the content at the first stop string: generation stops with the token that completes it.
void ApplyStops(const Generation& request, Answer& answer) {
  size_t first = std::string::npos;
  const std::string* met = nullptr;
  for (const std::string& stop : request.stop) {
    size_t at = answer.Content().find(stop);
    if (at < first) {
      first = at;
      met = &stop;
    }
  }
  if (met == nullptr) return;
  answer.stopped_by = *met;
  answer.finish = Finish::kStop;
  auto completed = std::lower_bound(answer.ends.begin(), answer.ends.end(), first + met->size());
  answer.ends.erase(completed + 1, answer.ends.end());
  answer.calls.clear();
  auto shown = static_cast<uint32_t>(request.include_stop ? first + met->size() : first);
  answer.text.resize(shown);
  answer.content = shown;
  for (uint32_t& end : answer.ends) end = std::min(end, shown);
}

}  // namespace

int Answer::CallOf(uint32_t i) const {
  uint32_t begin = i == 0 ? 0 : ends[i - 1];
  if (calls.empty() || begin < content) return -1;
  for (size_t call = 0; call < calls.size(); ++call) {
    if (begin < calls[call].end) return static_cast<int>(call);
  }
  return -1;
}

Answer MakeAnswer(const Generation& request, const Prompt& prompt, uint32_t choice,
                  const AnswerOptions& options) {
  Draw draw(prompt.seed() ^ (options.seed * 0x9e3779b97f4a7c15u) ^ (request.seed << 20) ^ choice);
  uint64_t seed = draw.Next();
  uint32_t limit = std::min(request.max_tokens.value_or(UINT32_MAX), options.context_left);
  auto natural = static_cast<uint32_t>(kShortest + draw.Below(kLongest - kShortest + 1));
  if (options.fixed_tokens > 0) natural = options.fixed_tokens;
  natural = std::max(natural, request.min_tokens);

  Answer answer;
  if (auto tools = ChooseTools(request); !tools.empty()) {
    AppendCalls(tools, seed, answer);
    answer.finish = request.tool_choice == ToolChoice::kNamed ? Finish::kStop : Finish::kToolCalls;
  } else if (request.schema) {
    AppendTokens(MakeInstance(*request.schema, seed).dump(-1, ' ', false, Json::error_handler_t::replace),
                 answer);
    answer.content = static_cast<uint32_t>(answer.text.size());
  } else {
    uint32_t count = request.ignore_eos ? limit : std::min(natural, limit);
    AppendProse(seed, count, answer.text, answer.ends);
    answer.content = static_cast<uint32_t>(answer.text.size());
    if (request.ignore_eos || natural > limit) answer.finish = Finish::kLength;
  }
  if (answer.tokens() > limit) {
    Truncate(limit, answer);
    answer.finish = Finish::kLength;
  }
  ApplyStops(request, answer);
  return answer;
}

}  // namespace tidegate_engine
