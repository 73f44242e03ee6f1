"""Tables of text as records hold them: their numbers, other tables made of them, and Markdown."""
import re


class Wrong(Exception):
    """A page or a record that cannot be used: where, and why."""


class Table:
    """Cells are text as the program printed them. Of `[note: TEXT]` in a cell, a letter stays, and TEXT stands below the table."""

    def __init__(self, head, rows):
        self.head, self.rows = list(head), [list(row) for row in rows]
        for row in self.rows:
            if len(row) != len(self.head):
                raise Wrong(f"row {row} does not have the {len(self.head)} columns {self.head}")
            if any("\n" in cell for cell in row):
                raise Wrong(f"row {row} has a cell of several lines, with which Markdown ends a table")

    def cell(self, row, column):
        found = [r for r in self.rows if r[0] == row]
        if len(found) != 1 or column not in self.head:
            raise Wrong(f"no one cell {row!r}, {column!r}; rows {[r[0] for r in self.rows]}, columns {self.head}")
        return found[0][self.head.index(column)]

    def value(self, row, column):
        """The number that a cell begins with."""
        number = re.match(r"-?[\d,]*\.?\d+(e[-+]?\d+)?", self.cell(row, column))
        if not number:
            raise Wrong(f"cell {row!r}, {column!r} holds no number but {self.cell(row, column)!r}")
        return float(number[0].replace(",", ""))

    def values(self, row):
        return [self.value(row, column) for column in self.head[1:]]

    def names(self):
        return [row[0] for row in self.rows]

    def rows_of(self, *names):
        return Table(self.head, [[name, *(self.cell(name, c) for c in self.head[1:])] for name in names])

    def renamed(self, *head):
        return Table(head, self.rows)

    def __str__(self):
        def line(cells):
            return "| " + " | ".join(cells) + " |"

        def is_number(i):
            return all(re.match(r"^[-<±\d,.]*\d|^$|^overflow|^not run", r[i]) for r in self.rows)
        rule = "|" + "|".join("---:" if i > 0 and is_number(i) else "---" for i in range(len(self.head))) + "|"
        said = []

        def lettered(match):
            if match[1] not in said:
                said.append(match[1])
            return f"<sup>{chr(ord('a') + said.index(match[1]))}</sup>"
        lines = [re.sub(r"\[note: (.*?)\]", lettered, line(row)) for row in self.rows]
        below = [f"<sup>{chr(ord('a') + i)}</sup> {text}." for i, text in enumerate(said)]
        return "\n".join([line(self.head), rule, *lines, *(["", " ".join(below)] if below else [])])


def crossed(lines, row, column, value, head=""):
    """A table with one line for each number, as rows and columns."""
    i, j, k = (lines.head.index(name) for name in (row, column, value))
    cells = {(r[i], r[j]): r[k] for r in lines.rows}
    columns = list(dict.fromkeys(r[j] for r in lines.rows))
    rows = dict.fromkeys(r[i] for r in lines.rows)
    return Table([head] + columns, [[r] + [cells.get((r, c), "not run") for c in columns] for r in rows])


def joined(head, *tables):
    """The rows of the first with the columns of all; `head` names them."""
    rows = [[r[0]] + [cell for t in tables for cell in t.rows_of(r[0]).rows[0][1:]] for r in tables[0].rows]
    return Table(head, rows)


def ratio(of, above, below, column):
    return of.value(above, column) / of.value(below, column)
