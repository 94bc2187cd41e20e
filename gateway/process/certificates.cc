#include "gateway/process/certificates.h"

#include <algorithm>

#include "conf/text.h"
#include "gateway/log.h"

namespace gateway {
namespace {

absl::StatusOr<std::shared_ptr<const net::TlsContext>> LoadOne(
    const std::optional<config::ServerTls>& files) {
  if (!files) return nullptr;
  return net::TlsContext::Server({files->certificate, files->key, files->client_ca,
                                  !files->require_client_certificate,
                                  files->min_version == config::TlsVersion::k13});
}

conf::Duration IntervalOf(const std::optional<config::ServerTls>& files) {
  return files ? files->reload_interval : conf::Duration::max();
}

}  // namespace

absl::StatusOr<Certificates::Loaded> Certificates::Load(const config::Server& server) {
  auto listen = LoadOne(server.tls);
  if (!listen.ok()) return listen.status();
  auto admin = LoadOne(server.admin_tls);
  if (!admin.ok()) return admin.status();
  auto console = LoadOne(server.console_tls);
  if (!console.ok()) return console.status();
  return Loaded{*std::move(listen), *std::move(admin), *std::move(console)};
}

Certificates::Certificates(net::Loop& control, std::function<const config::Server&()> server)
    : control_(control), server_(std::move(server)), poll_(control.watchdog) {}

void Certificates::Use(Loaded loaded) {
  listen_.Set(std::move(loaded.listen));
  admin_.Set(std::move(loaded.admin));
  console_.Set(std::move(loaded.console));
}

void Certificates::Start() {
  control_.tasks.Spawn(Watch());
}

void Certificates::Stop() {
  stopping_ = true;
  poll_.Cancel();
}

net::Task<void> Certificates::Watch() {
  while (!stopping_) {
    const config::Server& server = server_();
    if (!server.tls && !server.admin_tls && !server.console_tls) break;  // a reload cannot bring TLS
    co_await poll_.For(
        std::min({IntervalOf(server.tls), IntervalOf(server.admin_tls), IntervalOf(server.console_tls)}));
    if (stopping_) break;
    Renew("listen", server_().tls, listen_);
    Renew("admin", server_().admin_tls, admin_);
    Renew("console", server_().console_tls, console_);
  }
}

void Certificates::Renew(std::string_view listener, const std::optional<config::ServerTls>& files,
                         net::TlsHolder& holder) {
  auto certificate = LoadOne(files);
  if (certificate.ok()) {
    holder.Set(*std::move(certificate));
  } else {
    log::Error("certificate not renewed; the one in use stays",
               {{"listener", listener}, {"why", conf::Std(certificate.status().message())}});
  }
}

}  // namespace gateway
