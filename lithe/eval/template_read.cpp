// Reads templates: tags, then statements and expressions, in the grammar of Jinja.
#include <charconv>

#include "lithe/base/error.h"
#include "lithe/eval/python_value.h"
#include "lithe/eval/template_nodes.h"

namespace lithe {
namespace {

using E = TemplateExpression;
using N = TemplateNode;

struct TemplateToken {
  enum class Kind { name, number, text, sign, end } kind = Kind::end;
  std::string text;
  Json value;
};
struct TemplatePiece {
  enum class Kind { text, expression, statement } kind = Kind::text;
  std::string text;
  std::vector<TemplateToken> tokens = {};
};

class TagReader {
 public:
  TagReader(std::string text, const std::string& place) : text_(std::move(text)), place_(place) {
    for (size_t at; (at = text_.find("\r\n")) != std::string::npos;) text_.erase(at, 1);
  }

  std::vector<TemplatePiece> read() {
    while (at_ < text_.size()) {
      const size_t open = next_tag();
      add_text(text_.substr(at_, open - at_), open);
      if (open == std::string::npos) break;
      at_ = open + 2;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      switch (text_[open + 1]) {
        case '#': comment(); break;
        case '{': out_.push_back({TemplatePiece::Kind::expression, "", tokens("}}")}); break;
        default:
          out_.push_back({TemplatePiece::Kind::statement, "", tokens("%}")});
          if (out_.back().tokens[0].text == "raw") raw();
      }
    }
    return std::move(out_);
  }

 private:
  std::string text_;
  const std::string& place_;
  size_t at_ = 0;
  bool strip_ = false;  // the last tag ended in -
  std::vector<TemplatePiece> out_;

  [[noreturn]] void refuse(const std::string& why) const { fail_usage("eval", place_, ": ", why); }

  size_t next_tag() const {
    for (size_t at = at_; (at = text_.find('{', at)) != std::string::npos; ++at)
      if (at + 1 < text_.size() && std::string_view("{%#").find(text_[at + 1]) != std::string_view::npos) return at;
    return std::string::npos;
  }
  void add_text(std::string text, size_t tag) {
    if (strip_) text = python_strip(text, true, false);
    if (tag != std::string::npos && tag + 2 < text_.size() && text_[tag + 2] == '-')
      text = python_strip(text, false, true);
    strip_ = false;
    if (!text.empty()) out_.push_back({TemplatePiece::Kind::text, std::move(text)});
  }
  void comment() {
    const size_t end = text_.find("#}", at_);
    if (end == std::string::npos) refuse("a template has {# without #}");
    strip_ = end > at_ && text_[end - 1] == '-';
    at_ = end + 2;
  }
  void raw() {
    out_.pop_back();
    for (size_t at = at_; (at = text_.find("{%", at)) != std::string::npos; at += 2) {
      const size_t close = text_.find("%}", at);
      if (close == std::string::npos) break;
      std::string inside = text_.substr(at + 2, close - at - 2);
      if (!inside.empty() && inside.front() == '-') inside.erase(0, 1);
      const bool strips = !inside.empty() && inside.back() == '-';
      if (strips) inside.pop_back();
      if (python_strip(inside) != "endraw") continue;
      add_text(text_.substr(at_, at - at_), at);
      at_ = close + 2;
      strip_ = strips;
      return;
    }
    refuse("a template has {% raw %} without {% endraw %}");
  }

