// A ledger with requests of today, whose ids tell their time, and the keys that seal what is said of them.
#pragma once

#include <array>
#include <string>

#include "gateway/ledger/content_keys.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/request_id.h"
#include "gateway/net/clock.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway {

struct FeedbackWorld {
  ledger::TempDir tmp;
  std::string dir = tmp.Sub("ledger");
  std::unique_ptr<ledger::Ledger> ledger = ledger::MustOpen(ledger::SmallOptions(dir));
  std::unique_ptr<ledger::ContentKeys> keys = [this] {
    auto opened = ledger::ContentKeys::Open(
        {.path = tmp.Sub("content_keys.json"), .master_path = tmp.Sub("content.key")});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }();
  conf::TimePoint now = net::Now();
  uint64_t next = 1;

  std::string NewId() {
    std::array<char, ledger::kRequestIdSize> text{};
    ledger::WriteRequestId(now, next, next, text);
    ++next;
    return {text.data(), text.size()};
  }

  ledger::OpenRecord OpenOf(std::string_view id, std::string_view tenant = "acme") const {
    ledger::OpenRecord record = ledger::SomeOpen(id);
    record.time_us = conf::ToUnixMicros(now);
    record.tenant = tenant;
    record.api = "chat_completions";
    return record;
  }
  ledger::CloseRecord CloseOf(std::string_view version = "org/chat-7b") const {
    ledger::CloseRecord record = ledger::SomeClose();
    record.time_us = conf::ToUnixMicros(now);
    record.served_model = version;
    return record;
  }

  ledger::Ticket Begin(const std::string& id, std::string_view tenant = "acme") {
    std::optional<ledger::Ticket> ticket = ledger->Shard(0).Open(OpenOf(id, tenant));
    EXPECT_TRUE(ticket);
    return std::move(*ticket);
  }
  // A request that has ended; texts are stored where they are given.
  std::string Ended(std::string_view tenant = "acme", std::string_view prompt = {},
                    std::string_view answer = {}) {
    const std::string id = NewId();
    ledger::Ticket ticket = Begin(id, tenant);
    const auto store = [&](ledger::ContentPart part, std::string_view text) {
      EXPECT_TRUE(keys->Ensure({std::string(tenant)}).ok());
      const ledger::ContentKeyRef key = keys->For(tenant);
      EXPECT_TRUE(ticket.Content({.time_us = conf::ToUnixMicros(now),
                                  .part = part,
                                  .text = text,
                                  .full_bytes = text.size(),
                                  .key = key.get()}));
    };
    if (!prompt.empty()) store(ledger::ContentPart::kPrompt, prompt);
    if (!answer.empty()) store(ledger::ContentPart::kAnswer, answer);
    ticket.Close(CloseOf());
    EXPECT_TRUE(ledger->Flush().ok());
    return id;
  }
  void Say(const ledger::Feedback& feedback) { EXPECT_TRUE(ledger->Append(ledger::EventOf(feedback)).ok()); }

  std::unique_ptr<ledger::Index> UpToDate() {
    EXPECT_TRUE(ledger->Flush().ok());
    auto index = ledger::OpenIndexUpToDate(dir);
    EXPECT_TRUE(index.ok()) << index.status();
    return *std::move(index);
  }
};

}  // namespace gateway
