#include "gateway/process/ledger_options.h"

#include <algorithm>
#include <thread>

#include "conf/text.h"
#include "gateway/config/state_files.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway {

uint32_t ShardsOf(const Config& config) {
  return config.server.threads.value_or(std::max(1U, std::thread::hardware_concurrency()));
}

ledger::ContentKeys::Options ContentKeyOptions(const Config& config) {
  ledger::ContentKeys::Options options{.path = ContentKeysPath(config.server.state_dir),
                                       .master_path = ContentMasterPath(config.server.state_dir)};
  for (const conf::Secret& secret : config.ledger.content_key) options.masters.emplace_back(secret.Reveal());
  return options;
}

ledger::Options LedgerOptions(const Config& config) {
  const uint32_t shards = ShardsOf(config);
  ledger::Options options;
  options.dir = LedgerDir(config);
  options.shards = shards;
  options.open_requests_per_shard = config::OpenRequestsPerThread(config.ledger, shards);
  options.ring_bytes = ledger::ShardJournal::RingFor(options.open_requests_per_shard);
  options.commit_interval = config.ledger.commit_interval;
  options.segment_bytes = config.ledger.segment_bytes;
  options.segment_age = config.ledger.segment_age;
  options.checkpoint_records = config.ledger.checkpoint.records;
  options.checkpoint_interval = config.ledger.checkpoint.interval;
  options.retain_for = config.ledger.retention.age.value_or(conf::Duration::zero());
  options.retain_bytes = config.ledger.retention.bytes.value_or(0);
  options.counts_served = config.scaling.has_value();
  options.version = TIDEGATE_VERSION;
  // By the machine's clock, which may be set to another year for a moment, retention would remove records too early.
  options.clock = [] { return net::Now(); };
  options.on_retention_change = [](const absl::Status& status) {
    if (status.ok()) {
      log::Info("ledger retention works again");
    } else {
      log::Error("ledger keeps segments that it should remove; it tries again",
                 {{"why", conf::Std(status.message())}});
    }
  };
  options.on_health_change = [](const absl::Status& status) {
    if (status.ok()) {
      log::Info("ledger writes again");
    } else {
      log::Error("ledger cannot write; new requests are refused", {{"why", conf::Std(status.message())}});
    }
  };
  return options;
}

}  // namespace gateway
