// The index of a tar file.
#include <cstdlib>
#include <cstring>

#include "lithe/base/error.h"
#include "lithe/data/image_files.h"

namespace lithe {
namespace {

constexpr size_t kBlock = 512;

// A field of a head: up to its end or a zero.
std::string_view field(std::string_view head, size_t at, size_t size) {
  const std::string_view all = head.substr(at, size);
  return all.substr(0, all.find('\0'));
}

uint64_t octal(std::string_view head, size_t at, size_t size, const std::string& where) {
  uint64_t value = 0;
  bool any = false;
  for (const char c : field(head, at, size)) {
    if (c == ' ') continue;
    check(c >= '0' && c <= '7', "tar", where, ": a number in a head is not octal; the file is damaged, or no tar");
    value = value * 8 + uint64_t(c - '0');
    any = true;
  }
  check(any, "tar", where, ": a number in a head is missing; the file is damaged, or no tar");
  return value;
}

// The value of `path` in the records "<length> <key>=<value>\n" of a pax head; empty: it has none.
std::string pax_path(std::string_view records) {
  std::string path;
  while (!records.empty()) {
    const size_t space = records.find(' ');
    const std::string length(records.substr(0, space));
    const size_t size = size_t(std::strtoull(length.c_str(), nullptr, 10));
    if (space == std::string_view::npos || size <= space + 1 || size > records.size()) break;
    const std::string_view record = records.substr(space + 1, size - space - 2);
    if (record.starts_with("path=")) path = record.substr(5);
    records.remove_prefix(size);
  }
  return path;
}

}  // namespace

std::vector<TarMember> tar_members(std::string_view bytes, const std::string& name) {
  std::vector<TarMember> out;
  std::string long_name;
  for (size_t at = 0; at + kBlock <= bytes.size();) {
    const std::string_view head = bytes.substr(at, kBlock);
    if (head.find_first_not_of('\0') == std::string_view::npos) return out;
    const std::string where = cat("'", name, "' at byte ", at);
    uint64_t sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(head[i]);
    check(octal(head, 148, 8, where) == sum, "tar", where, ": the checksum of a head is wrong; the file is damaged, ",
          "or no tar");
    const uint64_t size = octal(head, 124, 12, where);
    at += kBlock;
    check(size <= bytes.size() - at, "tar", where, ": a member of ", size, " bytes goes beyond the file's ",
          bytes.size(), "; the file is cut");
    const std::string_view contents = bytes.substr(at, size);
    const char kind = head[156];
    if (kind == 'L') {
      long_name = contents.substr(0, contents.find('\0'));
    } else if (kind == 'x') {
      long_name = pax_path(contents);
    } else {
      std::string member(field(head, 0, 100));
      const std::string_view prefix = field(head, 345, 155);
      if (head.substr(257, 6) == std::string_view("ustar\0", 6) && !prefix.empty()) member = cat(prefix, "/", member);
      if (!long_name.empty()) member = std::move(long_name);
      long_name.clear();
      if (member.starts_with("./")) member.erase(0, 2);
      if (kind == '0' || kind == '\0') out.push_back({std::move(member), at, size});
    }
    at += (size + kBlock - 1) / kBlock * kBlock;
  }
  check(!out.empty(), "tar", "'", name, "' holds no files; give a tar");
  return out;
}

}  // namespace lithe
