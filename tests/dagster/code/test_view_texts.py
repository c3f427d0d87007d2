"""In the text of a view only the tokens count, wherever the text is; in any other text every letter counts."""

from lakehouse.dagster.code.digest import code_of
from lakehouse.dagster.code.view_texts import only_text_of, texts_of
from tests.dagster.code.project import Project
from tests.support.for_each import for_each

ORDERS = "from lakehouse.writes.view import View\n\ndef orders(rows):\n    return View({text}{args})\n"
QUERY = '"SELECT a FROM rows"'
SAME = [
    '"""\n    select A -- the first\n    FROM Rows"""',
    '("SELECT a "\n     "FROM rows")',
    "'SELECT a FROM rows'",
]
OTHER = ['"SELECT b FROM rows"', "\"SELECT 'a' FROM rows\"", 'f"SELECT a FROM {rows}"']


def of(text: str, args: str = "") -> str:
    return ORDERS.format(text=text, args=args)


def test_another_query_is_other_code_and_another_layout_of_it_is_not(shop: Project):
    codes = [shop.code(orders=of(text)) for text in [QUERY, *SAME, *OTHER]]
    assert [code == codes[0] for code in codes] == [True] * (1 + len(SAME)) + [False] * len(OTHER)
    assert shop.code(orders=of(QUERY, ", {'a': 1}")) != shop.code(orders=of(QUERY, ", {'a': 2}"))


def test_a_text_of_another_class_of_the_name_and_what_is_no_sql_count_letter_by_letter(shop: Project):
    other = ORDERS.replace("from lakehouse.writes.view import View", "class View:\n    def __init__(self, text): ...")
    first = shop.code(orders=other.format(text='"say Yes"', args=""))
    assert first != shop.code(orders=other.format(text='"say  Yes"', args=""))
    assert shop.code(orders=of('"SELECT \'"')) != shop.code(orders=of('"SELECT  \'"'))


def test_the_query_of_a_file_counts_as_if_it_stood_in_the_function(shop: Project):
    text = 'from lakehouse.writes.view import View\n\ndef orders(rows):\n    return View.of("orders.sql")\n'
    shop.write(orders=text)
    file = shop.root / "shop" / "orders.sql"
    file.write_text("SELECT a FROM rows")
    first = shop.code()
    assert first is not None
    file.write_text("-- all of them\nselect a\nfrom rows;\n")
    assert shop.code() == first
    file.write_text("SELECT b FROM rows")
    assert shop.code() != first
    file.unlink()
    assert code_of(shop.load()) not in (None, first)


@for_each("path", ["from lakehouse.writes import view\n", "import lakehouse as view\n"])
def test_a_class_that_is_named_by_its_module_is_found_as_well(shop: Project, path: str):
    shop.write(
        orders=path + "def orders(rows):\n    return view.View(query='SELECT a FROM rows', args={'b': 1, 'c': rows})\n"
    )
    (known,) = texts_of(shop.load())
    assert (known.text.text, set(known.text.args), known.has_known_args) == ("SELECT a FROM rows", {"b", "c"}, True)


def test_arguments_that_are_made_when_the_function_is_called_are_not_known(shop: Project):
    shop.write(orders=of(QUERY, ", args=dict(a=rows)"))
    (known,) = texts_of(shop.load())
    assert not known.has_known_args


@for_each(
    "function, touch",
    [
        (of(QUERY), ()),
        (of(QUERY, ", touch='a'"), ("a",)),
        (of(QUERY, ", {}, ['a', 'b']"), ("a", "b")),
        (of(QUERY, ", touch=rows"), None),
        (of(QUERY, ", args=dict(a=rows)"), None),
        (of('f"SELECT a FROM {rows}"'), None),
        (of(QUERY).replace("    return", "    if rows:\n        return View(rows)\n    return"), None),
        (of(QUERY).replace("return View", "view = View") + "    return view\n", None),
    ],
)
def test_a_function_has_one_text_if_it_returns_no_other_and_all_of_it_is_known(
    shop: Project, function: str, touch: tuple[str, ...] | None
):
    shop.write(orders=function)
    text = only_text_of(shop.load())
    assert (None if text is None else (text.text, text.touch)) == (
        None if touch is None else ("SELECT a FROM rows", touch)
    )
