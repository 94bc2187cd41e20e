#include "gateway/people/terminal_sign_ins.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "conf/shown.h"
#include "gateway/api/coded_status.h"
#include "gateway/store/kinds.h"
#include "plugins/auth/digest.h"

namespace gateway {
namespace {

// Without vowels, so that no word appears, and without letters that look alike (RFC 8628, section 6.1).
constexpr std::string_view kLetters = "BCDFGHJKLMNPQRSTVWXZ";
constexpr size_t kCodeLetters = 8;
constexpr size_t kShownBytes = 120;
constexpr size_t kMostActors = 1000;

std::string NewCode() {
  std::string code;
  while (code.size() < kCodeLetters) {
    std::array<unsigned char, 32> bits{};
    if (RAND_bytes(bits.data(), static_cast<int>(bits.size())) != 1) std::abort();
    for (const unsigned char byte : bits) {
      // Without the last bytes each letter is as likely as another.
      if (byte < 256 / kLetters.size() * kLetters.size() && code.size() < kCodeLetters)
        code += kLetters[byte % kLetters.size()];
    }
  }
  return code.substr(0, kCodeLetters / 2) + "-" + code.substr(kCodeLetters / 2);
}

std::string Shown(std::string text) {
  text = conf::OnlyPrintable(std::move(text));
  text.resize(std::min(text.size(), kShownBytes));
  return text;
}

absl::Status NotOpen() {
  return absl::NotFoundError(
      "no command line waits with this code: it was used, refused, or is older than five minutes; run "
      "tidegate login again");
}

}  // namespace

std::string TerminalCode(std::string_view typed) {
  std::string letters;
  for (const char c : typed) {
    if (c == '-' || c == ' ') continue;
    const char upper = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (kLetters.find(upper) == std::string_view::npos || letters.size() == kCodeLetters) return {};
    letters += upper;
  }
  if (letters.size() != kCodeLetters) return {};
  return letters.insert(kCodeLetters / 2, "-");
}

net::Task<absl::StatusOr<TerminalSignIns::Begun>> TerminalSignIns::Begin(Sessions::Client client,
                                                                         conf::TimePoint now) {
  const absl::StatusOr<store::Listing> open = co_await store_.List(store::kTerminalSignIn);
  if (!open.ok()) co_return open.status();
  std::vector<store::Write> writes;
  size_t waiting = 0;
  size_t of_address = 0;
  for (const store::Object& object : open->objects) {
    const absl::StatusOr<TerminalSignIn> request = DecodeTerminalSignIn(object.body);
    if (!request.ok() || request->ends <= now) {
      writes.push_back(store::Write::Remove(object));
    } else {
      ++waiting;
      if (request->address == client.address) ++of_address;
    }
  }
  // What is removed may be redeemed at the same moment; it is then left to the next call.
  if (!writes.empty()) (co_await store_.Commit(std::exchange(writes, {}))).status().IgnoreError();
  if (waiting >= kMostOpen || of_address >= kMostOfAddress) {
    co_return api::WithCode(
        absl::ResourceExhaustedError(
            "too many command lines wait to be signed in; wait some minutes, and try again"),
        api::Code::kRateLimitExceeded);
  }
  Begun begun{.code = NewCode(), .secret = NewSecret(), .ends = now + kLife};
  const TerminalSignIn request{.secret = StoredName(begun.secret),
                               .ends = begun.ends,
                               .address = Shown(std::move(client.address)),
                               .client = Shown(std::move(client.agent))};
  writes.push_back(
      store::Write::Create(store::kTerminalSignIn, StoredName(begun.code), EncodeTerminalSignIn(request)));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (!committed.ok()) co_return committed.status();
  co_return begun;
}

net::Task<absl::StatusOr<TerminalSignIns::Opened>> TerminalSignIns::Open(std::string code,
                                                                         conf::TimePoint now) {
  code = TerminalCode(code);
  if (code.empty()) co_return NotOpen();
  absl::StatusOr<std::optional<store::Object>> object =
      co_await store_.Get(store::kTerminalSignIn, StoredName(code));
  if (!object.ok()) co_return object.status();
  if (!*object) co_return NotOpen();
  absl::StatusOr<TerminalSignIn> request = DecodeTerminalSignIn((*object)->body);
  if (!request.ok()) co_return request.status();
  if (request->ends <= now) co_return NotOpen();
  request->code = std::move(code);
  co_return Opened{**std::move(object), *std::move(request)};
}

// A code that is confirmed or refused is not open to people any more.
net::Task<absl::StatusOr<TerminalSignIns::Opened>> TerminalSignIns::OpenFor(std::string code,
                                                                            std::string actor,
                                                                            conf::TimePoint now) {
  if (wrong_.size() >= kMostActors)
    absl::erase_if(wrong_, [&](const auto& entry) { return now - entry.second.since >= kLife; });
  const auto before = wrong_.find(actor);
  if (before != wrong_.end() && now - before->second.since >= kLife) wrong_.erase(before);
  const auto tried = wrong_.find(actor);
  if (tried != wrong_.end() && tried->second.count >= kMostWrong) {
    co_return api::WithCode(absl::ResourceExhaustedError(
                                "too many codes were wrong; wait some minutes, and run tidegate login again"),
                            api::Code::kTooManyFailedAttempts);
  }
  absl::StatusOr<Opened> opened = co_await Open(std::move(code), now);
  if (opened.ok() && (opened->request.person || opened->request.refused)) opened = NotOpen();
  if (absl::IsNotFound(opened.status())) {
    Wrong& wrong = wrong_[actor];
    if (wrong.count++ == 0) wrong.since = now;
  }
  co_return opened;
}

net::Task<absl::StatusOr<TerminalSignIn>> TerminalSignIns::Replace(Opened opened) {
  std::string code = std::exchange(opened.request.code, {});
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Replace(opened.object, EncodeTerminalSignIn(opened.request)));
  opened.request.code = std::move(code);
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (absl::IsAborted(committed.status())) co_return NotOpen();  // another call was first
  if (!committed.ok()) co_return committed.status();
  co_return std::move(opened.request);
}

