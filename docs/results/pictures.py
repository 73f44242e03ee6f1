"""The pictures of the pages as SVG: curves, and points, each with its name beside it."""
COLOURS = ("#444444", "#c0392b", "#2471a3", "#1e8449", "#7d3c98", "#b9770e", "#117a65", "#d98880")
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 320, 50, 40


class Picture:
    """Axes from 0 to `right` and from `low` to `high`, with a line at each `tick`; shares are written in percent."""

    def __init__(self, right, low, high, axis, shares, tick=None):
        self.right, self.low, self.high = right, low, high
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
                    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
        self.named = []  # where labels stand, the next one below those that it would cover
        tick = tick or next(t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10) if (high - low) / t < 8)
        for i in range(-int(-low / tick // 1), int(high / tick) + 1):
            y, text = self.y(i * tick), f"{100 * i * tick:.0f} %" if shares else f"{i * tick:.4g}"
            self.out.append(f'<line x1="{LEFT}" x2="{self.x(right):.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for step in range(0, int(right) + 1, max(1, int(right) // 6)):
            self.out.append(f'<text x="{self.x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
        self.out.append(f'<text x="{self.x(right / 2):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{axis}</text>')

    def x(self, value):
        return LEFT + (WIDTH - LEFT - 110) * value / self.right

    def y(self, value):
        return 15 + (HEIGHT - BOTTOM - 15) * (1 - (value - self.low) / (self.high - self.low))

    def add(self, label, shape, at, colour):
        """A shape with its name to the right of the point `at`."""
        x, y = self.x(at[0]) + 6, self.y(at[1]) + 4
        while any(abs(x - a) < 80 and abs(y - b) < 12 for a, b in self.named):
            y += 1
        self.named.append((x, y))
        self.out.append(f'{shape}<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{label}</text>')

    def __str__(self):
        return "\n".join(self.out + ["</svg>", ""])


def dot(picture, at, colour):
    return f'<circle cx="{picture.x(at[0]):.1f}" cy="{picture.y(at[1]):.1f}" r="4" fill="{colour}"/>'


def curves(runs, axis, shares=True):
    """`runs`: names with their points (x, y), a dot where there is but one. Shares begin at 0 on their axis, other numbers below the least."""
    values = [y for _, curve in runs for _, y in curve]
    low, high = (0, max(0.45, max(values) + 0.02)) if shares else (min(values) - 0.02, max(values) + 0.02)
    picture = Picture(max(x for _, curve in runs for x, _ in curve), low, high, axis, shares, 0.1 if shares else None)
    for (label, curve), colour in zip(runs, COLOURS):
        line = " ".join(f"{picture.x(x):.1f},{picture.y(y):.1f}" for x, y in curve)
        shape = f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>' if len(curve) > 1 else dot(picture, curve[0], colour)
        picture.add(label, shape, curve[-1], colour)
    return str(picture)


def points(runs, axis):
    """The same of shares without lines. Their axis begins below the least, as points alone say nothing of 0."""
    values = [y for _, cloud in runs for _, y in cloud]
    picture = Picture(max(x for _, cloud in runs for x, _ in cloud), min(values) - 0.02, max(values) + 0.02, axis, True)
    for (label, cloud), colour in sorted(zip(runs, COLOURS), key=lambda run: -run[0][1][-1][1]):  # names from above
        shape = "".join(dot(picture, at, colour) for at in cloud)
        picture.add(label, shape, cloud[-1], colour)
    return str(picture)
