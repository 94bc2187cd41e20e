// The engine over real sockets, on a loop of its own.
#include "tools/engine/service.h"
#include "conf/json_parse.h"

#include <absl/strings/escaping.h>
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "tests/support/temp_dir.h"

namespace tidegate_engine {
namespace {

using testing::HasSubstr;

class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { Leave(); }

  void Leave() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void Send(const std::string& method, const std::string& target, const std::string& body = "",
            const std::string& headers = "") {
    std::string text = method + " " + target + " HTTP/1.1\r\nHost: x\r\n" + headers +
                       "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Reads until `in` is there; false at the end of the connection.
  bool ReadUntil(std::string_view marker) {
    while (in.find(marker) == std::string::npos) {
      if (!ReadMore()) return false;
    }
    return true;
  }
  bool ReadBytes(size_t bytes) {
    while (in.size() < bytes) {
      if (!ReadMore()) return false;
    }
    return true;
  }
  // One answer with Content-Length: its body; `status` of its head.
  std::string Answer(int* status = nullptr) {
    if (!ReadUntil("\r\n\r\n")) return "";
    size_t head = in.find("\r\n\r\n") + 4;
    if (status != nullptr) *status = std::stoi(in.substr(9, 3));
    size_t length = std::stoul(in.substr(in.find("content-length: ") + 16));
    while (in.size() < head + length) {
      if (!ReadMore()) return "";
    }
    std::string body = in.substr(head, length);
    in.erase(0, head + length);
    return body;
  }
  // Reads to the end: true when it was orderly, false when the peer has reset the connection.
  bool ReadToEnd() {
    while (ReadMore()) {
    }
    return error_ == 0;
  }

  std::string in;

 private:
  bool ReadMore() {
    char buffer[65536];
    ssize_t n;
    do n = ::recv(socket_, buffer, sizeof(buffer), 0);
    while (n < 0 && errno == EINTR);  // of a process that was stopped and goes on
    error_ = n < 0 ? errno : 0;
    if (n <= 0) return false;
    in.append(buffer, static_cast<size_t>(n));
    return true;
  }

  int socket_;
  int error_ = 0;
};

// An engine with the given flags.
class Running {
 public:
  explicit Running(std::vector<std::string> flags)
      : loop_([](std::exception_ptr) { ADD_FAILURE() << "a task threw"; }) {
    std::vector<const char*> argv{"tidegate-engine"};
    for (const std::string& flag : flags) argv.push_back(flag.c_str());
    int code = 0;
    auto options = ParseOptions(static_cast<int>(argv.size()), argv.data(), code);
    if (!options) throw std::runtime_error("bad flags");
    service_ = std::make_unique<Service>(loop_, *std::move(options));
    gateway::net::http::Server::Options http;
    http.acceptor.address = "127.0.0.1:0";
    http.acceptor.admit = [this](const std::string&) { return service_->Admit(); };
    server_ = std::move(gateway::net::http::Server::Listen(loop_, std::move(http),
                                                           [this](gateway::net::http::Exchange& exchange) {
                                                             return service_->Handle(exchange);
                                                           }))
                  .value();
    port = server_->port();
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~Running() {
    loop_.Post([this] {
      service_->Stop();
      server_->CloseAll();
      loop_.Stop();
    });
    thread_.join();
  }

  std::string Ask(const std::string& method, const std::string& target, const std::string& body = "",
                  int* status = nullptr) {
    Client client(port);
    client.Send(method, target, body);
    return client.Answer(status);
  }
  Json Post(const std::string& target, const std::string& body, int* status = nullptr) {
    return conf::ParseJson(Ask("POST", target, body, status));
  }
  Json Stats() { return Json::parse(Ask("GET", "/engine/stats")); }
  // Asks until the statistic has the value; false after some seconds.
  bool Await(const char* pointer, const Json& value) {
    auto until = gateway::net::Now() + std::chrono::seconds(20);
    while (gateway::net::Now() < until) {
      if (Stats().at(Json::json_pointer(pointer)) == value) return true;
    }
    return false;
  }

  uint16_t port = 0;

 private:
  gateway::net::Loop loop_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<gateway::net::http::Server> server_;
  std::thread thread_;
};

constexpr const char* kChat = "/v1/chat/completions";

std::string Body(const std::string& more = "", const std::string& text = "Hello") {
  return R"({"model":"demo-model","messages":[{"role":"user","content":")" + text + "\"}]" + more + "}";
}
std::string Long(bool stream) {
  return Body(std::string(R"(,"ignore_eos":true,"max_tokens":5000,"stream":)") + (stream ? "true" : "false"));
}

TEST(EngineService, AnswersSeveralRequestsOnOneConnectionInOrder) {
  Running engine({"--preset", "instant"});
  Client client(engine.port);
  client.Send("POST", kChat, Body(R"(,"max_tokens":3)"));
  client.Send("POST", kChat, Body(R"(,"max_tokens":4)"));
  EXPECT_EQ(Json::parse(client.Answer())["usage"]["completion_tokens"], 3);
  EXPECT_EQ(Json::parse(client.Answer())["usage"]["completion_tokens"], 4);
}

TEST(EngineService, StreamsEveryTokenAndEndsCleanly) {
  Running engine({"--preset", "instant", "--chunks", "25"});
  Client client(engine.port);
  client.Send("POST", kChat, Body(R"(,"stream":true)"));
  ASSERT_TRUE(client.ReadUntil("data: [DONE]\n\n\r\n0\r\n\r\n"));
  size_t events = 0;
  for (size_t at = client.in.find("data: "); at != std::string::npos; at = client.in.find("data: ", at + 1))
    ++events;
  EXPECT_EQ(events, 27u);  // role, 25 tokens, [DONE]
}

TEST(EngineService, IsUnavailableWhileItLoads) {
  Running engine({"--load-time", "1h"});
  int status = 0;
  engine.Ask("GET", "/health", "", &status);
  EXPECT_EQ(status, 503);
  engine.Post(kChat, Body(), &status);
  EXPECT_EQ(status, 503);
}

struct Leaving {
  const char* name;
  std::vector<std::string> flags;
  bool stream;
  const char* phase;
};

class ClientLeaves : public testing::TestWithParam<Leaving> {};

TEST_P(ClientLeaves, AndTheModelIsFreeAtOnce) {
  Running engine(GetParam().flags);
  Client first(engine.port);
  first.Send("POST", kChat, Long(GetParam().stream));
  ASSERT_TRUE(engine.Await("/running", 1));
  Client second(engine.port);
  if (std::string(GetParam().phase) == "waiting") {
    second.Send("POST", kChat, Long(GetParam().stream));
    ASSERT_TRUE(engine.Await("/waiting", 1));
    second.Leave();
  } else {
    if (GetParam().stream) ASSERT_TRUE(first.ReadUntil("\"content\":\" "));
    if (!GetParam().stream && std::string(GetParam().phase) == "decode") {
      while (engine.Stats()["tokens"]["generated"] < 3) {
      }
    }
    first.Leave();
  }
  EXPECT_TRUE(engine.Await(("/cancelled/" + std::string(GetParam().phase)).c_str(), 1));
  Json stats = engine.Stats();
  EXPECT_EQ(stats["requests"]["completed"], 0);
  EXPECT_LT(stats["tokens"]["generated"], 5000);
  if (std::string(GetParam().phase) != "waiting") {
    EXPECT_EQ(stats["running"], 0);
    EXPECT_EQ(stats["kv_cache_usage"], 0.0);
    EXPECT_EQ(stats["tokens"]["for_nobody"], stats["tokens"]["generated"]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    InEveryPhase, ClientLeaves,
    testing::Values(Leaving{"WaitingStream", {"--load-time", "0", "--max-running", "1"}, true, "waiting"},
                    Leaving{"WaitingWhole", {"--load-time", "0", "--max-running", "1"}, false, "waiting"},
                    Leaving{"PrefillWhole", {"--load-time", "0", "--prefill-rate", "0.01"}, false, "prefill"},
                    Leaving{"DecodeWhole", {"--load-time", "0"}, false, "decode"},
                    Leaving{"DecodeStream", {"--load-time", "0"}, true, "decode"}),
    [](const auto& info) { return info.param.name; });

TEST(EngineService, FaultsShowAsTheyAreNamed) {
  Running engine({"--preset", "instant"});
  auto add = [&](const std::string& fault) {
    int status = 0;
    engine.Ask("DELETE", "/engine/fault");
    engine.Post("/engine/fault", fault, &status);
    EXPECT_EQ(status, 200) << fault;
  };
  int status = 0;
  add(R"({"kind":"500"})");
  EXPECT_EQ(engine.Post(kChat, Body(), &status)["error"]["code"], 500);
  add(R"({"kind":"429","arg":7})");
  Client limited(engine.port);
  limited.Send("POST", kChat, Body());
  EXPECT_TRUE(limited.ReadUntil("\r\n\r\n"));
  EXPECT_NE(limited.in.find("retry-after: 7\r\n"), std::string::npos);

  for (bool stream : {true, false}) {
    std::string body = Body(stream ? R"(,"stream":true,"max_tokens":9)" : "");
    add(R"({"kind":"drop","arg":2})");
    Client dropped(engine.port);
    dropped.Send("POST", kChat, body);
    EXPECT_FALSE(dropped.ReadToEnd());
    EXPECT_EQ(dropped.in.find("[DONE]"), std::string::npos);

    add(R"({"kind":"bad-chunk","arg":2})");
    Client broken(engine.port);
    broken.Send("POST", kChat, body);
    EXPECT_TRUE(broken.ReadToEnd());
    EXPECT_NE(broken.in.find("\r\nzz\r\n"), std::string::npos);

    add(R"({"kind":"stall","arg":2})");
    Client stalled(engine.port);
    stalled.Send("POST", kChat, body);
    if (stream) EXPECT_TRUE(stalled.ReadUntil("\"content\":\" "));
    Json before = engine.Stats()["cancelled"]["hanging"];
    stalled.Leave();
    EXPECT_TRUE(engine.Await("/cancelled/hanging", before.get<int>() + 1));
  }
  add(R"({"kind":"bad-json"})");
  EXPECT_TRUE(engine.Post(kChat, Body()).is_discarded());
  add(R"({"kind":"slow-headers","arg":1})");
  Client slow(engine.port);
  slow.Send("POST", kChat, Body());
  EXPECT_TRUE(slow.ReadToEnd());
  EXPECT_NE(slow.in.find("chat.completion"), std::string::npos);
  add(R"({"kind":"refuse","first":1})");
  Client refused(engine.port);
  refused.Send("GET", "/health");
  refused.ReadToEnd();
  EXPECT_EQ(refused.in, "");
  engine.Ask("DELETE", "/engine/fault");
  engine.Post(kChat, Body(), &status);
  EXPECT_EQ(status, 200);
  engine.Post("/engine/fault", R"({"kind":"nonsense"})", &status);
  EXPECT_EQ(status, 400);
}

TEST(EngineService, AnEndlessStreamGoesOnPastItsLengthUntilTheClientLeaves) {
  Running engine({"--preset", "instant", "--fault", "endless", "--chunks", "5"});
  Client client(engine.port);
  client.Send("POST", kChat, Body(R"(,"stream":true)"));
  EXPECT_TRUE(client.ReadBytes(200'000));  // five tokens are about one thousand
  client.Leave();
  EXPECT_TRUE(engine.Await("/cancelled/decode", 1));
  EXPECT_EQ(engine.Stats()["running"], 0);
}

TEST(EngineService, KnowsOnlyTheApisItIsTold) {
  Running engine({"--preset", "instant", "--only", "chat", "--no-usage"});
  int status = 0;
  Json answer = engine.Post(kChat, Body(), &status);
  EXPECT_EQ(status, 200);
  EXPECT_FALSE(answer.contains("usage"));
  engine.Post("/v1/messages", Body(R"(,"max_tokens":5)"), &status);
  EXPECT_EQ(status, 404);
  engine.Post("/v1/responses", R"({"input":"x"})", &status);
  EXPECT_EQ(status, 404);
  engine.Ask("GET", "/v1/models", "", &status);
  EXPECT_EQ(status, 200);
}

TEST(EngineService, DemandsItsKeyBelowV1AsVllmDoes) {
  Running engine({"--preset", "instant", "--api-key", "the-key"});
  const auto status = [&](const std::string& target, const std::string& headers) {
    Client client(engine.port);
    client.Send("GET", target, "", headers);
    int code = 0;
    client.Answer(&code);
    return code;
  };
  EXPECT_EQ(status("/v1/models", "Authorization: Bearer the-key\r\n"), 200);
  EXPECT_EQ(status("/v1/models", "Authorization: Bearer another\r\n"), 401);
  EXPECT_EQ(status("/v1/models", ""), 401);
  EXPECT_EQ(status("/metrics", ""), 200);
}

TEST(EngineService, ErrorsAreVllms) {
  Running engine({"--preset", "instant", "--max-model-len", "100", "--model", "a", "--model", "b"});
  int status = 0;
  Json error = engine.Post(kChat, Body(), &status);
  EXPECT_EQ(status, 404);
  EXPECT_EQ(error["error"]["message"], "The model `demo-model` does not exist.");
  std::string ask = R"({"model":"b","messages":[{"role":"user","content":"x"}],"max_tokens":200})";
  error = engine.Post(kChat, ask, &status);
  EXPECT_EQ(status, 400);
  EXPECT_NE(error["error"]["message"].get<std::string>().find("maximum context length is 100"),
            std::string::npos);
  engine.Ask("GET", kChat, "", &status);
  EXPECT_EQ(status, 405);
  engine.Ask("GET", "/nothing", "", &status);
  EXPECT_EQ(status, 404);
  engine.Post(kChat, "{\"model\":", &status);
  EXPECT_EQ(status, 400);
}

TEST(EngineService, KeepsTheLastRequestByteForByte) {
  Running engine({"--preset", "instant"});
  std::string body =
      "{ \"model\" : \"demo-model\",\n\"unknown\":\"\\u00e9\xc3\xa9\", "
      "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
  Client client(engine.port);
  client.Send("POST", std::string(kChat) + "?q=1", body, "X-Odd: Value\r\n");
  client.Answer();
  Json last = engine.Stats()["last_request"];
  std::string kept;
  ASSERT_TRUE(absl::Base64Unescape(conf::Abseil(last["body_base64"].get<std::string>()), &kept));
  EXPECT_EQ(kept, body);
  EXPECT_EQ(last["target"], std::string(kChat) + "?q=1");
  EXPECT_NE(std::find(last["headers"].begin(), last["headers"].end(), Json({"X-Odd", "Value"})),
            last["headers"].end());
  EXPECT_EQ(last["body_sha256"].get<std::string>().size(), 64u);
}

TEST(EngineService, TokenizeAndDetokenizeAreInverse) {
  Running engine({"--preset", "instant"});
  Json tokens = engine.Post("/tokenize", R"({"prompt":"The tide turns \ud83c\udf0a."})");
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  Json text = engine.Post("/detokenize", Json{{"tokens", tokens["tokens"]}}.dump());
  EXPECT_EQ(text["prompt"], "The tide turns \xf0\x9f\x8c\x8a.");
}

TEST(EngineService, PoolingAndMediaAnswer) {
  Running engine({"--preset", "instant"});
  Json embeddings = engine.Post("/v1/embeddings", R"({"input":["a","b","a"],"dimensions":8})");
  EXPECT_EQ(embeddings["data"][0]["embedding"], embeddings["data"][2]["embedding"]);
  EXPECT_NE(embeddings["data"][0]["embedding"], embeddings["data"][1]["embedding"]);
  EXPECT_EQ(embeddings["usage"]["prompt_tokens"], 3);
  Json ranks = engine.Post("/v1/rerank", R"({"query":"q","documents":["a","b","c"],"top_n":2})");
  ASSERT_EQ(ranks["results"].size(), 2u);
  EXPECT_GE(ranks["results"][0]["relevance_score"], ranks["results"][1]["relevance_score"]);
  EXPECT_EQ(engine.Post("/score", R"({"text_1":"q","text_2":["a","b"]})")["data"].size(), 2u);
  EXPECT_EQ(engine.Post("/v1/images/generations", R"({"prompt":"x","n":2})")["data"].size(), 2u);
  EXPECT_TRUE(engine.Ask("POST", "/v1/audio/speech", R"({"input":"hello"})").starts_with("RIFF"));
  std::string form =
      "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n--B--\r\n";
  for (const auto& [target, status] :
       {std::pair{"/v1/audio/transcriptions", 200}, {"/v1/images/edits", 400}}) {
    Client client(engine.port);
    client.Send("POST", target, form, "Content-Type: multipart/form-data; boundary=B\r\n");
    int got = 0;
    client.Answer(&got);
    EXPECT_EQ(got, status) << target;
  }
}

TEST(EngineService, MetricsHaveVllmsNamesAndLabels) {
  Running engine({"--preset", "instant", "--model", "m", "--kv-blocks", "100"});
  engine.Post(kChat, R"({"messages":[{"role":"user","content":"x"}],"max_tokens":5})");
  std::string text = engine.Ask("GET", "/metrics");
  for (const char* line :
       {"vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 0\n",
        "vllm:kv_cache_usage_perc{model_name=\"m\",engine=\"0\"} 0\n",
        "vllm:generation_tokens_total{model_name=\"m\",engine=\"0\"} 5\n",
        "vllm:request_success_total{model_name=\"m\",engine=\"0\",finished_reason=\"length\"} 1\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"m\",engine=\"0\"} 1\n",
        "vllm:inter_token_latency_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"+Inf\"} 4\n",
        "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\""}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST(EngineService, ServesAdaptersByNameAndKeepsAsManyLoadedAsThereAreSlots) {
  Running engine({"--preset", "instant", "--lora", "sql,legal", "--lora", "code", "--max-loras", "2",
                  "--lora-load", "1ms"});
  const auto ask = [&](const std::string& model) {
    Json body = Json::parse(Body(R"(,"max_tokens":2)", std::string(400, 'x')));
    body["model"] = model;
    return engine.Post(kChat, body.dump());
  };
  EXPECT_EQ(ask("sql")["model"], "sql");
  const auto cached = [&](const std::string& model) {
    return ask(model)["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_GT(cached("sql"), 0);
  EXPECT_EQ(cached("legal"), 0) << "what another adapter has computed of the same text is of no use to it";
  EXPECT_EQ(cached("demo-model"), 0);
  EXPECT_GT(cached("sql"), 0);
  ask("code");
  Json lora = engine.Stats()["lora"];
  EXPECT_EQ(lora, Json::parse(R"({"loads": 3, "evictions": 1, "loaded": ["sql", "code"]})"));
  int status = 0;
  Json body = Json::parse(Body());
  body["model"] = "gone";
  EXPECT_EQ(engine.Post(kChat, body.dump(), &status)["error"]["message"], "The model `gone` does not exist.");
  EXPECT_EQ(status, 404);
  const Json models = Json::parse(engine.Ask("GET", "/v1/models"))["data"];
  ASSERT_EQ(models.size(), 4u);
  EXPECT_EQ(models[1]["id"], "sql");
  EXPECT_EQ(models[1]["parent"], "demo-model");
  EXPECT_NE(
      engine.Ask("GET", "/metrics")
          .find("vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"\",waiting_lora_adapters="
                "\"\"} "),
      std::string::npos);
}

TEST(EngineService, LoadsAndUnloadsAdaptersAsVllmAndSglangDo) {
  const tests::TempDir dir;
  std::ofstream(dir / "adapter_config.json") << "{}";
  Running engine({"--preset", "instant", "--enable-lora", "--max-loaded-loras", "1", "--lora-load", "1ms"});
  int status = 0;
  const auto load = [&](const std::string& path, const std::string& name, const std::string& source) {
    return engine.Post(path, Json{{"lora_name", name}, {"lora_path", source}}.dump(), &status);
  };
  const auto listed = [&] {
    std::string names;
    const Json models = Json::parse(engine.Ask("GET", "/v1/models"))["data"];
    for (const Json& model : models) names += model["id"].get<std::string>() + " ";
    return names;
  };
  EXPECT_THAT(load("/v1/load_lora_adapter", "sql", dir / "gone").dump(), HasSubstr("No adapter found for"));
  EXPECT_EQ(status, 404);
  load("/v1/load_lora_adapter", "sql", dir.path());
  EXPECT_EQ(status, 200);
  EXPECT_THAT(load("/v1/load_lora_adapter", "sql", dir.path()).dump(), HasSubstr("already been loaded"));
  EXPECT_EQ(status, 400);
  EXPECT_THAT(load("/load_lora_adapter", "legal", "acme/legal").dump(), HasSubstr("\"success\":false"));
  EXPECT_EQ(status, 400) << "one is loaded, and no more may be";
  EXPECT_EQ(listed(), "demo-model sql ");
  Json body = Json::parse(Body());
  body["model"] = "sql";
  engine.Post(kChat, body.dump(), &status);
  EXPECT_EQ(status, 200);
  engine.Post("/v1/unload_lora_adapter", R"({"lora_name":"sql"})", &status);
  EXPECT_EQ(status, 200);
  engine.Post(kChat, body.dump(), &status);
  EXPECT_EQ(status, 404);
  EXPECT_EQ(load("/load_lora_adapter", "legal", "acme/legal")["success"], true);
  EXPECT_EQ(listed(), "demo-model legal ");
  engine.Post("/unload_lora_adapter", R"({"lora_name":"sql"})", &status);
  EXPECT_EQ(status, 400);
}

TEST(EngineService, WithoutLoraItsPathsDoNotExist) {
  Running engine({"--preset", "instant"});
  int status = 0;
  engine.Post("/v1/load_lora_adapter", R"({"lora_name":"a","lora_path":"b"})", &status);
  EXPECT_EQ(status, 404);
}

TEST(EngineOptions, WrongFlagsAreRefused) {
  for (std::vector<const char*> argv : {std::vector<const char*>{"e", "--preset", "nothing"},
                                        {"e", "--fault", "nothing"},
                                        {"e", "--only", "nothing"},
                                        {"e", "--step-base", "5"},
                                        {"e", "--speed-up", "0"},
                                        {"e", "--max-loras", "0"},
                                        {"e", "--lora-load", "5"},
                                        {"e", "--nothing"}}) {
    int code = 0;
    EXPECT_FALSE(ParseOptions(static_cast<int>(argv.size()), argv.data(), code)) << argv[1];
    EXPECT_EQ(code, 2);
  }
}

}  // namespace
}  // namespace tidegate_engine
