// Bytes that engines and callers should not send, and those that must not go on: between one caller's answer
// and the next, from a caller's head to an engine, and from an engine's answer to a caller.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "conf/text.h"
#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/support/kept_upstream.h"
#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace tests {
namespace {

using gateway::ledger::Record;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kNoProbe = "health: {probe: false}, retries: {max: 0}, breaker: {failures: 1000}";

std::string ChatAnswer(std::string_view text, std::string_view model = "chat-small") {
  return fmt::format(
      R"({{"id":"c1","object":"chat.completion","model":"{}","choices":[{{"index":0,"message":{{"role":"assistant",)"
      R"("content":"{}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}}})",
      model, text);
}

// What applications have asked, without probes and scrapes.
std::vector<FakeUpstream::Request> Asked(const FakeUpstream& engine) {
  std::vector<FakeUpstream::Request> asked = engine.seen();
  std::erase_if(asked, [](const auto& request) { return !request.head.starts_with("POST "); });
  return asked;
}

std::string Content(const Answer& answer) {
  const Json json = answer.json();
  return json.contains("choices") ? json["choices"][0]["message"]["content"].get<std::string>() : answer.body;
}

TEST(Bytes, LateBytesOfAnEngineAreNotTheNextCallersAnswer) {
  int calls = 0;
  KeptUpstream engine(
      [&](const FakeUpstream::Request&) { return JsonAnswer(ChatAnswer(std::to_string(++calls))); });
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe, .threads = 1});
  EXPECT_EQ(Content(gateway.Ask(Chat())), "1");
  EXPECT_EQ(Content(gateway.Ask(Chat())), "2");
  EXPECT_EQ(engine.connections(), 1u) << "the connection is kept";
  engine.SayUnasked(JsonAnswer(ChatAnswer("stolen")));
  EXPECT_EQ(Content(gateway.Ask(Chat())), "3");
  EXPECT_EQ(Content(gateway.Ask(Chat())), "4");
  EXPECT_EQ(engine.connections(), 2u);
}

TEST(Bytes, BytesBeyondAnAnswersFramingAreDropped) {
  int calls = 0;
  const std::string stolen = JsonAnswer(ChatAnswer("stolen"));
  KeptUpstream engine([&](const FakeUpstream::Request& request) {
    const std::string answer = ChatAnswer(std::to_string(++calls));
    if (request.body.find("\"stream\":true") != std::string::npos) {
      const std::string event = fmt::format("data: {}\n\ndata: [DONE]\n\n", answer);
      return fmt::format(
                 "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n{:x}\r\n{}\r\n0"
                 "\r\n\r\n",
                 event.size(), event) +
             stolen;
    }
    if (calls % 3 == 0) return JsonAnswer(R"({"error":{"message":"no"}})", 400) + stolen;
    return JsonAnswer(answer) + stolen;
  });
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe, .threads = 1});
  RawClient client = gateway.Connect();
  for (int i = 1; i <= 9; ++i) {
    const Answer answer = client.Ask(Chat({{"stream", i % 3 == 1}}));
    EXPECT_THAT(answer.body, Not(HasSubstr("stolen")));
    EXPECT_TRUE(answer.whole);
  }
  EXPECT_EQ(engine.connections(), 9u);
}

TEST(Bytes, AnEngineThatSwitchesProtocolsFails) {
  FakeUpstream engine(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nsecrets");
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe});
  RawClient client = gateway.Connect();
  const Answer answer = client.Ask(
      Chat(Json::object(), "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"));
  EXPECT_EQ(answer.status, 502) << answer.body;
  EXPECT_EQ(answer.code(), "upstream_error");
  for (const FakeUpstream::Request& request : engine.seen())
    EXPECT_THAT(request.head, Not(HasSubstr("pgrade")));
}

// --- Heads ---

constexpr std::string_view kTalkative =
    "Accept: text/event-stream\r\nUser-Agent: acme-secret-app/1\r\nX-Forwarded-For: 10.1.2.3\r\nForwarded: "
    "for=10.1.2.3\r\n"
    "Origin: https://intranet.acme\r\nReferer: https://intranet.acme/x\r\nOpenAI-Organization: org-theirs\r\n"
    "OpenAI-Project: proj-theirs\r\nOpenAI-Beta: assistants=v2\r\nAnthropic-Version: 2023-06-01\r\n"
    "Anthropic-Beta: tools\r\nX-Data-Parallel-Rank: 3\r\nX-Custom: yes\r\nX-Team: blue\r\nCookie: "
    "session=1\r\n"
    "X-Api-Key: sk-theirs\r\nIdempotency-Key: k\r\nAccept-Language: de\r\nVia: 1.1 proxy\r\nTraceparent: "
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";

std::vector<std::string> NamesOf(const FakeUpstream::Request& request) {
  std::vector<std::string> names;
  for (size_t at = request.head.find("\r\n") + 2; at + 2 < request.head.size();) {
    std::string name = request.head.substr(at, request.head.find(':', at) - at);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    names.push_back(name);
    at = request.head.find("\r\n", at) + 2;
  }
  return names;
}

