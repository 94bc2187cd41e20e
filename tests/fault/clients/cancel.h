// What must happen when a client leaves: the engine stops, and what was generated is on somebody's account.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {

struct LeavingPhase {
  const char* name;
  bool stream;
  bool hang;   // the engine never answers, rather than slowly
  int events;  // to read before leaving
  bool reset;  // an RST rather than an orderly close
};

inline constexpr LeavingPhase kLeavingPhases[] = {
    {"waiting for the first byte of a stream", true, true, 0, false},
    {"waiting for the first byte of an answer", false, true, 0, false},
    {"within a stream", true, false, 3, false},
    {"within a stream, by a reset", true, false, 3, true},
    {"while an answer is generated", false, false, 0, false},
};

// The engine is cancelled long before it has generated all that was asked for; a hung one would never end.
inline void ClientLeaves(const LeavingPhase& phase) {
  EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "10ms", "--step-per-sequence", "0s"});
  if (phase.hang) engine.Fault({{"kind", "hang"}});
  const GatewayProcess gateway({.replicas = {engine.port()}, .tenant = "limits: {concurrency: 1}"});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Chat({{"stream", phase.stream}, {"max_tokens", 1000}, {"ignore_eos", true}},
                               "X-Request-Id: leaver\r\n")));
  if (phase.events > 0) ASSERT_EQ(client.ReadHead().status, 200);
  for (int i = 0; i < phase.events; ++i) ASSERT_TRUE(client.ReadEvent());
  if (phase.hang) {
    ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/requests/received") == 1; }));
  } else {
    ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/tokens/generated") >= 3; }));
  }
  phase.reset ? client.Reset() : client.Close();
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/requests/cancelled") == 1; }));
  const uint64_t generated = engine.Stat("/tokens/generated");
  EXPECT_LT(engine.Stat("/tokens/for_nobody"), 1000u) << "of 1000 that were asked for";

  const gateway::ledger::Record record = gateway.CloseOf("leaver");
  EXPECT_EQ(record.reason, "client_gone");
  EXPECT_GT(record.input, 0) << "the prompt was read by the engine";
  if (phase.events > 0) {
    EXPECT_GE(record.output, phase.events - 1);
    EXPECT_GT(record.cost_micro_usd, 0);
  }
  EXPECT_EQ(engine.Stat("/tokens/generated"), generated) << "nothing more is generated";
  // The permit came back with it.
  engine.ClearFaults();
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
}

}  // namespace tests
