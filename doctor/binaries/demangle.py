"""C++ names for people: the part of the Itanium mangling that libraries export in practice.

`_ZN2at6Tensor3addERKS0_` becomes `at::Tensor::add(at::Tensor const&)`. A name that uses
more of the grammar (expressions, decltype, lambdas) is left as it is: a mangled name is
right, a half-understood one may be wrong.
Source: Itanium C++ ABI, "External Names"; output in the style of c++filt.
"""

from __future__ import annotations

from doctor.binaries.mangling import (
    BUILTIN,
    BUILTIN_D,
    LITERAL_ENDINGS,
    OPERATORS,
    QUALIFIERS,
    SIGNS,
    SPECIAL,
    STANDARD,
    Beyond,
    Reader,
    Type,
    packed,
)

_MAX_NAME, _MAX_OUTPUT, _MAX_DEPTH = 4096, 32_768, 64


def demangle(name: str) -> str:
    """The readable form, or `name` itself where that is not certain."""
    plain = name.partition("@")[0]
    if not plain.startswith("_Z") or len(plain) > _MAX_NAME or not plain.isascii():
        return name
    try:
        parser = _Parser(plain[2:])
        text = parser.encoding()
    except (Beyond, IndexError, RecursionError):
        return name
    return text if parser.at_end else name


