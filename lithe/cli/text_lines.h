// Lines of text that a subcommand works on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// The lines of a text, without their ends (LF or CRLF).
std::vector<std::string> lines_of(std::string_view text);

/// The name of a file to read: for `-` standard input, read to its end into one that lasts as long as the process,
/// because readers may read a file twice. Fails (usage) for a second `-`.
std::string readable(const std::string& file);
std::vector<std::string> readable(std::vector<std::string> files);

/// Reads some bytes of a file descriptor: how many, 0 at its end, below 0 where it cannot be read (errno). None:
/// nothing came within `patience` milliseconds or before a signal, which read() alone would sleep through.
std::optional<int64_t> read_some(int fd, std::span<char> to, int patience = 100);

/// The lines of all files (also .gz and .zst), or of standard input when there is no file or for `-`; line ends are not
/// part of them. Fails on what is no UTF-8 text.
std::vector<std::string> text_lines(const std::vector<std::string>& files);

}  // namespace lithe
