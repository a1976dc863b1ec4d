package schedule_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// oneByOne binds one pod to a node after the other.
type oneByOne struct {
	mu sync.Mutex // guards the fields below
	// next has the pods that wait for each node to which a pod is being bound.
	next    map[string][]*schedule.PodInfo
	waiting *schedule.Waiting
}

func (*oneByOne) Name() string { return "OneByOne" }

// Permit implements schedule.Permitter.
func (o *oneByOne) Permit(p *schedule.PodInfo, node string, w *schedule.Waiting) (schedule.Verdict, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = w
	if list, busy := o.next[node]; busy {
		o.next[node] = append(list, p)
		return schedule.Fits, time.Minute
	}
	o.next[node] = nil
	return schedule.Fits, 0
}

// PostBind implements schedule.PostBinder.
func (o *oneByOne) PostBind(_ context.Context, _ *corev1.Pod, node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.next[node]) > 0 {
		p := o.next[node][0]
		o.next[node] = o.next[node][1:]
		if o.waiting.Allow(p, o.Name()) {
			return // the others wait for that one
		}
	}
	delete(o.next, node)
}

// An extension that lets pods wait, and allows them one after the other. (One for use would also be a
// Reserver, to know when a pod is not bound after all.)
func ExamplePermitter() {
	ctx, cancel := context.WithCancel(context.Background())
	bound := 0
	scheduler, err := schedule.New(schedule.Config{
		Extensions: []schedule.Extension{&oneByOne{next: map[string][]*schedule.PodInfo{}}},
		Nodes:      localcache.NewMap(node("a", "4", "8Gi", "110")),
		Pods:       localcache.NewMap(pod("1", "", ""), pod("2", "", ""), pod("3", "", "")),
		Bind: func(_ context.Context, pod *corev1.Pod, node string) error {
			fmt.Println(pod.Name, "starts on", node)
			if bound++; bound == 3 {
				cancel()
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := scheduler.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 starts on a
	// 2 starts on a
	// 3 starts on a
}
