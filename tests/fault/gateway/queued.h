// A gateway whose engines run few requests at a time, so that others wait for them; and who waits, as its
// admin API tells.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {

inline constexpr std::string_view kQueueAdminKey = "a-bootstrap-key-of-enough-characters";

// An engine that takes `step` for each token of an answer, however many it works on.
inline std::vector<std::string> Paced(std::string_view step) {
  return {"--preset",
          "demo",
          "--load-time",
          "0s",
          "--step-base",
          std::string(step),
          "--step-per-sequence",
          "0s",
          "--per-context-token",
          "0s",
          "--prefill-rate",
          "1000000"};
}

// A question that is answered with exactly so many tokens.
inline std::string Asking(int tokens, Json more = Json::object(), std::string_view headers = {}) {
  more["max_tokens"] = tokens;
  more["ignore_eos"] = true;
  return Chat(more, headers);
}

struct Queued {
  explicit Queued(GatewayConfig config) : gateway(WithKey(std::move(config))) {}

  GatewayConfig WithKey(GatewayConfig config) {
    std::ofstream(folder / "key") << kQueueAdminKey;
    chmod((folder / "key").c_str(), 0600);
    config.sections += fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n", folder / "key");
    return config;
  }
  static std::string Credentials() { return fmt::format("Authorization: Bearer {}\r\n", kQueueAdminKey); }

  // The line of an Authorization header for a new key of the tenant.
  std::string KeyFor(const std::string& tenant, const std::string& priority = {}) const {
    Json body{{"tenant", tenant}};
    if (!priority.empty()) body["priority"] = priority;
    const Answer made = gateway.AskAdmin(Post("/admin/v1/keys", body.dump(), Credentials()));
    EXPECT_EQ(made.status, 201) << made.body;
    return fmt::format("Authorization: Bearer {}\r\n", made.json().value("secret", ""));
  }
  Json Queue() const {
    const Answer answer = gateway.AskAdmin(Get("/admin/v1/queue?model=chat-small", Credentials()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json()["data"][0];
  }
  bool Waiting(int64_t requests) const {
    return Within(RawClient::kPatience, [&] { return Queue()["waiting"] == requests; });
  }
  // A stream that holds a place on an engine until it is closed.
  RawClient Holder(std::string_view headers = {}) const {
    RawClient client = gateway.Connect();
    client.Send(Asking(4'000, {{"stream", true}}, headers));
    EXPECT_EQ(client.ReadHead().status, 200);
    return client;
  }
  // Requests that have been sent, each on a connection of its own; those beyond the engines' places wait.
  std::vector<RawClient> Sent(int count, const std::string& request) const {
    std::vector<RawClient> clients;
    for (int i = 0; i < count; ++i) {
      clients.push_back(gateway.Connect());
      EXPECT_TRUE(clients.back().Send(request));
    }
    return clients;
  }

  TempDir folder;
  GatewayProcess gateway;
};

}  // namespace tests
