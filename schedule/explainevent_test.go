package schedule_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
)

// explanations returns the events with explanations of a scheduler over nodes, after it has decided about a pod.
func explanations(t *testing.T, p *corev1.Pod, change func(*schedule.Config), nodes ...*corev1.Node) (messages []string) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for _, n := range nodes {
			c.nodes.Put(n)
		}
		c.pods.Put(p)
		var mu sync.Mutex // guards messages
		c.change = func(config *schedule.Config) {
			change(config)
			config.Event = func(_ string, pod *corev1.Pod, eventType, reason, message string) {
				if reason == "SchedulingExplained" && eventType == corev1.EventTypeNormal && pod.Name == p.Name {
					mu.Lock()
					messages = append(messages, message)
					mu.Unlock()
				}
			}
		}
		c.run(synctest.Wait)
	})
	return messages
}

// explained returns a pod that asks for explanations.
func explained(p *corev1.Pod) *corev1.Pod {
	p.Annotations = map[string]string{schedule.ExplainAnnotation: "true"}
	return p
}

// TestExplainAnnotation checks the event of each outcome of a decision.
func TestExplainAnnotation(t *testing.T) {
	fifty := schedule.Weighted{Priority: schedule.PriorityFunc("Pods", func(_ *schedule.PodInfo, n *schedule.NodeInfo) int64 { return n.AllocatablePods }), Weight: 2}
	zero := schedule.Weighted{Priority: schedule.PriorityFunc("Nothing", func(*schedule.PodInfo, *schedule.NodeInfo) int64 { return 0 })}
	priorities := func(c *schedule.Config) { c.Priorities = []schedule.Weighted{fifty, zero} }
	cordoned := node("cordoned", "8", "8Gi", "9")
	cordoned.Spec.Unschedulable = true
	reserved := explained(pod("web", "1", "1Gi"))
	reserved.Status.NominatedNodeName = "a"
	other := explained(pod("web", "1", "1Gi"))
	other.Annotations[schedule.ExplainAnnotation] = "false"
	for _, test := range []struct {
		name  string
		pod   *corev1.Pod
		nodes []*corev1.Node
		want  string
	}{
		{"several fit", explained(pod("web", "1", "1Gi")),
			[]*corev1.Node{node("a", "2", "2Gi", "1"), node("b", "2", "2Gi", "4"), node("c", "2", "2Gi", "3"), node("d", "2", "2Gi", "2"), cordoned, node("full", "1m", "1Gi", "9")},
			"4 of 6 nodes fit; NodeResourcesFit refuses 1; NodeUnschedulable refuses 1; best: b 8 (Pods 4*2), c 6 (Pods 3*2), d 4 (Pods 2*2)"},
		{"one fits", explained(pod("web", "1", "1Gi")), []*corev1.Node{node("a", "2", "2Gi", "1"), cordoned},
			"1 of 2 nodes fit; NodeUnschedulable refuses 1; best: a"},
		{"none fits", explained(pod("web", "3", "1Gi")), []*corev1.Node{node("a", "2", "2Gi", "1"), node("b", "2", "2Gi", "1"), cordoned},
			"0 of 3 nodes fit; NodeResourcesFit refuses 2; NodeUnschedulable refuses 1"},
		{"no nodes", explained(pod("web", "3", "1Gi")), nil, "0 of 0 nodes fit"},
		{"a node is reserved", reserved, []*corev1.Node{node("a", "2", "2Gi", "1"), node("b", "2", "2Gi", "4")},
			"2 of 2 nodes fit; a is reserved for the pod; best: b 8 (Pods 4*2), a 2 (Pods 1*2)"},
		{"not wanted", other, []*corev1.Node{node("a", "2", "2Gi", "1")}, ""},
		{"not asked for", pod("web", "1", "1Gi"), []*corev1.Node{node("a", "2", "2Gi", "1")}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if have := strings.Join(explanations(t, test.pod, priorities, test.nodes...), "\n"); have != test.want {
				t.Errorf("have %q, want %q", have, test.want)
			}
		})
	}
}

// TestExplainAnnotationIsShort checks that a message has at most the 1024 bytes of an event, in whole characters.
func TestExplainAnnotationIsShort(t *testing.T) {
	for extra := range 4 { // the cut is at each byte of a character
		name := strings.Repeat("x", extra) + strings.Repeat("€", 400)
		long := func(c *schedule.Config) {
			c.Predicates = append(predicates.Default(), schedule.PredicateFunc(name, func(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict {
				return schedule.Refuse("no")
			}))
		}
		have := explanations(t, explained(pod("web", "1", "1Gi")), long, node("a", "2", "2Gi", "1"))
		if len(have) != 1 || len(have[0]) > 1024 || len(have[0]) < 1020 || !utf8.ValidString(have[0]) || !strings.HasSuffix(have[0], "€...") {
			t.Errorf("with %d bytes before the long name the messages are %q, want one of 1020 to 1024 bytes, in UTF-8, that ends with €...",
				extra, have)
		}
	}
}

// TestExplainAnnotationChangesNothing checks that pods with the annotation go to the same nodes as without it.
func TestExplainAnnotationChangesNothing(t *testing.T) {
	binds := func(annotate bool) (log []string) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			c.run(func() {
				for _, name := range []string{"a", "b", "c"} {
					c.nodes.Put(node(name, "4", "8Gi", "110"))
					synctest.Wait() // the order of nodes decides between equal ones
				}
				for _, name := range strings.Split("abcdefghijkl", "") {
					p := pod(name, "1", "1Gi")
					if annotate {
						explained(p)
					}
					c.pods.Put(p)
					synctest.Wait()
				}
			})
			log = c.log
		})
		return log
	}
	with, without := strings.Join(binds(true), "\n"), strings.Join(binds(false), "\n")
	if with != without || strings.Count(with, " on ") != 12 {
		t.Errorf("with the annotation:\n%s\nwithout:\n%s", with, without)
	}
}
