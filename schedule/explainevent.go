package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// ExplainAnnotation, with the value "true" on a pod, makes a [Scheduler] explain each decision about the pod in
// an event of its own, with the reason SchedulingExplained: how many nodes fit, how many each predicate refuses,
// and the best three nodes with their scores. It looks at each node, which takes milliseconds among thousands.
const ExplainAnnotation = "planekit.io/explain-scheduling"

const (
	// maxMessage is the maximum length of an event's message in bytes
	// (https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/, note).
	maxMessage = 1024
	// bestNodes bounds the nodes that an event names.
	bestNodes = 3
)

// explain returns a function that records the explanation of the next decision about a pod, if the pod asks for
// it. explain must be called with l.mu held, and the function without it.
func (l *loop) explain(p *PodInfo) (record func()) {
	if p.Pod.Annotations[ExplainAnnotation] != "true" {
		return func() {}
	}
	message := summarize(l.state.Explain(p), l.state.profileOf(p).Priorities, l.state.nominees[p.Key])
	return func() {
		l.config.Event(p.Pod.Spec.SchedulerName, p.Pod, corev1.EventTypeNormal, "SchedulingExplained", message)
	}
}

// summarize returns an explanation as the message of an event. reserved is the node that is reserved for the
// pod, or empty.
func summarize(list []NodeExplanation, priorities []Weighted, reserved string) string {
	refused := make(map[string]int)
	var best []string
	fit := 0
	for _, n := range list {
		if !n.Verdict.OK() {
			refused[n.Predicate]++
			continue
		}
		if fit++; fit <= bestNodes {
			best = append(best, n.Node+scores(n, priorities))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d nodes fit", fit, len(list))
	most := func(a, b string) int { return cmp.Or(cmp.Compare(refused[b], refused[a]), cmp.Compare(a, b)) }
	for _, predicate := range slices.SortedFunc(maps.Keys(refused), most) {
		fmt.Fprintf(&b, "; %s refuses %d", predicate, refused[predicate])
	}
	if reserved != "" {
		fmt.Fprintf(&b, "; %s is reserved for the pod", reserved)
	}
	if fit > 0 {
		fmt.Fprintf(&b, "; best: %s", strings.Join(best, ", "))
	}
	return shorten(b.String())
}

// scores returns the total of a node and the scores above 0 with their weights, or nothing if there are none.
func scores(n NodeExplanation, priorities []Weighted) string {
	if n.Scores == nil {
		return ""
	}
	var parts []string
	for i, w := range priorities {
		if n.Scores[i] == 0 {
			continue
		}
		part := fmt.Sprint(w.Name(), " ", n.Scores[i])
		if w.Weight > 1 {
			part += fmt.Sprint("*", w.Weight)
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf(" %d (%s)", n.Total, strings.Join(parts, ", "))
}

// shorten cuts a message to maxMessage, between two characters.
func shorten(message string) string {
	const dots = "..."
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage - len(dots)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + dots
}
