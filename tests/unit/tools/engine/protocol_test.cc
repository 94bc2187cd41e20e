// The text APIs, driven through the model in virtual time: what is streamed is what is answered whole, token
// for token.
#include "tools/engine/protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scheduler/engine/presets.h"
#include "tools/engine/engine.h"

namespace tidegate_engine {
namespace {

constexpr conf::TimePoint kStart{std::chrono::seconds(1'700'000'000)};

struct Event {
  std::string name;
  std::string data;
};

// What a client reads off the wire: chunks undone, events split.
std::vector<Event> Parse(const std::string& wire) {
  std::vector<Event> events;
  size_t at = 0;
  while (at < wire.size()) {
    size_t length = std::stoul(wire.substr(at), nullptr, 16);
    size_t begin = wire.find("\r\n", at) + 2;
    if (length == 0) break;
    std::string chunk = wire.substr(begin, length);
    EXPECT_TRUE(chunk.ends_with("\n\n")) << "one whole event a chunk";
    Event event;
    for (size_t line = 0; line < chunk.size();) {
      size_t end = chunk.find('\n', line);
      std::string text = chunk.substr(line, end - line);
      if (text.starts_with("event: ")) event.name = text.substr(7);
      if (text.starts_with("data: ")) event.data = text.substr(6);
      line = end + 1;
    }
    events.push_back(event);
    at = begin + length + 2;
  }
  return events;
}

struct Answered {
  std::vector<Event> events;  // of the stream
  Json whole;
};

class Protocols : public testing::Test {
 protected:
  Protocols() : engine_(*scheduler::engine::FindPreset("demo"), "m", kStart - std::chrono::seconds(10)) {}

  // Runs the body once as a stream and once whole.
  Answered Ask(Api api, Json body, bool report_usage = true) {
    Answered answered;
    for (bool stream : {true, false}) {
      body["stream"] = stream;
      if (!stream) body.erase("stream_options");
      Request request = ParseRequest(api, body.dump(), 16);
      if (auto* error = std::get_if<ApiError>(&request)) {
        ADD_FAILURE() << error->message;
        return answered;
      }
      Job job;
      job.request = std::get<Generation>(std::move(request));
      const Protocol& protocol = ProtocolOf(api);
      job.id = std::string(protocol.id_prefix) + "0123";
      job.model = "m";
      job.report_usage = report_usage;
      Run(job, protocol, stream, answered);
    }
    return answered;
  }

  void Run(Job& job, const Protocol& protocol, bool stream, Answered& answered) {
    for (const Prompt& prompt : job.request.prompts) {
      for (uint32_t i = 0; i < job.request.n; ++i) {
        Choice& choice = job.choices.emplace_back();
        choice.prompt = &prompt;
        choice.answer =
            MakeAnswer(job.request, prompt, i, {.seed = 0, .fixed_tokens = 0, .context_left = 10000});
      }
    }
    ASSERT_FALSE(engine_.Start(job, now_));
    Events out;
    if (stream) protocol.open(job, out);
    while (!job.finished()) {
      now_ = std::max(now_, engine_.NextStep());
      std::vector<Job*> advanced;
      engine_.Step(now_, advanced);
      job.advanced = false;
      for (size_t i = 0; i < job.choices.size(); ++i) {
        while (job.choices[i].sent < job.choices[i].generated) {
          ++job.choices[i].sent;
          if (stream) protocol.token(job, i, out);
        }
      }
    }
    if (stream) {
      protocol.close(job, out);
      answered.events = Parse(out.bytes());
    } else {
      answered.whole = Json::parse(protocol.body(job));
    }
  }

  Engine engine_;
  conf::TimePoint now_ = kStart;
};

Json Chat(const std::string& text) {
  return {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", text}}}}};
}

Json WeatherTool() {
  return Json::parse(R"({"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
      "properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":5}},
      "required":["city","days"]}}})");
}

