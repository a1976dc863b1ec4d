package main

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

// asItIs is the scale of the full form.
func asItIs(n int) int { return n }

// measured are the results of a run in which planekit needs a fifth of what
// kube-apiserver does of everything, and grows linearly.
func measured() results {
	both := func(name string, clients int) row {
		r := row{name: name, clients: clients}
		r.add(planekitOutside, figures{perSecond: 500, p50: 1, p99: 1, cpu: 1})
		r.add(stock, figures{perSecond: 100, p50: 5, p99: 5, cpu: 5})
		return r
	}
	r := results{
		sizes:        map[string]int64{withoutEtcd: 29_000_000},
		constructors: map[kind]time.Duration{planekitMemory: 51 * time.Millisecond, planekitInside: 100 * time.Millisecond},
	}
	for _, name := range []string{createPod, getPod, updatePod, patchPod} {
		r.requests = append(r.requests, both(name, 1), both(name, 64))
	}
	for _, media := range medias {
		r.requests = append(r.requests, both(listName(largePods, media.name), 1), both(listName(largePods, media.name), 4))
		r.requests = append(r.requests, both(listName(largePods, media.name)+zipped, 4))
	}
	r.fanOut = []fanRow{{row: both("", 0), fanLoad: fanLoad{1000, 1000, 0}, floor: []time.Duration{1}}}
	for _, pods := range memorySteps {
		r.memory = append(r.memory, memoryRow{asked: pods, pods: pods, of: map[kind]memoryFigures{
			planekitOutside: {resident: 30 + float64(pods)/1000}, stock: {resident: 100 + float64(pods)*6/1000},
		}})
	}
	for _, pods := range curveSteps {
		r.pods = append(r.pods, pointOfPods{
			asked: pods, pods: pods, resident: 30 + float64(pods)/100, list: figures{cpu: time.Duration(pods) * time.Microsecond},
		})
	}
	for _, n := range []int{1, 10, 100, 1000} {
		r.watchers = append(r.watchers, pointOfWatchers{
			fanLoad: fanLoad{watchers: n}, cost: figures{cpu: time.Millisecond + time.Duration(n)*time.Microsecond},
		})
	}
	return r
}

func TestBars(t *testing.T) {
	report := func(r results) string {
		var out strings.Builder
		printBars(&out, r, asItIs)
		return out.String()
	}
	for _, test := range []struct {
		name   string
		change func(*results)
		want   string
	}{
		{"list", nil, "| list 10000 pods, JSON, 4 clients: throughput to kube-apiserver's | at least 10 | 5 | missed by 50 % |"},
		{"gzip", nil, "| list 10000 pods, protobuf, gzip, 4 clients: throughput to kube-apiserver's | at least 10 | 5 | missed by 50 % |"},
		{"get", nil, "| get pod, 64 clients: throughput to kube-apiserver's | at least 3 | 5 | reached |"},
		{"create", nil, "| create pod, 64 clients: server CPU to kube-apiserver's | at most 0.25 | 0.2 | reached |"},
		{"latency", nil, "| create pod, 1 client: p50 to kube-apiserver's | at most 0.6 | 0.2 | reached |"},
		{"fan-out", nil, "| fan-out to 1000 watchers, full speed: server CPU of kube-apiserver to planekit's (to the floor's: 5.0) | at least 3 | 5 | reached |"},
		{"memory", nil, "| memory at 50000 pods to kube-apiserver's | at most 0.333 | 0.2 | reached |"},
		{"idle", nil, "| memory idle | at most 40 MiB | 30 MiB | reached |"},
		{"size", nil, "| API server binary, stripped | at most 30 MB | 29 MB | reached |"},
		{"constructor", nil, "| constructor to ready, memory | at most 50 ms | 51 ms | missed by 2 % |"},
		{"linear", nil, "| linear: memory for each pod of 100000 to one of 10000 | at most 1.25 | 1 | reached |"},
		{"linear deliveries", nil, "up to 1000 to up to 100 | at most 1.25 | 1 | reached |"},
		{"large", func(r *results) { r.sizes[withoutEtcd] = 45_000_000 },
			"| API server binary, stripped | at most 30 MB | 45 MB | missed by 50 % |"},
		{"quadratic", func(r *results) { r.pods[len(r.pods)-1].list.cpu *= 2 },
			"| linear: CPU of a list for each pod of 100000 to one of 10000 | at most 1.25 | 2 | missed by 60 % |"},
		{"slow tail", func(r *results) { r.fanOut[0].rounds[planekitOutside][0].p99 = 10 },
			"| fan-out to 1000 watchers, full speed: p99 to kube-apiserver's | at most 1 | 2 | missed by 100 % |"},
	} {
		r := measured()
		if test.change != nil {
			test.change(&r)
		}
		if got := report(r); !strings.Contains(got, test.want) {
			t.Errorf("%s: no %s in\n%s", test.name, test.want, got)
		}
	}
}

// TestBarsOfNothing: what was not measured is neither reached nor missed.
func TestBarsOfNothing(t *testing.T) {
	all := results{}.bars(asItIs)
	for _, b := range all {
		if !math.IsNaN(b.figure) {
			t.Errorf("%s: the figure without results is %v, want NaN", b.what, b.figure)
		}
	}
	var out strings.Builder
	printBars(&out, results{}, asItIs)
	if got := out.String(); regexp.MustCompile("reached|missed").MatchString(got) || !strings.Contains(got, count(len(all), "figure")+" not measured") {
		t.Error(got)
	}
}
