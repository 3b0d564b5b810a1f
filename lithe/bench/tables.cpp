#include "lithe/bench/tables.h"

#include <algorithm>
#include <cmath>

#include "lithe/report/format.h"
#include "lithe/train/plan.h"

namespace lithe::bench {
namespace {

// Rows of cells, the first left-aligned and the others right-aligned, each column as wide as its widest cell.
std::string align(const std::vector<std::vector<std::string>>& rows) {
  std::vector<int64_t> widths;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], report::code_points(row[i]));
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(size_t(widths[i] - report::code_points(row[i])), ' ');
      line += i == 0 ? row[i] + blanks : "  " + blanks + row[i];
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string percent(double part) { return report::format_number(100 * part, part < 0.0995 ? 2 : 3) + " %"; }

std::vector<std::string> kernel_row(const Measurement& m) {
  return {m.name,
          report::format(m.cost.flops, report::Quantity::count),
          report::format(m.cost.bytes, report::Quantity::bytes),
          report::format_number(m.intensity(), 3),
          m.memory_bound() ? "memory" : "compute",
          achieved_text(m),
          rate_text(m.memory_bound() ? m.memory_ceiling() : m.compute_ceiling(),
                    unit_of(m.memory_bound() ? m.memory : m.compute)),
          percent(m.share()),
          spread_text(m.seconds())};
}

}  // namespace

std::string rate_text(double per_second, const std::string& unit) {
  static constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  int prefix = 0;
  const bool scaled = unit.ends_with("/s") && unit.size() <= 6;  // FLOP/s, OP/s, B/s
  while (scaled && per_second >= 1000 && prefix < 5) per_second /= 1000, ++prefix;
  // Three digits, and all of them where there are more before the point.
  const int digits = per_second >= 1000 ? int(std::log10(per_second)) + 1 : 3;
  return report::format_number(per_second, digits) + " " + prefixes[prefix] + unit;
}

std::string unit_of(Ceiling ceiling) {
  return !is_compute(ceiling) ? "B/s" : ceiling == Ceiling::int8 ? "OP/s" : "FLOP/s";
}

std::string achieved_text(const Measurement& m) {
  return m.memory_bound() ? rate_text(m.achieved_bytes(), "B/s") : rate_text(m.achieved_flops(), unit_of(m.compute));
}

std::string ratio_text(const Ratio& r) {
  const auto number = [](double v) { return report::format_number(v, v < 1 ? 2 : 3); };
  std::string text = number(r.value) + "x";
  if (r.low > 0 && std::isfinite(r.high)) text += cat(" (", number(r.low), " to ", number(r.high), ")");
  return text;
}

std::string spread_text(const Spread& s) {
  return cat("± ", report::format_number(100 * (s.high - s.low) / 2 / s.median, 2), " %");
}

std::string unrest(const Result& r) {
  double worst = 0;
  for (const CeilingSamples& c : r.ceilings) {
    const Spread s = spread_of(c.values);
    worst = std::max(worst, (s.high - s.low) / 2 / s.median);
  }
  // On a quiet machine the kernel interrupts a thread a few times a second. One thread is timed by its own clock.
  if (r.setting.threads > 1 && r.interruptions > 25 * double(r.setting.threads))
    return cat("Other programs took the processors ", report::format_number(r.interruptions, 2),
               " times a second. Figures mean little, and differences less; stop them and measure again.");
  if (worst <= 0.1) return "";
  return cat(
      "The ceilings differ by ± ", report::format_number(100 * worst, 2),
      " % between rounds: the machine changed its state, or other programs used its memory. The shares allow for "
      "that, the speeds do not.");
}

std::string tables(const Result& r) {
  std::string out;
  if (!r.ceilings.empty()) {
    std::vector<std::vector<std::string>> rows{{"ceiling", "median", "spread"}};
    for (const CeilingSamples& c : r.ceilings) {
      const Spread s = spread_of(c.values);
      rows.push_back(
          {cat(name_of(c.ceiling), is_compute(c.ceiling)                                      ? " multiply-add"
                                   : c.ceiling == Ceiling::read || c.ceiling == Ceiling::copy ? " memory"
                                                                                              : " cache read"),
           rate_text(s.median, unit_of(c.ceiling)), spread_text(s)});
    }
    out += align(rows) + "\n";
  }
  if (const std::string warning = unrest(r); !warning.empty()) out += warning + "\n\n";
  std::vector<std::vector<std::string>> kernels{
      {"kernel", "FLOPs", "bytes", "FLOP/B", "bound", "achieved", "ceiling", "share", "spread"}};
  std::vector<std::vector<std::string>> models{
      {"model", "speed", "spread", "bound", "share", "peak memory", "to the first", ""}};
  const std::vector<VariantDifference> differences = variant_differences(r);
  for (size_t i = 0; i < r.measurements.size(); ++i) {
    const Measurement& m = r.measurements[i];
    if (m.group == "kernel") {
      kernels.push_back(kernel_row(m));
      continue;
    }
    const auto d = std::find_if(differences.begin(), differences.end(), [&](const auto& one) { return one.at == i; });
    const bool known = d != differences.end();
    models.push_back({m.label(), rate_text(m.amount / m.seconds().median, m.unit + "/s"), spread_text(m.seconds()),
                      m.memory_bound() ? "memory" : "compute", percent(m.share()),
                      m.peak_bytes ? format_bytes(double(m.peak_bytes)) : "", known ? ratio_text(d->ratio) : "",
                      known ? name_of(d->verdict) : ""});
  }
  if (kernels.size() > 1) out += align(kernels) + "\n";
  if (models.size() > 1) out += align(models) + "\n";
  for (const std::string& reason : r.skipped) out += "skipped: " + reason + "\n";
  return out;
}

std::string sentence(const Changes& c, double tolerance) {
  if (c.all.empty()) return "The two runs have no measurement in common.";
  const int64_t slower = c.count(Verdict::slower), faster = c.count(Verdict::faster);
  std::string text = slower ? cat(slower, " of ", c.all.size(), " measurements slower beyond noise")
                            : cat("None of ", c.all.size(), " measurements is slower beyond noise");
  text += cat(" and a tolerance of ", report::format_number(100 * tolerance, 3), " %");
  text += faster ? cat("; ", faster, " faster.") : ".";
  if (c.only_now || c.only_before)
    text += cat(" Not compared: ", c.only_now, " measured only now, ", c.only_before, " only before.");
  return text;
}

std::string tables(const Changes& c, const Result& now, const Result& before, double tolerance) {
  std::vector<std::vector<std::string>> rows{
      {"speed against the earlier run", "by the clock", "by the share of the ceiling", "fastest round", ""}};
  for (const Change& change : c.all)
    rows.push_back({now.measurements[change.now].label(), ratio_text(change.timed), ratio_text(change.share),
                    report::format_number(change.fastest, 3) + "x", name_of(change.verdict)});
  std::string out = c.all.empty() ? std::string() : align(rows) + "\n";
  for (const CeilingSamples& own : now.ceilings)
    for (const CeilingSamples& old : before.ceilings)
      if (own.ceiling == old.ceiling) {
        const double ratio = spread_of(own.values).median / spread_of(old.values).median;
        if (ratio < 1 - tolerance || ratio > 1 + tolerance)
          out += cat("The machine itself changed: ceiling ", name_of(own.ceiling), " is ",
                     report::format_number(ratio, 3), " times what it was.\n");
      }
  return out + sentence(c, tolerance) + "\n";
}

}  // namespace lithe::bench