TEST_F(Protocols, AChatStreamAddsUpToTheWholeAnswer) {
  Json body = Chat("Tell me of the sea.");
  body["stream_options"] = {{"include_usage", true}};
  Answered answered = Ask(Api::kChat, body);
  std::string text;
  std::string finish;
  Json usage;
  ASSERT_EQ(answered.events.back().data, "[DONE]");
  for (size_t i = 0; i + 1 < answered.events.size(); ++i) {
    Json chunk = Json::parse(answered.events[i].data);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    ASSERT_TRUE(chunk.contains("usage"));
    if (chunk["choices"].empty()) {
      usage = chunk["usage"];
      continue;
    }
    EXPECT_TRUE(chunk["usage"].is_null());
    const Json& choice = chunk["choices"][0];
    text += choice["delta"].value("content", "");
    if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
  }
  const Json& whole = answered.whole["choices"][0];
  EXPECT_EQ(Json(text), whole["message"]["content"]);
  EXPECT_EQ(Json(finish), whole["finish_reason"]);
  EXPECT_EQ(usage["completion_tokens"], CountTokens(text));
  EXPECT_EQ(usage["completion_tokens"], answered.events.size() - 3);  // role, usage and [DONE]
  EXPECT_EQ(usage["completion_tokens"], answered.whole["usage"]["completion_tokens"]);
  EXPECT_EQ(usage["prompt_tokens"], answered.whole["usage"]["prompt_tokens"]);
}

TEST_F(Protocols, UsageIsSilentUnlessAskedForInAStreamAndWithNoUsageAlways) {
  for (const Event& event : Ask(Api::kChat, Chat("Hi")).events)
    EXPECT_EQ(event.data.find("usage"), std::string::npos);
  Json body = Chat("Hi");
  body["stream_options"] = {{"include_usage", true}};
  Answered silent = Ask(Api::kChat, body, false);
  for (const Event& event : silent.events) EXPECT_EQ(event.data.find("usage"), std::string::npos);
  EXPECT_FALSE(silent.whole.contains("usage"));
}

TEST_F(Protocols, ContinuousUsageCountsEveryToken) {
  Json body = Chat("Hi");
  body["max_tokens"] = 5;
  body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  Answered answered = Ask(Api::kChat, body);
  std::vector<int> counts;
  for (size_t i = 0; i + 1 < answered.events.size(); ++i) {
    counts.push_back(Json::parse(answered.events[i].data)["usage"]["completion_tokens"]);
  }
  EXPECT_EQ(counts, (std::vector<int>{0, 1, 2, 3, 4, 5, 5}));
}

TEST_F(Protocols, LimitsSetTheLengthAndTheFinishReason) {
  Json body = Chat("Tell me.");
  body["max_tokens"] = 7;
  Json whole = Ask(Api::kChat, body).whole;
  EXPECT_EQ(whole["usage"]["completion_tokens"], 7);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
  body["max_tokens"] = 900;
  whole = Ask(Api::kChat, body).whole;
  EXPECT_LE(whole["usage"]["completion_tokens"], 200);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
  body["ignore_eos"] = true;
  whole = Ask(Api::kChat, body).whole;
  EXPECT_EQ(whole["usage"]["completion_tokens"], 900);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
}

