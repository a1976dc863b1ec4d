package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// The measures of a plot, in pixels.
const (
	plotWidth   = 900
	panelHeight = 150
	panelGap    = 56
	marginLeft  = 72
	marginRight = 24
	marginTop   = 56
	lineWidth   = plotWidth - marginLeft - marginRight
)

// plotStyle has the colors of the schedulers, in light and in dark.
const plotStyle = `<style>
text { font: 12px sans-serif; fill: #1f2328 }
.name { font-weight: bold }
.axis { font-size: 11px; fill: #59636e }
.page { fill: #ffffff }
.box { fill: #f6f8fa; stroke: #8c959f }
.grid { stroke: #d1d9e0 }
.p99 { stroke-dasharray: 4 3 }
.c0 { stroke: #0969da; stroke-width: 1.5; fill: none }
.c1 { stroke: #bc4c00; stroke-width: 1.5; fill: none }
.c2 { stroke: #1a7f37; stroke-width: 1.5; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.axis { fill: #9198a1 }
.page { fill: #0d1117 }
.box { fill: #161b22; stroke: #6e7681 }
.grid { stroke: #30363d }
.c0 { stroke: #4493f8 }
.c1 { stroke: #f0883e }
.c2 { stroke: #3fb950 }
}
</style>
`

// drawGrowth draws a data file beside it, with the ending svg.
func drawGrowth(data string) error {
	from, err := os.Open(data)
	if err != nil {
		return err
	}
	defer from.Close()
	points, err := readGrowth(from)
	if err != nil {
		return fmt.Errorf("%s: %w", data, err)
	}
	var b strings.Builder
	if err := plotGrowth(&b, points); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(data, ".csv")+".svg", []byte(b.String()), 0o644)
}

// plotGrowth writes a plot of the times of decisions, with a panel for each number that grows. Both axes are
// logarithmic.
func plotGrowth(w io.Writer, points []growthPoint) error {
	if len(points) == 0 {
		return fmt.Errorf("there are no points")
	}
	panels := growths()
	height := marginTop + len(panels)*(panelHeight+panelGap)
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>Time of a decision by nodes, pods and classes</title>
%s<rect class="page" width="%d" height="%d"/>
`, plotWidth, height, plotWidth, height, plotStyle, plotWidth, height)
	low, high := time.Duration(math.MaxInt64), time.Duration(0)
	for _, p := range points {
		low, high = min(low, p.p50), max(high, p.p99)
	}
	scale := logScale{decade(low, math.Floor), decade(high, math.Ceil)}
	for i, p := range peers() {
		x := marginLeft + i*180
		fmt.Fprintf(out, `<line class="c%d" x1="%d" y1="16" x2="%d" y2="16"/><text x="%d" y="20">%s</text>`+"\n", i, x, x+18, x+24, p.name)
	}
	fmt.Fprintf(out, `<text class="axis" x="%d" y="20">lines: p50, dashes: p99</text>`+"\n", marginLeft+3*180)
	for i, g := range panels {
		drawPanel(out, marginTop+i*(panelHeight+panelGap), g, scale, points)
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// logScale is a logarithmic scale between two powers of ten.
type logScale struct{ low, high float64 }

// decade returns the power of ten below or above a time.
func decade(d time.Duration, round func(float64) float64) float64 {
	return round(math.Log10(float64(d)))
}

// at returns the position of a value on the scale, from 0 to 1.
func (s logScale) at(value float64) float64 {
	return (math.Log10(value) - s.low) / max(1, s.high-s.low)
}

// drawPanel draws the lines of one growth below y.
func drawPanel(out io.Writer, y int, g growth, scale logScale, points []growthPoint) {
	bottom := float64(y + panelHeight)
	fmt.Fprintf(out, `<text class="name" x="%d" y="%d">%s</text>`+"\n", marginLeft, y-8, g.title)
	fmt.Fprintf(out, `<rect class="box" x="%d" y="%d" width="%d" height="%d"/>`+"\n", marginLeft, y, lineWidth, panelHeight)
	for power := scale.low; power <= scale.high; power++ {
		value := math.Pow(10, power)
		at := bottom - scale.at(value)*panelHeight
		fmt.Fprintf(out, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text class="axis" x="%d" y="%.1f" text-anchor="end">%v</text>`+"\n",
			marginLeft, at, marginLeft+lineWidth, at, marginLeft-6, at+4, time.Duration(value))
	}
	across := logScale{math.Log10(float64(g.sizes[0])), math.Log10(float64(slices.Max(g.sizes)))}
	x := func(size int) float64 { return marginLeft + across.at(float64(size))*lineWidth }
	for _, size := range g.sizes {
		fmt.Fprintf(out, `<text class="axis" x="%.1f" y="%.0f" text-anchor="middle">%d</text>`+"\n", x(size), bottom+16, size)
	}
	for i, p := range peers() {
		var p50, p99 strings.Builder
		for _, point := range points {
			if point.by == g.by && point.scheduler == p.name {
				fmt.Fprintf(&p50, "%.1f,%.1f ", x(point.size), bottom-scale.at(float64(point.p50))*panelHeight)
				fmt.Fprintf(&p99, "%.1f,%.1f ", x(point.size), bottom-scale.at(float64(point.p99))*panelHeight)
			}
		}
		if p50.Len() > 0 {
			fmt.Fprintf(out, `<polyline class="c%d" points="%s"/><polyline class="c%d p99" points="%s"/>`+"\n",
				i, strings.TrimSpace(p50.String()), i, strings.TrimSpace(p99.String()))
		}
	}
}
