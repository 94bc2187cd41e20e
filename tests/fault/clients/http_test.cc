// HTTP from strangers: requests that a proxy must refuse, requests that it must accept, and that no part of a
// refused request ever reaches an engine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

constexpr std::string_view kPath = "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n";

struct Http : testing::Test {
  EngineProcess engine;
};

std::string Chunked(std::string_view body, size_t chunk, std::string_view headers = {}) {
  std::string text =
      fmt::format("{}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n{}\r\n", kPath, headers);
  for (size_t at = 0; at < body.size(); at += chunk) {
    const std::string_view piece = body.substr(at, chunk);
    text += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  }
  return text + "0\r\n\r\n";
}

// Nothing more is said, and with this side closed too the connection is over at once.
void ExpectNothingMore(RawClient& client) {
  client.ShutdownWrite();
  EXPECT_TRUE(client.WaitClosed(milliseconds(5000))) << "answered more than once, or left open";
}

std::string Question(size_t bytes) {
  return ChatBody({{"max_tokens", 2},
                   {"messages", Json::array({{{"role", "user"}, {"content", std::string(bytes, 'x')}}})}})
      .dump();
}

TEST_F(Http, RefusesWhatASmugglerWouldSend) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const std::string body = ChatBody().dump();
  const std::string length = fmt::format("Content-Length: {}\r\n", body.size());
  const std::string hidden = Chat();
  const auto with = [&](std::string_view headers, std::string_view payload) {
    return fmt::format("{}Content-Type: application/json\r\n{}\r\n{}", kPath, headers, payload);
  };
  const std::string zero = "0\r\n\r\n" + hidden;
  const std::string te = "Transfer-Encoding: chunked\r\n";
  struct Case {
    std::string name;
    std::string bytes;
  };
  const std::vector<Case> cases = {
      {"length and coding", with(length + te, zero)},
      {"coding and length", with(te + length, zero)},
      {"two equal lengths", with(length + length, body)},
      {"two lengths", with(length + "Content-Length: 0\r\n", body)},
      {"a list of lengths", with(fmt::format("Content-Length: {0}, {0}\r\n", body.size()), body)},
      {"a signed length", with(fmt::format("Content-Length: +{}\r\n", body.size()), body)},
      {"a negative length", with("Content-Length: -1\r\n", body)},
      {"a length in hexadecimal", with("Content-Length: 0x10\r\n", body)},
      {"a length beyond 64 bits", with("Content-Length: 18446744073709551617\r\n", body)},
      {"an empty length", with("Content-Length: \r\n", body)},
      {"two codings", with(te + te, zero)},
      {"chunked twice", with("Transfer-Encoding: chunked, chunked\r\n", zero)},
      {"a coding behind a control character", with("Transfer-Encoding: \vchunked\r\n", zero)},
      {"a space before the colon", with("Transfer-Encoding : chunked\r\n", zero)},
      {"a space in a name", with("Content Length: 5\r\n", body)},
      {"a folded line", with("X-A: b\r\n " + length, body)},
      {"bare line feeds", "POST /v1/chat/completions HTTP/1.1\nHost: gateway\nContent-Length: 2\n\n{}"},
      {"one bare line feed", with("X-A: b\n" + length, body)},
      {"a bare carriage return", with("X-A: b\rContent-Length: 0\r\n", hidden)},
      {"a NUL in a value", with(std::string("X-A: b\0c\r\n", 10), body)},
      {"chunks under HTTP/1.0",
       fmt::format("POST /v1/chat/completions HTTP/1.0\r\nHost: g\r\n{}\r\n{}", te, zero)},
      {"a chunk extension in a bare line",
       with(te, fmt::format("{:x};a\n{}\r\n{}", body.size(), body, zero))},
      {"a chunk size with a space behind it",
       with(te, fmt::format("{:x} \r\n{}\r\n{}", body.size(), body, zero))},
      {"a trailer that frames", with(te, "0\r\nContent-Length: 5\r\n\r\n")},
      {"a trailer that authenticates", with(te, "0\r\nAuthorization: Bearer x\r\n\r\n")},
      {"a host with a path", "POST /v1/chat/completions HTTP/1.1\r\nHost: g/x\r\n" + length + "\r\n" + body},
      {"a host with a bad port",
       "POST /v1/chat/completions HTTP/1.1\r\nHost: g:x\r\n" + length + "\r\n" + body},
      {"an empty host", "POST /v1/chat/completions HTTP/1.1\r\nHost: \r\n" + length + "\r\n" + body},
      {"a chunk size that is no number", with(te, "zz\r\n" + zero)},
      {"a signed chunk size", with(te, "-1\r\n" + zero)},
      {"a chunk size beyond 64 bits", with(te, "10000000000000002\r\n" + zero)},
      {"a chunk longer than its size", with(te, "2\r\n{}{}\r\n" + zero)},
      {"a trailer that ends in a bare line feed", with(te, "0\r\nX-A: b\n\r\n" + hidden)},
      {"chunks that end in bare line feeds", with(te, fmt::format("{:x}\n{}\n0\n\n", body.size(), body))},
      {"an absolute target",
       "POST http://elsewhere/v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n" + length + "\r\n" + body},
      {"no host", "POST /v1/chat/completions HTTP/1.1\r\n" + length + "\r\n" + body},
      {"two hosts", with("Host: elsewhere\r\n" + length, body)},
      {"no version", "POST /v1/chat/completions\r\n\r\n"},
      {"a TLS greeting", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15)},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    RawClient client = gateway.Connect();
    const Answer answer = client.Ask(c.bytes);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.code(), "") << answer.body;
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.header("connection"), "close");
    ExpectNothingMore(client);
  }
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
}