TEST_F(Protocols, AStopStringEndsTheTextBeforeItAndIsNeverStreamed) {
  std::string text = Ask(Api::kChat, Chat("Stop me.")).whole["choices"][0]["message"]["content"];
  std::string stop = text.substr(20, 7);
  Json body = Chat("Stop me.");
  body["stop"] = stop;
  Answered answered = Ask(Api::kChat, body);
  const Json& choice = answered.whole["choices"][0];
  EXPECT_EQ(choice["message"]["content"], text.substr(0, text.find(stop)));
  EXPECT_EQ(choice["stop_reason"], stop);
  std::string streamed;
  for (size_t i = 0; i + 1 < answered.events.size(); ++i) {
    streamed += Json::parse(answered.events[i].data)["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(Json(streamed), choice["message"]["content"]);
}

TEST_F(Protocols, SeveralChoicesCountThePromptOnce) {
  Json body = Chat("Three of you.");
  uint64_t prompt = Ask(Api::kChat, body).whole["usage"]["prompt_tokens"];
  body["n"] = 3;
  body["max_tokens"] = 4;
  Json whole = Ask(Api::kChat, body).whole;
  ASSERT_EQ(whole["choices"].size(), 3u);
  EXPECT_NE(whole["choices"][0]["message"], whole["choices"][1]["message"]);
  EXPECT_EQ(whole["usage"]["prompt_tokens"], prompt);
  EXPECT_EQ(whole["usage"]["completion_tokens"], 12);
}

TEST_F(Protocols, TheNextTurnIsServedFromTheCache) {
  Json body = Chat(std::string(2000, 'x'));
  Json first = Ask(Api::kChat, body).whole;
  Json second = Ask(Api::kChat, body).whole;
  EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"], 300);
  body["messages"].push_back(first["choices"][0]["message"]);
  body["messages"].back().erase("tool_calls");
  body["messages"].push_back({{"role", "user"}, {"content", "Go on."}});
  Json third = Ask(Api::kChat, body).whole;
  uint64_t cached = third["usage"]["prompt_tokens_details"]["cached_tokens"];
  EXPECT_GT(cached + 32, first["usage"]["total_tokens"].get<uint64_t>());
}

TEST_F(Protocols, RequiredToolsAreCalledWithArgumentsOfTheirSchema) {
  Json body = Chat("Hello");
  body["tools"] = Json::array({WeatherTool()});
  body["tool_choice"] = "required";
  Answered answered = Ask(Api::kChat, body);
  const Json& choice = answered.whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  const Json& call = choice["message"]["tool_calls"][0];
  Json arguments = Json::parse(call["function"]["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["city"].is_string());
  EXPECT_LE(arguments["days"], 5);
  std::string id;
  std::string pieces;
  size_t deltas = 0;
  for (size_t i = 0; i + 1 < answered.events.size(); ++i) {
    Json delta = Json::parse(answered.events[i].data)["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    ++deltas;
    if (delta["tool_calls"][0].contains("id")) {
      EXPECT_TRUE(id.empty());
      id = delta["tool_calls"][0]["id"];
      EXPECT_EQ(delta["tool_calls"][0]["function"]["name"], "get_weather");
    }
    pieces += delta["tool_calls"][0]["function"]["arguments"];
  }
  EXPECT_GT(deltas, 3u);
  EXPECT_EQ(Json(id), call["id"]);
  EXPECT_EQ(Json(pieces), call["function"]["arguments"]);
}

TEST_F(Protocols, AutoCallsAToolWhenTheUserSpeaksOfIt) {
  Json body = Chat("What is the weather in Oslo?");
  body["tools"] = Json::array({WeatherTool()});
  EXPECT_EQ(Ask(Api::kChat, body).whole["choices"][0]["finish_reason"], "tool_calls");
  body["messages"][0]["content"] = "What is two and two?";
  EXPECT_EQ(Ask(Api::kChat, body).whole["choices"][0]["message"]["tool_calls"].size(), 0u);
  body["messages"][0]["content"] = "What is the weather in Oslo?";
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "x"}, {"content", "Sunny"}});
  EXPECT_EQ(Ask(Api::kChat, body).whole["choices"][0]["message"]["tool_calls"].size(), 0u);
}

TEST_F(Protocols, AJsonSchemaIsAnsweredByAnInstance) {
  Json body = Chat("Give me a record.");
  body["response_format"] = Json::parse(R"({"type":"json_schema","json_schema":{"name":"r","schema":
      {"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}})");
  Json record =
      Json::parse(Ask(Api::kChat, body).whole["choices"][0]["message"]["content"].get<std::string>());
  EXPECT_TRUE(record["n"].is_number_integer());
}

TEST_F(Protocols, CompletionsTakeManyPromptsAndTokens) {
  Json body = {{"model", "m"}, {"prompt", {"one two", "three"}}, {"n", 2}, {"max_tokens", 3}, {"echo", true}};
  Answered answered = Ask(Api::kCompletions, body);
  ASSERT_EQ(answered.whole["choices"].size(), 4u);
  EXPECT_TRUE(answered.whole["choices"][2]["text"].get<std::string>().starts_with("three"));
  EXPECT_EQ(answered.whole["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answered.whole["usage"]["completion_tokens"], 12);
  std::vector<std::string> texts(4);
  for (size_t i = 0; i + 1 < answered.events.size(); ++i) {
    Json choice = Json::parse(answered.events[i].data)["choices"][0];
    texts[choice["index"].get<size_t>()] += choice["text"];
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(Json(texts[i]), answered.whole["choices"][i]["text"]);
  body["prompt"] = {TokenId("one"), TokenId(" two")};
  EXPECT_EQ(Ask(Api::kCompletions, body).whole["usage"]["prompt_tokens"], 2);
}

TEST_F(Protocols, ResponsesEventsAreTypedNumberedAndEndInTheWhole) {
  Json body = {{"model", "m"}, {"input", "What is the weather?"}, {"max_output_tokens", 300}};
  for (bool tools : {false, true}) {
    if (tools) {
      body["tools"] = Json::array({WeatherTool()["function"]});
      body["tools"][0]["type"] = "function";
    }
    Answered answered = Ask(Api::kResponses, body);
    std::string pieces;
    for (size_t i = 0; i < answered.events.size(); ++i) {
      Json event = Json::parse(answered.events[i].data);
      EXPECT_EQ(event["type"], answered.events[i].name);
      EXPECT_EQ(event["sequence_number"], i);
      if (answered.events[i].name.ends_with(".delta")) pieces += event["delta"];
    }
    EXPECT_EQ(answered.events.front().name, "response.created");
    ASSERT_EQ(answered.events.back().name, "response.completed");
    Json last = Json::parse(answered.events.back().data)["response"];
    last["usage"].erase("input_tokens_details");
    answered.whole["usage"].erase("input_tokens_details");
    EXPECT_EQ(last, answered.whole);
    const Json& item = last["output"][0];
    EXPECT_EQ(Json(pieces), tools ? item["arguments"] : item["content"][0]["text"]);
    EXPECT_EQ(item["type"], tools ? "function_call" : "message");
  }
  body.erase("tools");
  body["max_output_tokens"] = 3;
  Answered cut = Ask(Api::kResponses, body);
  EXPECT_EQ(cut.events.back().name, "response.incomplete");
  EXPECT_EQ(cut.whole["incomplete_details"]["reason"], "max_output_tokens");
}

TEST_F(Protocols, MessagesEventsAddUpToTheWhole) {
  Json body = Chat("What is the weather?");
  body["max_tokens"] = 400;
  for (bool tools : {false, true}) {
    if (tools) {
      body["tools"] =
          Json::array({{{"name", "get_weather"}, {"input_schema", WeatherTool()["function"]["parameters"]}}});
    }
    Answered answered = Ask(Api::kMessages, body);
    std::string pieces;
    Json stop;
    for (const Event& event : answered.events) {
      Json data = Json::parse(event.data);
      EXPECT_EQ(data["type"], event.name);
      if (event.name == "content_block_delta") {
        pieces += data["delta"][tools ? "partial_json" : "text"];
      }
      if (event.name == "message_delta") stop = data;
    }
    EXPECT_EQ(answered.events.front().name, "message_start");
    EXPECT_EQ(answered.events.back().name, "message_stop");
    const Json& block = answered.whole["content"][0];
    EXPECT_EQ(stop["delta"]["stop_reason"], answered.whole["stop_reason"]);
    EXPECT_EQ(answered.whole["stop_reason"], tools ? "tool_use" : "end_turn");
    EXPECT_EQ(stop["usage"]["output_tokens"], answered.whole["usage"]["output_tokens"]);
    if (tools) {
      EXPECT_EQ(Json::parse(pieces), block["input"]);
    } else {
      EXPECT_EQ(Json(pieces), block["text"]);
    }
  }
}

TEST_F(Protocols, MessagesTellOfStopSequences) {
  Json body = Chat("Stop.");
  body["max_tokens"] = 100;
  std::string text = Ask(Api::kMessages, body).whole["content"][0]["text"];
  body["stop_sequences"] = Json::array({text.substr(10, 4)});
  Json whole = Ask(Api::kMessages, body).whole;
  EXPECT_EQ(whole["stop_reason"], "stop_sequence");
  EXPECT_EQ(whole["stop_sequence"], text.substr(10, 4));
}

TEST(RequestErrors, AreVllmsAndNameTheField) {
  struct Case {
    Api api;
    const char* body;
    const char* param;
  };
  const Case cases[] = {
      {Api::kChat, "{", ""},
      {Api::kChat, "[]", ""},
      {Api::kChat, R"({"model":"m"})", "messages"},
      {Api::kChat, R"({"messages":[]})", "messages"},
      {Api::kChat, R"({"messages":[{"role":"user"}]})", "messages"},
      {Api::kChat, R"({"messages":[{"role":"user","content":3}]})", "messages"},
      {Api::kChat, R"({"messages":[{"role":"user","content":"x"}],"max_tokens":0})", "max_tokens"},
      {Api::kChat, R"({"messages":[{"role":"user","content":"x"}],"max_tokens":"5"})", "max_tokens"},
      {Api::kChat, R"({"messages":[{"role":"user","content":"x"}],"n":0})", "n"},
      {Api::kChat, R"({"messages":[{"role":"user","content":"x"}],"stream":"yes"})", "stream"},
      {Api::kChat, R"({"messages":[{"role":"user","content":"x"}],"stop":5})", "stop"},
      {Api::kChat, R"({"messages":[{"role":"user","content":"x"}],"stream_options":{}})", "stream_options"},
      {Api::kChat, R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required"})", "tool_choice"},
      {Api::kChat, R"({"messages":[{"role":"user","content":"x"}],"response_format":{"type":"xml"}})",
       "response_format"},
      {Api::kMessages, R"({"messages":[{"role":"user","content":"x"}]})", "max_tokens"},
      {Api::kCompletions, R"({"model":"m"})", "prompt"},
      {Api::kCompletions, R"({"prompt":[]})", "prompt"},
      {Api::kCompletions, R"({"prompt":["a",true]})", "prompt"},
      {Api::kEmbeddings, R"({"input":""})", "input"},
      {Api::kEmbeddings, R"({"input":"x","encoding_format":"hex"})", "encoding_format"},
      {Api::kRerank, R"({"query":"x"})", "documents"},
      {Api::kScore, R"({"text_1":["a","b"],"text_2":["c","d","e"]})", "text_1"},
      {Api::kResponses, R"({"input":"x","previous_response_id":"resp_1"})", "previous_response_id"},
      {Api::kTokenize, "{}", "prompt"},
  };
  for (const Case& c : cases) {
    Request request = ParseRequest(c.api, c.body, 16);
    auto* error = std::get_if<ApiError>(&request);
    ASSERT_NE(error, nullptr) << c.body;
    EXPECT_EQ(error->param, c.param) << c.body;
    Json object = Json::parse(ErrorBody(c.api, *error));
    EXPECT_EQ(object["error"]["message"], error->message);
    if (c.api == Api::kMessages) EXPECT_EQ(object["type"], "error");
  }
  std::string deep(10000, '[');
  EXPECT_TRUE(std::holds_alternative<ApiError>(ParseRequest(Api::kChat, deep, 16)));
}

TEST(RequestTokens, AreTheSameForChatAndTokenize) {
  const char* body = R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[
      {"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":"data:x"}}]}]})";
  auto chat = std::get<Generation>(ParseRequest(Api::kChat, body, 16));
  auto count = std::get<Counting>(ParseRequest(Api::kTokenize, body, 16));
  EXPECT_EQ(chat.prompts[0].tokens(), count.prompt.tokens());
  EXPECT_EQ(count.prompt.ids().size(), count.prompt.tokens());
}

}  // namespace
}  // namespace tidegate_engine
