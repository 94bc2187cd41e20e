#include "gateway/net/tls.h"

#include <absl/status/status.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

namespace gateway::net {
namespace {

absl::Status OpenSslError(std::string_view what, std::string_view file) {
  char reason[256] = "unknown";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, reason, sizeof reason);
  ERR_clear_error();
  return absl::InvalidArgumentError(fmt::format("{} {}: {}", what, file, reason));
}

absl::Status UseKeyPair(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    return OpenSslError("certificate", certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return OpenSslError("private key", key);
  }
  if (SSL_CTX_check_private_key(context) != 1) return OpenSslError("private key does not fit", certificate);
  return absl::OkStatus();
}

}  // namespace

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::Server(const ServerFiles& files) {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  std::shared_ptr<const TlsContext> made(new TlsContext(context, false));
  SSL_CTX_set_min_proto_version(context, files.tls13_only ? TLS1_3_VERSION : TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  static constexpr unsigned char kSession[] = "tidegate";
  SSL_CTX_set_session_id_context(context, kSession, sizeof kSession - 1);
  if (absl::Status s = UseKeyPair(context, files.certificate, files.key); !s.ok()) return s;
  if (!files.client_ca.empty()) {
    if (SSL_CTX_load_verify_locations(context, files.client_ca.c_str(), nullptr) != 1) {
      return OpenSslError("client CA", files.client_ca);
    }
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(files.client_ca.c_str()));
    const int required = files.client_optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | required, nullptr);
  }
  return made;
}

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::Client(const ClientFiles& files) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  std::shared_ptr<const TlsContext> made(new TlsContext(context, files.verify));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (files.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_locations(context, files.ca.c_str(), nullptr) != 1) {
    return OpenSslError("CA", files.ca);
  }
  SSL_CTX_set_verify(context, files.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!files.certificate.empty()) {
    if (absl::Status s = UseKeyPair(context, files.certificate, files.key); !s.ok()) return s;
  }
  return made;
}

}  // namespace gateway::net
