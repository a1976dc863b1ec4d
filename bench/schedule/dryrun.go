package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A dryRunner is a core that chooses the victims of a pod without their end.
type dryRunner interface {
	core
	// dryRun decides about a pod that fits no node, and then calls measure with the search for its victims, which
	// returns errUnplaced if there are none that help.
	dryRun(p *corev1.Pod, measure func(search func() error)) error
}

// dryRunPods is the number of pods that run in each cluster of a dry run, and dryRuns that of the dry runs.
const (
	dryRunPods = 20_000
	dryRuns    = 1000
	// dryRunChanges counts the pods that leave before each dry run, while others take their room.
	dryRunChanges = 100
)

// dryRunKinds are the pods whose victims are searched: all of one class, each of its own, and such that preemption
// does not help.
var dryRunKinds = []string{"alike", "different", "hopeless"}

// dryRunFigures are the times of dry runs, of the clock and of the thread, and the processor time of the process.
type dryRunFigures struct {
	took, thread []time.Duration
	cpu          time.Duration
}

// runDryRuns measures the search for victims alone, in clusters of different numbers of nodes.
func runDryRuns(ctx context.Context, out io.Writer, o options) error {
	chosen, err := chosenPeers(o.peer)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "\n| pods | scheduler | nodes | running pods | dry runs | p50 | p99 | longest | p99 of its thread | processor time |")
	fmt.Fprintln(out, "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, kind := range dryRunKinds {
		for _, nodes := range o.nodes {
			for _, p := range chosen {
				f, err := measureDryRuns(ctx, p, nodes, cmp.Or(o.pods, dryRunPods), kind, o.limit)
				if err != nil {
					return fmt.Errorf("%s, %s, %d nodes: %w", kind, p.name, nodes, err)
				}
				thread := "-" // the stock scheduler uses several
				if p.own {
					thread = short(percentile(f.thread, 99)).String()
				}
				fmt.Fprintf(out, "| %s | %s | %d | %d | %d | %v | %v | %v | %s | %v |\n", kind, p.name, nodes, cmp.Or(o.pods, dryRunPods), len(f.took),
					short(percentile(f.took, 50)), short(percentile(f.took, 99)), short(slices.Max(f.took)), thread, short(f.cpu/time.Duration(len(f.took))))
			}
		}
	}
	return nil
}

// measureDryRuns runs one peer over a full cluster, until there were enough dry runs or limit has passed; zero means
// no limit.
func measureDryRuns(ctx context.Context, p peer, nodes, pods int, kind string, limit time.Duration) (f dryRunFigures, err error) {
	made, err := p.core(ctx)
	if err != nil {
		return f, err
	}
	defer made.close()
	c, ok := made.(dryRunner)
	if !ok {
		return f, fmt.Errorf("a %T cannot do without the end of victims", made)
	}
	w := fullWorld(nodes, pods)
	if err := errors.Join(fillNodes(c, w), fillPods(c, w)); err != nil {
		return f, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	measure := func(search func() error) {
		cpu, thread, began := cpuTime(), threadTime(), time.Now()
		err = search()
		f.took = append(f.took, time.Since(began))
		f.thread = append(f.thread, threadTime()-thread)
		f.cpu += cpuTime() - cpu
	}
	for began := time.Now(); len(f.took) < dryRuns && (limit == 0 || time.Since(began) < limit); {
		i := len(f.took)
		if err := exchange(c, w, i); err != nil {
			return f, err
		}
		if failed := c.dryRun(preemptor(i, kind), measure); failed != nil {
			return f, failed
		}
		if hopeless := kind == "hopeless"; hopeless != errors.Is(err, errUnplaced) {
			return f, fmt.Errorf("dry run %d: %v", i, err)
		}
	}
	return f, nil
}

// fullWorld returns nodes without room for CPU. Their pods have different sizes and five priorities below those of
// preemptors; one pod of each node has a higher one.
func fullWorld(nodes, pods int) *world {
	w := worldOf(nil)(nodes, 0)
	perNode := max(2, pods/nodes)
	size := int64(32_000 / perNode)
	for i := range nodes * perNode {
		node, k := i%nodes, i/nodes
		pod := newPod(fmt.Sprintf("low-%d", i), app(i, groupSize))
		// Two pods together take twice the size.
		more := size / 2 * int64(i%7) / 7
		if k%2 == 1 {
			more = -size / 2 * int64((i-nodes)%7) / 7
		}
		if k == perNode-1 && k%2 == 0 {
			more = 0
		}
		pod.Spec.Containers[0].Resources = requests(size+more, 1000)
		pod.Spec.Priority = new(int32(10 * (i * 7 % 5)))
		if k == 0 {
			pod.Spec.Priority = new(int32(2 * highPriority))
		}
		pod.Status.StartTime = &metav1.Time{Time: time.Unix(int64(i*7919%100_003), 0)}
		w.placed = append(w.placed, placedOn(pod, w.nodes[node].Name))
	}
	return w
}

// exchange lets pods leave, in whose places come others.
func exchange(c core, w *world, round int) error {
	for k := range dryRunChanges {
		at := (round*dryRunChanges + k) * 7919 % len(w.placed)
		if err := c.removePod(w.placed[at]); err != nil {
			return err
		}
		pod := w.placed[at].DeepCopy()
		pod.Name = fmt.Sprintf("low-%d-%d", at, round)
		pod.UID = types.UID("uid-" + pod.Name)
		pod.Status.StartTime = &metav1.Time{Time: time.Unix(int64(100_003+round), 0)}
		w.placed[at] = pod
		if err := c.addPod(pod); err != nil {
			return err
		}
	}
	return nil
}

// preemptor returns a pod that must preempt others.
func preemptor(i int, kind string) *corev1.Pod {
	pod := newPod(fmt.Sprintf("high-%d", i), "high")
	pod.Spec.Priority, pod.Spec.PriorityClassName = new(int32(highPriority)), highClass
	pod.Spec.Containers[0].Resources = requests(32_000/highPods, 1000)
	if kind != "alike" {
		pod.Labels["run"] = fmt.Sprintf("run-%d", i)
	}
	if kind == "hopeless" {
		pod.Spec.Containers[0].Resources = requests(31_900, 1000)
	}
	return pod
}
