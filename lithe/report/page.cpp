#include "lithe/report/page.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"

namespace lithe::report {
namespace {

constexpr std::string_view kStyle = R"css(
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%;text-size-adjust:100%}
:root{--page:#f5f6f8;--rule:#dfe3e8;--good:#2f7d4f;--caution:#9a6700;--link:#2a62a0;--bar:#3a6ea526;--quiet:#f0f2f4}
@media (prefers-color-scheme:dark){:root{--page:#0f1215;--rule:#2a3038;--good:#74c08f;--caution:#d9a441;--link:#7fb3ea;--bar:#6ea8e033;--quiet:#1f242a}}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main,header{max-width:1136px;margin:0 auto;padding:0 20px}
main{padding-bottom:64px}
header{padding-top:44px;padding-bottom:8px}
.kicker{margin:0 0 6px;color:var(--soft);font-size:12px;letter-spacing:.09em;text-transform:uppercase}
h1{margin:0;font-size:30px;line-height:1.2;font-weight:650;letter-spacing:-.012em;overflow-wrap:anywhere}
.subtitle{margin:8px 0 0;color:var(--soft);overflow-wrap:anywhere}
h2{margin:52px 0 14px;font-size:20px;font-weight:650;letter-spacing:-.006em}
p{max-width:72ch;margin:0 0 14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(190px,1fr));gap:12px;margin:24px 0;padding:0}
.tile{background:var(--ground);border:1px solid var(--rule);border-radius:10px;padding:14px 16px 13px;min-width:0}
.tile dt{color:var(--soft);font-size:12.5px}
.tile dd{margin:0}.tile .number{margin-top:3px;font-size:23px;line-height:1.3;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tile .more{margin-top:1px;color:var(--soft);font-size:12.5px;overflow-wrap:anywhere}
.good .number{color:var(--good)}.caution .number{color:var(--caution)}.bad .number{color:var(--bad)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:16px;margin:0 0 16px}
figure{margin:0;padding:18px 20px 14px;background:var(--ground);border:1px solid var(--rule);border-radius:10px;min-width:0;overflow:hidden}
figcaption{margin-bottom:10px}figcaption b{font-weight:650}figcaption span{display:block;color:var(--soft);font-size:13px}
.narrow{display:none}
@media (max-width:640px){.wide{display:none}.narrow{display:block}}
.scroll{overflow-x:auto;background:var(--ground);border:1px solid var(--rule);border-radius:10px;margin:0 0 16px}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
caption{padding:14px 16px 4px;text-align:left;font-weight:650}
th,td{padding:7px 16px;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
tbody tr:last-child td,tfoot td{border-bottom:0}tfoot td{border-top:1px solid var(--rule);font-weight:600}
th{padding:0;font-weight:500;color:var(--soft);font-size:13px}
th button{all:unset;display:block;width:100%;padding:9px 16px;box-sizing:border-box;cursor:pointer}
th button:focus-visible,summary:focus-visible{outline:2px solid var(--link);outline-offset:-2px;border-radius:6px}
th button:hover{color:var(--ink)}th button::after{content:"\2195";margin-left:.4em;opacity:.3}
th[aria-sort=ascending] button::after{content:"\2191";opacity:1}th[aria-sort=descending] button::after{content:"\2193";opacity:1}
.n{text-align:right}td.text{white-space:normal;overflow-wrap:break-word}
tbody tr:hover td{background-color:var(--quiet)}
td.share{min-width:130px}td.bar{background-image:linear-gradient(var(--bar),var(--bar));background-repeat:no-repeat;background-position:16px center;background-size:calc((100% - 32px)*var(--part)) 20px}
pre{margin:0;padding:14px 18px;overflow:auto;max-height:34em;background:var(--ground);border:1px solid var(--rule);border-radius:10px;font:13px/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;tab-size:2}
details{margin:0 0 12px;background:var(--ground);border:1px solid var(--rule);border-radius:10px}
summary{padding:11px 18px;cursor:pointer;font-weight:600}summary .more{margin-left:10px;font-weight:400;color:var(--soft);font-size:13.5px}
details>div{padding:4px 18px 16px}details pre{background:var(--quiet);border:0}details .scroll{border:0;border-radius:0;margin:0 -18px -8px}
details>div>:last-child{margin-bottom:0}
.sample{margin:0 0 14px;padding:0 0 0 14px;border-left:3px solid var(--rule);white-space:pre-wrap;overflow-wrap:anywhere;font:14.5px/1.65 ui-serif,Charter,Georgia,"DejaVu Serif",serif;max-width:92ch}
.sample .prompt{color:var(--link);font-weight:600}
.notice{margin:0 0 16px;padding:12px 18px;background:var(--ground);border:1px solid var(--rule);border-left-width:4px;border-radius:8px}
.notice.good{border-left-color:var(--good)}.notice.caution{border-left-color:var(--caution)}.notice.bad{border-left-color:var(--bad)}
.notice strong{font-weight:650}.notice ul{margin:4px 0 0;padding-left:20px;color:var(--soft)}.notice li{overflow-wrap:anywhere}
@media (max-width:640px){body{font-size:14.5px}header{padding-top:28px}main,header{padding-left:12px;padding-right:12px}h1{font-size:24px}h2{margin-top:38px}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr));gap:8px}.tile{padding:11px 12px}.tile .number{font-size:19px}figure{padding:14px 12px 10px}
th button,td{padding-left:12px;padding-right:12px}summary .more{display:block;margin-left:0}}
@media print{:root{--page:#fff}body{font-size:11pt}.wide{display:block}.narrow{display:none}figure,.tile,.scroll{break-inside:avoid}h2{break-after:avoid}pre{max-height:none;white-space:pre-wrap}th button::after{content:""}}
)css";

constexpr std::string_view kSortScript = R"js(
(()=>{
for(const table of document.querySelectorAll('table.sortable')){
  const heads=[...table.tHead.rows[0].cells],body=table.tBodies[0];
  heads.forEach((head,column)=>head.querySelector('button').addEventListener('click',()=>{
    const numeric=head.classList.contains('n'),was=head.getAttribute('aria-sort');
    const down=was?was=='ascending':numeric;
    const key=row=>{const cell=row.cells[column],k=cell.dataset.sort??cell.textContent;return numeric?(k===''||isNaN(k)?-Infinity*(down?1:-1):+k):k};
    const rows=[...body.rows].sort((a,b)=>{const x=key(a),y=key(b),order=numeric?(x<y?-1:x>y?1:0):x.localeCompare(y,'en',{numeric:true});return down?-order:order});
    heads.forEach(h=>h.removeAttribute('aria-sort'));head.setAttribute('aria-sort',down?'descending':'ascending');body.append(...rows);
  }));
}
})();
)js";

const char* tone_class(Tone tone) {
  switch (tone) {
    case Tone::good: return " good";
    case Tone::caution: return " caution";
    case Tone::bad: return " bad";
    case Tone::plain: break;
  }
  return "";
}

// A key of at most 17 digits in plain or exponent notation, which scripts read; empty when not finite.
std::string sort_key(double key) {
  if (!std::isfinite(key)) return "";
  std::string text = format_number(key, 17);
  std::erase(text, ',');
  return text;
}

std::string cell_html(const Cell& cell, const Column& column) {
  std::string out = column.numeric ? "<td class=\"n" : "<td class=\"text";
  if (cell.bar) out += *cell.bar > 0 ? " share bar" : " share";
  out += "\"";
  if (cell.key) out += cat(" data-sort=\"", sort_key(*cell.key), "\"");
  if (cell.bar && *cell.bar > 0) out += cat(" style=\"--part:", format_number(*cell.bar, 3), "\"");
  return out + ">" + escape(cell.text) + "</td>";
}

}  // namespace

Cell Cell::integer(int64_t value) {
  Cell cell(format_integer(value));
  cell.key = double(value);
  return cell;
}

Cell Cell::share(double part) {
  if (!std::isfinite(part)) return Cell(part, Quantity::number);
  const double percent = 100 * part;
  Cell cell((percent > 0 && percent < 0.1 ? "<0.1"
             : percent >= 99.95           ? format_number(percent, 3)
                                          : format_number(percent, percent < 10 ? 2 : 3)) +
            "\xC2\xA0%");
  cell.key = part;
  cell.bar = std::clamp(part, 0.0, 1.0);
  return cell;
}

Page::Page(std::string title, std::string subtitle, std::string kicker) : title_(std::move(title)) {
  if (!kicker.empty()) header_ += "<p class=\"kicker\">" + escape(kicker) + "</p>";
  header_ += "<h1>" + escape(title_) + "</h1>";
  if (!subtitle.empty()) header_ += "<p class=\"subtitle\">" + escape(subtitle) + "</p>";
}

void Page::tiles(const std::vector<Tile>& tiles) {
  body_ += "<dl class=\"tiles\">\n";
  for (const Tile& tile : tiles) {
    body_ += cat("<div class=\"tile", tone_class(tile.tone), "\"><dt>", escape(tile.label),
                 "</dt><dd class=\"number\">", escape(tile.value), "</dd>");
    if (!tile.detail.empty()) body_ += "<dd class=\"more\">" + escape(tile.detail) + "</dd>";
    body_ += "</div>\n";
  }
  body_ += "</dl>\n";
}

void Page::section(std::string_view title) {
  if (in_section_) body_ += "</section>\n";
  in_section_ = true;
  body_ += "<section>\n<h2>" + escape(title) + "</h2>\n";
}

void Page::paragraph(std::string_view text) { body_ += "<p>" + escape(text) + "</p>\n"; }

void Page::notice(Tone tone, std::string_view title, const std::vector<std::string>& lines) {
  body_ += cat("<div class=\"notice", tone_class(tone), "\"", tone == Tone::bad ? " role=\"alert\"" : "", "><strong>",
               escape(title), "</strong>");
  if (!lines.empty()) {
    body_ += "<ul>";
    for (const std::string& line : lines) body_ += "<li>" + escape(line) + "</li>";
    body_ += "</ul>";
  }
  body_ += "</div>\n";
}

void Page::table(const Table& table) {
  const auto check_width = [&](const std::vector<Cell>& cells) {
    check(cells.size() == table.columns.size(), "page", "a row of table '", table.caption, "' must have ",
          table.columns.size(), " cells, got ", cells.size());
  };
  for (const auto& cells : table.rows) check_width(cells);
  if (!table.total.empty()) check_width(table.total);
  std::vector<bool> shown(table.columns.size(), true);
  for (size_t c = 1; c < shown.size() && !table.rows.empty(); ++c) {
    const auto empty = [c](const std::vector<Cell>& cells) { return cells[c].text.empty() || cells[c].text == "–"; };
    shown[c] =
        !std::all_of(table.rows.begin(), table.rows.end(), empty) || !(table.total.empty() || empty(table.total));
  }
  const auto row = [&](const std::vector<Cell>& cells) {
    std::string out = "<tr>";
    for (size_t c = 0; c < cells.size(); ++c)
      if (shown[c]) out += cell_html(cells[c], table.columns[c]);
    return out + "</tr>\n";
  };
  // The box scrolls sideways on narrow screens, so it must be reachable by keyboard.
  body_ += cat("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", escape(table.caption),
               "\"><table class=\"sortable\">");
  if (!table.caption.empty()) body_ += "<caption>" + escape(table.caption) + "</caption>";
  body_ += "<thead><tr>";
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const Column& column = table.columns[c];
    if (!shown[c]) continue;
    body_ += cat("<th scope=\"col\"", column.numeric ? " class=\"n\"" : "", "><button type=\"button\">",
                 escape(column.name), "</button></th>");
  }
  body_ += "</tr></thead>\n<tbody>\n";
  for (const auto& cells : table.rows) body_ += row(cells);
  body_ += "</tbody>";
  if (!table.total.empty()) body_ += "<tfoot>" + row(table.total) + "</tfoot>";
  body_ += "</table></div>\n";
}

