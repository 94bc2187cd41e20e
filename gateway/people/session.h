// A signed-in person, and their session. Pure; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/people/permissions.h"

namespace gateway {

struct Person {
  std::string id;             // "person:corp:ada", "person:root"
  std::string name = {};      // as people call them
  std::string email = {};     // empty: not known
  bool email_verified = {};   // as the provider says
  std::string provider = {};  // where they signed in; "link": by a one-time link
  std::vector<RoleOver> roles = {};
  std::vector<plugins::auth::Right> rights = {};  // beside the roles'

  bool operator==(const Person&) const = default;
};

struct Session {
  std::string id;  // public: the first digits of the secret's hash
  Person person = {};
  conf::TimePoint created = {};
  conf::TimePoint seen = {};  // the last call, to within a minute
  conf::TimePoint ends = {};  // at the latest, however much it is used
  std::string address = {};   // of the client that signed in
  std::string client = {};    // its User-Agent, cut
  std::string id_token = {};  // of the provider, for the end of the session there; empty: none
  bool command_line = false;  // its secret is sent as a bearer token, never as a cookie
};

// Prefix of the secret of a command line's session when it is sent, to distinguish it from a key.
inline constexpr std::string_view kSessionPrefix = "tgs_";

// How long sessions last.
struct SessionTerms {
  conf::Duration idle = std::chrono::hours(8);       // without a call
  conf::Duration lifetime = std::chrono::hours(24);  // in all
};

// The first moment at which the session no longer works.
conf::TimePoint EndOf(const Session& session, const SessionTerms& terms);

std::string EncodeSession(const Session& session);
// DataLoss names what is wrong.
absl::StatusOr<Session> DecodeSession(std::string_view json);

// A person who may sign in once, until then.
struct SignInCode {
  Person person = {};
  conf::TimePoint ends = {};
  std::optional<conf::TimePoint> session_ends = {};  // at the latest; absent: by the terms alone
};
std::string EncodeSignInCode(const SignInCode& code);
absl::StatusOr<SignInCode> DecodeSignInCode(std::string_view json);

// A command line that waits to be signed in.
struct TerminalSignIn {
  std::string code = {};    // WDJB-MJHT; empty where it is stored
  std::string secret = {};  // its hash
  conf::TimePoint ends = {};
  std::string address = {};           // of the command line
  std::string client = {};            // the client's own description
  std::optional<Person> person = {};  // the one who confirmed it
  conf::TimePoint session_ends = {};  // at the latest; with a person
  bool refused = false;

  bool operator==(const TerminalSignIn&) const = default;
};

std::string EncodeTerminalSignIn(const TerminalSignIn& request);
absl::StatusOr<TerminalSignIn> DecodeTerminalSignIn(std::string_view json);

// A new secret: 256 random bits as base64url. Aborts when libcrypto has no entropy to give.
std::string NewSecret();
// Under which a secret is stored: its SHA-256 in hex.
std::string StoredName(std::string_view secret);
// What state-changing calls of a session carry beside its cookie; it cannot be made without the secret.
std::string CsrfTokenOf(std::string_view secret);

}  // namespace gateway