TEST_F(Http, SaysWhichVersionAndCodingItDoesNotSpeakAndCloses) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const std::string chunks = "0\r\n\r\n" + Chat();
  const auto coded = [&](std::string_view coding) {
    return fmt::format("{}Transfer-Encoding: {}\r\n\r\n{}", kPath, coding, chunks);
  };
  const auto version = [](std::string_view name) {
    return fmt::format("POST /v1/chat/completions {}\r\nHost: gateway\r\nContent-Length: 2\r\n\r\n{{}}",
                       name);
  };
  const struct {
    std::string request;
    int status;
    const char* code;
  } cases[] = {
      {coded("gzip, chunked"), 501, "unsupported_transfer_coding"},
      {coded("gzip"), 501, "unsupported_transfer_coding"},
      {coded("xchunked"), 501, "unsupported_transfer_coding"},
      {coded("identity"), 501, "unsupported_transfer_coding"},
      {version("HTTP/2.0"), 505, "unsupported_http_version"},
      {version("HTTP/3.0"), 505, "unsupported_http_version"},
      {version("HTTP/0.9"), 505, "unsupported_http_version"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "unsupported_http_version"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.request.substr(0, 110));
    RawClient client = gateway.Connect();
    const Answer answer = client.Ask(c.request);
    EXPECT_EQ(answer.status, c.status);
    EXPECT_EQ(answer.code(), c.code) << answer.body;
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.header("connection"), "close");
    EXPECT_EQ(answer.header("x-should-retry"), "false");
    ExpectNothingMore(client);
    RawClient operators(gateway.admin_port());
    const Answer admin = operators.Ask(c.request);
    EXPECT_EQ(admin.status, c.status);
    EXPECT_EQ(admin.code(), c.code) << admin.body;
    ExpectNothingMore(operators);
  }
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
}