  // Up to `end`, which is not counted within brackets.
  std::vector<TemplateToken> tokens(std::string_view end) {
    std::vector<TemplateToken> out;
    int depth = 0;
    while (true) {
      while (at_ < text_.size() && std::isspace(uint8_t(text_[at_]))) ++at_;
      if (at_ >= text_.size()) refuse(cat("a template has a tag without ", end));
      const std::string_view rest = std::string_view(text_).substr(at_);
      if (!depth && (rest.starts_with(end) || (rest[0] == '-' && rest.substr(1).starts_with(end)))) {
        strip_ = rest[0] == '-';
        at_ += end.size() + strip_;
        out.push_back({});
        return out;
      }
      out.push_back(token(rest));
      const std::string& sign = out.back().text;
      if (out.back().kind != TemplateToken::Kind::sign) continue;
      depth += sign == "(" || sign == "[" || sign == "{";
      depth -= sign == ")" || sign == "]" || sign == "}";
    }
  }
  TemplateToken token(std::string_view rest) {
    const char c = rest[0];
    if (std::isalpha(uint8_t(c)) || c == '_' || uint8_t(c) >= 0x80) {
      size_t n = 0;
      while (n < rest.size() && (std::isalnum(uint8_t(rest[n])) || rest[n] == '_' || uint8_t(rest[n]) >= 0x80)) ++n;
      at_ += n;
      return {TemplateToken::Kind::name, std::string(rest.substr(0, n)), {}};
    }
    if (c == '\'' || c == '"') return text_token(rest);
    if (std::isdigit(uint8_t(c))) return number_token(rest);
    for (const std::string_view sign : {"**", "//", "==", "!=", "<=", ">="})
      if (rest.starts_with(sign)) return at_ += 2, TemplateToken{TemplateToken::Kind::sign, std::string(sign), {}};
    if (std::string_view("+-*/%~<>=()[]{}.,:|").find(c) == std::string_view::npos)
      refuse(cat("a template has '", std::string(1, c), "' in a tag, which is no part of an expression"));
    ++at_;
    return {TemplateToken::Kind::sign, std::string(1, c), {}};
  }
  TemplateToken text_token(std::string_view rest) {
    size_t n = 1;
    while (n < rest.size() && rest[n] != rest[0]) n += rest[n] == '\\' ? 2 : 1;
    if (n >= rest.size()) refuse("a text in a template does not end");
    std::string quoted(rest.substr(0, n + 1));
    at_ += n + 1;
    for (size_t at = 0; (at = quoted.find('\n', at)) != std::string::npos; at += 2) quoted.replace(at, 1, "\\n");
    const std::optional<Json> value = python_literal(quoted);
    if (!value) refuse(cat("a template has the text ", quoted, ", which cannot be read"));
    return {TemplateToken::Kind::text, "", *value};
  }
  TemplateToken number_token(std::string_view rest) {
    size_t n = 0;
    const auto digit = [&](size_t at) { return at < rest.size() && std::isdigit(uint8_t(rest[at])); };
    const auto digits = [&](size_t skipped) {
      for (n += skipped; digit(n);) ++n;
      return true;
    };
    digits(0);
    bool real = n < rest.size() && rest[n] == '.' && digit(n + 1) && digits(1);
    if (n < rest.size() && (rest[n] == 'e' || rest[n] == 'E')) {
      const size_t sign = n + 1 < rest.size() && (rest[n + 1] == '-' || rest[n + 1] == '+');
      real = (digit(n + 1 + sign) && digits(1 + sign)) || real;
    }
    const std::string text(rest.substr(0, n));
    constexpr size_t kLongest = 18;
    if (!real && n > kLongest) refuse(cat("a template has the number ", text, ", which is too large"));
    at_ += n;
    return {TemplateToken::Kind::number, text, real ? Json(std::stod(text)) : Json(int64_t(std::stoll(text)))};
  }
};

// ---- expressions

class ExpressionReader {
 public:
  ExpressionReader(const std::vector<TemplateToken>& tokens, const std::string& place)
      : tokens_(tokens), place_(place) {}

  Expression whole() {
    const Expression out = list_or_one();
    end();
    return out;
  }
  /// a, b: a list
  Expression list_or_one() {
    const Expression first = conditional();
    if (!is(",")) return first;
    E list{E::Kind::list, "", {}, {first}, {}};
    while (accept(",") && !at_end()) list.items.push_back(conditional());
    return made(std::move(list));
  }
  Expression conditional(bool allow_if = true) {
    Expression value = either();
    while (allow_if && accept("if")) {
      const Expression condition = either();
      const Expression other = accept("else") ? conditional() : nullptr;
      value = made({E::Kind::conditional, "", {}, {condition, value, other}, {}});
    }
    return value;
  }
  std::string name() {
    if (now().kind != TemplateToken::Kind::name) refuse("a name");
    return tokens_[at_++].text;
  }
  bool accept(std::string_view word) {
    if (!is(word)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) refuse(cat("'", word, "'"));
  }
  bool is(std::string_view word) const {
    return (now().kind == TemplateToken::Kind::name || now().kind == TemplateToken::Kind::sign) && now().text == word;
  }
  bool at_end() const { return now().kind == TemplateToken::Kind::end; }
  void end() const {
    if (!at_end()) refuse("its end");
  }
  Expression either() {
    return chain({"or"}, [&] { return both(); });
  }
  [[noreturn]] void refuse(const std::string& wanted) const {
    const TemplateToken& t = now();
    fail_usage("eval", place_, ": a tag of a template has ",
               t.kind == TemplateToken::Kind::end    ? "its end"
               : t.kind == TemplateToken::Kind::text ? python_repr(t.value)
                                                     : "'" + t.text + "'",
               " where ", wanted, " must stand");
  }