TEST(Bytes, AnEngineGetsTheFieldsOnItsListAlone) {
  FakeUpstream engine(JsonAnswer(ChatAnswer("ok")));
  const struct {
    std::string endpoint;
    std::vector<std::string> expected;
  } cases[] = {
      {"engine: openai, apis: [chat]",
       {"host", "content-type", "accept", "openai-beta", "x-request-id", "content-length"}},
      {"engine: anthropic, apis: [chat]",
       {"host", "content-type", "accept", "anthropic-version", "anthropic-beta", "x-request-id",
        "content-length"}},
      {"engine: vllm",
       {"host", "content-type", "accept", "openai-beta", "anthropic-version", "anthropic-beta", "traceparent",
        "x-request-id", "content-length"}},
      {"engine: openai, apis: [chat], pass_headers: [X-Custom, x-team], headers: {x-team: red, openai-beta: "
       "ours}",
       {"host", "x-team", "openai-beta", "content-type", "accept", "x-custom", "x-request-id",
        "content-length"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.endpoint);
    const GatewayProcess gateway(
        {.replicas = {engine.port()}, .model = kNoProbe, .endpoint = c.endpoint, .anonymous = true});
    std::string talk(kTalkative);
    talk.erase(talk.find("X-Api-Key"), std::string_view("X-Api-Key: sk-theirs\r\n").size());
    const Answer answer = gateway.Ask(Chat(Json::object(), talk));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const FakeUpstream::Request last = Asked(engine).back();
    std::vector<std::string> names = NamesOf(last);
    std::erase(names, "accept-encoding");
    EXPECT_THAT(names, testing::UnorderedElementsAreArray(c.expected));
    if (c.endpoint.find("red") != std::string::npos) {
      EXPECT_EQ(last.field("x-team"), "red") << "what is configured wins";
      EXPECT_EQ(last.field("openai-beta"), "ours");
    }
  }
}

TEST(Bytes, AConnectionFieldTakesNothingAwayThatTheEngineNeeds) {
  FakeUpstream engine(JsonAnswer(ChatAnswer("ok")));
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe});
  EXPECT_EQ(gateway
                .Ask(Chat(Json::object(),
                          "Connection: content-type, content-length, host, anthropic-beta\r\n"
                          "Anthropic-Beta: x\r\n"))
                .status,
            200);
  const FakeUpstream::Request last = Asked(engine).back();
  EXPECT_EQ(last.field("content-type"), "application/json");
  EXPECT_NE(last.field("content-length"), "");
  EXPECT_EQ(last.field("anthropic-beta"), "") << "what is the connection's own stays here";
}

TEST(Bytes, TheTypeThatWasReadIsTheTypeThatIsSent) {
  FakeUpstream engine(JsonAnswer(ChatAnswer("ok")));
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe});
  const std::string body = ChatBody().dump();
  const auto ask = [&](std::string_view types) {
    return gateway.Ask(
        fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\n{}Content-Length: {}\r\n\r\n{}", types,
                    body.size(), body));
  };
  for (const char* types :
       {"Content-Type: application/json; charset=utf-16\r\n", "",
        "Content-Type: application/json\r\nContent-Type: multipart/form-data; boundary=x\r\n"}) {
    SCOPED_TRACE(types);
    EXPECT_EQ(ask(types).status, 200);
    const FakeUpstream::Request last = Asked(engine).back();
    EXPECT_EQ(last.field("content-type"), "application/json");
    const std::vector<std::string> names = NamesOf(last);
    EXPECT_EQ(std::ranges::count(names, "content-type"), 1);
  }
  EXPECT_EQ(ask("Content-Type: application/jsonp\r\n").status, 415);

  const auto form = [&](std::string_view type) {
    const std::string text =
        "--a b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat-small\r\n--a b--\r\n";
    return gateway.Ask(fmt::format(
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: g\r\nContent-Type: multipart/form-data; {}\r\n"
        "Content-Length: {}\r\n\r\n{}",
        type, text.size(), text));
  };
  EXPECT_EQ(form("charset=utf-8; boundary=\"a b\"").status, 200);
  EXPECT_EQ(Asked(engine).back().field("content-type"), "multipart/form-data; boundary=\"a b\"");
  const Answer two = form("boundary=\"a b\"; boundary*=utf-8''c");
  EXPECT_EQ(two.status, 400);
  EXPECT_EQ(two.code(), "invalid_multipart");
}

TEST(Bytes, ACodedBodyIsRefusedAsOne) {
  EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}});
  for (const char* coding : {"gzip", "br", "deflate, gzip", "zstd"}) {
    const Answer answer = gateway.Ask(Post("/v1/chat/completions", std::string("\x1f\x8b\x08\x00garbage", 11),
                                           fmt::format("Content-Encoding: {}\r\n", coding)));
    EXPECT_EQ(answer.status, 415) << coding;
    EXPECT_EQ(answer.code(), "unsupported_media_type");
    EXPECT_THAT(answer.body, HasSubstr("uncompressed"));
  }
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}}, "Content-Encoding: identity\r\n")).status, 200);
}

