// TerminalSignIns: a command line signs in through a browser. The command gets a short code and a secret, the
// person confirms the code on a page of the console, and the command changes its secret for a session of its own.
//
// A request is an object of the store, named by the hash of its code; it has the hash of the secret, so that neither
// can be read there. It ends after five minutes, and when it was redeemed, once. The session has the roles of the one
// in which it was confirmed and does not outlast it, so that a change at the provider counts as early as there.
//
// Bounds: open requests in all and of one address; wrong codes that one person has tried.
//
// Owner: the process. Thread: the loop's of the store.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/people/session.h"
#include "gateway/people/sessions.h"
#include "gateway/store/store.h"

namespace gateway {

class TerminalSignIns {
 public:
  static constexpr conf::Duration kLife = std::chrono::minutes(5);
  static constexpr size_t kMostOpen = 1000;
  static constexpr size_t kMostOfAddress = 20;
  static constexpr int kMostWrong = 10;  // codes of one person, in kLife

  // Both must outlive it.
  TerminalSignIns(store::Store& store, Sessions& sessions) : store_(store), sessions_(sessions) {}

  struct Begun {
    std::string code;
    std::string secret;  // the only copy
    conf::TimePoint ends;
  };
  // ResourceExhausted: too many are open. Others: the store's.
  net::Task<absl::StatusOr<Begun>> Begin(Sessions::Client client, conf::TimePoint now);

  // What a person sees before they confirm. NotFound: no such code is open. ResourceExhausted: `actor` has tried
  // too many wrong ones.
  net::Task<absl::StatusOr<TerminalSignIn>> Find(std::string code, std::string actor, conf::TimePoint now);
  // By the person of that session; errors as of Find.
  net::Task<absl::StatusOr<TerminalSignIn>> Confirm(std::string code, Session session, conf::TimePoint now);
  net::Task<absl::StatusOr<TerminalSignIn>> Refuse(std::string code, std::string actor, conf::TimePoint now);

  // The command's session, once it is confirmed; nothing while it waits. NotFound: it is not open, or this is not
  // its secret. PermissionDenied: the person has refused it.
  net::Task<absl::StatusOr<std::optional<Sessions::Begun>>> Redeem(std::string code, std::string secret,
                                                                   conf::TimePoint now);

 private:
  struct Opened {
    store::Object object;
    TerminalSignIn request;
  };
  struct Wrong {
    int count = 0;
    conf::TimePoint since = {};
  };

  net::Task<absl::StatusOr<Opened>> Open(std::string code, conf::TimePoint now);
  net::Task<absl::StatusOr<Opened>> OpenFor(std::string code, std::string actor, conf::TimePoint now);
  net::Task<absl::StatusOr<TerminalSignIn>> Replace(Opened opened);

  store::Store& store_;
  Sessions& sessions_;
  absl::flat_hash_map<std::string, Wrong> wrong_;  // by actor
};

// A code as people type it, in its one form; empty: it is none.
std::string TerminalCode(std::string_view typed);

}  // namespace gateway
