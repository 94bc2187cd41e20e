// WebhookSink: posts batches of lines as NDJSON to an HTTP endpoint; any 2xx answer means delivered.
//
//   content-type: application/x-ndjson
//   idempotency-key: SOURCE-FIRST-LAST-LINK    the same for a batch that is posted again, and for no other;
//                                              LINK begins the last record's link of the hash chain
//   x-tidegate-first-seq, x-tidegate-last-seq  sequence numbers, to find duplicates by
//   authorization: Bearer …                    when a bearer secret is set
//   x-tidegate-timestamp: 1767225600           Unix seconds, and
//   x-tidegate-signature: v1=HEX               HMAC-SHA256 of `TIMESTAMP.BODY`, when a signing secret is set
//
// Redirects are not followed. A post that Close() cuts short may have been accepted: it is sent again, with
// the same key.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls.h"
#include "gateway/net/url.h"
#include "plugins/sinks/sink.h"

namespace plugins::sinks {

class WebhookSink final : public Sink {
 public:
  struct Options {
    gateway::net::Url url;
    std::string source = "tidegate";  // the gateway of the records; a part of the idempotency key
    std::string bearer;
    std::string signing_secret;
    std::vector<std::pair<std::string, std::string>> headers;  // more of them
    std::shared_ptr<const gateway::net::TlsContext> tls;       // the system's roots when absent
    std::string server_name;                                   // to verify; the URL's host when empty
    conf::Duration timeout = std::chrono::seconds(10);
    BatchLimits limits;
  };

  WebhookSink(gateway::net::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}

  std::string Describe() const override;
  BatchLimits limits() const override { return options_.limits; }
  gateway::net::Task<absl::Status> Deliver(std::span<const Record> batch, conf::TimePoint until) override;
  void Close() override { posts_.Abort(); }

 private:
  gateway::net::Loop& loop_;
  const Options options_;
  gateway::net::AbortGroup posts_;
};

}  // namespace plugins::sinks