TEST_F(Http, NeverTakesABodyThatItDidNotReadForARequest) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const std::string hidden = Chat();
  const std::vector<std::string> heads = {
      "GET /v1/models HTTP/1.1\r\nHost: g\r\nContent-Length: {}\r\n\r\n",
      "POST /nowhere HTTP/1.1\r\nHost: g\r\nContent-Length: {}\r\n\r\n",
      "DELETE /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: {}\r\n\r\n",
      "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Type: text/csv\r\nContent-Length: {}\r\n\r\n",
      "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nX-Tidegate-Replica: r0\r\nContent-Length: {}\r\n\r\n",
  };
  for (const std::string& head : heads) {
    SCOPED_TRACE(head);
    RawClient client = gateway.Connect();
    const Answer answer = client.Ask(fmt::format(fmt::runtime(head), hidden.size()) + hidden);
    EXPECT_NE(answer.status, 0);
    EXPECT_EQ(answer.header("connection"), "close") << "a client that reuses it would lose its next request";
    ExpectNothingMore(client);
  }
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
}

TEST_F(Http, TakesAbsoluteTargetsOfItsHostAndChunkExtensions) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const std::string body = ChatBody({{"max_tokens", 2}}).dump();
  RawClient client = gateway.Connect();
  const Answer absolute = client.Ask(
      fmt::format("POST http://gateway/v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: "
                  "application/json\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(), body));
  EXPECT_EQ(absolute.status, 200) << absolute.body;
  const Answer extended = client.Ask(
      fmt::format("{}Transfer-Encoding: chunked\r\n\r\n{:x};chunk-signature=\"a;b\"\r\n{}\r\n0;x\r\n\r\n",
                  kPath, body.size(), body));
  EXPECT_EQ(extended.status, 200) << extended.body;
  EXPECT_EQ(engine.Stats()["last_request"]["body_bytes"], body.size());
}

// A body would be read as the answer to the next request.
TEST_F(Http, HeadNeverGetsABody) {
  const GatewayProcess gateway({.replicas = {engine.port()}, .anonymous = false});
  const std::string hosted = "HTTP/1.1\r\nHost: gateway\r\n";
  for (const std::string path : {"/v1/models", "/v1/chat/completions", "/nowhere"}) {
    SCOPED_TRACE(path);
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send("HEAD " + path + " " + hosted + "\r\nGET /v1/models " + hosted + "\r\n"));
    const Answer head = client.ReadHead();
    EXPECT_GE(head.status, 400);
    EXPECT_NE(head.header("content-length"), "0") << "it says what GET would have got";
    EXPECT_EQ(client.ReadHead().status, 401) << "what follows is the answer to GET";
    RawClient alone = gateway.Connect();
    ASSERT_TRUE(alone.Send("HEAD " + path + " " + hosted + "Connection: close\r\n\r\n"));
    alone.ShutdownWrite();
    EXPECT_EQ(alone.ReadHead().status, head.status);
    EXPECT_TRUE(alone.WaitClosed(milliseconds(5000))) << "bytes followed the head";
  }
  for (const std::string& bad :
       {std::string("HEAD /v1/models HTTP/1.1\r\n\r\n"), "HEAD /" + std::string(80'000, 'a')}) {
    for (const uint16_t port : {gateway.port(), gateway.admin_port()}) {
      RawClient client(port);
      ASSERT_TRUE(client.Send(bad));
      EXPECT_GE(client.ReadHead().status, 400);
      client.ShutdownWrite();
      EXPECT_TRUE(client.WaitClosed(milliseconds(5000))) << "bytes followed the head";
    }
  }
}

TEST_F(Http, AnswersPipelinedRequestsInOrder) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  RawClient client = gateway.Connect();
  std::string all;
  for (int i = 1; i <= 3; ++i) all += Chat({{"max_tokens", i}, {"ignore_eos", true}});
  all += Chat({{"model", "nobody"}}) + Get("/v1/models") + Chat({{"stream", true}, {"max_tokens", 4}}) +
         Chat({{"max_tokens", 5}, {"ignore_eos", true}});
  ASSERT_TRUE(client.Send(all));
  for (int i = 1; i <= 3; ++i) {
    const Answer answer = client.Read();
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json()["usage"]["completion_tokens"], i);
  }
  EXPECT_EQ(client.Read().code(), "model_not_found");
  EXPECT_EQ(client.Read().json()["object"], "list");
  EXPECT_THAT(client.Read().body, testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(client.Read().json()["usage"]["completion_tokens"], 5);
}

TEST_F(Http, WhatIsSentAheadBehindAChunkedBodyIsTheNextRequestHoweverItIsCut) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const std::string first = Chunked(Question(20'000), 7'000);
  const std::string second =
      Chat({{"max_tokens", 3}, {"ignore_eos", true}, {"user", std::string(60'000, 'u')}});
  for (const size_t ahead : {1u, 150u, 1'000u, 15'000u, 40'000u, 60'000u}) {
    SCOPED_TRACE(ahead);
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send(first + second.substr(0, ahead)));
    // The rest comes while the first is worked on, and after it.
    const size_t half = (second.size() - ahead) / 2;
    ASSERT_TRUE(client.Send(second.substr(ahead, half)));
    EXPECT_EQ(client.Read().status, 200);
    ASSERT_TRUE(client.Send(second.substr(ahead + half)));
    const Answer answer = client.Read();
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json()["usage"]["completion_tokens"], 3);
  }
}

// The first is checked, priced and spliced; engines take the last.
TEST_F(Http, ASecondModelInAFormIsRefusedHoweverLateItComes) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const auto part = [](std::string_view name, std::string_view value) {
    return fmt::format("--b\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n", name, value);
  };
  const std::string form = part("model", "chat-small") + part("file", std::string(50'000, 'x')) +
                           part("model", "another") + "--b--\r\n";
  const std::string begin = form.substr(0, 300);  // to within the file
  const std::string end = form.substr(300);
  RawClient client = gateway.Connect();
  ASSERT_TRUE(
      client.Send(fmt::format("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: gateway\r\nContent-Type: "
                              "multipart/form-data; boundary=b\r\nContent-Length: {}\r\n\r\n{}",
                              form.size(), begin)));
  ASSERT_TRUE(tests::Within(RawClient::kPatience, [&] {
    return gateway.Metric("tidegate_ledger_open_requests") == 1.0;
  })) << "a form is admitted as soon as its model is known";
  ASSERT_TRUE(client.Send(end));
  const Answer answer = client.Read();
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_EQ(answer.code(), "duplicate_key");
}

TEST_F(Http, BodiesOfAnySizeAndFramingArriveByteForByteOnOneConnection) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  RawClient client = gateway.Connect();
  uint64_t asked = 0;
  for (const size_t bytes : {1u, 15'000u, 16'200u, 16'384u, 17'000u, 60'000u, 300'000u, 10u}) {
    const std::string body = Question(bytes);
    for (const size_t chunk : {size_t{0}, size_t{977}, body.size()}) {
      SCOPED_TRACE(fmt::format("{} bytes in chunks of {}", bytes, chunk));
      const Answer answer =
          client.Ask(chunk == 0 ? Post("/v1/chat/completions", body) : Chunked(body, chunk));
      ASSERT_THAT(answer.status, testing::AnyOf(200, 400)) << answer.body;  // 400: too long for the model
      const Json last = engine.Stats()["last_request"];
      EXPECT_EQ(last["body_bytes"], body.size());
      if (body.size() <= 64 * 1024) EXPECT_EQ(last["body"], body);
      ++asked;
    }
  }
  EXPECT_EQ(engine.Stat("/requests/received"), asked);
}

TEST_F(Http, TakesABodyByteByByteAndWithTrailers) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  RawClient client = gateway.Connect();
  std::string request = Chunked(ChatBody({{"max_tokens", 2}}).dump(), 1);
  request.insert(request.size() - 2, "X-Checksum: none\r\n");
  for (size_t at = 0; at < request.size(); at += 3) ASSERT_TRUE(client.Send(request.substr(at, 3)));
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Ask(Chat({{"max_tokens", 2}})).status, 200);
}

TEST_F(Http, AsksForABodyThatItWants) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  RawClient client = gateway.Connect();
  for (int i = 0; i < 2; ++i) {
    const std::string request = Chat({{"max_tokens", 2}}, "Expect: 100-continue\r\n");
    const size_t head = request.find("\r\n\r\n") + 4;
    ASSERT_TRUE(client.Send(request.substr(0, head)));
    EXPECT_EQ(client.ReadHead().status, 100);
    ASSERT_TRUE(client.Send(request.substr(head)));
    EXPECT_EQ(client.Read().status, 200);
  }
  // What is sent ahead needs no asking.
  EXPECT_EQ(client.Ask(Chat({{"max_tokens", 2}}, "Expect: 100-continue\r\n")).status, 200);
}

