"""Symbolic execution of the noise's C++ headers: every fp32 operation becomes a rounded expression of Gappa.

A function's statements are evaluated in Python on symbols, so that a change of the source changes the proven statement.
Only functions whose meaning is a theorem about their text are not followed: certify compares them with the text it knows.
"""
import fractions
import pathlib
import re

HEX_FLOAT = r"0x[0-9a-f.]+p[-+]?\d+f?|\b\d+\.\d+f"


FOLLOWED = {}  # the statements that Script.run has evaluated, by function


class Real:
    """A symbol for a float: its Gappa expression, and that of the exact value it stands for. `format`: rnd, rnd64."""

    def __init__(self, text, ideal=None, value=None, format="rnd"):
        self.text, self.ideal, self.value, self.format = text, ideal or text, value, format

    def _rounded(self, operator, other):
        if operator == "*" and other.value == 1:
            return self
        format = max(self.format, other.format, key=len)
        ideal = f"({self.ideal} {operator} {other.ideal})"
        return Real(f"{format}({self.text} {operator} {other.text})", ideal, format=format)

    def __add__(self, other): return self._rounded("+", other)
    def __sub__(self, other): return self._rounded("-", other)
    def __mul__(self, other): return self._rounded("*", other)
    def __truediv__(self, other): return self._rounded("/", other)

    def __neg__(self):
        return Real(f"(-{self.text})", f"(-{self.ideal})", None if self.value is None else -self.value)


class Pair:
    """A DoubleWord. `sum` is high + low, `ideal` the exact value it stands for."""

    def __init__(self, high, low, sum=None, ideal=None):
        self.high, self.low = high, low
        self.sum = sum or f"({high.text} + {low.text})"
        self.ideal = ideal or self.sum


def constant(text):
    value = fractions.Fraction(float.fromhex(text) if "x" in text else float(text))
    return Real(text, value=value)


def plain(text):
    return " ".join(re.sub(r"//.*", "", text).split())


def functions(folder, names):
    """Maps a function's name (with /N for a later overload) to (parameter names, body)."""
    found = {}
    for name in names:
        source = re.sub(r"//.*", "", (pathlib.Path(folder) / name).read_text())
        pattern = r"SHADE_INLINE \w+ (\w+)\(([^)]*)\) \{(.*?)(?:\n\}| \})\n"
        for function, parameters, body in re.findall(pattern, source, re.S):
            key = function
            while key in found:
                key += "'"
            found[key] = ([p.split()[-1].strip("&") for p in parameters.split(",")], plain(body))
    return found


def python(expression):
    expression = re.sub(HEX_FLOAT, lambda m: f'constant("{m[0].rstrip("f")}")', expression)
    expression = expression.replace("<fused>", "").replace("static_cast<double>", "wide").replace("static_cast<float>", "")
    return re.sub(r"(?:DoubleWord)?\{", "Pair(", expression).replace("}", ")")