TEST(Bytes, ACallerGetsNoHeaderOfTheEnginesHost) {
  const std::string body = ChatAnswer("ok");
  FakeUpstream engine(
      fmt::format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nAlt-Svc: "
                  "h3=\":443\"\r\nStrict-Transport-Security: "
                  "max-age=9\r\nSet-Cookie: __cf_bm=x\r\nCF-Ray: 1-FRA\r\ncf-cache-status: "
                  "HIT\r\nOpenAI-Organization: org-ours\r\n"
                  "openai-project: proj-ours\r\nServer: uvicorn\r\nX-Request-Id: "
                  "theirs\r\nX-Ratelimit-Limit-Requests: 9\r\nNEL: "
                  "{{}}\r\nReport-To: x\r\nanthropic-organization-id: o\r\nOpenAI-Processing-Ms: "
                  "5\r\nX-Fine: yes\r\nContent-Length: "
                  "{}\r\n\r\n{}",
                  body.size(), body));
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe});
  const Answer answer = gateway.Ask(Chat());
  ASSERT_EQ(answer.status, 200);
  for (const char* name : {"alt-svc", "strict-transport-security", "set-cookie", "cf-ray", "cf-cache-status",
                           "openai-organization", "openai-project", "server", "x-ratelimit-limit-requests",
                           "nel", "report-to", "anthropic-organization-id"})
    EXPECT_EQ(answer.header(name), "") << name;
  EXPECT_NE(answer.header("x-request-id"), "theirs");
  EXPECT_EQ(answer.header("openai-processing-ms"), "5");
  EXPECT_EQ(answer.header("x-fine"), "yes");
}

// --- Bodies ---

TEST(Bytes, AnEnginesErrorPageReachesTheCallerAsAnErrorObject) {
  const std::string page = "<html><body>Traceback: /srv/vllm/secret.py</body></html>";
  FakeUpstream engine(
      fmt::format("HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{}",
                  page.size(), page));
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe});
  for (const char* type : {"text/html", "text/plain", "application/json"}) {
    engine.Say(fmt::format("HTTP/1.1 502 Bad Gateway\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
                           type, page.size(), page));
    const Answer answer = gateway.Ask(Chat());
    EXPECT_EQ(answer.status, 502);
    EXPECT_EQ(answer.header("content-type"), "application/json");
    EXPECT_EQ(answer.code(), "upstream_error") << answer.body;
    EXPECT_THAT(answer.body, Not(HasSubstr("secret")));
    const Record close = gateway.CloseOf(answer.header("x-request-id"));
    EXPECT_EQ(close.reason, "upstream_failed");
    const std::string texts =
        RunCli({"audit", "export", "--kind", "content", "--open-content", "-c", gateway.config_path()}).out;
    const size_t from = texts.find(fmt::format("\"open_seq\":{},", close.open_seq));
    ASSERT_NE(from, std::string::npos) << texts;
    EXPECT_THAT(texts.substr(from, texts.find('\n', from) - from),
                AllOf(HasSubstr("\"upstream_error\""), HasSubstr("secret.py")))
        << "an operator can read what the engine said";
  }
  // Its own words in a form that libraries read are passed on.
  engine.Say(JsonAnswer(R"({"object":"error","message":"busy","code":500})", 500));
  EXPECT_THAT(gateway.Ask(Chat()).body, HasSubstr("busy"));
}

TEST(Bytes, APathOfTheEnginesMachineIsNotTheModelsName) {
  KeptUpstream engine([](const FakeUpstream::Request& request) {
    const std::string pad =
        request.body.find("large") != std::string::npos ? std::string(600'000, 'x') : "ok";
    const std::string answer = ChatAnswer(pad, "/srv/models/llama");
    if (request.body.find("\"stream\":true") == std::string::npos) return JsonAnswer(answer);
    std::string events;
    for (int i = 0; i < 3; ++i) events += fmt::format("data: {}\n\n", answer);
    events += "data: [DONE]\n\n";
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{}",
                       events.size(), events);
  });
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe});
  RawClient client = gateway.Connect();
  for (const Json& more : {Json::object(), Json{{"stream", true}}, Json{{"user", "large"}}}) {
    const Answer answer = client.Ask(Chat(more));
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.whole);
    EXPECT_THAT(answer.body.substr(0, 500), Not(HasSubstr("/srv/")));
    EXPECT_THAT(answer.body.substr(0, 500), HasSubstr(R"("model":"chat-small")"));
  }
}

