// Answers of the admin API about people: who the caller is, how one signs in, and the sessions.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

struct RoleOf {
  static constexpr std::string_view kSchema = "RoleOf";

  std::string_view role = {};
  std::optional<std::string> tenant = {};  // null: over everything
};

template <class O>
constexpr void Bind(O& o, RoleOf& of) {
  o.Required("role", of.role);
  o.Required("tenant", of.tenant);
}

struct Me {
  static constexpr std::string_view kSchema = "Me";

  std::string actor = {};
  std::string name = {};
  std::string_view kind = {};  // key, application, bootstrap, token, person
  std::vector<RoleOf> roles = {};
  std::vector<std::string_view> permissions = {};  // over everything or over some tenant
  std::vector<std::string> tenants = {};           // those that the caller sees, with those below
  std::vector<std::string> models = {};            // that some of the tenants may use
  std::string base_url = {};                       // of the gateway's own API, as the configuration has it
  bool scaling = false;  // the configuration has that section: replicas are scaled, and jobs run
  std::optional<std::string> csrf = {};  // of a session: for its state-changing calls
  std::optional<Time> session_ends = {};
  std::optional<std::string> last_event = {};  // of the feed: follow what happens after it
};

template <class O>
constexpr void Bind(O& o, Me& me) {
  o.Required("actor", me.actor);
  o.Required("name", me.name);
  o.Required("kind", me.kind);
  o.Required("roles", me.roles);
  o.Required("permissions", me.permissions);
  o.Required("tenants", me.tenants);
  o.Required("models", me.models);
  o.Required("base_url", me.base_url);
  o.Required("scaling", me.scaling);
  o.Required("csrf", me.csrf);
  o.Required("session_ends", me.session_ends);
  o.Required("last_event", me.last_event);
}

struct SignInProvider {
  static constexpr std::string_view kSchema = "SignInProvider";

  std::string name = {};
  std::string label = {};
  std::string url = {};  // where a browser goes to sign in
};

template <class O>
constexpr void Bind(O& o, SignInProvider& provider) {
  o.Required("name", provider.name);
  o.Required("label", provider.label);
  o.Required("url", provider.url);
}

struct SignInWays {
  static constexpr std::string_view kSchema = "SignInWays";

  std::vector<SignInProvider> providers = {};  // empty: by a link of `tidegate console login` only
};

template <class O>
constexpr void Bind(O& o, SignInWays& ways) {
  o.Required("providers", ways.providers);
}

struct SignInLink {
  static constexpr std::string_view kSchema = "SignInLink";

  std::string url = {};
  Time ends = {};
};

template <class O>
constexpr void Bind(O& o, SignInLink& link) {
  o.Required("url", link.url);
  o.Required("ends", link.ends);
}

// What a command line gets when it begins to sign in.
struct NewTerminalSignIn {
  static constexpr std::string_view kSchema = "NewTerminalSignIn";

  std::string code = {};
  std::string secret = {};  // to be kept by the command line
  std::string url = {};     // the page where a person confirms the code
  Time ends = {};
  int64_t interval_ms = 0;  // between the command line's questions
};

template <class O>
constexpr void Bind(O& o, NewTerminalSignIn& begun) {
  o.Required("code", begun.code);
  o.Required("secret", begun.secret);
  o.Required("url", begun.url);
  o.Required("ends", begun.ends);
  o.Required("interval_ms", begun.interval_ms);
}

// What a person is shown of a command line that waits.
struct ShownTerminalSignIn {
  static constexpr std::string_view kSchema = "TerminalSignIn";

  std::string code = {};
  std::string address = {};
  std::string client = {};
  Time ends = {};
};

template <class O>
constexpr void Bind(O& o, ShownTerminalSignIn& shown) {
  o.Required("code", shown.code);
  o.Required("address", shown.address);
  o.Required("client", shown.client);
  o.Required("ends", shown.ends);
}

// The session of a command line; without a token it waits for the person.
struct TerminalSession {
  static constexpr std::string_view kSchema = "TerminalSession";

  std::string_view state = {};  // waiting, confirmed
  std::optional<std::string> token = {};
  std::optional<std::string> actor = {};
  std::optional<std::string> name = {};
  std::optional<Time> ends = {};  // at the latest
};

template <class O>
constexpr void Bind(O& o, TerminalSession& session) {
  o.Required("state", session.state);
  o.Required("token", session.token);
  o.Required("actor", session.actor);
  o.Required("name", session.name);
  o.Required("ends", session.ends);
}

struct PersonSession {
  static constexpr std::string_view kSchema = "Session";

  std::string id = {};
  std::string actor = {};
  std::string name = {};
  std::string email = {};
  std::string provider = {};
  std::vector<RoleOf> roles = {};
  Time created = {};
  Time seen = {};
  Time ends = {};
  std::string address = {};
  std::string client = {};
  bool command_line = false;
  bool current = false;  // the caller's own
};

template <class O>
constexpr void Bind(O& o, PersonSession& session) {
  o.Required("id", session.id);
  o.Required("actor", session.actor);
  o.Required("name", session.name);
  o.Required("email", session.email);
  o.Required("provider", session.provider);
  o.Required("roles", session.roles);
  o.Required("created", session.created);
  o.Required("seen", session.seen);
  o.Required("ends", session.ends);
  o.Required("address", session.address);
  o.Required("client", session.client);
  o.Required("command_line", session.command_line);
  o.Required("current", session.current);
}

struct EndedSession {
  static constexpr std::string_view kSchema = "EndedSession";

  std::string id = {};
  std::optional<std::string> url = {};  // where the provider ends its own session; null: nowhere to go
};

template <class O>
constexpr void Bind(O& o, EndedSession& ended) {
  o.Required("id", ended.id);
  o.Required("url", ended.url);
}

}  // namespace gateway::admin::answers
