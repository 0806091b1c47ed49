// The clipping methods: a row for each with its words and its colour. What a method does is a row of
// privacy/clip/method.cpp. Lists of methods (options, reports, verify, tests) come from here.
#pragma once

#include <array>
#include <string>

#include "shade/catalog/row.h"

namespace shade::catalog {

// In the order in which reports show them.
enum class MethodName { none, materialize, ghost, flash, bookkeeping, flash_bookkeeping, streaming, automatic };

struct MethodInfo {
  MethodName value;
  std::string_view name, colour;
  // Further words for it, each also an option's value. Empty: the name serves.
  std::string_view mode = {};        // `mode` in result files and their names, if it was called by its name
  std::string_view experiment = {};  // `experiment` there: the word of the documents
  std::string_view fsdp = {};        // as a value of --dp it implies zero3

  constexpr std::array<std::string_view, 3> aliases() const { return {mode, experiment, fsdp}; }
  constexpr std::string_view mode_word() const { return mode.empty() ? name : mode; }
  constexpr std::string_view experiment_word() const { return experiment.empty() ? name : experiment; }
};

inline constexpr MethodInfo kMethods[] = {
    {.value = MethodName::none, .name = "none", .colour = "#7d8799", .mode = "no_dp", .experiment = "vanilla"},
    {.value = MethodName::materialize, .name = "materialize", .colour = "#d55e00"},
    {.value = MethodName::ghost, .name = "ghost", .colour = "#1f77c9", .fsdp = "ghost_fsdp"},
    {.value = MethodName::flash,
     .name = "flash",
     .colour = "#e69f00",
     .experiment = "flash_clip",
     .fsdp = "flash_fsdp"},
    {.value = MethodName::bookkeeping, .name = "bookkeeping", .colour = "#009e73"},
    {.value = MethodName::flash_bookkeeping,
     .name = "flash_bookkeeping",
     .colour = "#cc5fa5",
     .experiment = "flash_clip_bookkeeping"},
    {.value = MethodName::streaming, .name = "streaming", .colour = "#56b4e9"},
    {.value = MethodName::automatic, .name = "auto", .colour = "#7a52cc"},
};
static_assert(in_order(kMethods));

std::span<const Name<MethodName>> names_of(MethodName);
std::vector<MethodName> private_methods();  // all but `none`: what must be verified and tested

// The mode of a result, in files, their names, tables and pictures: the word that was given for the method, so that a
// document's words come back (vanilla, flash_clip, ghost_fsdp); no_dp for none.
std::string mode_of(std::string_view word);
// One word for a method, whatever it was called: ghost for ghost_fsdp, no_dp for vanilla. A word that no row has stays.
std::string method_of(std::string_view mode);

}  // namespace shade::catalog
