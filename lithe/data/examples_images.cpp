// Pictures with classes: IDX (the MNIST family), CIFAR-10, and folders or tars whose folders are the classes.
#include "lithe/base/error.h"
#include "lithe/data/byte_source.h"
#include "lithe/data/examples_readers.h"
#include "lithe/data/image_files.h"

namespace lithe {
namespace {

// Class `number` of a format without names: that label where names are given, else named by its number.
int32_t numbered(int number, LabelNames& labels, const std::string& where) {
  if (labels.learns() || labels.names().empty() || labels.names()[0] == "0") return labels.index(cat(number), where);
  check(size_t(number) < labels.names().size(), "task", where, " is of class ", number, ", but only ",
        labels.names().size(), " labels are given (task.labels); give one a class, from 0");
  return number;
}

// Fills `out` as far as the source goes.
size_t fill(ByteSource& source, std::string& out) {
  size_t have = 0;
  while (have < out.size()) {
    const size_t n = source.read(out.data() + have, out.size() - have);
    if (n == 0) break;
    have += n;
  }
  return have;
}

Example picture(const std::string& reference, int32_t label) {
  Example out{.label = label};
  out.features["image"] = reference;
  return out;
}

}  // namespace

void read_idx(const Path& path, LabelNames& labels, std::vector<Example>& out) {
  std::string name = path.filename().string();
  const size_t at = name.find("-images-idx");
  check_usage(at != std::string::npos, "task", "'", path.string(),
              "': the labels of an IDX file stand beside it, as train-labels-idx1-ubyte beside "
              "train-images-idx3-ubyte; name the file so");
  std::string head(20, '\0');
  head.resize(fill(*open_decompressed(path), head));
  const std::vector<int64_t> sizes = idx_sizes(head, path.string());
  const std::string rest = name.substr(name.find('-', at + 1 + 6) + 5);  // behind "-images-idx3"
  const Path labels_path = path.parent_path() / (name.substr(0, at) + "-labels-idx1" + rest);
  check_usage(std::filesystem::exists(labels_path), "task", "'", path.string(), "' has no labels: '",
              labels_path.string(), "' does not exist");
  const auto source = open_decompressed(labels_path);
  std::string label_head(8, '\0');
  label_head.resize(fill(*source, label_head));
  const std::vector<int64_t> counts = idx_sizes(label_head, labels_path.string());
  check(counts.size() == 1 && counts[0] == sizes[0], "task", "'", path.string(), "' has ", sizes[0], " pictures, '",
        labels_path.string(), "' ", counts[0], counts.size() == 1 ? " labels" : " entries that are no labels");
  // Piece by piece: a damaged head may tell of more labels than memory holds.
  std::string classes, piece;
  do {
    piece.resize(std::min(size_t(1) << 20, size_t(counts[0]) - classes.size()));
    piece.resize(fill(*source, piece));
    classes += piece;
  } while (!piece.empty());
  check(int64_t(classes.size()) == counts[0], "task", "'", labels_path.string(), "' must have ", counts[0],
        " labels by its head, it has ", classes.size());
  for (size_t i = 0; i < classes.size(); ++i)
    out.push_back(picture(cat(path.string(), "#", i), numbered(static_cast<unsigned char>(classes[i]), labels,
                                                               cat(labels_path.string(), ": label ", i))));
}

void read_cifar10(const Path& path, LabelNames& labels, std::vector<Example>& out) {
  const auto source = open_decompressed(path);
  std::string entry(size_t(kCifarBytes), '\0');
  for (int64_t i = 0;; ++i) {
    const size_t have = fill(*source, entry);
    if (have == 0) {
      check(i > 0, "task", "'", path.string(), "' is empty; give a file of CIFAR-10's binary layout");
      return;
    }
    check(have == entry.size(), "task", "'", path.string(), "': entry ", i, " has ", have, " bytes of ", kCifarBytes,
          "; the file is cut, or of another format");
    const std::string where = cat(path.string(), ": entry ", i);
    const int number = static_cast<unsigned char>(entry[0]);
    check(number < 10, "task", where, " is of class ", number,
          ", CIFAR-10 has 0 to 9; the file is damaged, or of "
          "another format");
    out.push_back(picture(cat(path.string(), "#", i), numbered(number, labels, where)));
  }
}

void read_image_folder(const Path& path, LabelNames& labels, std::vector<Example>& out) {
  const auto add = [&](const Path& picture_path, const std::string& reference) {
    const std::string folder = picture_path.parent_path().filename().string();
    check(!folder.empty(), "task", "'", reference, "' stands in no folder, whose name would be its label");
    out.push_back(picture(reference, labels.index(folder, reference)));
  };
  if (path.extension() != ".tar") return add(path, path.string());
  const MappedFile file(path);
  for (const TarMember& member : tar_members(file.view(), path.string()))
    add(member.name, cat(path.string(), "#", member.name));
}

}  // namespace lithe
