// The cost of authentication: an API key, a token seen before, and a token seen for the first time.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "plugins/auth/api_key.h"
#include "plugins/auth/credential.h"
#include "plugins/auth/jwt_authenticator.h"
#include "plugins/auth/key_table.h"

namespace plugins::auth {
namespace {

// Signed once, for keys whose private halves were thrown away.
constexpr std::string_view kEs256 =
    "eyJhbGciOiJFUzI1NiIsImtpZCI6IkVTMjU2IiwidHlwIjoiSldUIn0.eyJhdWQiOiJ0aWRlZ2F0ZSIsImV4cCI6ND"
    "EwMjQ0NDgwMCwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwic3ViIjoi"
    "dXNlci0xIiwidGVhbSI6InNlYXJjaCJ9.juyL3YhfOdM5evhlJ42m17OOicr7KmvK8Exoq_5SbiDIbnjX2ADkLxSXZ"
    "dPDcmdFU95FydjJMlu6oPRZD3BaDA";
constexpr std::string_view kRs256 =
    "eyJhbGciOiJSUzI1NiIsImtpZCI6IlJTMjU2IiwidHlwIjoiSldUIn0.eyJhdWQiOiJ0aWRlZ2F0ZSIsImV4cCI6ND"
    "EwMjQ0NDgwMCwiaWF0IjoxNzAwMDAwMDAwLCJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwic3ViIjoi"
    "dXNlci0xIiwidGVhbSI6InNlYXJjaCJ9.RTx-rWgUjNdPNtzV2PZOBEXU0WKuJYo2fM8yfAlvGsIi_anmNpkP4OlHu"
    "QioL1554cdZYwxA2BxGA1djYFQ1hgAKDjnlNxw477dhmC58J1nm5jm4jWhlYE3zcQN_zocYPJKFjYD7-2BNgQNvYmj"
    "nhKEKErD7G6zzrRYa6Lkw3_venrGqY11K19ceh1tyhy1E8OHehKfLlbdIvFIDOaZ326HIE0yxaZzT2HmwuIYSeyrBv"
    "DrYd-84UiG0coV2sMnYqHa_qfPG4G4Xn713OrJnHYMWxeKRJVnugPRxbYeWEnVdB3w-czOuhg4MH5-tAUFQGWemFdU"
    "I9CMka8Zd2-LAXw";
constexpr std::string_view kKeys = R"({"keys":[
{"crv":"P-256","kid":"ES256","kty":"EC","x":"CjAsUo3pG5C_-Js_M33BhGIQGoeQwLJS5vQ8RC_TVUI","y":"BX-6zNYZqe5ReQvvQLrUs94OPy7_eUDBgaVV8sxLDQ0"},
{"e":"AQAB","kid":"RS256","kty":"RSA","n":"o2fZ68UeuaoUJq1KRQtgpvGR4OPhrPdXM2YluVjEdyyFCyTjYk1uaLsqZhKM3dR0QfOqAK0LP-Mukb11wL1zaOSNQgOvCINIdvxVOnFUNcxcx6DW20kJWTVVsiCoYIudmghUF4QF8EDYenH1nfx-PClBREieX3wsutRBMi6Nn1yQ1rmDuanFUDnBRGy4Yx7wgZhUR-d-QFuqCbOyLn8-17xN3kmiF_30XIwxaeQpXl2NMDtKx1ddPJU_R_GQPxa1EdBFeeWo1-75O3CorRBBWhSnQWg1Bg7zaSrkIiBYgn-HGo-eDqj9Da88DxeihmCFlOh2Lbo7YVIOAn49OW7XdQ"},
{"crv":"Ed25519","kid":"EdDSA","kty":"OKP","x":"i4jmUAgd7gF5xLeqRMFPLhYtRdzZ6n-Ljn8WxTKgU0c"}
]})";

const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00Z");

struct Keys {
  KeyTable table;
  std::vector<std::string> secrets;
};

Keys MakeKeys(size_t count) {
  Keys keys;
  KeyTable::Map records;
  for (size_t i = 0; i < count; ++i) {
    NewKey fresh = GenerateApiKey();
    auto record = std::make_shared<KeyRecord>();
    record->id = fresh.id;
    record->hash = Sha256(fresh.secret);
    records.emplace(fresh.id, std::move(record));
    keys.secrets.push_back(std::move(fresh.secret));
  }
  keys.table = KeyTable(1, std::move(records));
  return keys;
}

JwtAuthenticator MakeAuthenticator(size_t cache_bytes) {
  IssuerConfig config;
  config.name = "bench";
  config.issuer = "https://login.example.com";
  config.audiences = {"tidegate"};
  config.algorithms = {"ES256", "RS256"};
  config.claims.tenant_template = "acme/{team}";
  auto issuers = JwtAuthenticator::MakeIssuers({config});
  JwksCache keys{JwksPolicy()};
  if (!issuers.ok() || !keys.Loaded(kKeys, kNow).ok()) std::abort();
  JwtAuthenticator shard(std::make_shared<const JwtAuthenticator::Issuers>(*std::move(issuers)), cache_bytes);
  shard.SetKeys(0, keys.Published());
  return shard;
}

void BM_AuthReadCredential(benchmark::State& state) {
  const std::string header = "Bearer " + GenerateApiKey().secret;
  for (auto _ : state) {
    CredentialReader reader;
    reader.Header("host", "127.0.0.1:8080");
    reader.Header("authorization", header);
    reader.Header("content-type", "application/json");
    benchmark::DoNotOptimize(reader.Result().value.data());
  }
}
BENCHMARK(BM_AuthReadCredential);

void BM_AuthKeyCheck(benchmark::State& state) {
  const Keys keys = MakeKeys(static_cast<size_t>(state.range(0)));
  size_t next = 0;
  for (auto _ : state) {
    const Verdict verdict = Check(keys.table, keys.secrets[next], kNow);
    if (!verdict.ok()) state.SkipWithError("a valid key was refused");
    next = next + 1 == keys.secrets.size() ? 0 : next + 1;
  }
}
BENCHMARK(BM_AuthKeyCheck)->Arg(1)->Arg(1000)->Arg(100000);

void CheckToken(benchmark::State& state, std::string_view token, size_t cache_bytes) {
  JwtAuthenticator shard = MakeAuthenticator(cache_bytes);
  for (auto _ : state) {
    const JwtAuthenticator::Outcome outcome = shard.Check(token, kNow);
    if (!outcome.result.ok()) state.SkipWithError("a valid token was refused");
  }
}

void BM_AuthJwtCached(benchmark::State& state) {
  CheckToken(state, kEs256, 64 * 1024);
}
BENCHMARK(BM_AuthJwtCached);

void BM_AuthJwtVerifyEs256(benchmark::State& state) {
  CheckToken(state, kEs256, 0);
}
BENCHMARK(BM_AuthJwtVerifyEs256);

void BM_AuthJwtVerifyRs256(benchmark::State& state) {
  CheckToken(state, kRs256, 0);
}
BENCHMARK(BM_AuthJwtVerifyRs256);

}  // namespace
}  // namespace plugins::auth
