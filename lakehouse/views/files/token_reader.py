"""Reads tokens one by one, and refuses a token other than the expected one."""

from dataclasses import dataclass
from typing import NoReturn

from lakehouse.views.sql.tokens import Token, TokenKind
from lakehouse.views.view_text import Origin, view_error


@dataclass
class TokenReader:
    """A place in the tokens of a text, which moves on as tokens are taken.

    Args:
        text: The text.
        tokens: Its tokens.
        origin: Where it begins.
        at: The index of the next token.
    """

    text: str
    tokens: tuple[Token, ...]
    origin: Origin
    at: int = 0

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self.tokens)

    def next(self) -> Token:
        """The next token; at the end of the text, an empty symbol."""
        return Token(TokenKind.SYMBOL, "", len(self.text)) if self.is_at_end else self.tokens[self.at]

    def take(self) -> Token:
        token = self.next()
        self.at += 1
        return token

    def peek_symbol(self, symbol: str) -> bool:
        return self.next().is_symbol(symbol)

    def accept_symbol(self, symbol: str) -> bool:
        """Takes the next token if it is this symbol."""
        is_there = self.peek_symbol(symbol)
        self.at += is_there
        return is_there

    def expect_symbol(self, symbol: str) -> None:
        if not self.accept_symbol(symbol):
            self.refuse_next(symbol)

    def peek_word(self, *words: str) -> bool:
        return self.next().is_word(*words)

    def accept(self, *words: str) -> bool:
        """Takes the next token if it is one of these words."""
        is_there = self.peek_word(*words)
        self.at += is_there
        return is_there

    def expect(self, *words: str) -> Token:
        if not self.peek_word(*words):
            self.refuse_next(" or ".join(words))
        return self.take()

    def string(self) -> str:
        """The value of the text in quotes that comes next."""
        if self.next().kind is not TokenKind.TEXT:
            self.refuse_next("a text in quotes")
        return self.take().value

    def name(self, what: str) -> str:
        if not self.next().is_name:
            self.refuse_next(what)
        return self.take().value

    def dotted_name(self, what: str) -> tuple[str, ...]:
        """The parts of a name with dots."""
        parts = [self.name(what)]
        while self.accept_symbol("."):
            parts.append(self.name(what))
        return tuple(parts)

    def names(self) -> tuple[str, ...]:
        """Columns in parentheses, each once."""
        self.expect_symbol("(")
        names = list[str]()
        while not names or self.accept_symbol(","):
            token = self.next()
            name = self.name("a column")
            if name.lower() in map(str.lower, names):
                self.refuse(f"{name} stands there twice", "Name each column once.", token)
            names.append(name)
        self.expect_symbol(")")
        return tuple(names)

    def in_parentheses(self, what: str) -> str:
        """The text between parentheses, letter by letter."""
        self.expect_symbol("(")
        inner, depth = list[Token](), 1
        while depth:
            if self.is_at_end:
                self.refuse_next(")")
            token = self.take()
            depth += token.is_symbol("(") - token.is_symbol(")")
            inner.append(token)
        if len(inner) == 1:
            self.refuse(f"{what} is missing", "Write it between the parentheses.", inner[0])
        return self.text[inner[0].start : inner[-2].end]

    def properties(self) -> dict[str, str]:
        """Names and values in parentheses, as TBLPROPERTIES has them."""
        self.expect_symbol("(")
        properties = dict[str, str]()
        while not properties or self.accept_symbol(","):
            token = self.next()
            is_text = token.kind is TokenKind.TEXT
            name = self.string() if is_text else ".".join(self.dotted_name("the name of a property"))
            self.accept_symbol("=")
            if name in properties:
                self.refuse(f"{name} stands there twice", "Name each property once.", token)
            properties[name] = self._property_value()
        self.expect_symbol(")")
        return properties

    def _property_value(self) -> str:
        token = self.next()
        if token.kind not in (TokenKind.TEXT, TokenKind.NUMBER) and not token.is_word("TRUE", "FALSE"):
            self.refuse_next("the value of the property")
        self.at += 1
        return token.value.lower() if token.kind is TokenKind.WORD else token.value

    def refuse_next(self, expected: str) -> NoReturn:
        token = self.next()
        stands = f"{token.text} stands here" if token.text else "the text ends here"
        self.refuse(f"{stands}, where {expected} is expected", "Correct the statement.", token)

    def refuse(self, what: str, remedy: str, token: Token | None = None, code: str = "VIEW_SYNTAX") -> NoReturn:
        """Refuses the text at a token; at the next one if none is given."""
        raise view_error(code, what, remedy, self.text, (token or self.next()).start, self.origin)
