package house

import (
	"fmt"
	"strings"
)

// box is a rectangle in pixels.
type box struct{ x, y, w, h int }

// words are a text of a class, which stays inside of a box.
type words struct {
	in    box
	x, y  int
	class string
	text  string
}

// picture lists boxes, texts and arrows in the order in which they are drawn.
type picture struct {
	title string
	boxes []box
	texts []words
	lines []string // the paths of arrows
}

func (p *picture) box(b box) { p.boxes = append(p.boxes, b) }

// text writes a line whose beginning is x and y from the corner of the box.
func (p *picture) text(in box, x, y int, class, text string) {
	p.texts = append(p.texts, words{in, in.x + x, in.y + y, class, text})
}

// arrow goes down to the next box of a column, or through the gap between two columns.
func (p *picture) arrow(from, to box) {
	if from.x == to.x {
		x := from.x + from.w/2
		p.lines = append(p.lines, fmt.Sprintf("M%d,%d V%d", x, from.y+from.h, to.y))
		return
	}
	begin, end := from.x+from.w, to.x
	y1, y2 := from.y+from.h/2, to.y+to.h/2
	p.lines = append(p.lines, fmt.Sprintf("M%d,%d H%d V%d H%d", begin, y1, (begin+end)/2, y2, end))
}

// colours belong to one way to look at a picture.
type colours struct{ text, code, page, box, edge, arrow string }

var (
	light = colours{text: "#1f2328", code: "#59636e", page: "#ffffff", box: "#f6f8fa", edge: "#8c959f", arrow: "#0969da"}
	dark  = colours{text: "#e6edf3", code: "#9198a1", page: "#0d1117", box: "#161b22", edge: "#6e7681", arrow: "#4493f8"}
	// lightAndDark has both, as documents need them.
	lightAndDark = light.style() + "\n@media (prefers-color-scheme: dark) {\n" + dark.style() + "\n}"
)

func (c colours) style() string {
	return fmt.Sprintf("text { fill: %s }\n.code { fill: %s }\n.page { fill: %s }\n.box { fill: %s; stroke: %s }\n"+
		".arrow { stroke: %s }\n.head { fill: %s }", c.text, c.code, c.page, c.box, c.edge, c.arrow, c.arrow)
}

// svg returns the picture with the colours of a style.
func (p *picture) svg(style string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title>
<style>
text { font: 16px "DejaVu Sans", Verdana, sans-serif }
.name { font-weight: bold; font-size: 24px }
.step { font-weight: bold; font-size: 18px }
.command, .code { font-family: "DejaVu Sans Mono", monospace }
.command { font-size: 22px }
.code { font-size: 13px }
.what { font-size: 14px }
.arrow { fill: none; stroke-width: 2 }
%s
</style>
<defs><marker id="head" markerWidth="7" markerHeight="6" refX="7" refY="3" orient="auto"><path class="head" d="M0,0 L7,3 L0,6 z"/></marker></defs>
<rect class="page" width="%d" height="%d"/>
`, pictureWidth, pictureHeight, pictureWidth, pictureHeight, p.title, style, pictureWidth, pictureHeight)
	for _, b := range p.boxes {
		fmt.Fprintf(&out, `<rect class="box" x="%d" y="%d" width="%d" height="%d" rx="6"/>`+"\n", b.x, b.y, b.w, b.h)
	}
	for _, line := range p.lines {
		fmt.Fprintf(&out, `<path class="arrow" d="%s" marker-end="url(#head)"/>`+"\n", line)
	}
	for _, w := range p.texts {
		fmt.Fprintf(&out, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", w.class, w.x, w.y, w.text)
	}
	return out.String() + "</svg>\n"
}

// wrap splits a text behind separators into lines of at most that many bytes, where it can.
func wrap(text, separator string, most int) (lines []string) {
	for _, part := range strings.SplitAfter(text, separator) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+len(strings.TrimRight(part, separator)) <= most {
			lines[last] += part
		} else {
			lines = append(lines, part)
		}
	}
	return lines
}