class _Parser(Reader):
    """Reads one mangled name from left to right."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._seen: list[Type] = []
        self._arguments: list[Type] = []
        self._named = False

    def _remember(self, found: Type) -> Type:
        if len(found.before) > _MAX_OUTPUT:
            raise Beyond
        self._seen.append(found)
        return found

    # -- names -------------------------------------------------------------------

    def encoding(self) -> str:
        """A function with its parameters, a variable, or a special name."""
        special = SPECIAL.get(self.peek(2), "")
        self.place += 2 if special else 0
        if special:
            return special + (self._name()[0] if special.startswith("guard") else str(self.type()))
        name, returns, qualifiers = self._name()
        self._named = True
        if self.at_end:
            return name
        result = self.type() if returns else None
        if result is not None and result.after:
            raise Beyond  # returns a pointer to a function
        call = f"{name}{self._parameters()}{qualifiers}"
        return call if result is None else f"{result} {call}"

    def _parameters(self) -> str:
        found: list[str] = []
        while not self.at_end and self.peek() != "E":
            text = str(self.type())
            found += [text] if text else []  # an empty pack
        return "()" if found in (["void"], []) else f"({', '.join(found)})"

    def _name(self) -> tuple[str, bool, str]:
        """A name, whether a return type follows, and qualifiers of a member function."""
        if self.take("N"):
            return self._nested()
        if self.peek() == "S" and self.peek(2) != "St":
            base = str(self._substitution())
        else:
            base = ("std::" if self.take("St") else "") + self._component("")
            if self.peek() == "I":
                self._remember(Type(base))
        if self.peek() == "I":
            return _with_arguments(base, self._template_arguments()), True, ""
        return base, False, ""

    def _nested(self) -> tuple[str, bool, str]:
        """The inside of N...E."""
        qualifiers = "".join(reversed([QUALIFIERS[self.next()] for _ in self.run("rVK")]))
        qualifiers += " &&" if self.take("O") else " &" if self.take("R") else ""
        text, bare, template = self._first_prefix()
        is_constructor = False
        while not self.take("E"):
            if self.peek() == "I":
                text = _with_arguments(text, self._template_arguments())
                template = not is_constructor
            else:
                is_constructor = self.peek() in ("C", "D")
                part = self._component(bare)
                bare = part if not is_constructor else bare
                text += f"::{part}" if text else part
                template = False
            if self.peek() != "E":
                self._remember(Type(text))
        return text, template, qualifiers

    def _first_prefix(self) -> tuple[str, str, bool]:
        """What a nested name starts from: a substitution, std, a parameter or nothing."""
        if self.take("St"):
            return "std", "std", False
        if self.peek() == "S":
            text = str(self._substitution())
            bare = "basic_string" if text == STANDARD["s"] else _bare(text)
            return text, bare, False
        if self.peek() == "T":
            text = str(self._template_parameter())
            self._remember(Type(text))
            return text, _bare(text), False
        return "", "", False

    def _component(self, owner: str) -> str:
        """One part of a name; `owner` is the class that a constructor takes its name from."""
        self.take("L")
        char, pair = self.peek(), self.peek(2)
        if char.isdecimal():
            text = self._source_name()
        elif owner and char in "CD" and pair[1:].isdecimal():
            self.place += 2
            text = owner.partition("[")[0]
            text = f"~{text}" if char == "D" else text
        elif pair in OPERATORS:
            self.place += 2
            text = f"operator{OPERATORS[pair]}"
        else:
            raise Beyond
        while self.take("B"):
            text += f"[abi:{self._source_name()}]"
        return text

    def _source_name(self) -> str:
        length = self.number()
        text = self.text[self.place : self.place + length]
        if len(text) < length or not length:
            raise Beyond
        self.place += length
        return "(anonymous namespace)" if text.startswith("_GLOBAL__N") else text

    # -- substitutions and templates ------------------------------------------------

    def _substitution(self) -> Type:
        self.place += 1
        char = self.next()
        if char in STANDARD:
            return Type(STANDARD[char])
        digits = ""
        while char != "_":
            digits += char
            char = self.next()
        if len(digits) > 3 or not (digits or "0").isalnum():
            raise Beyond
        return self._seen[int(digits, 36) + 1 if digits else 0]

    def _template_parameter(self) -> Type:
        self.place += 1
        index = 0 if self.peek() == "_" else self.number() + 1
        if not self.take("_"):
            raise Beyond
        return self._arguments[index]

    def _template_arguments(self) -> str:
        """The inside of I...E; those of the outermost name are what T_ stands for."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Beyond
        found = self._argument_list("I")
        self._depth -= 1
        if self._depth == 0 and not self._named:
            self._arguments = found
        text = ", ".join(part for part in map(str, found) if part)
        return f"<{text} >" if text.endswith(">") else f"<{text}>"

    def _argument_list(self, opening: str) -> list[Type]:
        self.take(opening)
        found: list[Type] = []
        while not self.take("E"):
            if self.peek() == "J":
                found.append(packed(self._argument_list("J")))
                continue
            expands = self.peek(2) == "Dp"
            argument = self._literal() if self.take("L") else self.type()
            if argument.pack is not None and not expands:
                raise Beyond  # the pattern of a pack around it
            found.append(argument)
        return found

    def _literal(self) -> Type:
        kind = str(self.type())
        sign = "-" if self.take("n") else ""
        value = f"{sign}{self.number()}"
        if not self.take("E"):
            raise Beyond
        if kind == "bool":
            return Type({"0": "false", "1": "true"}.get(value, value))
        ending = LITERAL_ENDINGS.get(kind)
        return Type(f"({kind}){value}" if ending is None else value + ending)

    # -- types -------------------------------------------------------------------

    def type(self) -> Type:
        """One type; everything but built-in ones can be referred back to."""
        char = self.peek()
        if char in BUILTIN:
            self.place += 1
            return Type(BUILTIN[char])
        if char == "D" and self.peek(2)[1:] in BUILTIN_D:
            self.place += 2
            return Type(BUILTIN_D[self.text[self.place - 1]])
        if char == "S" and self.peek(2) != "St":
            return self._substituted_type()
        return self._remember(self._compound(char))

    def _substituted_type(self) -> Type:
        found = self._substitution()
        if self.peek() == "I":
            return self._remember(Type(str(found) + self._template_arguments()))
        return found

    def _compound(self, char: str) -> Type:
        if char in SIGNS:
            self.place += 1
            return self.type().pointing(SIGNS[char])
        if char in QUALIFIERS:
            return self._qualified()
        if char == "F":
            return self._function()
        if char == "A":
            return self._array()
        if char == "T":
            return self._template_parameter()
        if self.take("Dp"):
            return self.type()
        if char in {"N", "S"} or char.isdecimal():
            return Type(self._name()[0])
        raise Beyond

    def _qualified(self) -> Type:
        text = "".join(reversed([QUALIFIERS[self.next()] for _ in self.run("rVK")]))
        inner = self.type()
        if inner.bracketed or inner.pack is not None:
            raise Beyond
        # "const" twice, from a template argument and around it, is once.
        return inner if inner.before.endswith(text) else Type(inner.before + text, inner.after)

    def _function(self) -> Type:
        self.place += 1
        result = self.type()
        parameters = self._parameters()
        if result.after or not self.take("E"):
            raise Beyond
        return Type(f"{result.before} ", parameters, bracketed=True)

    def _array(self) -> Type:
        self.place += 1
        length = self.number()
        if not self.take("_"):
            raise Beyond
        inner = self.type()
        if inner.after:  # an array of arrays or of pointers to functions
            raise Beyond
        return Type(f"{inner.before} ", f" [{length}]", bracketed=True)


def _with_arguments(name: str, arguments: str) -> str:
    return f"{name} {arguments}" if name.endswith("<") else name + arguments


def _bare(text: str) -> str:
    """The last part of a qualified name, without template arguments."""
    depth, end = 0, len(text)
    for place in range(len(text) - 1, -1, -1):
        char = text[place]
        depth += {">": 1, "<": -1}.get(char, 0)
        if char == "<" and depth == 0:
            end = place
        if depth == 0 and char == ":":
            return text[place + 1 : end]
    return text[:end]
