package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// These are sizes of the plot, in pixels.
const (
	plotWidth, panelHeight = 900, 130
	left, right, top       = 90, 20, 40
	gap                    = 34
)

// panels groups the measures that share a scale.
var panels = [][]measure{{resident, live}, {goroutines}, {files}, {disk, walog, database}}

var colours = []string{"#1f5fa8", "#c2571a", "#3a7d2c"}

// writePlot draws the samples as an SVG file: the panels one below the other, time to the right,
// and a line for each kill.
func writePlot(path string, s *samples, deaths []time.Duration) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := plot{out: file, samples: s.all, deaths: deaths}
	p.draw()
	return file.Close()
}

type plot struct {
	out     io.Writer
	samples []sample
	deaths  []time.Duration
	end     time.Duration
}

func (p *plot) draw() {
	p.end = time.Second
	if n := len(p.samples); n > 0 {
		p.end = p.samples[n-1].at
	}
	height := top + len(panels)*(panelHeight+gap)
	fmt.Fprintf(p.out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", plotWidth, height)
	fmt.Fprintf(p.out, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, height)
	p.stages(height)
	for i, together := range panels {
		p.panel(top+i*(panelHeight+gap), together)
	}
	fmt.Fprintln(p.out, "</svg>")
}

func (p *plot) x(at time.Duration) float64 {
	return left + (plotWidth-left-right)*float64(at)/float64(p.end)
}

// stages draws the names of the stages, a thin line at each beginning, and the kills.
func (p *plot) stages(height int) {
	var now stage
	for _, one := range p.samples {
		if one.stage == now {
			continue
		}
		now = one.stage
		x := p.x(one.at)
		fmt.Fprintf(p.out, `<line x1="%.1f" y1="12" x2="%.1f" y2="%d" stroke="#cccccc"/><text x="%.1f" y="22" fill="#666666">%s</text>`+"\n", x, x, height-gap, x+3, now)
	}
	for _, at := range p.deaths {
		x := p.x(at)
		fmt.Fprintf(p.out, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#d08080" stroke-dasharray="2 3"/>`+"\n", x, top, x, height-gap)
	}
}

// panel draws measures on one scale, which begins at zero.
func (p *plot) panel(y int, together []measure) {
	most := 1.0
	for _, m := range together {
		for _, one := range p.samples {
			most = max(most, one.values[m])
		}
	}
	most *= 1.05
	fmt.Fprintf(p.out, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999999"/>`+"\n", left, y, plotWidth-left-right, panelHeight)
	for _, part := range []float64{0, 0.5, 1} {
		fmt.Fprintf(p.out, `<text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", left-5, float64(y)+panelHeight*(1-part)+4, most*part)
	}
	for minute := 0; time.Duration(minute)*time.Minute <= p.end; minute += 10 {
		fmt.Fprintf(p.out, `<text x="%.1f" y="%d" text-anchor="middle">%d min</text>`+"\n", p.x(time.Duration(minute)*time.Minute), y+panelHeight+14, minute)
	}
	for i, m := range together {
		fmt.Fprintf(p.out, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", left+8, y+16+14*i, colours[i], m)
		p.curve(y, most, m, colours[i])
	}
}

// curve draws one measure, with a gap at each restart of the cluster.
func (p *plot) curve(y int, most float64, m measure, colour string) {
	var points []string
	flush := func() {
		if len(points) > 0 {
			fmt.Fprintf(p.out, `<polyline fill="none" stroke="%s" stroke-width="1.3" points="%s"/>`+"\n", colour, strings.Join(points, " "))
		}
		points = nil
	}
	life := 0
	for _, one := range p.samples {
		if one.life != life {
			flush()
			life = one.life
		}
		if v, ok := one.values[m]; ok {
			points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(one.at), float64(y)+panelHeight*(1-v/most)))
		}
	}
	flush()
}
