// Files of a divided model, which hold it whole.
#include <algorithm>

#include "lithe/base/json.h"
#include "lithe/model/division.h"
#include "lithe/parallel/gather.h"
#include "lithe/parallel/operations.h"

namespace lithe {
namespace {

constexpr int kRequests = 20102, kNumbers = 20103;
constexpr int64_t kDone = -1, kFailed = -2;

void say(const Group& ranks, int64_t what, int to) {
  send_tensor(tensor_of({2}, std::vector<int32_t>{int32_t(what), 0}), ranks, to, kRequests);
}

Json json_of(const Axes& axes) {
  Json out = Json::array();
  for (const Axis& axis : axes) {
    Json factors = Json::array();
    for (const Axis::Factor& f : axis.factors()) factors.push_back({int(f.of), f.count});
    out.push_back(factors);
  }
  return out;
}

Axes axes_of(const Json& json) {
  Axes out;
  for (const Json& factors : json) {
    Axis axis;
    for (const Json& f : factors) axis = axis * Axis(Dimension(f.at(0).get<int>()), f.at(1).get<int64_t>());
    out.push_back(axis);
  }
  return out;
}

// What a rank gives of a tensor.
struct Given {
  int rank = 0;
  int64_t number = 0;  // among those that it gives
  Shape shape;
  std::optional<Slice> slice;  // where it belongs; none: it is the whole tensor
};

struct Whole {
  Shape shape;
  DType dtype = DType::f32;
  std::vector<Given> given;
};

}  // namespace

void Division::gather(const std::map<std::string, PendingTensor>& mine, const std::vector<std::string>& prefixes,
                      const std::function<void(const std::map<std::string, PendingTensor>& whole)>& write) const {
  const Group& ranks = layout_.model();
  std::vector<const PendingTensor*> gives;
  Json list = Json::array();
  for (const auto& [name, tensor] : mine) {
    std::string parameter = name;
    for (const std::string& prefix : prefixes)
      if (name.starts_with(prefix)) parameter = name.substr(prefix.size());
    if (!counts(parameter)) continue;
    const Share& share = share_of(parameter);
    std::vector<int64_t> sizes;
    for (int a = 0; a < tensor.shape.rank(); ++a) sizes.push_back(tensor.shape[a]);
    Json entry = {{"name", name}, {"sizes", sizes}, {"type", int(tensor.dtype)}, {"rank", layout_.tensor().rank}};
    if (share.slice) entry["whole"] = json_of(share.whole), entry["mine"] = json_of(share.mine);
    list.push_back(entry);
    gives.push_back(&tensor);
  }
  const std::vector<std::string> lists = gather_bytes(*ranks.with, dump(list));
  if (!ranks.first()) {
    const Tensor request = tensor_of({2}, std::vector<int32_t>{0, 0});
    for (;;) {
      receive_tensor(request, ranks, 0, kRequests);
      const int64_t number = request.data<int32_t>()[0];
      if (number == kDone) return;
      check(number != kFailed, "save", "the first rank could not write the file");
      send_tensor(gives[size_t(number)]->read(), ranks, 0, kNumbers);
    }
  }
  std::map<std::string, Whole> whole;
  for (int rank = 0; rank < ranks.size; ++rank) {
    const Json all = parse_json(lists[size_t(rank)], "list of a rank");
    for (size_t i = 0; i < all.size(); ++i) {
      const Json& entry = all[i];
      const auto sizes = entry.at("sizes").get<std::vector<int64_t>>();
      Given given{rank, int64_t(i), Shape(std::span<const int64_t>(sizes)), {}};
      Whole& of = whole[entry.at("name").get<std::string>()];
      of.dtype = DType(entry.at("type").get<int>());
      of.shape = given.shape;
      if (entry.contains("whole")) {
        const Axes axes = axes_of(entry["whole"]);
        given.slice = slice_of_rank(axes, axes_of(entry["mine"]), entry.at("rank").get<int>());
        of.shape = shape_of(axes);
      }
      of.given.push_back(std::move(given));
    }
  }
  std::map<std::string, PendingTensor> tensors;
  for (const auto& entry : whole) {
    const Whole& of = entry.second;
    tensors[entry.first] = {of.shape, of.dtype, [&of, &gives, &ranks] {
                              const MemoryScope scratch(MemoryClass::workspace);
                              const auto part = [&](const Given& given) {
                                if (given.rank == 0) return gives[size_t(given.number)]->read();
                                say(ranks, given.number, given.rank);
                                const Tensor numbers = empty(given.shape, of.dtype);
                                receive_tensor(numbers, ranks, given.rank, kNumbers);
                                return numbers;
                              };
                              if (!of.given[0].slice) return part(of.given[0]);
                              const Tensor out = empty(of.shape, of.dtype);
                              for (const Given& given : of.given) given.slice->put(out, part(given));
                              return out;
                            }};
  }
  try {
    write(tensors);
  } catch (...) {
    for (int rank = 1; rank < ranks.size; ++rank) say(ranks, kFailed, rank);
    throw;
  }
  for (int rank = 1; rank < ranks.size; ++rank) say(ranks, kDone, rank);
}

}  // namespace lithe
