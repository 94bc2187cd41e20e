// Everything in gateway/api that reads bytes of a client or an engine. The first byte chooses how a stream is
// cut into chunks; the rest is the text. Output must be framed, and a stream must end one way or the other.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/api/anthropic.h"
#include "gateway/api/models.h"
#include "gateway/api/responses.h"
#include "gateway/api/usage.h"

namespace {

using namespace gateway::api;

void Check(bool holds) {
  if (!holds) std::abort();
}

template <class Stream>
void RunStream(Stream stream, std::string_view text, char separator) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    stream.OnData(text.substr(0, end), out);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  stream.OnDone(out);
  Check(stream.state() != StreamState::kRunning);
  Check(out.ends_with("}\n\n"));
  Check((stream.state() == StreamState::kFailed) == (out.find("event: error\n") != std::string::npos));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const char separator = static_cast<char>(data[0]);
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const MessageIdentity message = {.id = "msg", .model = "m", .request_id = "r", .show_thinking = true};
  const ResponseIdentity response = {
      .id = "resp_1",
      .model = "m",
      .request_id = "r",
      .echo = "",
      .tools = {{.kind = CalledTool::Kind::kCustom, .called = "f", .name = "f"}},
      .created_at = 1};

  (void)ChatFromMessages(text, {.model = "m", .forward_thinking = true});
  (void)TokenizeFromMessages(text, {.model = "m"});
  (void)ChatFromResponses(text, "m");
  (void)TokenizeFromResponses(text, "m", Tokenizer::kPrompt);
  (void)MessageFromChat(text, message);
  (void)ResponseFromChat(text, response);
  (void)CountFromTokenize(text);
  (void)RenderError(Protocol::kAnthropic, FromUpstream(500, text), text);
  (void)UsageFromJson(text);
  (void)FinishFromJson(text);
  const StripPlan plan = StripUsage(text);
  Check(plan.offset + plan.length <= text.size());
  RunStream(MessagesStream(message), text, separator);
  RunStream(ResponsesStream(response), text, separator);
  return 0;
}
