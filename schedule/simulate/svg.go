package simulate

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// The measures of a plot, in pixels.
const (
	plotWidth   = 900
	panelHeight = 120
	panelGap    = 44
	marginLeft  = 64
	marginRight = 24
	lineWidth   = plotWidth - marginLeft - marginRight
)

// colors has a color for each policy, in light and in dark. Further policies begin again.
var colors = [][2]string{
	{"#0969da", "#4493f8"}, {"#bc4c00", "#f0883e"}, {"#1a7f37", "#3fb950"}, {"#8250df", "#ab7df8"}, {"#bf3989", "#db61a2"}, {"#6e7781", "#9198a1"},
}

// panel is one of the diagrams of a plot, which are below each other.
type panel struct {
	title string
	value func(*Usage) float64
	// top is the highest value of the axis, and label how a value is written there.
	top   float64
	label func(float64) string
}

// WriteSVG writes a plot of results, which must be of the same workload: the share of each resource that pods
// request, the nodes in use and the pods that wait, over virtual time. It is readable in light and in dark.
func WriteSVG(w io.Writer, results ...*Result) error {
	panels := panelsOf(results)
	marginTop := 48 + 16*((len(results)+2)/3) // below the names of the policies, three a line
	height := marginTop + len(panels)*(panelHeight+panelGap)
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>Use of the cluster and pending pods over virtual time</title>
%s<rect class="page" width="%d" height="%d"/>
`, plotWidth, height, plotWidth, height, style(), plotWidth, height)
	end := time.Second
	for i, r := range results {
		end = max(end, r.End)
		column, line := i%3, i/3
		x, y := marginLeft+column*lineWidth/3, 20+16*line
		fmt.Fprintf(out, `<line class="c%d" x1="%d" y1="%d" x2="%d" y2="%d"/><text x="%d" y="%d">%s</text>`+"\n",
			i%len(colors), x, y-4, x+18, y-4, x+24, y, escape(r.Policy))
	}
	for i, p := range panels {
		p.draw(out, marginTop+i*(panelHeight+panelGap), end, results)
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

func panelsOf(results []*Result) []panel {
	if len(results) == 0 {
		return nil
	}
	var panels []panel
	percent := func(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }
	count := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	for i, name := range results[0].Resources {
		panels = append(panels, panel{string(name) + " requested", func(u *Usage) float64 {
			if i >= len(u.Requested) {
				return 0
			}
			return u.Requested[i]
		}, 1, percent})
	}
	panels = append(panels,
		panel{"nodes in use", func(u *Usage) float64 { return u.NodesInUse }, 1, count},
		panel{"pods pending", func(u *Usage) float64 { return u.Pending }, 1, count})
	for i := range panels {
		for _, r := range results {
			panels[i].top = max(panels[i].top, panels[i].value(&r.Peak))
		}
	}
	return panels
}

// draw draws a panel below y.
func (p *panel) draw(out io.Writer, y int, end time.Duration, results []*Result) {
	bottom := y + panelHeight
	fmt.Fprintf(out, `<text class="name" x="%d" y="%d">%s</text>`+"\n", marginLeft, y-8, escape(p.title))
	fmt.Fprintf(out, `<rect class="box" x="%d" y="%d" width="%d" height="%d"/>`+"\n", marginLeft, y, lineWidth, panelHeight)
	for _, part := range []float64{0, 0.5, 1} {
		fmt.Fprintf(out, `<text class="axis" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", marginLeft-6, float64(bottom)-part*panelHeight+4, p.label(part*p.top))
	}
	unit, name := timeUnit(end)
	for i := range 5 {
		x := marginLeft + i*lineWidth/4
		fmt.Fprintf(out, `<text class="axis" x="%d" y="%d" text-anchor="middle">%.4g %s</text>`+"\n", x, bottom+16, float64(end)/float64(unit)*float64(i)/4, name)
	}
	for i, r := range results {
		fmt.Fprintf(out, `<path class="c%d" d="%s"/>`+"\n", i%len(colors), p.path(r, bottom, end))
	}
}

// path returns the line of a result: of the samples in one pixel, the highest counts.
func (p *panel) path(r *Result, bottom int, end time.Duration) string {
	var b strings.Builder
	at := func(t time.Duration) int { return marginLeft + int(float64(t)/float64(end)*lineWidth) }
	last := -1
	for i := 0; i < len(r.Samples); {
		x, highest := at(r.Samples[i].At), 0.0
		for ; i < len(r.Samples) && at(r.Samples[i].At) == x; i++ {
			highest = max(highest, p.value(&r.Samples[i].Usage))
		}
		y := float64(bottom) - highest/p.top*panelHeight
		if last < 0 {
			fmt.Fprintf(&b, "M%d,%.1f", x, y)
		} else {
			fmt.Fprintf(&b, "H%dV%.1f", x, y)
		}
		last = x
	}
	if x := at(r.End); last >= 0 && last < x {
		fmt.Fprintf(&b, "H%d", x)
	}
	return b.String()
}

// timeUnit returns a unit for times until end, and its name.
func timeUnit(end time.Duration) (time.Duration, string) {
	switch {
	case end > 4*24*time.Hour:
		return 24 * time.Hour, "d"
	case end > 4*time.Hour:
		return time.Hour, "h"
	case end > 4*time.Minute:
		return time.Minute, "min"
	}
	return time.Second, "s"
}

func style() string {
	var light, dark strings.Builder
	for i, c := range colors {
		fmt.Fprintf(&light, ".c%d { stroke: %s; stroke-width: 1.5; fill: none }\n", i, c[0])
		fmt.Fprintf(&dark, ".c%d { stroke: %s }\n", i, c[1])
	}
	return `<style>
text { font: 12px sans-serif; fill: #1f2328 }
.name { font-weight: bold }
.axis { font-size: 11px; fill: #59636e }
.page { fill: #ffffff }
.box { fill: #f6f8fa; stroke: #8c959f }
` + light.String() + `@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.axis { fill: #9198a1 }
.page { fill: #0d1117 }
.box { fill: #161b22; stroke: #6e7681 }
` + dark.String() + `}
</style>
`
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder never fails
	return b.String()
}
