package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// quality says how well a scheduler has placed the pods of a trace. Except for unplaced, the figures are means
// over samples.
type quality struct {
	// unplaced is the share of pods that fitted no node when they arrived.
	unplaced float64
	// requested is the share of the processors that pods request.
	requested float64
	// used is the share of nodes with pods.
	used float64
	// fragmented is the share of the free processors on nodes where the mean pod does not fit.
	fragmented float64
	// uneven is the standard deviation of the requested shares of the nodes.
	uneven float64
	// skew is the difference between the zones with the most and the fewest pods of an app, as a mean over the
	// apps with a spread constraint.
	skew float64
	// took is the time of all decisions.
	took time.Duration
}

// noWorse returns an error if q, a mean over a few traces, is worse than other by more than chance explains.
func (q quality) noWorse(other quality) error {
	for _, f := range []struct {
		name                 string
		own, peer, tolerance float64
	}{
		{"unplaced", q.unplaced, other.unplaced, 0.03}, {"used", q.used, other.used, 0.05},
		{"fragmented", q.fragmented, other.fragmented, 0.1}, {"uneven", q.uneven, other.uneven, 0.03}, {"skew", q.skew, other.skew, 0.3},
	} {
		if f.own > f.peer+f.tolerance {
			return fmt.Errorf("%s: %.4f, of the stock scheduler %.4f", f.name, f.own, f.peer)
		}
	}
	return nil
}

// runQuality writes the quality of both schedulers for each shape, as means over traces.
func runQuality(ctx context.Context, out io.Writer, o options) error {
	fmt.Fprintln(out, "\n| shape | nodes | pods | scheduler | unplaced | requested | nodes used | fragmented | uneven | zone skew | a decision |")
	fmt.Fprintln(out, "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, s := range shapes() {
		for _, nodes := range o.nodes {
			pods := cmp.Or(o.pods, 40*nodes)
			for _, p := range peers()[:2] {
				var all []quality
				for seed := range max(1, o.rounds) {
					q, err := judge(ctx, p, s.make(nodes, pods, uint64(seed)))
					if err != nil {
						return fmt.Errorf("%s, %s: %w", s.name, p.name, err)
					}
					all = append(all, q)
				}
				q := mean(all)
				fmt.Fprintf(out, "| %s | %d | %d | %s | %.2f%% | %.1f%% | %.1f%% | %.2f%% | %.3f | %.2f | %v |\n", s.name, nodes, pods, p.name,
					100*q.unplaced, 100*q.requested, 100*q.used, 100*q.fragmented, q.uneven, q.skew, short(q.took/time.Duration(pods)))
			}
		}
	}
	return nil
}

// mean returns the means of the figures.
func mean(all []quality) (m quality) {
	n := float64(len(all))
	for _, q := range all {
		m.unplaced += q.unplaced / n
		m.requested += q.requested / n
		m.used += q.used / n
		m.fragmented += q.fragmented / n
		m.uneven += q.uneven / n
		m.skew += q.skew / n
		m.took += q.took / time.Duration(len(all))
	}
	return m
}

// judge lets the pods of a trace arrive and leave. A pod that fits no node does not come again.
func judge(ctx context.Context, p peer, t *trace) (q quality, err error) {
	c, err := p.core(ctx)
	if err != nil {
		return q, err
	}
	defer c.close()
	if err := fillNodes(c, &world{nodes: t.nodes}); err != nil {
		return q, err
	}
	placed := make(map[*corev1.Pod]*corev1.Pod) // as they are on nodes
	var samples []quality
	arrived, unplaced := 0, 0
	for _, e := range t.events {
		if e.leaves {
			if on := placed[e.pod]; on != nil {
				delete(placed, e.pod)
				if err := c.removePod(on); err != nil {
					return q, err
				}
			}
			continue
		}
		began := time.Now()
		node, err := c.place(e.pod)
		q.took += time.Since(began)
		arrived++
		switch {
		case errors.Is(err, errUnplaced):
			unplaced++
		case err != nil:
			return q, fmt.Errorf("%s: %w", e.pod.Name, err)
		default:
			on := placedOn(e.pod.DeepCopy(), node)
			if err := c.addPod(on); err != nil {
				return q, err
			}
			placed[e.pod] = on
		}
		if arrived%100 == 0 && arrived*4 > t.pods {
			samples = append(samples, sample(t, slices.Collect(maps.Values(placed))))
		}
	}
	m := mean(samples)
	m.unplaced, m.took = float64(unplaced)/float64(arrived), q.took
	return m, nil
}

// sample returns the quality at one time.
func sample(t *trace, pods []*corev1.Pod) (q quality) {
	requested, memory, count := make(map[string]int64), make(map[string]int64), make(map[string]int)
	var cpu, bytes int64
	zones := make(map[string]map[string]int) // by app
	for _, p := range pods {
		list := p.Spec.Containers[0].Resources.Requests
		requested[p.Spec.NodeName] += list.Cpu().MilliValue()
		memory[p.Spec.NodeName] += list.Memory().Value()
		count[p.Spec.NodeName]++
		cpu, bytes = cpu+list.Cpu().MilliValue(), bytes+list.Memory().Value()
		if len(p.Spec.TopologySpreadConstraints) > 0 {
			if zones[p.Labels["app"]] == nil {
				zones[p.Labels["app"]] = make(map[string]int)
			}
			zones[p.Labels["app"]][t.zoneOf[p.Spec.NodeName]]++
		}
	}
	meanCPU, meanMemory := cpu/int64(max(1, len(pods))), bytes/int64(max(1, len(pods)))
	var all, free, stranded int64
	var mean, squares float64 // of the requested share of a node
	for _, n := range t.nodes {
		total, left := n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Cpu().MilliValue()-requested[n.Name]
		all, free = all+total, free+left
		if left < meanCPU || n.Status.Allocatable.Memory().Value()-memory[n.Name] < meanMemory {
			stranded += left
		}
		if count[n.Name] > 0 {
			q.used += 1 / float64(len(t.nodes))
		}
		share := float64(requested[n.Name]) / float64(total)
		squares += share * share / float64(len(t.nodes))
		mean += share / float64(len(t.nodes))
	}
	q.uneven = deviation(squares, mean)
	q.requested = float64(cpu) / float64(all)
	q.fragmented = float64(stranded) / float64(max(1, free))
	for _, byZone := range zones {
		most, least := 0, len(pods)
		for i := range zoneCount {
			most, least = max(most, byZone[zone(i)]), min(least, byZone[zone(i)])
		}
		q.skew += float64(most-least) / float64(len(zones))
	}
	return q
}
