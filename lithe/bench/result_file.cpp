#include <cmath>

#include "lithe/base/json.h"
#include "lithe/bench/result.h"

namespace lithe::bench {
namespace {

constexpr const char* kFormat = "lithe-bench-1";
constexpr uint64_t kLargestFile = uint64_t(64) << 20;
constexpr size_t kLongestText = 4096;
constexpr double kLargest = 1e30;

Json json_of(const Spread& s) { return {{"median", s.median}, {"low_quartile", s.low}, {"high_quartile", s.high}}; }

Json json_of(const std::vector<Sample>& samples) {
  Json out = {{"seconds", Json::array()}, {"compute", Json::array()}, {"bandwidth", Json::array()}};
  for (const Sample& s : samples) {
    out["seconds"].push_back(s.seconds);
    out["compute"].push_back(s.compute);
    out["bandwidth"].push_back(s.bandwidth);
  }
  return out;
}

Json json_of(const Measurement& m) {
  Json json = {{"group", m.group}, {"name", m.name}};
  if (!m.variant.empty()) json["variant"] = m.variant;
  if (!m.unit.empty()) json.update(Json({{"unit", m.unit}, {"amount", m.amount}}));
  json.update(Json({{"flops", m.cost.flops},
                    {"bytes", m.cost.bytes},
                    {"compute_ceiling", name_of(m.compute)},
                    {"memory_ceiling", name_of(m.memory)}}));
  if (m.peak_bytes) json["peak_bytes"] = m.peak_bytes;
  json["samples"] = json_of(m.samples);
  if (!m.control.empty()) json["control"] = json_of(m.control);
  // For readers; read_result() computes them again.
  Json derived = {{"seconds", json_of(m.seconds())},
                  {"bound", m.memory_bound() ? "memory" : "compute"},
                  {"flops_per_second", m.achieved_flops()},
                  {"bytes_per_second", m.achieved_bytes()},
                  {"attainable_flops_per_second", m.attainable()},
                  {"share", m.share()}};
  if (!m.unit.empty()) derived[m.unit + "_per_second"] = m.amount / m.seconds().median;
  json["derived"] = std::move(derived);
  return json;
}

// Typed access that names what is wrong.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    require(json.is_object(), "must be an object");
  }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    require(found != json_.end(), cat("has no '", key, "'"));
    return *found;
  }
  bool has(const char* key) const { return json_.contains(key); }
  std::string text(const char* key) const {
    const Json& v = at(key);
    require(v.is_string() && v.get_ref<const std::string&>().size() <= kLongestText, cat("'", key, "' must be a text"));
    return v.get<std::string>();
  }
  double number(const char* key, double least) const { return checked(at(key), key, least); }
  int64_t integer(const char* key) const {
    const Json& v = at(key);
    require(v.is_number_integer() && v.get<double>() >= 0 && v.get<double>() < 0x1p62,
            cat("'", key, "' must be a whole number of at least 0"));
    return v.get<int64_t>();
  }
  std::vector<double> numbers(const char* key) const {
    std::vector<double> out;
    for (const Json& v : list(key)) {
      out.push_back(checked(v, key, 0));
      require(out.back() > 0, cat("'", key, "' must hold numbers above 0"));
    }
    return out;
  }
  const Json& list(const char* key) const {
    const Json& v = at(key);
    require(v.is_array(), cat("'", key, "' must be a list"));
    return v;
  }
  Reader object(const char* key) const { return {at(key), where_ + "." + key}; }
  void require(bool rule, const std::string& message) const {
    check_usage(rule, "bench", where_, ": ", message, "; give a bench.json that lithe bench wrote");
  }

 private:
  const Json& json_;
  std::string where_;
  double checked(const Json& v, const char* key, double least) const {
    require(v.is_number() && std::isfinite(v.get<double>()) && v.get<double>() >= least && v.get<double>() <= kLargest,
            cat("'", key, "' must be a number of at least ", least));
    return v.get<double>();
  }
};

std::vector<Sample> samples_of(const Reader& in) {
  const std::vector<double> seconds = in.numbers("seconds"), compute = in.numbers("compute"),
                            bandwidth = in.numbers("bandwidth");
  in.require(!seconds.empty() && compute.size() == seconds.size() && bandwidth.size() == seconds.size(),
             "'seconds', 'compute' and 'bandwidth' must be of one length, above 0");
  std::vector<Sample> out;
  for (size_t i = 0; i < seconds.size(); ++i) out.push_back({seconds[i], compute[i], bandwidth[i]});
  return out;
}

