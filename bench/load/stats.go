package main

import (
	"math"
	"slices"
	"time"
)

// figures holds the costs of one load.
type figures struct {
	// perSecond is the number of answers each second.
	perSecond float64
	p50, p99  time.Duration
	// cpu is the server's processor time for each request, and etcd that of an etcd in a process of
	// its own.
	cpu, etcd time.Duration
	// bytes is the size of an answer.
	bytes int
}

// These are the figures by which rows are compared.
func throughput(f figures) float64 { return f.perSecond }
func cpu(f figures) float64        { return float64(f.cpu) }
func p50(f figures) float64        { return float64(f.p50) }
func p99(f figures) float64        { return float64(f.p99) }

// row is one line of a table: the figures of each side for the same load, round by round.
type row struct {
	name    string
	clients int
	rounds  map[kind][]figures
}

func (r *row) add(k kind, f figures) {
	if r.rounds == nil {
		r.rounds = map[kind][]figures{}
	}
	r.rounds[k] = append(r.rounds[k], f)
}

// ratio returns the median over the rounds of a's figure divided by b's. It is NaN if one of them
// was not measured.
func (r *row) ratio(a, b kind, of func(figures) float64) float64 {
	var ratios []float64
	for i := range min(len(r.rounds[a]), len(r.rounds[b])) {
		ratios = append(ratios, of(r.rounds[a][i])/of(r.rounds[b][i]))
	}
	return middle(ratios)
}

// median returns the median of each figure separately.
func median(rounds []figures) figures {
	of := func(take func(figures) float64) float64 {
		var values []float64
		for _, f := range rounds {
			values = append(values, take(f))
		}
		return middle(values)
	}
	if len(rounds) == 0 {
		return figures{}
	}
	return figures{
		perSecond: of(throughput),
		p50:       time.Duration(of(p50)),
		p99:       time.Duration(of(p99)),
		cpu:       time.Duration(of(cpu)),
		etcd:      time.Duration(of(func(f figures) float64 { return float64(f.etcd) })),
		bytes:     rounds[len(rounds)-1].bytes,
	}
}

// middle returns the median of values, which it sorts, or NaN if there are none.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// middleOf returns the median of times, which it sorts.
func middleOf(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// quantiles returns quantiles of took, which it sorts.
func quantiles(took []time.Duration) (p50, p99 time.Duration) {
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}