TEST_F(Http, RefusesABodyBeforeItIsSent) {
  const GatewayProcess open({.replicas = {engine.port()}, .server = "limits: {body_bytes: 1KiB}"});
  const GatewayProcess guarded({.replicas = {engine.port()}, .anonymous = false});
  const std::string head = fmt::format("{}Content-Type: application/json\r\nExpect: 100-continue\r\n", kPath);
  RawClient large = open.Connect();
  EXPECT_EQ(large.Ask(head + "Content-Length: 2000\r\n\r\n").status, 413);
  EXPECT_TRUE(large.WaitClosed());
  RawClient stranger = guarded.Connect();
  EXPECT_EQ(stranger.Ask(head + "Content-Length: 500\r\n\r\n").status, 401);
  EXPECT_TRUE(stranger.WaitClosed());
  RawClient odd = open.Connect();
  EXPECT_EQ(odd.Ask(fmt::format("{}Expect: the-unexpected\r\nContent-Length: 2\r\n\r\n", kPath)).status, 417);
  EXPECT_TRUE(odd.WaitClosed());
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
}

TEST_F(Http, SpeaksHttp10) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const auto ask = [](const Json& more, std::string_view headers) {
    std::string request = Chat(more, headers);
    return request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  };
  RawClient client = gateway.Connect();
  EXPECT_EQ(client.Ask(ask({{"max_tokens", 2}}, "Connection: keep-alive\r\n")).status, 200);
  EXPECT_EQ(client.Ask(ask({{"max_tokens", 2}}, "")).status, 200);
  EXPECT_TRUE(client.WaitClosed());

  RawClient streaming = gateway.Connect();
  const Answer answer =
      streaming.Ask(ask({{"stream", true}, {"max_tokens", 3}}, "Connection: keep-alive\r\n"));
  EXPECT_EQ(answer.header("transfer-encoding"), "") << "HTTP/1.0 knows no chunks";
  EXPECT_THAT(answer.body, testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_TRUE(answer.whole);
}

