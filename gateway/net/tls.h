// TLS contexts: immutable once made; a reload makes a new one and swaps the pointer.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

typedef struct ssl_ctx_st SSL_CTX;

namespace gateway::net {

class TlsContext {
 public:
  struct ServerFiles {
    std::string certificate;  // PEM chain
    std::string key;          // PEM
    std::string client_ca;    // PEM; set: clients must present a certificate that it signed
    bool client_optional = false;
    bool tls13_only = false;
  };
  struct ClientFiles {
    std::string ca;  // PEM; empty: the system's
    std::string certificate;
    std::string key;
    bool verify = true;
  };
  // The same as texts, for what is not in files of its own.
  struct ClientPem {
    std::string ca;  // empty: the system's
    std::string certificate;
    std::string key;
    bool verify = true;
  };

  // Errors name the file and OpenSSL's reason.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> Server(const ServerFiles& files);
  static absl::StatusOr<std::shared_ptr<const TlsContext>> Client(const ClientFiles& files);
  // Errors name the part and OpenSSL's reason, never the text.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> ClientOfPem(const ClientPem& pem);

  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  SSL_CTX* native() const { return context_; }
  bool verify() const { return verify_; }

 private:
  TlsContext(SSL_CTX* context, bool verify) : context_(context), verify_(verify) {}
  SSL_CTX* context_;
  bool verify_;
};

}  // namespace gateway::net
