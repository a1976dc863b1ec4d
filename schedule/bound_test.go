package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/schedule"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPreemptBounds checks that Preempt, which makes only the plans that may be the best, chooses as if it made
// those of all nodes: for pods of many kinds, while nodes and pods change.
func TestPreemptBounds(t *testing.T) {
	helped := 0
	for seed := range uint64(150) {
		c, r := randomcluster.New(seed), rand.New(rand.NewPCG(seed, 2))
		s := newState()
		for _, n := range c.Nodes {
			s.SetNode(n)
		}
		for _, p := range c.Pods {
			s.SetPod(schedule.NewPodInfo(p))
		}
		var placed []string
		for step := range 60 {
			node := c.Nodes[r.IntN(len(c.Nodes))].Name
			switch pod := c.Pod(); r.IntN(8) {
			case 0:
				s.SetNode(c.Node(node))
			case 1:
				s.Nominate(schedule.NewPodInfo(pod), node)
			case 2:
				if len(placed) > 0 {
					s.RemovePod(placed[r.IntN(len(placed))])
				}
			default:
				pod.Spec.NodeName = node
				pod.Status.StartTime = &metav1.Time{Time: time.Unix(r.Int64N(4), 0)}
				placed = append(placed, pod.Namespace+"/"+pod.Name)
				s.SetPod(schedule.NewPodInfo(pod))
			}
			if err := s.CheckLadders(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			pod := schedule.NewPodInfo(sibling(c.Pod(), step))
			_, unfit := s.Decide(pod)
			if unfit == nil {
				continue
			}
			other := *unfit
			got, ok := s.Preempt(pod, unfit, c.Budgets)
			want, helps := s.PreemptAll(pod, &other, c.Budgets)
			if ok != helps || !reflect.DeepEqual(got, want) || unfit.Error() != other.Error() {
				t.Fatalf("seed %d, step %d: %s preempts %s, %v: %v, want %s, %v: %v", seed, step, pod.Key,
					victimsOf(got), ok, unfit, victimsOf(want), helps, &other)
			}
			if ok {
				helped++
			}
		}
	}
	if helped < 500 {
		t.Errorf("preemption helped only %d pods", helped)
	}
}

func victimsOf(p schedule.Preemption) string {
	text := fmt.Sprint(p.Node, " ", p.Violations)
	for _, v := range p.Victims {
		text += " " + v.Key
	}
	return text
}
