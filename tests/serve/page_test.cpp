// The page in a browser: its script runs, asks the server and shows what comes.
#include "lithe/serve/page.h"

#include <cstdlib>

#include "tests/serve/serve_kit.h"

namespace lithe {
namespace {

class PageTest : public ServeTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kBrowser)) GTEST_SKIP() << "needs chromium";
  }
  /// What a page has become after twenty seconds of its time.
  std::string shown(const std::string& url) {
    const std::string file = kit_.scratch / "page.html";
    const int code = std::system(
        cat("timeout 100 ", kBrowser, " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=",
            kit_.scratch / "browser", " --virtual-time-budget=20000 --dump-dom \"", url, "\" >", file, " 2>/dev/null")
            .c_str());
    EXPECT_EQ(code, 0);
    return read_file(file);
  }
  static constexpr const char* kBrowser = "/usr/bin/chromium";
};

TEST_F(PageTest, ShowsWhatTheModelSays) {
  begin();
  const std::string page = shown(cat("http://127.0.0.1:", port_.load(), "/?prompt=Once%20upon&tokens=5&seed=3&send=1"));
  EXPECT_NE(page.find("<option value=\"tiny\">tiny</option>"), std::string::npos) << page.substr(0, 2000);
  size_t tokens = 0;
  for (size_t at = 0; (at = page.find("class=\"token\"", at)) != std::string::npos; ++at) ++tokens;
  EXPECT_EQ(tokens, 5u) << page.substr(std::min(page.size(), page.find("id=\"panes\"")));
}

// A page that holds the server's page in a frame as narrow as a phone, dark, looks at it and presses keys.
constexpr const char* kLooker = R"looker(<!doctype html><html><body>
<iframe id="frame" style="width:420px;height:900px;border:0;color-scheme:dark"
        src="/page?prompt=Once&tokens=6&seed=3&beside=student&send=1"></iframe>
<pre id="result"></pre>
<script>
const out = {}, frame = document.getElementById("frame"), wait = ms => new Promise(r => setTimeout(r, ms));
const done = () => { document.getElementById("result").textContent = "{{" + JSON.stringify(out) + "}}"; };
const box = e => e.getBoundingClientRect();
async function look() {
  let d;
  for (;;) {
    await wait(50);
    d = frame.contentDocument;
    if (d && d.querySelectorAll(".speed").length === 2 && !d.getElementById("send").disabled &&
        [...d.querySelectorAll(".speed")].every(s => s.textContent)) break;
  }
  const w = frame.contentWindow, panes = [...d.querySelectorAll(".pane")];
  out.tokens = panes.map(p => p.querySelectorAll(".token").length);
  out.titles = panes.map(p => p.querySelector("h2").textContent);
  out.speeds = panes.map(p => p.querySelector(".speed").textContent);
  out.overflow = d.documentElement.scrollWidth - d.documentElement.clientWidth;
  out.stacked = box(panes[1]).top >= box(panes[0]).bottom;
  out.background = w.getComputedStyle(d.body).backgroundColor;
  out.color = w.getComputedStyle(d.body).color;
  out.stops = panes.map(p => p.querySelectorAll('.token[tabindex="0"]').length);
  const press = (key, more) =>
      d.activeElement.dispatchEvent(new w.KeyboardEvent("keydown", {key, bubbles: true, cancelable: true, ...more}));
  const all = [...panes[1].querySelectorAll(".token")], at = () => all.indexOf(d.activeElement);
  all[0].focus();
  out.why = d.getElementById("why").textContent;
  out.walk = [at()];
  for (const key of ["ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home"]) { press(key); out.walk.push(at()); }
  d.getElementById("tokens").value = 60;
  d.getElementById("prompt").focus();
  press("Enter", {ctrlKey: true});
  out.sends = d.getElementById("send").disabled;
  press("Escape");
  while (d.getElementById("send").disabled) await wait(20);
  out.stopped = true;
  frame.style.width = "1000px";
  await wait(100);
  out.beside = box(panes[1]).top === box(panes[0]).top && box(panes[1]).left >= box(panes[0]).right;
  done();
}
look();
</script></body></html>)looker";

TEST_F(PageTest, TwoModelsAnswerBesideEachOther) {
  add("tiny");
  add("student");
  listen();
  httplib::Server front;  // of one origin: the looker, the page, and what the page asks the server for
  const auto forward = [&](const httplib::Request& in, httplib::Response& out) {
    httplib::Client client("127.0.0.1", port_);
    const auto got = in.method == "GET" ? client.Get(in.path) : client.Post(in.path, in.body, "application/json");
    if (!got) return;
    out.status = got->status;
    out.set_content(got->body, got->get_header_value("Content-Type").c_str());
  };
  front.Get("/look", [](const httplib::Request&, httplib::Response& out) { out.set_content(kLooker, "text/html"); });
  front.Get("/page", [](const httplib::Request&, httplib::Response& out) { out.set_content(page(), "text/html"); });
  front.Get("/.*", forward);
  front.Post("/.*", forward);
  const int port = front.bind_to_any_port("127.0.0.1");
  std::thread listener([&] { front.listen_after_bind(); });
  const std::string text = shown(cat("http://127.0.0.1:", port, "/look"));
  front.stop();
  listener.join();
  const size_t begin = text.find("{{{"), end = text.find("}}}");
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << text;
  const Json saw = parse_json(text.substr(begin + 2, end - begin - 1), "what it saw");
  EXPECT_EQ(saw["tokens"], Json({6, 6}));
  EXPECT_EQ(saw["titles"], Json({"tiny", "student"}));
  for (const Json& speed : saw["speeds"])
    EXPECT_TRUE(speed.get<std::string>().starts_with("6 tokens, ") &&
                speed.get<std::string>().find("mean probability") != std::string::npos)
        << speed;
  EXPECT_EQ(saw["overflow"], 0);
  EXPECT_EQ(saw["stacked"], true);
  EXPECT_NE(saw["background"], saw["color"]);
  EXPECT_EQ(saw["color"], "rgb(255, 255, 255)");  // dark
  EXPECT_EQ(saw["stops"], Json({1, 1}));
  EXPECT_EQ(saw["walk"], Json({0, 1, 5, 5, 4, 0}));
  EXPECT_TRUE(saw["why"].get<std::string>().starts_with("student ")) << saw["why"];
  EXPECT_EQ(saw["sends"], true);
  EXPECT_EQ(saw["stopped"], true);
  EXPECT_EQ(saw["beside"], true);
}

}  // namespace
}  // namespace lithe
