// Derived numbers, and bench.json as a hostile file.
#include "lithe/bench/result.h"

#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/bench/tables.h"
#include "tests/support/process.h"

namespace lithe::bench {
namespace {

Result example() {
  Result r = empty_result("f32");
  r.rounds = 2;
  r.ceilings = {{Ceiling::f32, {1e11, 1.1e11}}, {Ceiling::read, {2e10, 2e10}}};
  Measurement m{.group = "kernel", .name = "gemm", .cost = {1e9, 1e6}};
  m.samples = {{0.02, 1e11, 2e10}, {0.04, 1e11, 2e10}};
  r.measurements.push_back(m);
  Measurement d{
      .group = "decode", .name = "batch 1", .variant = "a", .unit = "tokens", .amount = 1, .cost = {1e6, 1e9}};
  d.samples = {{0.1, 1e11, 2e10}};
  d.control = {{0.11, 1e11, 2e10}};
  d.peak_bytes = 77;
  r.measurements.push_back(d);
  r.skipped = {"train of a: no <reason>"};
  return r;
}

TEST(Measurement, IsBoundByWhatTakesLonger) {
  const Result r = example();
  const Measurement &gemm = r.measurements[0], &decode = r.measurements[1];
  EXPECT_FALSE(gemm.memory_bound());
  EXPECT_TRUE(decode.memory_bound());
  EXPECT_DOUBLE_EQ(gemm.seconds().median, 0.03);
  EXPECT_DOUBLE_EQ(gemm.intensity(), 1000);
  EXPECT_DOUBLE_EQ(gemm.attainable(), 1e11);
  EXPECT_DOUBLE_EQ(gemm.shares()[0], 0.5);  // 0.01 s at the ceiling
  EXPECT_DOUBLE_EQ(gemm.shares()[1], 0.25);
  EXPECT_DOUBLE_EQ(decode.attainable(), 2e10 * 1e-3);
  EXPECT_DOUBLE_EQ(decode.share(), 0.5);
  EXPECT_EQ(decode.label(), "decode batch 1 of a");
}

TEST(ResultFile, ReadsBackWhatWasWritten) {
  const kit::Scratch scratch;
  const std::string text = to_json_text(example());
  const Result back = read_result(scratch.add("bench.json", text));
  Result expected = example();
  expected.skipped.clear();  // for people
  const Json a = parse_json(to_json_text(back), "a"), b = parse_json(to_json_text(expected), "b");
  EXPECT_EQ(a, b);
}

TEST(ResultFile, RefusesEverythingElse) {
  const kit::Scratch scratch;
  const std::string good = to_json_text(example());
  const auto refused = [&](const std::string& text, const std::string& word) {
    try {
      read_result(scratch.add("bad.json", text));
      ADD_FAILURE() << "was read: " << text.substr(0, 200);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("bad.json"), std::string::npos) << error.what();
    }
  };
  const auto changed = [&](const std::string& pointer, const Json& value) {
    Json json = parse_json(good, "good");
    json[Json::json_pointer(pointer)] = value;
    return json.dump();
  };
  refused("", "bad.json");
  refused("{", "bad.json");
  refused("[]", "must be an object");
  refused("{}", "has no 'format'");
  refused(good.substr(0, good.size() / 2), "bad.json");
  refused(changed("/format", "other"), "'format'");
  refused(changed("/setting", 3), "must be an object");
  refused(changed("/setting/threads", -1), "'threads'");
  refused(changed("/setting/threads", 1.5), "'threads'");
  refused(changed("/setting/cpu", std::string(5000, 'x')), "'cpu'");
  refused(changed("/complete", "yes"), "'complete'");
  refused(changed("/measurements", Json::object()), "'measurements'");
  refused(changed("/measurements/0", 1), "measurements[0]");
  refused(changed("/measurements/1/bytes", 0), "measurements[1]");
  refused(changed("/measurements/0/flops", "1"), "'flops'");
  refused(changed("/measurements/0/flops", 1e300), "'flops'");
  refused(changed("/measurements/0/compute_ceiling", "read"), "'compute_ceiling'");
  refused(changed("/measurements/0/samples/seconds", Json::array()), "of one length");
  refused(changed("/measurements/0/samples/seconds", Json::array({1, -2})), "'seconds'");
  refused(changed("/measurements/0/samples/seconds", Json::array({1, nullptr})), "'seconds'");
  refused(changed("/measurements/0/samples/compute", Json::array({0, 1})), "'compute'");
  refused(changed("/ceilings/0/name", "f8"), "ceilings[0]");
  try {
    read_result(scratch / "absent.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

TEST(Tables, SayWhatWasMeasuredAndWhatWasNot) {
  const std::string text = tables(example());
  for (const char* part : {"gemm", "33.3 GFLOP/s", "20 GB/s", "10 tokens/s", "50 %", "skipped: train of a"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

TEST(Page, EscapesAndShowsBothBounds) {
  const std::string html = page(example(), nullptr, nullptr, 0.05);
  for (const char* part : {"bound by compute", "bound by memory", "no &lt;reason&gt;", "class=\"roof\""})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("<reason>"), std::string::npos);
  EXPECT_EQ(html.find("nan"), std::string::npos);
}

TEST(Page, OfNothing) {
  Result r = empty_result("f32");
  r.complete = false;
  EXPECT_NE(page(r, nullptr, nullptr, 0.05).find("Stopped early"), std::string::npos);
}

TEST(Ceilings, AreWhatTheMachineHas) {
  const Ceilings ceilings;
  for (const Ceiling c : kCeilings) {
    EXPECT_EQ(ceiling_named(name_of(c)), c);
    if (!ceilings.has(c)) continue;
    EXPECT_GT(ceilings.probe(c), 1e8) << name_of(c);
  }
  EXPECT_FALSE(ceiling_named("f8"));
  EXPECT_TRUE(ceilings.has(ceilings.best(Ceiling::int8)));
  const kernels::Isa before = kernels::usable_isa();
  kernels::limit_isa(kernels::Isa::generic);
  EXPECT_FALSE(ceilings.has(Ceiling::bf16));
  EXPECT_EQ(ceilings.best(Ceiling::bf16), Ceiling::f32);
  for (const Ceiling c : {Ceiling::f32, Ceiling::read, Ceiling::copy}) EXPECT_GT(ceilings.probe(c), 1e7);
  kernels::limit_isa(before);
}

}  // namespace
}  // namespace lithe::bench