Ceiling ceiling_of(const Reader& in, const char* key, bool compute) {
  const std::string name = in.text(key);
  const auto ceiling = ceiling_named(name);
  in.require(ceiling && is_compute(*ceiling) == compute, cat("'", key, "' is '", name, "', no such ceiling"));
  return *ceiling;
}

Measurement measurement_of(const Reader& in) {
  Measurement m;
  m.group = in.text("group"), m.name = in.text("name");
  if (in.has("variant")) m.variant = in.text("variant");
  if (in.has("unit")) m.unit = in.text("unit"), m.amount = in.number("amount", 0);
  m.cost = {in.number("flops", 0), in.number("bytes", 0)};
  in.require(m.cost.bytes > 0 && m.amount > 0, "'bytes' and 'amount' must be above 0");
  m.compute = ceiling_of(in, "compute_ceiling", true), m.memory = ceiling_of(in, "memory_ceiling", false);
  if (in.has("peak_bytes")) m.peak_bytes = in.integer("peak_bytes");
  m.samples = samples_of(in.object("samples"));
  if (in.has("control")) m.control = samples_of(in.object("control"));
  return m;
}

}  // namespace

std::string to_json_text(const Result& r) {
  const Setting& s = r.setting;
  Json json = {{"format", kFormat},
               {"complete", r.complete},
               {"setting",
                {{"cpu", s.cpu},
                 {"logical_cpus", s.logical_cpus},
                 {"threads", s.threads},
                 {"instruction_set", s.instruction_set},
                 {"build_type", s.build_type},
                 {"precision", s.precision}}},
               {"version", r.version},
               {"commit", r.commit},
               {"compiler", r.compiler},
               {"huge_pages", r.huge_pages},
               {"memory_bytes", r.memory},
               {"rounds", r.rounds},
               {"interruptions_per_second", r.interruptions},
               {"ceilings", Json::array()},
               {"measurements", Json::array()},
               {"skipped", r.skipped}};
  for (const CeilingSamples& c : r.ceilings)
    json["ceilings"].push_back({{"name", name_of(c.ceiling)},
                                {"unit", is_compute(c.ceiling) ? "operations/s" : "bytes/s"},
                                {"values", c.values},
                                {"median", spread_of(c.values).median}});
  for (const Measurement& m : r.measurements) json["measurements"].push_back(json_of(m));
  return dump(json, 2, Invalid::replaced) + "\n";
}

Result read_result(const Path& file) {
  check_usage(std::filesystem::is_regular_file(file), "bench", "'", file.string(),
              "' is no file; give the bench.json that lithe bench --out DIR wrote");
  Json json;
  try {
    json = parse_json(read_file(file, kLargestFile), file.string());
  } catch (const Error& error) {
    fail_usage("bench", error.what());
  }
  const Reader in(json, file.string());
  in.require(in.text("format") == kFormat, cat("'format' is not ", kFormat));
  Result r;
  const Reader setting = in.object("setting");
  r.setting = {.cpu = setting.text("cpu"),
               .instruction_set = setting.text("instruction_set"),
               .build_type = setting.text("build_type"),
               .precision = setting.text("precision"),
               .logical_cpus = setting.integer("logical_cpus"),
               .threads = setting.integer("threads")};
  r.version = in.text("version"), r.commit = in.text("commit"), r.compiler = in.text("compiler");
  r.huge_pages = in.text("huge_pages"), r.memory = in.integer("memory_bytes"), r.rounds = in.integer("rounds");
  r.interruptions = in.number("interruptions_per_second", 0);
  in.require(in.at("complete").is_boolean(), "'complete' must be true or false");
  r.complete = in.at("complete").get<bool>();
  size_t i = 0;
  for (const Json& one : in.list("ceilings")) {
    const Reader c(one, cat(file.string(), ": ceilings[", i++, "]"));
    const auto ceiling = ceiling_named(c.text("name"));
    c.require(ceiling.has_value(), "'name' is no ceiling's");
    r.ceilings.push_back({*ceiling, c.numbers("values")});
  }
  i = 0;
  for (const Json& one : in.list("measurements"))
    r.measurements.push_back(measurement_of(Reader(one, cat(file.string(), ": measurements[", i++, "]"))));
  return r;
}

}  // namespace lithe::bench
