// Section `server`: listeners, TLS in front, and the limits of connections and requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/config/types.h"

namespace gateway::config {

enum class TlsVersion : uint8_t { k12, k13 };

// TLS of a listener. All files are PEM; they are read again every reload_interval and swapped without
// restart.
struct ServerTls {
  std::string certificate;
  std::string key;
  std::string client_ca;                   // empty: no client certificates
  bool require_client_certificate = true;  // with client_ca: refuse a client that has none
  TlsVersion min_version = TlsVersion::k12;
  conf::Duration reload_interval = std::chrono::minutes(1);
};

struct ServerLimits {
  uint64_t head_bytes = 64 << 10;
  uint32_t headers = 100;
  uint64_t body_bytes = 64 << 20;
  uint64_t body_memory = 1 << 30;  // bodies of all running requests
  uint32_t connections = 16384;
  uint32_t connections_per_address = 4096;
  conf::Duration idle_timeout = std::chrono::minutes(2);     // between requests on a kept-alive connection
  conf::Duration header_timeout = std::chrono::seconds(10);  // from the first byte to the end of the head
  conf::Duration body_timeout = std::chrono::minutes(1);     // for the whole request body
  conf::Duration total_timeout = std::chrono::hours(1);      // one request, its answer included
  conf::Duration stream_time = std::chrono::hours(1);        // one streamed answer
  uint64_t stream_bytes = 1ULL << 30;                        // one streamed answer
};

struct Server {
  std::vector<Address> listen;
  Address admin{"127.0.0.1", 9090};
  std::optional<Address> console;   // a listener for people beside `admin`; absent: they come to `admin`
  std::optional<uint32_t> threads;  // absent: one per core
  std::string state_dir = "./var";
  std::string user;  // of the machine: the user of a gateway that starts as root; empty: unchanged
  std::string zone;  // where this gateway stands; empty: it does not matter
  std::optional<ServerTls> tls;          // of `listen`
  std::optional<ServerTls> admin_tls;    // of `admin`
  std::optional<ServerTls> console_tls;  // of `console`
  ServerLimits limits;
  conf::Duration heartbeat = std::chrono::seconds(15);  // between SSE comments while a stream waits; 0: none
  // From SIGTERM on, /readyz says 503, and requests are still served for so long; 0: not at all.
  conf::Duration shutdown_delay = std::chrono::seconds(5);
  conf::Duration shutdown_grace = std::chrono::seconds(30);  // then, for streams to finish
  bool version_header = false;                               // answers name the version of the gateway
};

void Bind(conf::Object& object, Server& out);

}  // namespace gateway::config