TEST(Bytes, WhatEnginesReadDifferentlyIsRefusedWithItsPath) {
  EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const struct {
    const char* body;
    const char* code;
    const char* param;
  } cases[] = {
      {R"({"model":"chat-small"})", "missing_required_parameter", "messages"},
      {R"({"model":"chat-small","messages":[{"role":"user","content":"\ud800"}]})", "invalid_json",
       "messages[0].content"},
      {R"({"model":"chat-small","messages":[{"role":"user","content":"\x"}]})", "invalid_json",
       "messages[0].content"},
      {R"({"model":"chat-small","messages":[],"max_tokens":-1})", "invalid_value", "max_tokens"},
      {R"({"model":"chat-small","messages":[],"max_tokens":1e999})", "invalid_value", "max_tokens"},
      {R"({"model":"chat-small","messages":[],"n":-1})", "invalid_value", "n"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.body);
    const Answer answer = gateway.Ask(Post("/v1/chat/completions", c.body));
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.code(), c.code) << answer.body;
    EXPECT_EQ(answer.json()["error"]["param"], c.param);
  }
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
}

// --- Memory and connections ---

TEST(Bytes, HealthHasRoomOfItsOwn) {
  EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}});
  for (const char* sent : {"", "GET /livez HTTP/1.1\r\nHost:",
                           "POST /admin/v1/keys HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\n\r\n"}) {
    SCOPED_TRACE(sent);
    std::vector<RawClient> idle;
    for (int i = 0; i < 400; ++i) {
      idle.emplace_back(gateway.admin_port());
      ASSERT_TRUE(idle.back().Send(sent));
    }
    for (const char* path : {"/livez", "/readyz", "/metrics"}) {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(gateway.AskAdmin(Get(path)).status, 200) << path;
    }
  }
  EXPECT_EQ(gateway.AskAdmin(Get("/admin/v1/models")).status, 401)
      << "the others come back when there is room";
}

// A body that is announced and comes slowly takes its place before it is there.
TEST(Bytes, BodiesTakeMemoryBeforeTheyAreReadAndNoMoreThanThereIs) {
  EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()},
                                .server = "limits: {body_bytes: 2MiB, body_memory: 8MiB}",
                                .tenant = "limits: {body_memory: 5MiB}",
                                .tenants = "  - {name: other, models: [\"*\"]}\n"});
  const std::string head = fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n",
      2 << 20);
  std::vector<RawClient> slow;
  for (int i = 0; i < 2; ++i) {
    slow.push_back(gateway.Connect());
    ASSERT_TRUE(slow.back().Send(head + std::string(100'000, ' ')));
  }
  ASSERT_TRUE(tests::Within(RawClient::kPatience,
                            [&] { return gateway.Metric("tidegate_body_memory_bytes") == 2.0 * (2 << 20); }));
  RawClient third = gateway.Connect();
  const Answer refused = third.Ask(head);
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(refused.code(), "body_memory_limit");
  EXPECT_EQ(refused.header("x-tidegate-limit"), "demo/body_memory");
  EXPECT_NE(refused.header("retry-after"), "");
  EXPECT_EQ(refused.header("connection"), "close");
  // Requests whose bodies need no memory of their own go on.
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  // A body of unknown length is asked for as it comes.
  RawClient chunked = gateway.Connect();
  std::string chunks = "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 16; ++i) chunks += fmt::format("{:x}\r\n{}\r\n", 100'000, std::string(100'000, ' '));
  ASSERT_TRUE(chunked.Send(chunks));
  EXPECT_EQ(chunked.Read().code(), "body_memory_limit");
  const std::string form =
      "--b\r\nContent-Disposition: form-data; "
      "name=\"model\"\r\n\r\nchat-small\r\n--b\r\nContent-Disposition: form-data; "
      "name=\"file\"; filename=\"x\"\r\n\r\n";
  RawClient forms = gateway.Connect();
  EXPECT_EQ(forms
                .Ask(fmt::format("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: g\r\nContent-Type: "
                                 "multipart/form-data; boundary=b\r\nContent-Length: {}\r\n\r\n{}",
                                 2 << 20, form))
                .code(),
            "body_memory_limit");
  slow.clear();
  ASSERT_TRUE(tests::Within(RawClient::kPatience, [&] {
    return gateway.Metric("tidegate_body_memory_bytes") == 0.0;
  })) << "what leaves gives its memory back";
  const std::string large = ChatBody({{"max_tokens", 1}, {"user", std::string(1'500'000, 'u')}}).dump();
  for (int i = 0; i < 6; ++i) EXPECT_NE(gateway.Ask(Post("/v1/chat/completions", large)).status, 429);
}

TEST(Bytes, ATenantHoldsNoMoreLargeBodiesThanItMayRunRequests) {
  EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}, .tenant = "limits: {concurrency: 2}"});
  const std::string head =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: "
      "100000\r\n\r\n";
  std::vector<RawClient> slow;
  for (int i = 0; i < 2; ++i) {
    slow.push_back(gateway.Connect());
    ASSERT_TRUE(slow.back().Send(head + " "));
  }
  ASSERT_TRUE(tests::Within(RawClient::kPatience,
                            [&] { return gateway.Metric("tidegate_body_memory_bytes") == 200'000.0; }));
  const Answer third = gateway.Ask(head);
  EXPECT_EQ(third.status, 429);
  EXPECT_EQ(third.code(), "concurrency_limit");
  EXPECT_EQ(third.header("connection"), "close") << "its body is not read";
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).code(), "concurrency_limit")
      << "they hold the places of its running requests";
  slow.clear();
  EXPECT_TRUE(tests::Within(RawClient::kPatience,
                            [&] { return gateway.Ask(Chat({{"max_tokens", 1}})).status == 200; }));
}

