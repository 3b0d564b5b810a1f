// A self-contained HTML page: one file, no requests, light and dark, readable on paper and on a telephone.
// Everything given to it is text and is escaped; only charts are markup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lithe/report/chart.h"
#include "lithe/report/format.h"

namespace lithe::report {

enum class Tone { plain, good, caution, bad };

/// A headline number.
struct Tile {
  std::string label, value, detail;  // detail may be empty
  Tone tone = Tone::plain;
};

struct Column {
  std::string name;
  bool numeric = false;  // right-aligned, sorted by value, largest first
};

struct Cell {
  Cell(std::string text) : text(std::move(text)) {}
  Cell(const char* text) : text(text) {}
  /// A number in its unit, sorted by its value; not finite sorts last.
  Cell(double value, Quantity quantity, int digits = 3) : text(format(value, quantity, digits)), key(value) {}
  static Cell integer(int64_t value);
  /// A percentage with a bar behind it; `part` from 0 to 1.
  static Cell share(double part);

  std::string text;
  std::optional<double> key;  // what sorting compares instead of the text
  std::optional<double> bar;  // length of a bar behind the number, 0 to 1
};

struct Table {
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::vector<Cell> total;  // a last row that sorting leaves in place; may be empty
};

/// Builds a page from top to bottom. Charts are drawn in two widths, and the page shows the one that suits the screen.
class Page {
 public:
  /// `kicker` stands small above the title, `subtitle` below; both may be empty.
  explicit Page(std::string title, std::string subtitle = "", std::string kicker = "");

  void tiles(const std::vector<Tile>& tiles);
  void section(std::string_view title);
  void paragraph(std::string_view text);
  /// A highlighted box; with several lines a list.
  void notice(Tone tone, std::string_view title, const std::vector<std::string>& lines = {});
  void table(const Table& table);
  void preformatted(std::string_view text, std::string_view label);
  /// A dialogue of `prompt` and what the model wrote after it.
  void sample(std::string_view prompt, std::string_view continuation);

  template <class Chart>
  void chart(const Chart& chart) {
    figures({figure(chart, kWide)});
  }
  /// Charts beside each other where there is room.
  template <class... Charts>
  void charts(const Charts&... charts) {
    figures({figure(charts, kHalf)...});
  }

  /// What `body` adds to the page stands behind a summary line that opens it.
  template <class Body>
  void collapsible(std::string_view summary, Body&& body, bool open = false, std::string_view detail = "") {
    open_details(summary, detail, open);
    body();
    close_details();
  }

  std::string html() const;

  struct Figure {
    std::string title, detail, wide, narrow;
  };
  /// For charts whose number is not known in the source.
  template <class Chart>
  static Figure half_figure(const Chart& chart) {
    return figure(chart, kHalf);
  }
  void figures(const std::vector<Figure>& figures);

 private:
  static constexpr int kWide = 1040, kHalf = 510, kNarrow = 370;
  template <class Chart>
  static Figure figure(const Chart& chart, int width) {
    return {chart.title, chart.detail, svg(chart, width), svg(chart, kNarrow)};
  }
  void open_details(std::string_view summary, std::string_view detail, bool open);
  void close_details();

  std::string title_, header_, body_;
  bool in_section_ = false;
};

}  // namespace lithe::report
