// The HTTP codec: heads as SDKs and engines send them, and bodies in either framing.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <string>

#include "bench/micro/allocations.h"
#include "gateway/net/http/body_decoder.h"
#include "gateway/net/http/head.h"

namespace {

namespace http = gateway::net::http;

// Requests of wrk and of the official Python SDK.
constexpr std::string_view kPlainRequest =
    "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\ncontent-type: application/json\r\n"
    "authorization: Bearer sk-tidegate-0123456789abcdef0123456789abcdef\r\nContent-Length: 1024\r\n\r\n";
constexpr std::string_view kSdkRequest =
    "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.example.com\r\nAccept-Encoding: gzip, deflate\r\n"
    "Connection: keep-alive\r\nAccept: application/json\r\nContent-Type: application/json\r\n"
    "User-Agent: OpenAI/Python 1.99.1\r\nX-Stainless-Lang: python\r\nX-Stainless-Package-Version: 1.99.1\r\n"
    "X-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n"
    "X-Stainless-Runtime-Version: 3.11.7\r\nX-Stainless-Async: false\r\nx-stainless-retry-count: 0\r\n"
    "x-stainless-read-timeout: 600\r\nAuthorization: Bearer sk-tidegate-0123456789abcdef0123456789abcdef\r\n"
    "Content-Length: 1024\r\n\r\n";
constexpr std::string_view kResponse =
    "HTTP/1.1 200 OK\r\ndate: Fri, 20 Nov 2026 08:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: 1024\r\n"
    "content-type: application/json\r\nx-request-id: 0123456789abcdef\r\n\r\n";

void BM_RequestHead(benchmark::State& state) {
  const std::string_view bytes = state.range(0) == 0 ? kPlainRequest : kSdkRequest;
  const http::HeadLimits limits;
  http::Head head;
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    size_t scanned = 0;
    benchmark::DoNotOptimize(http::ParseRequestHead(bytes, limits, scanned, head));
  }
  state.SetLabel(state.range(0) == 0 ? "plain" : "sdk");
}
BENCHMARK(BM_RequestHead)->Arg(0)->Arg(1);

void BM_ResponseHead(benchmark::State& state) {
  const http::HeadLimits limits;
  http::Head head;
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    size_t scanned = 0;
    benchmark::DoNotOptimize(http::ParseResponseHead(kResponse, limits, scanned, head));
  }
}
BENCHMARK(BM_ResponseHead);

http::Head ResponseHeadOf(const std::string& text) {
  http::Head head;
  size_t scanned = 0;
  http::ParseResponseHead(text, {}, scanned, head);
  return head;
}

// One read of `range` chunks of 250 bytes, as an engine sends its events.
void BM_DecodeChunked(benchmark::State& state) {
  std::string framed;
  for (int64_t i = 0; i < state.range(0); ++i) framed += fmt::format("fa\r\n{}\r\n", std::string(250, 'x'));
  const std::string text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
  const http::BodyDecoder fresh = http::BodyDecoder::ForResponse(ResponseHeadOf(text), false);
  std::string data = framed;
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    std::memcpy(data.data(), framed.data(), framed.size());  // it decodes in place
    http::BodyDecoder decoder = fresh;
    benchmark::DoNotOptimize(decoder.Decode(data.data(), data.size()));
  }
  state.SetItemsProcessed(state.range(0) * static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_DecodeChunked)->Arg(1)->Arg(16);

void BM_DecodeLength(benchmark::State& state) {
  const std::string text = "HTTP/1.1 200 OK\r\ncontent-length: 1024\r\n\r\n";
  const http::BodyDecoder fresh = http::BodyDecoder::ForResponse(ResponseHeadOf(text), false);
  std::string data(1024, 'x');
  const bench::AllocationCounter allocations(state);
  for (auto _ : state) {
    http::BodyDecoder decoder = fresh;
    benchmark::DoNotOptimize(decoder.Decode(data.data(), data.size()));
  }
}
BENCHMARK(BM_DecodeLength);

}  // namespace