 private:
  const std::vector<TemplateToken>& tokens_;
  const std::string& place_;
  size_t at_ = 0;
  int depth_ = 0;

  const TemplateToken& now() const { return tokens_[at_]; }
  static Expression made(E e) { return std::make_shared<const E>(std::move(e)); }

  template <class F>
  Expression chain(std::initializer_list<std::string_view> signs, F&& operand) {
    Expression left = operand();
    for (bool more = true; more;) {
      more = false;
      for (const std::string_view sign : signs)
        if (accept(sign)) {
          check_usage(sign != "%" || left->kind != E::Kind::constant || !left->value.is_string(), "eval", place_,
                      ": a text % values is not supported in templates; join texts by ~");
          left = made({E::Kind::binary, std::string(sign), {}, {left, operand()}, {}});
          more = true;
          break;
        }
    }
    return left;
  }
  Expression both() {
    return chain({"and"}, [&] { return negated(); });
  }
  Expression negated() {
    if (accept("not")) return made({E::Kind::unary, "not", {}, {negated()}, {}});
    return compared();
  }
  // a < b < c is a < b and b < c.
  Expression compared() {
    Expression left = sum(), out;
    while (true) {
      std::string sign;
      for (const std::string_view one : {"==", "!=", "<=", ">=", "<", ">", "in"})
        if (sign.empty() && accept(one)) sign = one;
      if (sign.empty() && is("not") && tokens_[at_ + 1].text == "in") at_ += 2, sign = "not in";
      if (sign.empty()) return out ? out : left;
      const Expression right = sum();
      const Expression one = made({E::Kind::binary, sign, {}, {left, right}, {}});
      out = out ? made({E::Kind::binary, "and", {}, {out, one}, {}}) : one;
      left = right;
    }
  }
  Expression sum() {
    return chain({"+", "-"}, [&] { return joined(); });
  }
  Expression joined() {
    return chain({"~"}, [&] { return product(); });
  }
  Expression product() {
    return chain({"*", "//", "/", "%"}, [&] { return power(); });
  }
  Expression power() {
    return chain({"**"}, [&] { return unary(true); });
  }
  Expression unary(bool filtered) {
    constexpr int kMost = 200;
    if (++depth_ > kMost) refuse("no deeper nesting");
    Expression out;
    if (accept("-"))
      out = made({E::Kind::unary, "-", {}, {unary(false)}, {}});
    else if (accept("+"))
      out = made({E::Kind::unary, "+", {}, {unary(false)}, {}});
    else
      out = postfix(primary());
    --depth_;
    return filtered ? filters(out) : out;
  }
  Expression primary() {
    const TemplateToken& t = now();
    if (t.kind == TemplateToken::Kind::text) {
      std::string all;
      while (now().kind == TemplateToken::Kind::text) all += tokens_[at_++].value.get<std::string>();
      return made({E::Kind::constant, "", all, {}, {}});
    }
    if (t.kind == TemplateToken::Kind::number) return ++at_, made({E::Kind::constant, "", t.value, {}, {}});
    if (t.kind == TemplateToken::Kind::name) {
      ++at_;
      if (t.text == "true" || t.text == "True") return made({E::Kind::constant, "", true, {}, {}});
      if (t.text == "false" || t.text == "False") return made({E::Kind::constant, "", false, {}, {}});
      if (t.text == "none" || t.text == "None") return made({E::Kind::constant, "", nullptr, {}, {}});
      return made({E::Kind::name, t.text, {}, {}, {}});
    }
    if (accept("(")) {
      if (accept(")")) return made({E::Kind::list, "", {}, {}, {}});
      const Expression out = list_until(")");
      return out;
    }
    if (accept("[")) {
      E list{E::Kind::list, "", {}, {}, {}};
      while (!accept("]")) {
        list.items.push_back(conditional());
        if (!accept(",") && !is("]")) refuse("',' or ']'");
      }
      return made(std::move(list));
    }
    if (accept("{")) {
      E map{E::Kind::dictionary, "", {}, {}, {}};
      while (!accept("}")) {
        map.items.push_back(conditional());
        expect(":");
        map.items.push_back(conditional());
        if (!accept(",") && !is("}")) refuse("',' or '}'");
      }
      return made(std::move(map));
    }
    refuse("a value");
  }
  Expression list_until(std::string_view close) {
    const Expression first = conditional();
    if (accept(close)) return first;
    E list{E::Kind::list, "", {}, {first}, {}};
    while (!accept(close)) {
      expect(",");
      if (!is(close)) list.items.push_back(conditional());
    }
    return made(std::move(list));
  }
  Expression postfix(Expression of) {
    while (true) {
      if (accept(".")) {
        if (now().kind == TemplateToken::Kind::number) {
          of = made({E::Kind::item, "", {}, {of, made({E::Kind::constant, "", now().value, {}, {}})}, {}});
          ++at_;
        } else {
          of = made({E::Kind::attribute, name(), {}, {of}, {}});
        }
      } else if (accept("[")) {
        of = subscript(of);
      } else if (is("(")) {
        E call{E::Kind::call, "", {}, {of}, {}};
        arguments(call);
        of = made(std::move(call));
      } else {
        return of;
      }
    }
  }
  Expression subscript(const Expression& of) {
    const auto part = [&]() -> Expression { return is(":") || is("]") ? nullptr : conditional(); };
    const Expression first = part();
    if (accept("]")) return first ? made({E::Kind::item, "", {}, {of, first}, {}}) : (refuse("an index"), nullptr);
    expect(":");
    const Expression last = part(), step = accept(":") ? part() : nullptr;
    expect("]");
    return made({E::Kind::slice, "", {}, {of, first, last, step}, {}});
  }
  void arguments(E& to) {
    expect("(");
    while (!accept(")")) {
      if (now().kind == TemplateToken::Kind::name && tokens_[at_ + 1].text == "=" &&
          tokens_[at_ + 1].kind == TemplateToken::Kind::sign) {
        const std::string key = name();
        ++at_;
        to.names.push_back({key, conditional()});
      } else {
        to.items.push_back(conditional());
      }
      if (!accept(",") && !is(")")) refuse("',' or ')'");
    }
  }
  Expression filters(Expression of) {
    while (true) {
      if (accept("|")) {
        E filter{E::Kind::filter, name(), {}, {of}, {}};
        if (!is_template_filter(filter.text))
          fail_usage("eval", place_, ": the filter '", filter.text, "' of a template is not supported");
        if (is("(")) arguments(filter);
        of = made(std::move(filter));
      } else if (accept("is")) {
        const bool negative = accept("not");
        E test{E::Kind::test, name(), {}, {of}, {}};
        if (!is_template_test(test.text))
          fail_usage("eval", place_, ": the test '", test.text, "' of a template is not supported");
        if (is("("))
          arguments(test);
        else if (!at_end() && (now().kind == TemplateToken::Kind::text || now().kind == TemplateToken::Kind::number))
          test.items.push_back(postfix(primary()));
        of = made(std::move(test));
        if (negative) of = made({E::Kind::unary, "not", {}, {of}, {}});
      } else if (is("(")) {
        E call{E::Kind::call, "", {}, {of}, {}};
        arguments(call);
        of = made(std::move(call));
      } else {
        return of;
      }
    }
  }
};

// ---- statements

class StatementReader {
 public:
  StatementReader(std::vector<TemplatePiece> pieces, const std::string& place)
      : pieces_(std::move(pieces)), place_(place) {}

