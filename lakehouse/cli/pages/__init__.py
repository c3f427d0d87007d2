"""How answers look.

In: values. Out: pages of rich, which are as wide and as colourful as the terminal.
Law: no style carries a meaning alone; an output that is not a terminal gets the same words as plain text.
Read: screen; then a page for each kind of answer: status_page, table_pages, run_page.
"""