TEST_F(Http, ClosesWhenTheClientAsksForIt) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  for (const bool stream : {false, true}) {
    RawClient client = gateway.Connect();
    const Answer answer = client.Ask(Chat({{"max_tokens", 2}, {"stream", stream}}, "Connection: close\r\n"));
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.header("connection"), "close");
    EXPECT_TRUE(client.WaitClosed());
  }
}

TEST_F(Http, KeepsItsLimitsOnHeadsAndBodies) {
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .server = "limits: {head_bytes: 4KiB, headers: 20, body_bytes: 8KiB}"});
  std::string many;
  for (int i = 0; i < 30; ++i) many += fmt::format("X-{}: y\r\n", i);
  const std::string long_value = "X-Long: " + std::string(5000, 'v') + "\r\n";
  const struct {
    std::string request;
    int status;
    std::string code;
  } cases[] = {
      {Chat({}, many), 431, "header_too_large"},
      {Chat({}, long_value), 431, "header_too_large"},
      {"GET /" + std::string(5000, 'u'), 431, "header_too_large"},
      {Post("/v1/chat/completions", Question(9000)), 413, "request_too_large"},
      {Chunked(Question(9000), 500), 413, "request_too_large"},
      {Chunked(Question(90'000), 90'000), 413, "request_too_large"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.request.substr(0, 60));
    RawClient client = gateway.Connect();
    const Answer answer = client.Ask(c.request);
    EXPECT_EQ(answer.status, c.status);
    EXPECT_EQ(answer.code(), c.code);
    EXPECT_EQ(answer.header("connection"), "close");
    ExpectNothingMore(client);
  }
  EXPECT_EQ(gateway.Ask(Post("/v1/chat/completions", Question(7000))).status, 200);
  EXPECT_EQ(engine.Stat("/requests/received"), 1u);
}

