// Which operators a piece of code runs: what an accelerator would launch, and what it would have to be waited for.
#pragma once

#include <ATen/record_function.h>

#include <map>
#include <set>
#include <string>

namespace shade::test {

// Counts operators of this thread, without those that others consist of and those that only look at memory otherwise.
class Operators {
 public:
  Operators() {
    current() = this;
    depth() = 0;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::FUNCTION}));
  }
  ~Operators() {
    at::removeCallback(handle_);
    current() = nullptr;
  }
  Operators(const Operators&) = delete;
  Operators& operator=(const Operators&) = delete;

  int64_t launched() const {
    int64_t sum = 0;
    for (const auto& [name, count] : counts_) sum += count;
    return sum;
  }
  const std::map<std::string, int64_t>& by_name() const { return counts_; }
  const std::set<std::string>& waits() const { return waits_; }  // operators whose result the host needs

 private:
  static Operators*& current() {
    static thread_local Operators* instance = nullptr;
    return instance;
  }
  static int& depth() {
    static thread_local int value = 0;
    return value;
  }
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    static const std::set<std::string> kWaits{"aten::_local_scalar_dense", "aten::nonzero", "aten::_unique2",
                                              "aten::is_nonzero",          "aten::equal",   "aten::masked_select"};
    static const std::set<std::string> kFree{
        "aten::view",          "aten::_unsafe_view", "aten::reshape",   "aten::narrow",       "aten::slice",
        "aten::select",        "aten::unsqueeze",    "aten::squeeze",   "aten::transpose",    "aten::t",
        "aten::expand",        "aten::flatten",      "aten::detach",    "aten::alias",        "aten::as_strided",
        "aten::unflatten",     "aten::permute",      "aten::empty",     "aten::empty_like",   "aten::view_as",
        "aten::empty_strided", "aten::new_empty",    "aten::expand_as", "aten::is_same_size", "aten::resize_"};
    auto& self = *current();
    const std::string name = function.name();
    if (kWaits.contains(name)) self.waits_.insert(name);
    if (depth()++ == 0 && !kFree.contains(name)) ++self.counts_[name];
    return nullptr;
  }
  static void end(const at::RecordFunction&, at::ObserverContext*) { --depth(); }

  at::CallbackHandle handle_ = 0;
  std::map<std::string, int64_t> counts_;
  std::set<std::string> waits_;
};

}  // namespace shade::test
