package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/planekit/planekit/schedule/simulate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A trace is a cluster, and pods that arrive and leave.
type trace struct {
	nodes  []*corev1.Node
	zoneOf map[string]string // by node
	pods   int
	events []arrival // in the order of time
}

// An arrival is a pod that arrives or leaves.
type arrival struct {
	at     time.Duration
	pod    *corev1.Pod
	leaves bool
}

// A shape makes traces of any size.
type shape struct {
	name string
	make func(nodes, pods int, seed uint64) *trace
}

// shapes have the shape of published traces, with round figures and not fitted to them.
//
//   - azure is [simulate.Generate]: virtual machines of Azure in 2017 (Cortez and others, Resource Central, SOSP
//     2017), of few sizes, with lifetimes that have a long tail.
//   - borg is after Google's clusters in 2019 (Tirmazi and others, Borg: the Next Generation, EuroSys 2020):
//     machines of several shapes, and tasks whose requests have a heavy tail and are mostly far below a tenth of a
//     machine, with a ratio of memory to processors that varies much.
//   - alibaba is after Alibaba's clusters in 2018 (cluster-trace-v2018): machines of 96 cores, containers of 4, 8
//     or 16 cores that stay, and batch instances of half a core or one that soon leave.
//
// Half of the apps spread over zones where that is possible (ScheduleAnyway).
func shapes() []shape {
	return []shape{{"azure", azure}, {"borg", borg}, {"alibaba", alibaba}}
}

// span is the time in which the pods of a trace arrive.
const span = 24 * time.Hour

// load is the share of the processors that pods request at once, if all are placed. It is near the end of what
// fits, so that packing matters.
const load = 0.95

func azure(nodes, pods int, seed uint64) *trace {
	var list []draft
	for _, a := range simulate.Generate(simulate.Shape{Pods: pods, Over: span, Seed: seed}) {
		requests := a.Pod.Spec.Containers[0].Resources.Requests
		list = append(list, draft{a.At, a.Duration, requests.Cpu().MilliValue(), requests.Memory().Value() >> 20, a.Pod.Labels["app"]})
	}
	return newTrace(list, uniform(nodes, 32_000, 128<<10))
}

// draft is a pod with its time and its requests in thousandths of a core and MiB.
type draft struct {
	at, stays   time.Duration
	cpu, memory int64
	app         string
}

func borg(nodes, pods int, seed uint64) *trace {
	r := rand.New(rand.NewPCG(seed, 1))
	var list []draft
	for job := 0; len(list) < pods; job++ {
		at := time.Duration(r.Int64N(int64(span)))
		cpu := int64(pareto(r, 0.9, 150, 24_000))
		memory := int64(float64(cpu) * 4 * math.Exp(0.8*r.NormFloat64()))
		stays := time.Duration(pareto(r, 0.8, float64(10*time.Minute), float64(3*span)))
		for range min(pods-len(list), int(pareto(r, 1.1, 1, 200))) {
			list = append(list, draft{at, stays, cpu, min(max(memory, 16), 96<<10), fmt.Sprint("job-", job)})
		}
	}
	var machines []*corev1.Node
	for i := range nodes {
		// Shares of the largest machine.
		kind := []struct{ cpu, memory float64 }{{1, 1}, {0.6, 0.33}, {0.6, 0.33}, {0.5, 0.5}, {0.7, 0.7}}[i%5]
		machines = append(machines, newMachine(i, int64(64_000*kind.cpu), int64(float64(256<<10)*kind.memory)))
	}
	return newTrace(list, machines)
}

func alibaba(nodes, pods int, seed uint64) *trace {
	r := rand.New(rand.NewPCG(seed, 2))
	var list []draft
	for app := 0; len(list) < pods; app++ {
		at := time.Duration(r.Int64N(int64(span)))
		if r.IntN(5) > 0 {
			cpu := []int64{500, 500, 1000, 1000, 1000, 2000}[r.IntN(6)]
			for range min(pods-len(list), int(pareto(r, 1, 1, 100))) {
				stays := time.Duration(float64(10*time.Minute) * math.Exp(r.NormFloat64()))
				list = append(list, draft{at, stays, cpu, cpu * 2, fmt.Sprint("batch-", app)})
			}
			continue
		}
		cpu := []int64{4000, 4000, 4000, 8000, 8000, 16_000}[r.IntN(6)]
		for range min(pods-len(list), 1+r.IntN(10)) {
			list = append(list, draft{at / 4, span, cpu, cpu * 2, fmt.Sprint("service-", app)})
		}
	}
	return newTrace(list, uniform(nodes, 96_000, 256<<10))
}

// pareto returns a number of a Pareto distribution from least to most.
func pareto(r *rand.Rand, alpha, least, most float64) float64 {
	return min(most, least*math.Pow(1-r.Float64(), -1/alpha))
}

func uniform(nodes int, cpu, memory int64) (list []*corev1.Node) {
	for i := range nodes {
		list = append(list, newMachine(i, cpu, memory))
	}
	return list
}

// newMachine returns a node with cpu in thousandths of a core and memory in MiB.
func newMachine(i int, cpu, memory int64) *corev1.Node {
	n := newNode(i)
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
		list[corev1.ResourceMemory] = *resource.NewQuantity(memory<<20, resource.BinarySI)
		list[corev1.ResourcePods] = resource.MustParse("250")
	}
	return n
}

// newTrace makes the pods. It shortens or extends their stays so that they request as much as load at once, as a
// mean over the second half of the time.
func newTrace(list []draft, nodes []*corev1.Node) *trace {
	t := &trace{nodes: nodes, zoneOf: make(map[string]string), pods: len(list)}
	var capacity float64
	for _, n := range nodes {
		t.zoneOf[n.Name] = n.Labels[corev1.LabelTopologyZone]
		capacity += float64(n.Status.Allocatable.Cpu().MilliValue())
	}
	low, high := 0.001, 1000.0
	for range 40 {
		if middle := math.Sqrt(low * high); requestedShare(list, middle)/capacity < load {
			low = middle
		} else {
			high = middle
		}
	}
	for i, d := range list {
		p := newPod(fmt.Sprintf("pod-%d", i), d.app)
		p.Spec.Containers[0].Resources = requests(d.cpu, d.memory)
		if len(d.app)%2 == 0 {
			spread(p, 0, 0)
			p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.ScheduleAnyway
		}
		t.events = append(t.events, arrival{at: d.at, pod: p}, arrival{at: d.at + time.Duration(min(float64(d.stays)*low, float64(2*span))), pod: p, leaves: true})
	}
	slices.SortStableFunc(t.events, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return t
}

// requestedShare returns how much processor the pods request in the second half of the time, as a mean, if their
// stays are longer by a factor.
func requestedShare(list []draft, factor float64) (sum float64) {
	for _, d := range list {
		from, to := max(d.at, span/2), min(span, d.at+time.Duration(min(float64(d.stays)*factor, float64(2*span))))
		if to > from {
			sum += float64(d.cpu) * float64(to-from) / float64(span/2)
		}
	}
	return sum
}

// deviation returns the standard deviation, given the mean of the squares and the mean.
func deviation(squares, mean float64) float64 { return math.Sqrt(max(0, squares-mean*mean)) }