  Statement whole() {
    const Statement out = block({});
    return out;
  }

 private:
  std::vector<TemplatePiece> pieces_;
  const std::string& place_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string ended_;  // the word that ended the last block, whose tag is next

  // Up to a tag that begins with one of `ends`, or to the end where there are none.
  Statement block(const std::vector<std::string>& ends) {
    constexpr int kMost = 64;
    check_usage(++depth_ <= kMost, "eval", place_, ": a template nests more than ", kMost, " statements");
    N out{N::Kind::block, "", {}, {}, {}};
    for (; at_ < pieces_.size(); ++at_) {
      const TemplatePiece& piece = pieces_[at_];
      if (piece.kind == TemplatePiece::Kind::text) {
        out.bodies.push_back(std::make_shared<const N>(N{N::Kind::text, piece.text, {}, {}, {}}));
      } else if (piece.kind == TemplatePiece::Kind::expression) {
        const Expression value = ExpressionReader(piece.tokens, place_).whole();
        out.bodies.push_back(std::make_shared<const N>(N{N::Kind::output, "", {}, {value}, {}}));
      } else {
        const std::string& word = piece.tokens[0].text;
        for (const std::string& end : ends)
          if (word == end) return --depth_, ended_ = word, std::make_shared<const N>(std::move(out));
        out.bodies.push_back(statement(word, ExpressionReader(piece.tokens, place_)));
      }
    }
    check_usage(ends.empty(), "eval", place_, ": a template lacks {% ", ends.empty() ? "" : ends.back(), " %}");
    --depth_;
    return std::make_shared<const N>(std::move(out));
  }
  // The tag that block() ended at.
  ExpressionReader tag() {
    ExpressionReader out(pieces_[at_].tokens, place_);
    out.name();
    return out;
  }
  Statement statement(const std::string& word, ExpressionReader read) {
    if (word == "if" || word == "for" || word == "set") read.name();
    if (word == "if") return branch(read);
    if (word == "for") return loop(read);
    if (word == "set") return assignment(read);
    fail_usage("eval", place_, ": {% ", word, " %} of a template is not supported; if, for, set and raw are");
  }
  Statement branch(ExpressionReader& read) {
    N out{N::Kind::branch, "", {}, {}, {}};
    out.expressions.push_back(read.whole());
    while (true) {
      ++at_;
      out.bodies.push_back(block({"elif", "else", "endif"}));
      ExpressionReader next = tag();
      if (ended_ == "elif") {
        out.expressions.push_back(next.whole());
        continue;
      }
      next.end();
      if (ended_ == "endif") break;
      ++at_;
      out.bodies.push_back(block({"endif"}));
      break;
    }
    if (out.bodies.size() == out.expressions.size()) out.bodies.push_back(nullptr);
    return std::make_shared<const N>(std::move(out));
  }
  static std::vector<std::string> targets(ExpressionReader& read) {
    const bool bracket = read.accept("(");
    std::vector<std::string> out{read.name()};
    while (read.accept(",")) out.push_back(read.name());
    if (bracket) read.expect(")");
    return out;
  }
  Statement loop(ExpressionReader& read) {
    N out{N::Kind::loop, "", targets(read), {}, {}};
    read.expect("in");
    out.expressions.push_back(read.conditional(false));
    out.expressions.push_back(read.accept("if") ? read.conditional() : nullptr);
    read.end();
    ++at_;
    out.bodies.push_back(block({"else", "endfor"}));
    out.bodies.push_back(nullptr);
    if (ended_ == "else") {
      ++at_;
      out.bodies.back() = block({"endfor"});
    }
    return std::make_shared<const N>(std::move(out));
  }
  Statement assignment(ExpressionReader& read) {
    N out{N::Kind::set, "", targets(read), {}, {}};
    if (read.accept(".")) out.text = read.name();
    if (read.accept("=")) {
      out.expressions.push_back(read.whole());
      return std::make_shared<const N>(std::move(out));
    }
    read.end();
    ++at_;
    out.bodies.push_back(block({"endset"}));
    return std::make_shared<const N>(std::move(out));
  }
};

}  // namespace

Statement read_template(const std::string& text, const std::string& place) {
  return StatementReader(TagReader(text, place).read(), place).whole();
}

}  // namespace lithe
