#include "gateway/datasets/example.h"

#include <map>
#include <utility>

#include "gateway/net/sse.h"

namespace gateway::datasets {
namespace {

using Tree = nlohmann::ordered_json;

constexpr std::string_view kChat = "chat_completions";
constexpr std::string_view kMessagesApi = "messages";
constexpr size_t kMostCalls = 256;

const Tree* Member(const Tree& of, const char* name) {
  if (!of.is_object()) return nullptr;
  const auto found = of.find(name);
  return found == of.end() || found->is_null() ? nullptr : &*found;
}

std::string TextAt(const Tree& of, const char* name) {
  const Tree* const found = Member(of, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

// The first member of a list.
const Tree* FirstOf(const Tree& of, const char* name) {
  const Tree* const list = Member(of, name);
  return list != nullptr && list->is_array() && !list->empty() ? &list->front() : nullptr;
}

// What an assistant says: the text, and the functions that it calls.
struct Said {
  struct Called {
    std::string id, name, arguments;
  };
  std::string text;
  std::map<size_t, Called> calls;

  std::optional<Tree> Message() const {
    if (text.empty() && calls.empty()) return std::nullopt;
    Tree message{{"role", "assistant"}};
    if (!text.empty()) message["content"] = text;
    for (const auto& [at, call] : calls) {
      message["tool_calls"].push_back({{"id", call.id},
                                       {"type", "function"},
                                       {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    return message;
  }
};

// A chat message, or the part that an event adds to it.
void AddChat(const Tree& message, Said& said) {
  said.text += TextAt(message, "content");
  const Tree* const calls = Member(message, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  size_t place = 0;
  for (const Tree& call : *calls) {
    const Tree* const index = Member(call, "index");
    const size_t at = index != nullptr && index->is_number_unsigned() ? index->get<size_t>() : place;
    ++place;
    if (at >= kMostCalls) continue;
    Said::Called& of = said.calls[at];
    of.id += TextAt(call, "id");
    if (const Tree* const function = Member(call, "function")) {
      of.name += TextAt(*function, "name");
      of.arguments += TextAt(*function, "arguments");
    }
  }
}

// Blocks of the Messages API.
void AddBlocks(const Tree& content, Said& said) {
  if (content.is_string()) said.text += content.get<std::string>();
  if (!content.is_array()) return;
  for (const Tree& block : content) {
    const std::string type = TextAt(block, "type");
    if (type == "text") said.text += TextAt(block, "text");
    if (type != "tool_use" || said.calls.size() >= kMostCalls) continue;
    const Tree* const input = Member(block, "input");
    said.calls[said.calls.size()] = {TextAt(block, "id"), TextAt(block, "name"),
                                     input ? input->dump() : "{}"};
  }
}

void AddMessagesEvent(const Tree& event, Said& said) {
  const Tree* const index = Member(event, "index");
  const size_t at = index != nullptr && index->is_number_unsigned() ? index->get<size_t>() : 0;
  const Tree* const block = Member(event, "content_block");
  if (block != nullptr && TextAt(*block, "type") == "tool_use" && at < kMostCalls) {
    said.calls[at].id = TextAt(*block, "id");
    said.calls[at].name = TextAt(*block, "name");
  }
  if (const Tree* const delta = Member(event, "delta")) {
    said.text += TextAt(*delta, "text");
    if (const auto call = said.calls.find(at); call != said.calls.end())
      call->second.arguments += TextAt(*delta, "partial_json");
  }
}

// A body of the Messages API as messages of chat; nothing where it has what chat has not, such as images.
std::optional<Tree> ChatMessages(const Tree& body) {
  Tree out = Tree::array();
  if (const Tree* const system = Member(body, "system")) {
    Said said;
    AddBlocks(*system, said);
    if (!said.text.empty()) out.push_back({{"role", "system"}, {"content", said.text}});
  }
  const Tree* const messages = Member(body, "messages");
  if (messages == nullptr || !messages->is_array()) return std::nullopt;
  for (const Tree& message : *messages) {
    const Tree* const content = Member(message, "content");
    if (content == nullptr) return std::nullopt;
    if (TextAt(message, "role") == "assistant") {
      Said said;
      AddBlocks(*content, said);
      if (auto shown = said.Message()) out.push_back(*std::move(shown));
      continue;
    }
    if (content->is_string()) {
      out.push_back({{"role", "user"}, {"content", *content}});
      continue;
    }
    if (!content->is_array()) return std::nullopt;
    for (const Tree& block : *content) {
      const std::string type = TextAt(block, "type");
      if (type == "text") {
        out.push_back({{"role", "user"}, {"content", TextAt(block, "text")}});
      } else if (type == "tool_result") {
        Said said;
        if (const Tree* const result = Member(block, "content")) AddBlocks(*result, said);
        out.push_back(
            {{"role", "tool"}, {"tool_call_id", TextAt(block, "tool_use_id")}, {"content", said.text}});
      } else {
        return std::nullopt;
      }
    }
  }
  return out;
}

}  // namespace

bool IsExported(std::string_view api) {
  return api == kChat || api == kMessagesApi;
}

std::optional<Tree> AnswerMessage(std::string_view api, std::string_view answer) {
  Said said;
  const bool chat = api == kChat;
  const Tree document = Tree::parse(answer, nullptr, false);
  if (document.is_object()) {
    if (chat) {
      const Tree* const choice = FirstOf(document, "choices");
      if (const Tree* const message = choice ? Member(*choice, "message") : nullptr) AddChat(*message, said);
    } else if (const Tree* const content = Member(document, "content")) {
      AddBlocks(*content, said);
    }
    return said.Message();
  }
  while (!answer.empty()) {
    const net::SseEvent event = net::NextSseEvent(answer);
    if (!event.has_data) continue;
    const Tree part = Tree::parse(event.data, nullptr, false);
    if (!chat) {
      AddMessagesEvent(part, said);
      continue;
    }
    const Tree* const choice = FirstOf(part, "choices");
    const Tree* const index = choice ? Member(*choice, "index") : nullptr;
    if (choice == nullptr || (index != nullptr && *index != 0)) continue;
    if (const Tree* const delta = Member(*choice, "delta")) AddChat(*delta, said);
  }
  return said.Message();
}

std::optional<Tree> MakeExample(std::string_view api, std::string_view body, std::string_view answer,
                                std::string_view correction) {
  const Tree asked = Tree::parse(body, nullptr, false);
  const Tree* const given = Member(asked, "messages");
  if (given == nullptr || !given->is_array() || given->empty()) return std::nullopt;
  Tree example;
  if (api == kChat) {
    example["messages"] = *given;
  } else if (std::optional<Tree> messages = ChatMessages(asked)) {
    example["messages"] = *std::move(messages);
  } else {
    return std::nullopt;
  }
  if (!correction.empty()) {
    example["messages"].push_back({{"role", "assistant"}, {"content", correction}});
  } else if (std::optional<Tree> message = AnswerMessage(api, answer)) {
    example["messages"].push_back(*std::move(message));
  } else {
    return std::nullopt;
  }
  if (const Tree* const tools = Member(asked, "tools"); tools != nullptr && api == kChat)
    example["tools"] = *tools;
  return example;
}

}  // namespace gateway::datasets