TEST_F(Http, DoesNotWaitForEverForSlowClients) {
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .server = "limits: {header_timeout: 300ms, body_timeout: 300ms, idle_timeout: 600ms}"});
  const std::string request = Chat();
  RawClient slow_head = gateway.Connect();
  RawClient slow_body = gateway.Connect();
  RawClient idle = gateway.Connect();
  ASSERT_TRUE(slow_head.Send(request.substr(0, 20)));
  ASSERT_TRUE(slow_body.Send(request.substr(0, request.size() - 5)));
  const Answer head = slow_head.Read(milliseconds(5000));
  EXPECT_EQ(head.status, 408);
  EXPECT_EQ(head.code(), "request_timeout");
  EXPECT_TRUE(slow_head.WaitClosed());
  const Answer body = slow_body.Read(milliseconds(5000));
  EXPECT_EQ(body.status, 408);
  EXPECT_EQ(body.code(), "request_timeout");
  EXPECT_TRUE(slow_body.WaitClosed());
  EXPECT_TRUE(idle.WaitClosed(milliseconds(5000))) << "without a word, since nothing was asked";
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
}

TEST_F(Http, ToleratesABodyThatContinuesAfterItWasGivenUp) {
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .server = "limits: {body_timeout: 200ms, body_bytes: 8MiB}"});
  for (const size_t size : {100'000u, 100'000u, 1'000'000u, 4'000'000u, 100'000u}) {
    const std::string question = Question(size);
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send(tests::Post("/v1/chat/completions", question).substr(0, 2000)));
    EXPECT_EQ(client.Read(milliseconds(5000)).status, 408);
    for (int i = 0; i < 5; ++i) client.Send("xxxxx");
  }
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
}

TEST_F(Http, CountsTheConnectionsOfAnAddress) {
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .server = "limits: {connections_per_address: 3}"});
  std::vector<RawClient> clients;
  ASSERT_TRUE(tests::Within(RawClient::kPatience, [&] {
    clients.clear();
    for (int i = 0; i < 3; ++i) clients.push_back(gateway.Connect());
    for (RawClient& client : clients) {
      if (client.Ask(Get("/v1/models")).status != 200) return false;
    }
    return true;
  }));
  RawClient one_more = gateway.Connect();
  EXPECT_EQ(one_more.Ask(Get("/v1/models")).status, 0);
  clients.pop_back();
  EXPECT_TRUE(
      tests::Within(RawClient::kPatience, [&] { return gateway.Ask(Get("/v1/models")).status == 200; }));
}

TEST_F(Http, BearsClientsThatResetBeforeTheyAreAccepted) {
  GatewayProcess gateway({.replicas = {engine.port()}, .server = "limits: {connections_per_address: 8}"});
  gateway.process().Signal(SIGSTOP);
  for (int i = 0; i < 40; ++i) {
    RawClient client = gateway.Connect();
    client.Send("GET /v1/mod");
    client.Reset();
  }
  gateway.process().Signal(SIGCONT);
  std::vector<RawClient> clients;
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    clients.clear();
    for (int i = 0; i < 8; ++i) clients.push_back(gateway.Connect());
    return std::all_of(clients.begin(), clients.end(),
                       [](RawClient& client) { return client.Ask(Get("/v1/models")).status == 200; });
  })) << "their places were not given back";
}

TEST_F(Http, RefusesTheGatewaysOwnHeadersFromClients) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  for (const std::string header : {"x-tidegate-replica", "X-TIDEGATE-ANYTHING"}) {
    const Answer answer = gateway.Ask(Chat({}, header + ": r0\r\n"));
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.code(), "reserved_header");
  }
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
}