void Page::preformatted(std::string_view text, std::string_view label) {
  // HTML drops one line end after <pre>, so one is given for it to drop.
  body_ += cat("<pre tabindex=\"0\" role=\"region\" aria-label=\"", escape(label), "\">\n", escape(text), "</pre>\n");
}

void Page::sample(std::string_view prompt, std::string_view continuation) {
  body_ +=
      cat("<div class=\"sample\"><span class=\"prompt\">", escape(prompt), "</span>", escape(continuation), "</div>\n");
}

void Page::figures(const std::vector<Figure>& figures) {
  body_ += "<div class=\"figures\">\n";
  for (const Figure& figure : figures) {
    body_ += "<figure>";
    if (!figure.title.empty())
      body_ += "<figcaption><b>" + escape(figure.title) + "</b>" +
               (figure.detail.empty() ? "" : "<span>" + escape(figure.detail) + "</span>") + "</figcaption>";
    body_ +=
        "<div class=\"wide\">" + figure.wide + "</div><div class=\"narrow\">" + figure.narrow + "</div></figure>\n";
  }
  body_ += "</div>\n";
}

void Page::open_details(std::string_view summary, std::string_view detail, bool open) {
  body_ += cat("<details", open ? " open" : "", "><summary>", escape(summary));
  if (!detail.empty()) body_ += "<span class=\"more\">" + escape(detail) + "</span>";
  body_ += "</summary><div>\n";
}

void Page::close_details() { body_ += "</div></details>\n"; }

std::string Page::html() const {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n";
  out +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n";
  out += "<title>" + escape(title_) + "</title>\n";
  out += cat("<style>", chart_style(), kStyle, "</style>\n</head>\n<body>\n<header>", header_, "</header>\n<main>\n",
             body_);
  if (in_section_) out += "</section>\n";
  out += cat("</main>\n<script>", kSortScript, chart_script(), "</script>\n</body>\n</html>\n");
  return out;
}

}  // namespace lithe::report
