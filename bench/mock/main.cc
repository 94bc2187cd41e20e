// bench_mock: a server that answers every request with the same chat completion of about 1 KiB, so cheaply
// that the proxy in front of it is what is measured. Streams are tidegate-engine's.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "conf/text.h"
#include "gateway/net/http/server.h"
#include "gateway/net/standard_descriptors.h"

namespace {

namespace net = gateway::net;

std::string MakeAnswer() {
  std::string content;
  while (content.size() < 560) content += "Fast begin in quay mast fast sand but with time. ";
  return fmt::format(
      R"({{"id":"chatcmpl-9b2f653bcd444de4de34cc162082a87e","object":"chat.completion","created":1767225600,)"
      R"("model":"chat-small","choices":[{{"index":0,"message":{{"role":"assistant","content":"{}",)"
      R"("refusal":null,"tool_calls":[]}},"logprobs":null,"finish_reason":"stop","stop_reason":null}}],)"
      R"("service_tier":null,"usage":{{"prompt_tokens":164,"total_tokens":254,"completion_tokens":90,)"
      R"("prompt_tokens_details":{{"cached_tokens":160}}}},"kv_transfer_params":null}})",
      content);
}

}  // namespace

int main(int argc, char** argv) {
  gateway::net::OpenStandardDescriptors();
  uint16_t port = 0;
  CLI::App app("Answers every request with the same chat completion.", "bench_mock");
  app.add_option("--port", port, "Port; 0: any free one, printed once it listens");
  CLI11_PARSE(app, argc, argv);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::signal(SIGPIPE, SIG_IGN);

  net::Loop loop([](std::exception_ptr error) { std::rethrow_exception(error); });
  const std::string answer = MakeAnswer();
  const net::http::Headers headers{{"content-type", "application/json"}};
  net::http::Server::Options options;
  options.acceptor.address = fmt::format("127.0.0.1:{}", port);
  auto server =
      net::http::Server::Listen(loop, options, [&](net::http::Exchange& exchange) -> net::Task<void> {
        co_await exchange.Send(200, headers, answer);
      });
  if (!server.ok()) {
    fmt::print(stderr, "bench_mock: {}\n", conf::Std(server.status().message()));
    return 1;
  }
  fmt::print("listening on 127.0.0.1:{}\n", (*server)->port());
  std::fflush(stdout);
  loop.Run();
  return 0;
}
