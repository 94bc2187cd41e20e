// Batches by the calls of clients: what they upload, and what comes of it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "conf/json_parse.h"
#include "tests/support/gateway_process.h"

namespace tests {

inline constexpr milliseconds kBatchPatience{60'000};

inline std::string InputOf(int lines, std::string_view model = "chat-small", int max_tokens = 4) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    text += fmt::format(
        R"({{"custom_id":"line-{}","method":"POST","url":"/v1/chat/completions","body":)"
        R"({{"model":"{}","max_tokens":{},"messages":[{{"role":"user","content":"Question {}"}}]}}}})"
        "\n",
        i, model, max_tokens, i);
  }
  return text;
}

inline std::string UploadOf(std::string_view content, std::string_view headers = {}) {
  const std::string body = fmt::format(
      "--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n"
      "Content-Type: application/octet-stream\r\n\r\n{}\r\n--xyz--\r\n",
      content);
  return fmt::format(
      "POST /v1/files HTTP/1.1\r\nHost: gateway\r\nContent-Type: multipart/form-data; boundary=xyz\r\n"
      "Content-Length: {}\r\n{}\r\n{}",
      body.size(), headers, body);
}

inline std::string Create(const std::string& file) {
  return Post(
      "/v1/batches",
      Json{{"input_file_id", file}, {"endpoint", "/v1/chat/completions"}, {"completion_window", "24h"}}
          .dump());
}

// As SDKs ask: a 503 is tried again.
inline Answer AskUntilServed(const GatewayProcess& gateway, const std::string& request) {
  Answer answer = gateway.Ask(request);
  Within(kBatchPatience, [&] {
    if (answer.status == 503) answer = gateway.Ask(request);
    return answer.status != 503;
  });
  return answer;
}

// The id of a batch of that input.
inline std::string Begin(const GatewayProcess& gateway, const std::string& input) {
  const Answer file = AskUntilServed(gateway, UploadOf(input));
  EXPECT_EQ(file.status, 200) << file.body;
  const Answer batch = AskUntilServed(gateway, Create(file.json().value("id", "")));
  EXPECT_EQ(batch.status, 200) << batch.body;
  return batch.json().value("id", "");
}

inline Json StateOf(const GatewayProcess& gateway, const std::string& batch) {
  return gateway.Ask(Get("/v1/batches/" + batch)).json();
}

// The batch, once it is in that state or has ended.
inline Json Await(const GatewayProcess& gateway, const std::string& batch, const std::string& state) {
  const auto until = std::chrono::steady_clock::now() + kBatchPatience;
  Json now;
  while (std::chrono::steady_clock::now() < until) {
    now = StateOf(gateway, batch);
    const std::string status = now.value("status", "");
    if (status == state || status == "completed" || status == "failed" || status == "cancelled") return now;
    Pause(milliseconds(50));
  }
  ADD_FAILURE() << now.dump();
  return now;
}

// How often each custom id stands in a result file; the file must be JSON lines.
inline std::map<std::string, int> IdsIn(const GatewayProcess& gateway, const Json& file) {
  std::map<std::string, int> ids;
  if (!file.is_string()) return ids;
  const Answer content = gateway.Ask(Get(fmt::format("/v1/files/{}/content", file.get<std::string>())));
  EXPECT_EQ(content.status, 200) << content.body;
  std::string_view rest = content.body;
  while (!rest.empty()) {
    const Json line = conf::ParseJson(rest.substr(0, rest.find('\n')));
    EXPECT_TRUE(line.is_object());
    if (line.is_object()) ++ids[line.value("custom_id", "")];
    rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
  }
  return ids;
}

inline void ExpectOneEach(const std::map<std::string, int>& ids, size_t lines) {
  EXPECT_EQ(ids.size(), lines);
  for (const auto& [id, times] : ids) EXPECT_EQ(times, 1) << id;
}

}  // namespace tests