net::Task<absl::StatusOr<TerminalSignIn>> TerminalSignIns::Find(std::string code, std::string actor,
                                                                conf::TimePoint now) {
  absl::StatusOr<Opened> opened = co_await OpenFor(std::move(code), std::move(actor), now);
  if (!opened.ok()) co_return opened.status();
  co_return std::move(opened->request);
}

net::Task<absl::StatusOr<TerminalSignIn>> TerminalSignIns::Confirm(std::string code, Session session,
                                                                   conf::TimePoint now) {
  absl::StatusOr<Opened> opened = co_await OpenFor(std::move(code), session.person.id, now);
  if (!opened.ok()) co_return opened.status();
  opened->request.person = std::move(session.person);
  opened->request.session_ends = session.ends;
  co_return co_await Replace(*std::move(opened));
}

net::Task<absl::StatusOr<TerminalSignIn>> TerminalSignIns::Refuse(std::string code, std::string actor,
                                                                  conf::TimePoint now) {
  absl::StatusOr<Opened> opened = co_await OpenFor(std::move(code), std::move(actor), now);
  if (!opened.ok()) co_return opened.status();
  opened->request.refused = true;
  co_return co_await Replace(*std::move(opened));
}

net::Task<absl::StatusOr<std::optional<Sessions::Begun>>> TerminalSignIns::Redeem(std::string code,
                                                                                  std::string secret,
                                                                                  conf::TimePoint now) {
  absl::StatusOr<Opened> opened = co_await Open(std::move(code), now);
  if (!opened.ok()) co_return opened.status();
  TerminalSignIn& request = opened->request;
  if (!plugins::auth::EqualInConstantTime(plugins::auth::Sha256(StoredName(secret)),
                                          plugins::auth::Sha256(request.secret)))
    co_return NotOpen();
  if (!request.person && !request.refused) co_return std::nullopt;
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Remove(opened->object));
  const absl::StatusOr<store::Committed> removed = co_await store_.Commit(std::move(writes));
  if (absl::IsAborted(removed.status())) co_return NotOpen();  // another call was first
  if (!removed.ok()) co_return removed.status();
  if (request.refused) co_return absl::PermissionDeniedError("the sign-in was refused in the console");
  Sessions::Client client{.address = std::move(request.address),
                          .agent = std::move(request.client),
                          .command_line = true,
                          .latest = request.session_ends};
  absl::StatusOr<Sessions::Begun> begun =
      co_await sessions_.Begin(*std::move(request.person), std::move(client), {}, now);
  if (!begun.ok()) co_return begun.status();
  co_return *std::move(begun);
}

}  // namespace gateway