// What is refused between the place and the rest gives the place back, and counts as no request.
TEST(Bytes, ALargeBodyTakesItsPlaceAndGivesItBack) {
  EngineProcess engine;
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .tenant = "limits: {concurrency: 1, requests_per_minute: 3}"});
  const auto large = [](const char* model) {
    return Post("/v1/chat/completions",
                ChatBody({{"model", model}, {"max_tokens", 1}, {"user", std::string(100'000, 'u')}}).dump());
  };
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(gateway.Ask(large("nobody")).status, 404);
    EXPECT_EQ(gateway.Ask(Post("/v1/chat/completions", std::string(100'000, '['))).status, 400);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(gateway.Ask(large("chat-small")).status, 200) << i;
  const Answer fourth = gateway.Ask(large("chat-small"));
  EXPECT_EQ(fourth.code(), "rate_limit_exceeded") << fourth.body;
}

// A library that sends its whole body before it reads must be able to send it.
TEST(Bytes, ARefusalReachesAClientThatIsStillSending) {
  EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}, .server = "limits: {body_bytes: 1MiB}"});
  const std::string body(11 << 20, ' ');
  std::string chunks;
  for (int i = 0; i < 11; ++i) chunks += fmt::format("{:x}\r\n{}\r\n", 1 << 20, body.substr(0, 1 << 20));
  for (int i = 0; i < 5; ++i) {
    RawClient sized = gateway.Connect();
    EXPECT_TRUE(sized.Send(Post("/v1/chat/completions", body))) << "it was cut off while it sent";
    EXPECT_EQ(sized.Read().code(), "request_too_large");
    EXPECT_TRUE(sized.WaitClosed());
    EXPECT_FALSE(sized.reset());
    RawClient chunked = gateway.Connect();
    EXPECT_TRUE(
        chunked.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n" +
                     chunks + "0\r\n\r\n"));
    EXPECT_EQ(chunked.Read().code(), "request_too_large");
    RawClient operators(gateway.admin_port());
    EXPECT_TRUE(operators.Send(Post("/admin/v1/keys", body)));
    EXPECT_EQ(operators.Read().status, 413);
  }
}

// --- Parameters ---

TEST(Bytes, PoliciesOfTenantsAndModelsDecideWhichParametersReachAnEngine) {
  FakeUpstream engine(JsonAnswer(ChatAnswer("ok")));
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .tenant =
           "parameters: {deny: [priority, chat_template], tools: [function], media_hosts: [cdn.example.com], "
           "force: {service_tier: flex, temperature: 0}}",
       .model =
           std::string(kNoProbe) + ", parameters: {deny: [logit_bias], force: {temperature: 1, seed: 7}}"});
  const struct {
    Json more;
    const char* param;
  } refused[] = {
      {{{"priority", 1}}, "priority"},
      {{{"chat_template", "x"}}, "chat_template"},
      {{{"logit_bias", Json::object()}}, "logit_bias"},
      {{{"tools", Json::array({{{"type", "mcp"}}})}}, "tools"},
      {{{"messages",
         Json::array({{{"role", "user"},
                       {"content", Json::array({{{"type", "image_url"},
                                                 {"image_url", {{"url", "http://169.254.169.254/"}}}}})}}})}},
       "messages"},
  };
  for (const auto& c : refused) {
    const Answer answer = gateway.Ask(Chat(c.more));
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.code(), "unsupported_parameter");
    EXPECT_EQ(answer.json()["error"]["param"], c.param) << answer.body;
  }
  EXPECT_EQ(Asked(engine).size(), 0u);
  EXPECT_EQ(gateway.Ask(Chat({{"service_tier", "priority"}, {"user", "me"}})).status, 200);
  const Json sent = Json::parse(Asked(engine).back().body);
  EXPECT_EQ(sent["service_tier"], "flex");
  EXPECT_EQ(sent["temperature"], 0) << "the tenant's word counts before the model's";
  EXPECT_EQ(sent["seed"], 7);
  EXPECT_EQ(sent["user"], "me");
}

TEST(Bytes, MembersThatHandPromptsOverAreNeverTheCallers) {
  FakeUpstream engine(JsonAnswer(ChatAnswer("ok")));
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe});
  for (const char* name : {"kv_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room"}) {
    const Answer answer = gateway.Ask(Chat({{name, nullptr}}));
    EXPECT_EQ(answer.status, 400) << name;
    EXPECT_EQ(answer.code(), "unsupported_parameter");
  }
  EXPECT_EQ(Asked(engine).size(), 0u);
}

