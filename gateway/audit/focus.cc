#include "gateway/audit/focus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "conf/json_dump.h"
#include "conf/shown.h"
#include "conf/time.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/record.h"

namespace gateway {
namespace {

using ledger::UsageBy;
using ledger::UsageRow;

constexpr std::array<std::string_view, 57> kColumns = {"AvailabilityZone",
                                                       "BilledCost",
                                                       "BillingAccountId",
                                                       "BillingAccountName",
                                                       "BillingAccountType",
                                                       "BillingCurrency",
                                                       "BillingPeriodEnd",
                                                       "BillingPeriodStart",
                                                       "CapacityReservationId",
                                                       "CapacityReservationStatus",
                                                       "ChargeCategory",
                                                       "ChargeClass",
                                                       "ChargeDescription",
                                                       "ChargeFrequency",
                                                       "ChargePeriodEnd",
                                                       "ChargePeriodStart",
                                                       "CommitmentDiscountCategory",
                                                       "CommitmentDiscountId",
                                                       "CommitmentDiscountName",
                                                       "CommitmentDiscountQuantity",
                                                       "CommitmentDiscountStatus",
                                                       "CommitmentDiscountType",
                                                       "CommitmentDiscountUnit",
                                                       "ConsumedQuantity",
                                                       "ConsumedUnit",
                                                       "ContractedCost",
                                                       "ContractedUnitPrice",
                                                       "EffectiveCost",
                                                       "InvoiceId",
                                                       "InvoiceIssuerName",
                                                       "ListCost",
                                                       "ListUnitPrice",
                                                       "PricingCategory",
                                                       "PricingCurrency",
                                                       "PricingCurrencyContractedUnitPrice",
                                                       "PricingCurrencyEffectiveCost",
                                                       "PricingCurrencyListUnitPrice",
                                                       "PricingQuantity",
                                                       "PricingUnit",
                                                       "ProviderName",
                                                       "PublisherName",
                                                       "RegionId",
                                                       "RegionName",
                                                       "ResourceId",
                                                       "ResourceName",
                                                       "ResourceType",
                                                       "ServiceCategory",
                                                       "ServiceName",
                                                       "ServiceSubcategory",
                                                       "SkuId",
                                                       "SkuMeter",
                                                       "SkuPriceDetails",
                                                       "SkuPriceId",
                                                       "SubAccountId",
                                                       "SubAccountName",
                                                       "SubAccountType",
                                                       "Tags"};

using Cells = std::map<std::string_view, std::string>;

// FOCUS writes times as 2027-01-31T00:00:00Z.
std::string Time(conf::TimePoint at) {
  return conf::FormatTime(at).substr(0, 19) + "Z";
}

// The months of UTC are the billing periods.
std::string MonthBegin(std::string_view hour, int later) {
  int year = std::stoi(std::string(hour.substr(0, 4)));
  int month = std::stoi(std::string(hour.substr(5, 2))) + later;
  if (month > 12) {
    month = 1;
    ++year;
  }
  return fmt::format("{:04}-{:02}-01T00:00:00Z", year, month);
}

// The cells that all rows of one use share.
Cells Common(const UsageRow& row) {
  const std::string& hour = row.group[0];
  const std::string& tenant = row.group[1];
  const std::string& key = row.group[2];
  const std::string& model = row.group[3];
  const std::string& job = row.group[4];
  const std::string account = tenant.substr(0, tenant.find('/'));
  const conf::TimePoint begin = conf::ParseTime(hour).value_or(conf::TimePoint());
  nlohmann::ordered_json tags = nlohmann::ordered_json::object();
  if (!key.empty()) tags["tidegate/key"] = key;
  if (!model.empty()) tags["tidegate/model"] = model;
  if (!job.empty()) tags["tidegate/job"] = job;
  return {{"BillingAccountId", account},
          {"BillingAccountName", account},
          {"BillingAccountType", "Tenant"},
          {"BillingCurrency", "USD"},
          {"BillingPeriodEnd", MonthBegin(hour, 1)},
          {"BillingPeriodStart", MonthBegin(hour, 0)},
          {"ChargeCategory", "Usage"},
          {"ChargeFrequency", "Usage-Based"},
          {"ChargePeriodEnd", Time(conf::FromUnixMicros(conf::ToUnixMicros(begin) + ledger::kHourUs))},
          {"ChargePeriodStart", Time(begin)},
          {"InvoiceIssuerName", "Tidegate"},
          {"PricingCategory", "Standard"},
          {"PricingCurrency", "USD"},
          {"ProviderName", "Tidegate"},
          {"PublisherName", "Tidegate"},
          {"ResourceId", job.empty() ? model : job},
          {"ResourceName", job.empty() ? model : job},
          {"ResourceType", job.empty() ? "Model" : "Job"},
          {"ServiceCategory", "AI and Machine Learning"},
          {"SubAccountId", tenant},
          {"SubAccountName", tenant},
          {"SubAccountType", "Tenant"},
          {"Tags", conf::DumpJson(tags)}};
}

constexpr std::string_view kBilled[] = {"BilledCost", "EffectiveCost", "PricingCurrencyEffectiveCost"};
constexpr std::string_view kListed[] = {"ContractedCost", "ListCost"};
constexpr std::string_view kUnitPrices[] = {"ContractedUnitPrice", "ListUnitPrice",
                                            "PricingCurrencyContractedUnitPrice",
                                            "PricingCurrencyListUnitPrice"};

template <size_t N>
void SetAll(Cells& cells, const std::string_view (&columns)[N], const std::string& value) {
  for (const std::string_view column : columns) cells[column] = value;
}

std::string SixDecimals(int64_t millionths) {
  return fmt::format("{}.{:06}", millionths / 1'000'000, millionths % 1'000'000);
}

// A price is micro-USD for a million of tokens, so a token's is in millionths of a micro-USD.
using Wide = __int128;
constexpr Wide kPerMicro = 1'000'000;

// Exact: a list cost is the quantity times the unit price.
std::string ExactUsd(Wide millionths) {
  constexpr Wide kPerUsd = kPerMicro * 1'000'000;
  return fmt::format("{}.{:012}", static_cast<int64_t>(millionths / kPerUsd),
                     static_cast<int64_t>(millionths % kPerUsd));
}

void SetCost(Cells& cells, int64_t micro_usd) {
  SetAll(cells, kBilled, SixDecimals(micro_usd));
  SetAll(cells, kListed, SixDecimals(micro_usd));
}

void SetQuantity(Cells& cells, const std::string& quantity, const std::string& unit) {
  cells["ConsumedQuantity"] = cells["PricingQuantity"] = quantity;
  cells["ConsumedUnit"] = cells["PricingUnit"] = unit;
}

std::string Counted(int64_t count, std::string_view noun) {
  return conf::Counted(static_cast<uint64_t>(count), noun);
}

// Tokens of one kind, and their price.
struct Meter {
  std::string_view name;
  std::string_view id;
  int64_t tokens;
  int64_t price;
  Wide cost() const { return Wide(tokens) * price; }
};

using Meters = std::array<Meter, 3>;

Meters MetersAt(const UsageRow& row, const config::Price& price, bool of_batches) {
  const int64_t input = price.input.value_or(0);
  return {
      Meter{"Input tokens", of_batches ? "batch_input" : "input", row.input - row.cached, input},
      Meter{"Cached input tokens", of_batches ? "batch_cached_input" : "cached_input", row.cached,
            price.cached_input.value_or(input)},
      Meter{"Output tokens", of_batches ? "batch_output" : "output", row.output, price.output.value_or(0)}};
}

// The meters whose prices give the cost of the row: each request is rounded up to a whole micro-USD.
std::optional<Meters> Explain(const UsageRow& row, const PriceList& prices) {
  const auto found = prices.find(row.group[3]);
  if (found == prices.end() || row.input + row.output == 0 || row.cached > row.input) return std::nullopt;
  for (size_t i = 0; i < found->second.size(); ++i) {
    const Meters meters = MetersAt(row, found->second[i], i > 0);
    Wide exact = 0;
    for (const Meter& meter : meters) exact += meter.cost();
    const Wide rounding = row.cost_micro_usd * kPerMicro - exact;
    if (exact == 0 && rounding > 0) continue;
    if (rounding >= 0 && rounding <= row.requests * kPerMicro) return meters;
  }
  return std::nullopt;
}

void AppendRow(const Cells& cells, std::string& out) {
  for (size_t i = 0; i < kColumns.size(); ++i) {
    if (i > 0) out += ',';
    const auto cell = cells.find(kColumns[i]);
    if (cell != cells.end() && !cell->second.empty()) ledger::AppendCsvField(&out, cell->second);
  }
  out += "\r\n";
}

// One row for each kind of tokens. What is billed is in whole micro-USD; the dearest kind takes the rounding, so that the sum is the ledger's.
void AppendMeters(const Cells& serving, const UsageRow& row, const Meters& meters, std::string& out) {
  const Meter* const dearest = &*std::ranges::max_element(meters, {}, &Meter::cost);
  int64_t left = row.cost_micro_usd;
  for (const Meter& meter : meters) {
    if (&meter != dearest) left -= static_cast<int64_t>(meter.cost() / kPerMicro);
  }
  for (const Meter& meter : meters) {
    if (meter.tokens == 0) continue;
    Cells cells = serving;
    SetAll(cells, kBilled,
           SixDecimals(&meter == dearest ? left : static_cast<int64_t>(meter.cost() / kPerMicro)));
    SetAll(cells, kListed, ExactUsd(meter.cost()));
    SetAll(cells, kUnitPrices, ExactUsd(meter.price));
    SetQuantity(cells, std::to_string(meter.tokens), "Tokens");
    cells["ChargeDescription"] =
        fmt::format("{}: {} of {}", row.group[3], meter.name, Counted(row.requests, "request"));
    cells["SkuMeter"] = meter.name;
    cells["SkuPriceId"] = fmt::format("{}/{}", row.group[3], meter.id);
    AppendRow(cells, out);
  }
}

// All tokens, or the requests, of a row whose cost no price explains.
void AppendBlend(const Cells& serving, const UsageRow& row, std::string& out) {
  Cells cells = serving;
  SetCost(cells, row.cost_micro_usd);
  // Images and audio are priced without tokens: a charge needs a quantity that is not 0.
  const bool counts_tokens = row.input + row.output > 0;
  SetQuantity(cells, std::to_string(counts_tokens ? row.input + row.output : row.requests),
              counts_tokens ? "Tokens" : "Requests");
  cells["ChargeDescription"] =
      fmt::format("{}: {}, {} ({} of them cached), {}", row.group[3], Counted(row.requests, "request"),
                  Counted(row.input, "input token"), row.cached, Counted(row.output, "output token"));
  cells["SkuMeter"] = counts_tokens ? "Tokens" : "Requests";
  cells["SkuPriceId"] = row.group[3];
  AppendRow(cells, out);
}

}  // namespace

std::vector<UsageBy> FocusGroups() {
  return {UsageBy::kHour, UsageBy::kTenant, UsageBy::kKey, UsageBy::kModel, UsageBy::kJob};
}

PriceList PricesOf(const Config& config) {
  PriceList out;
  for (const config::Model& model : config.models) {
    std::vector<config::Price>& prices = out[model.name];
    prices.push_back(model.price);
    if (model.batch_price) prices.push_back(*model.batch_price);
  }
  return out;
}

std::string FocusCsv(const std::vector<UsageRow>& rows, const PriceList& prices) {
  std::string out = fmt::format("{}\r\n", fmt::join(kColumns, ","));
  for (const UsageRow& row : rows) {
    // What nobody pays for is no charge.
    if (row.group[1].empty() || row.group[1] == ledger::kIdle) continue;
    const Cells common = Common(row);
    if (row.input + row.output > 0 || row.cost_micro_usd > 0) {
      Cells serving = common;
      serving["ServiceName"] = "Tidegate model serving";
      serving["ServiceSubcategory"] = "Generative AI";
      serving["SkuId"] = row.group[3];
      if (const std::optional<Meters> meters = Explain(row, prices)) {
        AppendMeters(serving, row, *meters, out);
      } else {
        AppendBlend(serving, row, out);
      }
    }
    for (const auto& [kind, us] : row.device_us) {
      Cells cells = common;
      SetCost(cells, 0);
      SetAll(cells, kUnitPrices, SixDecimals(0));
      // Millionths of an hour, rounded to the nearest.
      const int64_t micro_hours = (us + 1800) / 3600;
      SetQuantity(cells, SixDecimals(micro_hours), "Hours");
      cells["ChargeDescription"] = fmt::format("Device time of {}", kind);
      cells["ServiceName"] = "Tidegate devices";
      cells["ServiceSubcategory"] = "Other (AI and Machine Learning)";
      cells["SkuId"] = cells["SkuPriceId"] = kind;
      cells["SkuMeter"] = "Device hours";
      AppendRow(cells, out);
    }
  }
  return out;
}

}  // namespace gateway
