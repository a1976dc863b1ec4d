package extender

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// filter returns the nodes that accept a pod, and why others refuse it. As in kube-scheduler, a node that
// the answer accepts and refuses is accepted, and one that it does not mention is refused. An answer that
// accepts a node that was not asked about is an error.
func (c *Client) filter(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (accepted []string, refused map[string]schedule.Verdict, err error) {
	var result FilterResult
	if err := c.ask(ctx, c.config.FilterVerb, c.args(pod, nodes), &result); err != nil {
		return nil, nil, err
	}
	if result.Error != "" {
		return nil, nil, errors.New(shorten(result.Error))
	}
	waiting := make(map[string]bool, len(nodes)) // not accepted yet
	for _, n := range nodes {
		waiting[n.Name] = true
	}
	seen := make(map[string]bool, len(nodes))
	for name := range c.acceptedNames(&result) {
		if !waiting[name] && !seen[name] {
			return nil, nil, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", c.name, shorten(name))
		}
		delete(waiting, name)
		seen[name] = true
	}
	reasons := reasons{others: "node(s) were refused by extender " + c.name, seen: make(map[string]bool)}
	refused = make(map[string]schedule.Verdict, len(waiting))
	for _, n := range nodes { // in their order, so that the same answer gives the same reasons
		if seen[n.Name] {
			accepted = append(accepted, n.Name)
		} else if message, ok := result.FailedAndUnresolvableNodes[n.Name]; ok {
			refused[n.Name] = schedule.RefuseAlways(reasons.of(message))
		} else {
			refused[n.Name] = schedule.Refuse(reasons.of(result.FailedNodes[n.Name]))
		}
	}
	return accepted, refused, nil
}

// args returns the question about nodes.
func (c *Client) args(pod *corev1.Pod, nodes []*corev1.Node) *Args {
	if c.config.NodeCacheCapable {
		names := make([]string, 0, len(nodes))
		for _, n := range nodes {
			names = append(names, n.Name)
		}
		return &Args{Pod: pod, NodeNames: &names}
	}
	list := &corev1.NodeList{}
	for _, n := range nodes {
		list.Items = append(list.Items, *n)
	}
	return &Args{Pod: pod, Nodes: list}
}

// acceptedNames yields the names of the nodes that an answer accepts.
func (c *Client) acceptedNames(result *FilterResult) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if c.config.NodeCacheCapable && result.NodeNames != nil {
			for _, name := range *result.NodeNames {
				if !yield(name) {
					return
				}
			}
			return
		}
		if result.Nodes == nil {
			return
		}
		for i := range result.Nodes.Items {
			if !yield(result.Nodes.Items[i].Name) {
				return
			}
		}
	}
}

// An extender may send any text as a reason. What is stored in the status of a pod and in events is
// bounded.
const (
	maxReason  = 512 // bytes
	maxReasons = 64  // different ones about a pod
)

// reasons bounds the reasons of one answer.
type reasons struct {
	others string // stands for further reasons, and for an empty one
	seen   map[string]bool
}

func (r *reasons) of(message string) string {
	message = shorten(message)
	if message == "" || !r.seen[message] && len(r.seen) == maxReasons {
		return r.others
	}
	r.seen[message] = true
	return message
}

// shorten cuts a text to maxReason bytes.
func shorten(text string) string {
	if len(text) <= maxReason {
		return text
	}
	end := maxReason
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}

// maxTotal bounds the weighted score of a node either way, so that sums do not overflow.
const maxTotal = 1 << 50

// prioritize returns what to add to the scores of nodes: the extender's scores, stretched from 0 to
// MaxScore to 0 to [schedule.MaxScore] and multiplied by the weight. As in kube-scheduler, scores beyond
// that range count as they are, and those of a node that is named twice add up. Nodes that were not
// asked about are ignored.
func (c *Client) prioritize(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (map[string]int64, error) {
	var result HostPriorityList
	if err := c.ask(ctx, c.config.PrioritizeVerb, c.args(pod, nodes), &result); err != nil {
		return nil, err
	}
	scores := make(map[string]int64, len(nodes))
	for _, n := range nodes {
		scores[n.Name] = 0
	}
	factor := c.config.Weight * (schedule.MaxScore / MaxScore)
	for _, host := range result {
		before, ok := scores[host.Host]
		if !ok {
			continue
		}
		score := min(max(host.Score, -maxTotal/factor), maxTotal/factor) * factor
		scores[host.Host] = min(max(before+score, -maxTotal), maxTotal)
	}
	return scores, nil
}

// preempt returns the pods that should end so that a pod fits a node, by the names of nodes.
func (c *Client) preempt(ctx context.Context, pod *corev1.Pod, found []schedule.Preemption) (map[string]*MetaVictims, error) {
	args := &PreemptionArgs{Pod: pod}
	if c.config.NodeCacheCapable {
		args.NodeNameToMetaVictims = make(map[string]*MetaVictims, len(found))
	} else {
		args.NodeNameToVictims = make(map[string]*Victims, len(found))
	}
	for _, p := range found {
		if c.config.NodeCacheCapable {
			args.NodeNameToMetaVictims[p.Node] = metaVictims(p)
		} else {
			args.NodeNameToVictims[p.Node] = victims(p)
		}
	}
	var result PreemptionResult
	if err := c.ask(ctx, c.config.PreemptVerb, args, &result); err != nil {
		return nil, err
	}
	return result.NodeNameToMetaVictims, nil
}

func victims(p schedule.Preemption) *Victims {
	v := &Victims{Pods: []*corev1.Pod{}, NumPDBViolations: int64(p.Violations)}
	for _, victim := range p.Victims {
		v.Pods = append(v.Pods, victim.Pod)
	}
	return v
}

func metaVictims(p schedule.Preemption) *MetaVictims {
	v := &MetaVictims{Pods: []*MetaPod{}, NumPDBViolations: int64(p.Violations)}
	for _, victim := range p.Victims {
		v.Pods = append(v.Pods, &MetaPod{UID: string(victim.Pod.UID)})
	}
	return v
}

// bind asks the extender to bind a pod to a node.
func (c *Client) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	var result BindingResult
	args := &BindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}
	if err := c.ask(ctx, c.config.BindVerb, args, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return errors.New(shorten(result.Error))
	}
	return nil
}
