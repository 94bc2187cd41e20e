// Sessions: the sessions of signed-in people. A session is an object of the store, named by the hash of its
// secret. The copy in memory follows the store, so a session that ends on one gateway ends on all.
//
// Each call extends its session; the store has the new end within a minute. Ended sessions are removed when
// a session begins, and once an hour.
//
// Owner: the process. Thread: the loop's.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/net/loop.h"
#include "gateway/net/watchdog.h"
#include "gateway/people/session.h"
#include "gateway/store/follower.h"
#include "gateway/store/store.h"

namespace gateway {

class Sessions final : private net::Alarm {
 public:
  // Of one person; the oldest ends when another begins.
  static constexpr size_t kMaxOfPerson = 20;
  static constexpr size_t kMax = 50'000;

  // Both must outlive it; `terms` is asked whenever a session is looked up.
  Sessions(net::Loop& loop, store::Store& store, std::function<SessionTerms()> terms);

  net::Task<absl::Status> Start();
  void Stop();

  struct Begun {
    std::string secret;  // the only copy
    Session session;
  };
  struct Client {
    std::string address = {};
    std::string agent = {};
    bool command_line = false;
    std::optional<conf::TimePoint> latest = {};  // the session ends then, if it lasts that long
  };
  // Durable when it returns. Errors: the store's; ResourceExhausted: too many sessions.
  net::Task<absl::StatusOr<Begun>> Begin(Person person, Client client, std::string id_token,
                                         conf::TimePoint now);

  // A one-time code as `made` says. Its secret is the only copy.
  net::Task<absl::StatusOr<std::string>> MakeCode(SignInCode made);
  // What was made, once. NotFound: there is no such code, it was used, or it has ended.
  net::Task<absl::StatusOr<SignInCode>> RedeemCode(std::string code, conf::TimePoint now);

  // Null when the secret is no session's, or of one that has ended. Keeps a session alive that is found.
  const Session* Find(std::string_view secret, conf::TimePoint now);
  // Likewise, but does not keep it alive.
  const Session* Check(std::string_view secret, conf::TimePoint now) const;

  // NotFound: there is no such session.
  net::Task<absl::StatusOr<Session>> End(std::string id);

  // The newest first; those that have ended are left out.
  std::vector<Session> List(conf::TimePoint now) const;
  // By its public id.
  bool IsOpen(std::string_view id, conf::TimePoint now) const;
  // Whether somebody with the role admin has ever signed in, also where the session has ended long ago.
  bool HadAdmin() const { return had_admin_; }

 private:
  struct Stored {
    Session session;
    uint64_t version = 0;
  };

  void OnAlarm() override;
  void Replace(const std::vector<store::Object>& all);
  void Apply(const std::vector<store::Change>& changes);
  void Take(const std::string& name, uint64_t version, const std::string& body);
  net::Task<void> Touch(std::string name);
  // What of the sessions has to go before another of that person begins.
  std::vector<store::Write> Removals(const std::string& person, conf::TimePoint now) const;
  net::Task<void> Sweep();
  net::Task<absl::Status> RememberAdmin();

  net::Loop& loop_;
  store::Store& store_;
  const std::function<SessionTerms()> terms_;
  store::Follower follower_;
  absl::flat_hash_map<std::string, Stored> stored_;  // by the hash of the secret
  bool had_admin_ = false;
  bool admin_stored_ = false;  // the store remembers it, too
  bool stopped_ = false;
};

}  // namespace gateway
