#include "lithe/data/documents.h"

#include <vector>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/data/utf8_filter.h"

namespace lithe {
namespace {

using DocumentFn = std::function<void(std::string_view)>;

std::string_view without_return(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

class WholeFile final : public DocumentSplitter {
 public:
  explicit WholeFile(DocumentFn f) : f_(std::move(f)) {}
  void feed(std::string_view text) override { text_ += text; }
  void finish() override {
    f_(text_);
    text_.clear();
  }

 private:
  DocumentFn f_;
  std::string text_;
};

// Calls line() with each line without its line end.
class LineSplitter : public DocumentSplitter {
 public:
  void feed(std::string_view text) override {
    size_t end;
    while ((end = text.find('\n')) != std::string_view::npos) {
      if (begun_.empty()) {
        line(text.substr(0, end));
      } else {
        begun_ += text.substr(0, end);
        line(begun_);
        begun_.clear();
      }
      text.remove_prefix(end + 1);
    }
    begun_ += text;
  }
  void finish() override {
    if (!begun_.empty()) line(begun_);
    begun_.clear();
  }

 protected:
  virtual void line(std::string_view text) = 0;

 private:
  std::string begun_;
};

class Lines final : public LineSplitter {
 public:
  explicit Lines(DocumentFn f) : f_(std::move(f)) {}

 protected:
  void line(std::string_view text) override { f_(without_return(text)); }

 private:
  DocumentFn f_;
};

class Paragraphs final : public LineSplitter {
 public:
  explicit Paragraphs(DocumentFn f) : f_(std::move(f)) {}
  void finish() override {
    LineSplitter::finish();
    deliver();
  }

 protected:
  void line(std::string_view text) override {
    if (is_blank(text)) {
      deliver();
    } else {
      paragraph_ += text;
      paragraph_ += '\n';
    }
  }

 private:
  DocumentFn f_;
  std::string paragraph_;

  void deliver() {
    if (paragraph_.empty()) return;
    std::string_view text = paragraph_;
    text.remove_suffix(1);
    f_(without_return(text));
    paragraph_.clear();
  }
};

// Picks one string out of an object without building a tree: a record may have any number of other fields.
class FieldReader final : public nlohmann::json_sax<Json> {
 public:
  explicit FieldReader(const std::string& field) : field_(field) {}

  bool found = false, wrong_type = false;
  std::string text, problem;
  std::vector<std::string> keys;  // the first few of the object, for the error

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    if (depth_ == 0) return other();
    if (depth_ == 1 && here_) {
      text = std::move(value);
      found = true;
      wrong_type = false;
    }
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ > 0 && !other()) return false;
    return enter();
  }
  bool start_array(std::size_t) override { return other() && enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      here_ = name == field_;
      if (keys.size() < 8) keys.push_back(name);
    }
    return true;
  }
  bool parse_error(std::size_t column, const std::string&, const nlohmann::detail::exception&) override {
    problem = cat("is not JSON at column ", column);
    return false;
  }

 private:
  const std::string& field_;
  int depth_ = 0;
  bool here_ = false;  // the value that comes belongs to the field

  bool enter() {
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  // Any value but a string.
  bool other() {
    if (depth_ == 0) {
      problem = "is not a JSON object";
      return false;
    }
    if (depth_ == 1 && here_) {
      found = false;
      wrong_type = true;
    }
    return true;
  }
};

class JsonLines final : public LineSplitter {
 public:
  JsonLines(std::string file, std::string field, DocumentFn f)
      : file_(std::move(file)), field_(std::move(field)), f_(std::move(f)) {}

 protected:
  void line(std::string_view text) override {
    ++number_;
    if (is_blank(text)) return;
    FieldReader reader(field_);
    const bool parsed = Json::sax_parse(text.begin(), text.end(), &reader);
    check_usage(parsed, "corpus", file_, ":", number_, ": the line ", reader.problem,
                "; a .jsonl file has one object a line");
    check_usage(!reader.wrong_type, "corpus", file_, ":", number_, ": the field '", field_, "' is not a string");
    if (!reader.found) {
      std::string keys;
      for (const auto& key : reader.keys) keys += (keys.empty() ? "'" : ", '") + key + "'";
      fail_usage("corpus", file_, ":", number_, ": the record has no field '", field_, "'; ",
                 keys.empty() ? "it is empty" : "it has " + keys + "; set data.text_field");
    }
    unify_line_ends(reader.text);
    f_(reader.text);
  }

 private:
  std::string file_, field_;
  DocumentFn f_;
  int64_t number_ = 0;
};

}  // namespace

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos; }

std::unique_ptr<DocumentSplitter> make_text_splitter(const std::string& rule, DocumentFn f) {
  if (rule == "line") return std::make_unique<Lines>(std::move(f));
  if (rule == "paragraph") return std::make_unique<Paragraphs>(std::move(f));
  check_usage(rule == "file", "corpus", "documents must be file, paragraph or line, got '", rule, "'");
  return std::make_unique<WholeFile>(std::move(f));
}

std::unique_ptr<DocumentSplitter> make_jsonl_splitter(std::string file, std::string field, DocumentFn f) {
  return std::make_unique<JsonLines>(std::move(file), std::move(field), std::move(f));
}

}  // namespace lithe