def declarators(text):
    """Splits `a = f(x, y), b = g` at its outer commas."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "({<[") - (letter in ")}>]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


class Script:
    """A script for Gappa: definitions, hypotheses, side conditions and rewriting rules.

    `ordered`: what is known of the operands of ordered_sum. "proven": Gappa proves its condition. "given": certify says
    why it holds. "unknown": the roundings within ordered_sum count as errors.
    """

    def __init__(self, source, ordered="proven"):
        self.ordered = ordered
        self.source, self.lines, self.given, self.conditions, self.rules = source, [], [], [], []
        self.names, self.prefix, self.errors = set(), "", 0

    def fresh(self, name):
        base, count = name, 1
        while name in self.names:
            count += 1
            name = f"{base}{count}"
        self.names.add(name)
        return name

    def define(self, name, text):
        name = self.fresh(name)
        self.lines.append(f"{name} = {text};")
        return name

    def named(self, name, value):
        """Gives a value of C++ a name in the script."""
        if isinstance(value, Real):
            return value if re.fullmatch(r"\w+", value.text) else Real(self.define(name, value.text), value.ideal, format=value.format)
        if isinstance(value, Pair) and not re.fullmatch(r"\w+", value.sum):
            high, low = self.named(name + "_high", value.high), self.named(name + "_low", value.low)
            return Pair(high, low, self.define(name + "_sum", f"{high.text} + {low.text}"))
        return value

    def input(self, name, high, low):
        """An unknown double word of floats with high in `high` and |low| up to `low` (both as text)."""
        for suffix in ("_high", "_low"):
            self.lines.append(f"{name}{suffix} = rnd({name}{suffix}_any);")
            self.names.add(name + suffix)
        self.given += [f"{name}_high in {high}", f"|{name}_low| <= {low}"]
        total = self.define(name + "_sum", f"{name}_high + {name}_low")
        return Pair(Real(name + "_high"), Real(name + "_low"), total)

    def run(self, name, arguments, known=(), start=None, stop=None):
        """Evaluates the statements of a function, from the one that holds `start` to before the one that holds `stop`."""
        parameters, body = self.source[name]
        scope = dict(zip(parameters, arguments)) | dict(known)
        if start:
            body = body[body.index(start):]
        if stop:
            body = body[:body.index(stop)]
        outer = self.prefix
        for statement in filter(None, map(str.strip, body.split(";"))):
            self.lines.append(f"# {statement};")
            FOLLOWED.setdefault(name, set()).add(statement)
            if statement.startswith("return") or statement.startswith("if constexpr (fused) return"):
                value = statement.split("return ", 1)[1]
                return self.value(value, scope, outer.rstrip("_") or "result"), scope
            statement = re.sub(r"^(const )?(auto|float|double|DoubleWord) ", "", statement)
            for part in declarators(statement):
                if "=" in part:
                    variable, value = part.split(" = ", 1)
                else:
                    variable, value = re.fullmatch(r"(\w+)(\{.*\})", part).groups()
                scope[variable] = self.value(value, scope, outer + variable)
        return None, scope

    def value(self, expression, scope, name):
        outer, self.prefix = self.prefix, name + "_"
        calls = {f: (lambda *a, f=f: getattr(self, f)(*a)) for f in OPERATIONS}
        result = eval(python(expression), {"constant": constant, "Pair": Pair, **calls}, scope)
        self.prefix = outer
        return self.named(name, result)

    # Functions whose meaning is a theorem.

    def ordered_sum(self, a, b):
        """Dekker: high + low = a + b if b's exponent is at most a's, or a is 0. The condition is one more thing to prove."""
        if self.ordered == "unknown":
            return self.normalised(a, b)
        if self.ordered == "given":
            return self.exact_sum(a, b)
        if a.value is not None:
            bound = fractions.Fraction(1)
            while bound <= abs(a.value): bound *= 2
            while bound / 2 > abs(a.value): bound /= 2
            self.conditions.append(f"|{b.text}| <= {float(bound * (1 - fractions.Fraction(1, 2**24))).hex()}")
        else:
            self.conditions.append(f"|{a.text}| - |{b.text}| >= 0")
        return self.exact_sum(a, b)

    def exact_sum(self, a, b):
        """Knuth: high + low = a + b."""
        high = self.define(self.prefix + "high", f"rnd({a.text} + {b.text})")
        return Pair(Real(high), Real(f"(({a.text} + {b.text}) - {high})"))

    def exact_product(self, a, b):
        """Dekker: high + low = a b, but for underflow; then off by at most 3.5 * 2^-149 (Boldo 2006), or fused 2^-150."""
        self.errors += 1
        self.given.append(f"|underflow{self.errors}| <= 1b-146")
        high = self.define(self.prefix + "high", f"rnd({a.text} * {b.text})")
        return Pair(Real(high), Real(f"(({a.text} * {b.text} - {high}) + underflow{self.errors})"))

    def residual(self, c, a, b):
        return Real(f"rnd({c.text} - {a.text} * {b.text})")

    def text(self, goals):
        """The script that asks for the interval of each goal, an expression, and for a proof of the side conditions."""
        lines = ["@rnd = float<ieee_32, ne>;", "@rnd64 = float<ieee_64, ne>;", *self.lines, ""]
        lines += ["{ " + " /\\\n  ".join(self.given), "->"]
        lines += ["  " + " /\\\n  ".join(self.conditions + [f"{goal} in ?" for goal in goals]) + " }", *self.rules, ""]
        return "\n".join(lines)

    # Functions that are followed, with the identities by which Gappa sees how errors cancel.

    def finished(self, result, exact, ideal, difference):
        """result - exact = difference is an identity; `ideal` is the operation on what the operands stand for."""
        self.rules.append(f"{result.sum} - ({exact}) -> {difference};")
        result.ideal = self.define(self.prefix + "ideal", ideal)
        result.high.ideal = result.ideal
        if ideal != exact:
            self.rules.append(f"{result.sum} - {result.ideal} -> ({result.sum} - ({exact})) + (({exact}) - {result.ideal});")
        self.rules.append(f"{result.high.text} - {result.ideal} -> ({result.sum} - {result.ideal}) - {result.low.text};")
        return result

    def product(self, a, b):
        result, local = self.run("product", (a, b))
        error = local["rounded"].low.text
        cross = f"({a.high.text} * {b.low.text} + {a.low.text} * {b.high.text})"
        return self.finished(result, f"{a.sum} * {b.sum}", f"{a.ideal} * {b.ideal}", (
            f"({result.low.text} - ({error} + {cross})) + underflow{self.errors} - {a.low.text} * {b.low.text}"))

    def horner(self, c, x, p):
        if isinstance(p, Pair):
            result, local = self.run("horner", (c, x, p))
            term, q = local["term"], p
            difference = (f"({result.low.text} - ({local['total'].low.text} + ({term.low.text} + {c.low.text})))"
                          f" + ({term.sum} - {x.sum} * {p.sum})")
        else:
            p = self.named(self.prefix + "p", p)
            result, local = self.run("horner'", (c, x, p))
            q = Pair(p, p, p.text, p.ideal)
            difference = (f"({result.low.text} - ({local['total'].low.text} + {c.low.text}))"
                          f" + (rnd({x.high.text} * {p.text}) - {x.high.text} * {p.text}) - {x.low.text} * {p.text}")
        return self.finished(result, f"{c.sum} + {x.sum} * {q.sum}", f"{c.sum} + {x.ideal} * {q.ideal}", difference)

    def quotient(self, a, b):
        b = self.named(self.prefix + "divisor", b)
        result, local = self.run("quotient", (a, b))
        inverse, ratio = local["inverse"].text, local["ratio"].text
        rest = f"(({a.high.text} - {ratio} * {b.high.text}) + ({a.low.text} - {ratio} * {b.low.text}))"
        self.rules += [
            f"{result.sum} - {a.sum} / {b.sum} -> "
            f"({result.low.text} - {rest} * {inverse}) + {rest} * ({inverse} - 1 / {b.sum}) {{ {b.sum} <> 0 }};",
            f"{inverse} - 1 / {b.sum} -> "
            f"({inverse} - 1 / {b.high.text}) + {b.low.text} / ({b.high.text} * {b.sum}) {{ {b.high.text} <> 0, {b.sum} <> 0 }};",
            f"{a.high.text} - {ratio} * {b.high.text} -> -(({ratio} - {a.high.text} * {inverse}) * {b.high.text})"
            f" - {a.high.text} * {b.high.text} * ({inverse} - 1 / {b.high.text}) {{ {b.high.text} <> 0 }};"]
        result.divided = a, b
        return result

    def square_root(self, a):
        """The operand's high part is p p and the operand is q q, for real symbols p and q (certify's lemma 4)."""
        result, local = self.run("square_root", (a,))
        root, half = local["root"].text, self.define(self.prefix + "half", f"rnd(0.5 / {local['root'].text})")
        rest = f"((p * p - {root} * {root}) + {a.low.text})"
        self.rules += [
            f"{result.sum} - q -> ({result.low.text} - {rest} * {half}) + {rest} * ({half} - 1 / ({root} + q)) {{ {root} + q <> 0 }};",
            f"{half} - 1 / ({root} + q) -> ({half} - 0.5 / {root}) + (q - {root}) / (2 * {root} * ({root} + q))"
            f" {{ {root} <> 0, {root} + q <> 0 }};",
            f"q - {root} -> (q - p) - ({root} - p);",
            f"q - p -> {a.low.text} / (q + p) {{ q + p <> 0 }};",
            f"p * p - {root} * {root} -> -({root} - p) * ({root} + p);"]
        return result

    def wide(self, a):
        return Real(a.text, a.ideal, a.value, "rnd64")

    def rounded_root(self, a):
        return Real("rnd(p)")

    def normalised(self, a, b):
        a, b = self.named(self.prefix + "a", a), self.named(self.prefix + "b", b)
        result, _ = self.run("ordered_sum", (a, b))
        self.rules.append(f"{result.sum} - ({a.text} + {b.text}) -> "
                          f"{result.low.text} - ({b.text} - ({result.high.text} - {a.text}));")
        self.rules.append(f"{b.text} - ({result.high.text} - {a.text}) -> -({result.high.text} - ({a.text} + {b.text}));")
        return result


OPERATIONS = ("ordered_sum", "exact_sum", "exact_product", "residual", "product", "horner", "quotient", "square_root",
              "rounded_root", "wide")