TEST(Bytes, AStoredResponseIsItsTenantsAlone) {
  FakeUpstream engine(JsonAnswer(
      R"({"id":"resp_1","object":"response","model":"chat-small","output":[],"usage":{"input_tokens":1,"output_tokens":1}})"));
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = kNoProbe, .endpoint = "engine: vllm, apis: [responses]"});
  const auto ask = [&](std::string_view previous) {
    return gateway.Ask(
        Post("/v1/responses",
             Json{{"model", "chat-small"}, {"input", "Hi"}, {"previous_response_id", previous}}.dump()));
  };
  const Answer stolen = ask("resp_1");
  EXPECT_EQ(stolen.status, 400);
  EXPECT_EQ(stolen.code(), "previous_response_not_found");
  EXPECT_EQ(Asked(engine).size(), 0u);
  EXPECT_EQ(gateway.Ask(Post("/v1/responses", R"({"model":"chat-small","input":"Hi"})")).status, 200);
  EXPECT_EQ(ask("resp_1").status, 200) << "the tenant that made it goes on from it";
  const std::string event =
      "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_2\"}}\n\n"
      "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_2\","
      "\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
  engine.Say(fmt::format("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{}",
                         event.size(), event));
  EXPECT_EQ(gateway.Ask(Post("/v1/responses", R"({"model":"chat-small","input":"Hi","stream":true})")).status,
            200);
  EXPECT_EQ(ask("resp_2").status, 200);
  EXPECT_EQ(ask("resp_3").status, 400);
}

// Engines that know no threads would answer the new messages without the earlier ones; others give a thread to any caller
// of the account.
TEST(Bytes, AThreadIsPassedOnlyToWhereItIsItsTenantsAlone) {
  const FakeUpstream engine(JsonAnswer(
      R"({"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}})"));
  const auto ask = [](const GatewayProcess& gateway, std::string_view thread) {
    return gateway.Ask(Post(
        "/v1/messages",
        fmt::format(
            R"({{"model":"chat-small","max_tokens":9,"messages":[{{"role":"user","content":"hi"}}],"thread":{}}})",
            thread)));
  };
  constexpr const char* kContinue = R"({"type":"continue","previous_message_id":"msg_1"})";
  const GatewayConfig config{.replicas = {engine.port()}, .model = kNoProbe, .endpoint = "engine: anthropic"};
  const GatewayProcess alone(config);
  EXPECT_EQ(ask(alone, kContinue).status, 200);
  EXPECT_THAT(Asked(engine).back().body, HasSubstr("previous_message_id"));
  GatewayConfig several = config;
  several.tenants = "  - {name: other, models: [\"*\"]}\n";
  GatewayConfig without = config;
  without.endpoint = "engine: vllm";
  for (const GatewayConfig& other : {several, without}) {
    const GatewayProcess gateway(other);
    const size_t before = Asked(engine).size();
    for (const char* thread : {kContinue, R"({"type":"create"})"}) {
      const Answer answer = ask(gateway, thread);
      EXPECT_EQ(answer.status, 400);
      EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error");
      EXPECT_EQ(answer.json()["error"]["details"]["error_code"], "thread_unsupported_request");
    }
    EXPECT_EQ(Asked(engine).size(), before);
    EXPECT_EQ(ask(gateway, "null").status, 200);
  }
}

// --- What clients expect of an engine that is busy, misconfigured or old ---

TEST(Bytes, AnEnginesRetryAfterReachesTheCallerAndIsNotWaitedFor) {
  FakeUpstream engine(
      "HTTP/1.1 429 Too Many\r\nContent-Type: application/json\r\nRetry-After: 20\r\nContent-Length: "
      "30\r\n\r\n"
      R"({"error":{"message":"slowly"}})");
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = "health: {probe: false}"});
  const Answer first = gateway.Ask(Chat());
  EXPECT_EQ(first.status, 429);
  EXPECT_EQ(first.header("retry-after"), "20");
  EXPECT_EQ(first.header("retry-after-ms"), "20000");
  EXPECT_THAT(first.body, HasSubstr("slowly"));
  const size_t asked = Asked(engine).size();
  const auto before = std::chrono::steady_clock::now();
  const Answer second = gateway.Ask(Chat());
  EXPECT_EQ(second.status, 503) << second.body;
  const std::optional<int64_t> left = conf::ReadNumber<int64_t>(second.header("retry-after-ms"));
  ASSERT_TRUE(left) << second.header("retry-after-ms");
  EXPECT_GT(*left, 0);
  EXPECT_LE(*left, 20'000) << "what is left of the rest";
  EXPECT_EQ(second.header("retry-after"), std::to_string((*left + 999) / 1000));
  EXPECT_EQ(Asked(engine).size(), asked);
  if (std::chrono::steady_clock::now() - before > std::chrono::seconds(15))
    ADD_FAILURE() << "it waited for the pause to pass";
}

