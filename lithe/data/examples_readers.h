// The readers of labelled examples, one a format; examples.h says what each format is. All take the whole text of a
// file, valid UTF-8 without a byte order mark, and its name for errors.
#pragma once

#include <optional>

#include "lithe/data/examples.h"

namespace lithe {

void parse_tsv(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
               std::vector<Example>& out);
void parse_csv(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
               std::vector<Example>& out);
void parse_label_text(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                      std::vector<Example>& out);
void parse_json_lines(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                      std::vector<Example>& out);
void parse_conllu(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                  std::vector<Example>& out);
void parse_brackets(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                    std::vector<Example>& out);
void parse_squad(std::string_view text, const std::string& name, std::vector<Example>& out);

/// Pictures as examples of classes; of Example::features["image"].
void read_idx(const Path& path, LabelNames& labels, std::vector<Example>& out);
void read_cifar10(const Path& path, LabelNames& labels, std::vector<Example>& out);
void read_image_folder(const Path& path, LabelNames& labels, std::vector<Example>& out);

/// Puts the label or the number of a cell into an example; `where` is its place for errors, `hint` follows them.
void set_target(Example& example, const std::string& cell, const ExampleLayout& layout, LabelNames& labels,
                const std::string& where, const char* hint);
/// transcription: each character of `text` is a label.
void set_characters(Example& example, std::string_view text, LabelNames& labels, const std::string& where);
/// Takes the next line, without its end (LF or CRLF), off `text`, which may not be empty.
std::string_view take_line(std::string_view& text);
/// The parts of a line between `separator`s.
void split(std::string_view line, char separator, std::vector<std::string>& parts);
/// A finite number, spaces around it allowed.
std::optional<double> finite_number(std::string_view text);
/// At most 60 bytes of a text for an error, cut between characters.
std::string shortened(std::string_view text);

}  // namespace lithe
