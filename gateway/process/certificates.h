// Certificates: the certificates of the listeners, loaded from files that their issuer renews in
// place. What loads is used by the next connection; what does not is logged, and the one in use stays.
//
// Threads: the control loop's, but for the holders, which any shard reads.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "gateway/config/config.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls_holder.h"

namespace gateway {

class Certificates {
 public:
  // Null where no TLS is configured.
  struct Loaded {
    std::shared_ptr<const net::TlsContext> listen;
    std::shared_ptr<const net::TlsContext> admin;
    std::shared_ptr<const net::TlsContext> console;
  };
  // Either all, or which file is wrong and how.
  static absl::StatusOr<Loaded> Load(const config::Server& server);

  // `server` is the configuration in force.
  Certificates(net::Loop& control, std::function<const config::Server&()> server);

  void Use(Loaded loaded);
  // Until Stop, looks at the files every `reload_interval`.
  void Start();
  void Stop();

  const net::TlsHolder& listen() const { return listen_; }
  const net::TlsHolder& admin() const { return admin_; }
  const net::TlsHolder& console() const { return console_; }

 private:
  net::Task<void> Watch();
  static void Renew(std::string_view listener, const std::optional<config::ServerTls>& files,
                    net::TlsHolder& holder);

  net::Loop& control_;
  const std::function<const config::Server&()> server_;
  net::TlsHolder listen_;
  net::TlsHolder admin_;
  net::TlsHolder console_;
  net::Sleep poll_;
  bool stopping_ = false;
};

}  // namespace gateway