TEST(Bytes, AnEnginesRetryAfterMayBeATimeByItsOwnClock) {
  const std::string date = "Date: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
  const struct {
    std::string fields;
    const char* retry_after;
  } cases[] = {{date + "Retry-After: Wed, 21 Oct 2015 07:28:20 GMT\r\n", "20"},
               {date + "Retry-After: Wed, 21 Oct 2015 07:27:00 GMT\r\n", "0"},
               {date + "Retry-After: Fri, 21 Oct 9998 07:28:00 GMT\r\n", ""},
               {"Retry-After: 20x\r\n", ""}};
  for (const auto& c : cases) {
    const FakeUpstream engine(fmt::format(
        "HTTP/1.1 429 Too Many\r\nContent-Type: application/json\r\n{}Content-Length: 2\r\n\r\n{{}}",
        c.fields));
    const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe});
    const Answer answer = gateway.Ask(Chat());
    EXPECT_EQ(answer.status, 429);
    EXPECT_EQ(answer.header("retry-after"), c.retry_after) << c.fields;
  }
}

TEST(Bytes, RetriesHelpWithASingleEndpoint) {
  std::atomic<int> calls = 0;
  KeptUpstream engine([&](const FakeUpstream::Request&) {
    return ++calls % 3 == 0 ? JsonAnswer(ChatAnswer("ok"))
                            : JsonAnswer(R"({"error":{"message":"loading"}})", 503);
  });
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .model = "health: {probe: false}, retries: {max: 2, budget: 1, min_per_minute: 100}, "
                "breaker: {failures: 1000}"});
  for (int i = 0; i < 3; ++i) {
    const Answer answer = gateway.Ask(Chat());
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(gateway.CloseOf(answer.header("x-request-id")).attempts, 3);
  }
  // An engine that is started again on its port, while the request is tried.
  const uint16_t port = FakeUpstream(JsonAnswer("{}")).port();
  const GatewayProcess refused(
      {.replicas = {port},
       .model = "health: {probe: false}, retries: {max: 10, budget: 1, min_per_minute: 100, "
                "backoff: 500ms}, breaker: {failures: 1000}"});
  RawClient client = refused.Connect();
  ASSERT_TRUE(client.Send(Chat()));
  ASSERT_TRUE(tests::Within(RawClient::kPatience,
                            [&] { return refused.Metric("tidegate_ledger_open_requests") == 1.0; }));
  const FakeUpstream back(JsonAnswer(ChatAnswer("back")), port);
  EXPECT_EQ(Content(client.Read()), "back");
}

TEST(Bytes, AnEngineThatRefusesOurCredentialsIsShownAsThat) {
  FakeUpstream engine(JsonAnswer(R"({"error":{"message":"bad key sk-secret"}})", 401));
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = kNoProbe});
  const Answer answer = gateway.Ask(Chat());
  EXPECT_EQ(answer.status, 502);
  EXPECT_EQ(answer.header("x-should-retry"), "false");
  EXPECT_THAT(answer.body, Not(HasSubstr("sk-secret")));
  EXPECT_THAT(gateway.AskAdmin(Get("/readyz")).body, HasSubstr("answers 401"));
  engine.Say(JsonAnswer(ChatAnswer("ok")));
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
  EXPECT_THAT(gateway.AskAdmin(Get("/readyz")).body, Not(HasSubstr("answers 401")));
}

TEST(Bytes, AProbeHasTheEndpointsCredentialsAndTellsWhenTheyAreRefused) {
  const TempDir folder;
  std::ofstream(folder / "key") << "sk-of-the-endpoint";
  std::ofstream(folder / "token") << "token-of-the-team";
  FakeUpstream engine(JsonAnswer(R"({"error":{"message":"bad key"}})", 403));
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .model = "health: {probe: true, path: /ready, interval: 1s, timeout: 900ms}",
       .endpoint = fmt::format("engine: anthropic, api_key: \"file:{}\", headers: {{x-region: eu}}, "
                               "secret_headers: {{x-team: \"file:{}\"}}",
                               folder / "key", folder / "token")});
  const auto readiness = [&] { return gateway.AskAdmin(Get("/readyz")).body; };
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    return readiness().find("it answers 403: it refuses the gateway's credentials") != std::string::npos;
  })) << readiness();
  const FakeUpstream::Request probe = engine.seen().front();
  EXPECT_THAT(probe.head, StartsWith("GET /ready "));
  EXPECT_EQ(probe.field("x-api-key"), "sk-of-the-endpoint");
  EXPECT_EQ(probe.field("authorization"), "");
  EXPECT_EQ(probe.field("x-region"), "eu");
  EXPECT_EQ(probe.field("x-team"), "token-of-the-team");
  engine.Say(JsonAnswer("{}"));
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    return readiness().find("answers 403") == std::string::npos;
  })) << readiness();
}

