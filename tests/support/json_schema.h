// A JSON value held to a JSON schema (draft 2020-12): those keywords that our schemas use. A schema with any other
// keyword is an error, so nothing passes because it was not understood.
#pragma once

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/json.h"

namespace shade::test {

class JsonSchema {
 public:
  explicit JsonSchema(Json schema) : root_(std::move(schema)) { require_known(root_); }

  // What is wrong, each with its place; empty: the value is valid.
  std::vector<std::string> faults(const Json& value) const {
    std::vector<std::string> out;
    check(root_, value, "$", out);
    return out;
  }

 private:
  void require_known(const Json& schema) const {
    static const std::set<std::string> kKnown{"$schema",
                                              "$defs",
                                              "$ref",
                                              "title",
                                              "description",
                                              "type",
                                              "properties",
                                              "required",
                                              "enum",
                                              "const",
                                              "items",
                                              "if",
                                              "then",
                                              "else",
                                              "pattern",
                                              "minLength",
                                              "minItems",
                                              "minimum",
                                              "maximum",
                                              "$comment",
                                              "exclusiveMinimum",
                                              "exclusiveMaximum",
                                              "additionalProperties"};
    if (schema.is_boolean()) return;
    if (!schema.is_object()) throw Error("a schema is an object, true or false; found " + schema.dump());
    for (const auto& [key, part] : schema.items()) {
      if (!kKnown.contains(key)) throw Error("the schema has the keyword '" + key + "', which is not checked here");
      if (key == "properties" || key == "$defs")
        for (const auto& [name, inner] : part.items()) require_known(inner);
      if (key == "items" || key == "if" || key == "then" || key == "else" || key == "additionalProperties")
        require_known(part);
    }
  }

  static bool has_type(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "null") return value.is_null();
    throw Error("unknown type '" + type + "' in a schema");
  }

  const Json& resolved(const Json& schema) const {
    const auto name = schema.at("$ref").get<std::string>();
    const std::string begin = "#/$defs/";
    if (!name.starts_with(begin)) throw Error("a $ref is to $defs; found " + name);
    return root_.at("$defs").at(name.substr(begin.size()));
  }

  void check(const Json& schema, const Json& value, const std::string& place, std::vector<std::string>& out) const {
    const auto fault = [&](const std::string& why) { out.push_back(place + ": " + why + "; found " + value.dump()); };
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) fault("must not be there");
      return;
    }
    for (const auto& [key, rule] : schema.items()) {
      if (key == "$ref") check(resolved(schema), value, place, out);
      if (key == "type" && !has_type(value, rule)) fault("expected " + rule.get<std::string>());
      if (key == "const" && value != rule) fault("expected " + rule.dump());
      if (key == "enum" && std::find(rule.begin(), rule.end(), value) == rule.end())
        fault("expected one of " + rule.dump());
      if (value.is_number()) check_number(key, rule, value.get<double>(), fault);
      if (value.is_string() && key == "minLength" && value.get<std::string>().size() < rule.get<size_t>())
        fault("too short");
      if (value.is_string() && key == "pattern" &&
          !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
        fault("expected " + rule.dump());
      if (value.is_array() && key == "minItems" && value.size() < rule.get<size_t>()) fault("too few elements");
      if (value.is_array() && key == "items")
        for (size_t i = 0; i < value.size(); ++i) check(rule, value[i], place + "." + std::to_string(i), out);
      if (value.is_object() && key == "required")
        for (const auto& name : rule)
          if (!value.contains(name.get<std::string>())) fault("'" + name.get<std::string>() + "' is missing");
      if (value.is_object() && key == "properties")
        for (const auto& [name, inner] : rule.items())
          if (value.contains(name)) check(inner, value[name], place + "." + name, out);
      if (value.is_object() && key == "additionalProperties")
        for (const auto& [name, inner] : value.items())
          if (!schema.contains("properties") || !schema["properties"].contains(name))
            check(rule, inner, place + "." + name, out);
      if (key == "if") {
        std::vector<std::string> unmet;
        check(rule, value, place, unmet);
        const auto* branch = unmet.empty() ? "then" : "else";
        if (schema.contains(branch)) check(schema[branch], value, place, out);
      }
    }
  }

  template <class Fault>
  static void check_number(const std::string& key, const Json& rule, double value, const Fault& fault) {
    if ((key == "minimum" && value < rule.get<double>()) || (key == "exclusiveMinimum" && value <= rule.get<double>()))
      fault("too small");
    if ((key == "maximum" && value > rule.get<double>()) || (key == "exclusiveMaximum" && value >= rule.get<double>()))
      fault("too large");
  }

  Json root_;
};

}  // namespace shade::test
