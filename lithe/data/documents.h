// Cutting a stream of text into documents.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lithe {

/// True for a text of ASCII white space alone.
bool is_blank(std::string_view text);

class DocumentSplitter {
 public:
  virtual ~DocumentSplitter() = default;
  virtual void feed(std::string_view text) = 0;
  virtual void finish() = 0;
};

/// `rule`: file (one document with all its bytes), paragraph (lines between blank lines), or line. Line ends at the
/// edges of paragraphs and lines are not part of them. Documents may be blank.
std::unique_ptr<DocumentSplitter> make_text_splitter(const std::string& rule, std::function<void(std::string_view)> f);

/// One JSON object a line; the document is the string under `field`. Blank lines are passed over. Errors name
/// `file`, the line, and what is wrong.
std::unique_ptr<DocumentSplitter> make_jsonl_splitter(std::string file, std::string field,
                                                      std::function<void(std::string_view)> f);

}  // namespace lithe