TEST(Bytes, AnEngineThatRefusesStreamOptionsIsAskedAgainWithoutThemOnce) {
  KeptUpstream engine([](const FakeUpstream::Request& request) {
    if (request.body.find("stream_options") != std::string::npos)
      return JsonAnswer(R"({"error":{"message":"extra fields not permitted: stream_options"}})", 422);
    const std::string events = "data: " + ChatAnswer("ok") + "\n\ndata: [DONE]\n\n";
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{}",
                       events.size(), events);
  });
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = kNoProbe, .endpoint = "engine: vllm, apis: [chat]"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(gateway.Ask(Chat({{"stream", true}})).status, 200);
    EXPECT_EQ(
        gateway
            .Ask(Post(
                "/v1/messages",
                R"({"model":"chat-small","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"x"}]})"))
            .status,
        200);
  }
  EXPECT_EQ(engine.seen().size(), 7u) << "it is remembered";
  // What the client itself asks for is its own.
  EXPECT_EQ(gateway.Ask(Chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}})).status, 422);
}

TEST(Bytes, ACallersBadRequestTurnsUsageOffForNobody) {
  KeptUpstream engine([](const FakeUpstream::Request& request) {
    if (request.body.find("no such tool") != std::string::npos)
      return JsonAnswer(R"({"error":{"message":"unknown tool in {tools, stream_options}"}})", 400);
    const std::string events = "data: " + ChatAnswer("ok") + "\n\ndata: [DONE]\n\n";
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{}",
                       events.size(), events);
  });
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = kNoProbe, .endpoint = "engine: vllm, apis: [chat]"});
  const Json bad{{"role", "user"}, {"content", "no such tool"}};
  EXPECT_EQ(gateway.Ask(Chat({{"stream", true}, {"messages", {bad}}})).status, 400);
  EXPECT_EQ(gateway.Ask(Chat({{"stream", true}})).status, 200);
  EXPECT_THAT(engine.seen().back().body, HasSubstr("include_usage"));
}

TEST(Bytes, SoundIsRelayedAsItComes) {
  FakeUpstream engine("unused");
  engine.SayInTurns(
      {"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
       "6\r\nsecond\r\n0\r\n\r\n"});
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = kNoProbe, .endpoint = "engine: vllm, apis: [audio]"});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Post("/v1/audio/speech", R"({"model":"chat-small","input":"Hi","voice":"a"})")));
  const Answer head = client.ReadHead();
  EXPECT_EQ(head.status, 200) << "before its second half exists";
  engine.Next();
  EXPECT_FALSE(client.ReadEvent());
  EXPECT_TRUE(client.ended());
}

TEST(Bytes, AnImageAndSoundOfAKnownSizeAreRelayedAsTheyCome) {
  const struct {
    const char* type;
    const char* path;
    const char* body;
  } cases[] = {{"image/png", "/v1/images/generations", R"({"model":"chat-small","prompt":"a cat"})"},
               {"audio/wav", "/v1/audio/speech", R"({"model":"chat-small","input":"Hi","voice":"a"})"}};
  for (const auto& c : cases) {
    FakeUpstream engine("unused");
    engine.SayInTurns(
        {fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: 11\r\n\r\nfirst", c.type),
         "second"});
    const GatewayProcess gateway(
        {.replicas = {engine.port()}, .model = kNoProbe, .endpoint = "engine: vllm, apis: [audio, images]"});
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send(Post(c.path, c.body)));
    const Answer head = client.ReadHead();
    EXPECT_EQ(head.status, 200) << "before its second half exists";
    EXPECT_EQ(head.header("content-type"), c.type);
    EXPECT_EQ(head.header("content-length"), "11");
    engine.Next();
    EXPECT_FALSE(client.ReadEvent());
    EXPECT_TRUE(client.ended());
  }
}

TEST(Bytes, AnEndpointsUrlMayHaveAPathWithOrWithoutV1) {
  FakeUpstream engine(JsonAnswer(ChatAnswer("ok")));
  const struct {
    const char* path;
    const char* target;
  } cases[] = {{"", "/v1/chat/completions"},
               {"/v1", "/v1/chat/completions"},
               {"/v1/", "/v1/chat/completions"},
               {"/team/a", "/team/a/v1/chat/completions"},
               {"/team/a/v1", "/team/a/v1/chat/completions"},
               {"/v1beta/openai", "/v1beta/openai/chat/completions"},
               {"/api/v3", "/api/v3/chat/completions"},
               {"/compatible-mode/v1", "/compatible-mode/v1/chat/completions"}};
  for (const auto& c : cases) {
    const GatewayProcess gateway(
        {.replicas = {engine.port()},
         .model = kNoProbe,
         .models = fmt::format("  - {{name: other, health: {{probe: false}}, endpoints: [{{url: "
                               "\"http://127.0.0.1:{}{}\", engine: vllm}}]}}\n",
                               engine.port(), c.path)});
    EXPECT_EQ(gateway.Ask(Chat({{"model", "other"}})).status, 200) << c.path;
    const std::string head = Asked(engine).back().head;
    EXPECT_EQ(head.substr(0, head.find(" HTTP")), std::string("POST ") + c.target);
  }
}

}  // namespace
}  // namespace tests