TEST_F(Http, WhatBelongsToAConnectionStaysOnIt) {
  const tests::FakeUpstream upstream(
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: keep-alive, X-Private\r\nX-Private: "
      "p\r\n"
      "Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nX-Public: q\r\nX-Tidegate-Replica: forged\r\n"
      "X-RateLimit-Limit-Requests: 7\r\nSet-Cookie: a=b\r\nServer: engine\r\nContent-Length: 2\r\n\r\n{}");
  const GatewayProcess outward({.replicas = {upstream.port()}, .model = "health: {probe: false}"});
  const Answer answer = outward.Ask(Chat());
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("x-public"), "q");
  EXPECT_EQ(answer.header("x-tidegate-replica"), "r0");
  for (const std::string name : {"x-private", "keep-alive", "proxy-authenticate", "set-cookie",
                                 "x-ratelimit-limit-requests", "server"}) {
    EXPECT_EQ(answer.header(name), "") << name;
  }

  const GatewayProcess inward(
      {.replicas = {engine.port()}, .endpoint = "engine: vllm, pass_headers: [x-public, x-private]"});
  EXPECT_EQ(
      inward
          .Ask(Chat({},
                    "Connection: X-Private, keep-alive\r\nX-Private: p\r\nX-Public: q\r\nTE: trailers\r\n"
                    "Keep-Alive: 5\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\nCookie: a=b\r\n"
                    "Accept-Encoding: gzip\r\n"))
          .status,
      200);
  std::map<std::string, std::string> seen;
  const Json stats = engine.Stats();
  for (const Json& header : stats["last_request"]["headers"]) {
    std::string name = header[0];
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    seen[name] = header[1];
  }
  EXPECT_EQ(seen["x-public"], "q");
  EXPECT_EQ(seen["accept-encoding"], "identity");
  for (const std::string name :
       {"x-private", "te", "keep-alive", "proxy-authorization", "upgrade", "cookie", "connection"}) {
    EXPECT_FALSE(seen.contains(name)) << name;
  }
}

TEST_F(Http, NamesWhatIsWrongWithAPathOrAMethod) {
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const struct {
    std::string request;
    int status;
    std::string code;
  } cases[] = {
      {Get("/"), 404, "not_found"},
      {Get("/v1/nothing"), 404, "not_found"},
      {Post("/v1/chat/completions/", "{}"), 404, "not_found"},
      {Get("/v1/../v1/models"), 404, "not_found"},
      {Get("/v1/chat/completions"), 405, "method_not_allowed"},
      {Post("/v1/models", "{}"), 405, "method_not_allowed"},
      {"BREW /v1/chat/completions HTTP/1.1\r\nHost: g\r\n\r\n", 405, "method_not_allowed"},
      {"CONNECT engine:443 HTTP/1.1\r\nHost: engine:443\r\n\r\n", 400, "bad_request"},
      {"OPTIONS * HTTP/1.1\r\nHost: g\r\n\r\n", 400, "bad_request"},
      {Get("/v1/models/nobody"), 404, "model_not_found"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.request.substr(0, c.request.find('\r')));
    const Answer answer = gateway.Ask(c.request);
    EXPECT_EQ(answer.status, c.status);
    EXPECT_EQ(answer.code(), c.code) << answer.body;
    EXPECT_NE(answer.header("x-request-id"), "");
  }
  EXPECT_EQ(gateway.Ask(Get("/v1/models/chat-small")).json()["id"], "chat-small");
  EXPECT_THAT(gateway.Ask(Post("/chat/completions", "{}")).body,
              testing::HasSubstr("does not exist, did you mean /v1/chat/completions?"));
  EXPECT_THAT(gateway.Ask(Get("/v1/chat/completions?a=b")).body,
              testing::HasSubstr("\"/v1/chat/completions does not take the method GET; use POST\""));
}

}  // namespace
}  // namespace tests
