#include "gateway/net/tls.h"

#include <absl/status/status.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <climits>

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
  if (SSL_CTX_check_private_key(context) != 1) return OpenSslError("private key does not match", certificate);
  return absl::OkStatus();
}

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio Reading(const std::string& text) {
  const int size = text.size() > INT_MAX ? 0 : static_cast<int>(text.size());
  return {BIO_new_mem_buf(text.data(), size), &BIO_free};
}

Certificate NextCertificate(BIO* from) {
  return {PEM_read_bio_X509(from, nullptr, nullptr, nullptr), &X509_free};
}

absl::Status TrustCertificates(SSL_CTX* context, const std::string& pem) {
  const Bio text = Reading(pem);
  int found = 0;
  for (Certificate one = NextCertificate(text.get()); one; one = NextCertificate(text.get())) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one.get());
    ++found;
  }
  if (found == 0) return OpenSslError("CA", "(inline)");
  ERR_clear_error();  // the end of the text is one
  return absl::OkStatus();
}

absl::Status UseKeyPairPem(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  const Bio chain = Reading(certificate);
  const Certificate leaf = NextCertificate(chain.get());
  if (!leaf || SSL_CTX_use_certificate(context, leaf.get()) != 1)
    return OpenSslError("client certificate", "(inline)");
  for (Certificate one = NextCertificate(chain.get()); one; one = NextCertificate(chain.get())) {
    if (SSL_CTX_add1_chain_cert(context, one.get()) != 1)
      return OpenSslError("client certificate", "(inline)");
  }
  ERR_clear_error();
  const Bio text = Reading(key);
  const PrivateKey secret(PEM_read_bio_PrivateKey(text.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  if (!secret || SSL_CTX_use_PrivateKey(context, secret.get()) != 1)
    return OpenSslError("client key", "(inline)");
  if (SSL_CTX_check_private_key(context) != 1)
    return OpenSslError("client key", "does not match its certificate");
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

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::ClientOfPem(const ClientPem& pem) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  std::shared_ptr<const TlsContext> made(new TlsContext(context, pem.verify));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (pem.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (absl::Status s = TrustCertificates(context, pem.ca); !s.ok()) {
    return s;
  }
  SSL_CTX_set_verify(context, pem.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!pem.certificate.empty()) {
    if (absl::Status s = UseKeyPairPem(context, pem.certificate, pem.key); !s.ok()) return s;
  }
  return made;
}

}  // namespace gateway::net
