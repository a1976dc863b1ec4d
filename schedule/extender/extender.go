// Package extender lets programs outside the scheduler take part in its decisions over HTTP, and helps to
// write them. It speaks version 1 of kube-scheduler's protocol, so that programs made for kube-scheduler
// work unchanged.
//
// The scheduler's side is a [Client]:
//
//	gpus, err := extender.New(extender.Config{
//		URLPrefix:        "http://127.0.0.1:8888/scheduler",
//		FilterVerb:       "filter",
//		PrioritizeVerb:   "prioritize",
//		Weight:           1,
//		ManagedResources: []extender.ManagedResource{{Name: "example.com/gpu", IgnoredByScheduler: true}},
//	})
//	extender.Add(&config, gpus) // a schedule.Config
//	defer gpus.Close()
//
// The other side is a [Handler]:
//
//	http.Handle("/scheduler/", extender.Handler{
//		Filter: func(pod *corev1.Pod, node *corev1.Node) schedule.Verdict { ... },
//	})
//
// # Failure
//
// A question is one POST of JSON, and is not repeated: the pod is tried again after its backoff instead.
// Anything but the status 200, an answer that is not JSON of the right shape, that is too long (see
// [MaxAnswer]), or that does not come within Config.HTTPTimeout is an error. No redirect is followed. If the
// extender is Ignorable, the scheduler goes on without it. Scores that cannot be had are always done
// without.
//
// # Differences from kube-scheduler
//
// An https extender is verified against the system's roots if no others are configured. The environment's
// proxy is not used. Reasons for nodes are cut to 512 bytes, and after 64 different ones about a pod the
// others count as one. A node that an extender neither accepts nor refuses counts with a reason; kube-scheduler
// says none. An accepted node that was not asked about is always an error, and so is a victim whose priority
// is not lower. Of the nodes that an extender accepts only the names are used; kube-scheduler takes the
// objects, and scores those nodes as if they had no pods. Other pods are scheduled while an extender is
// asked about one; see package schedule.
package extender

import (
	"context"
	"slices"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Add adds extenders to the configuration of a scheduler. If resources that they manage are ignored by the
// scheduler, Add replaces the predicate of [predicates.Fit] with one that does not look at them. It must be
// called at most once for a configuration.
func Add(config *schedule.Config, clients ...*Client) {
	var ignored []string
	for _, c := range clients {
		config.Extenders = append(config.Extenders, c.Extender())
		for _, r := range c.config.ManagedResources {
			if r.IgnoredByScheduler {
				ignored = append(ignored, string(r.Name))
			}
		}
	}
	if len(ignored) == 0 {
		return
	}
	fit := predicates.FitIgnoring(predicates.Ignored{Names: ignored})
	config.Predicates = slices.Clone(config.Predicates)
	for i, p := range config.Predicates {
		if p.Name() == fit.Name() {
			config.Predicates[i] = fit
		}
	}
}

// Extender returns the extender for a scheduler's configuration. Resources that the scheduler ignores need
// [Add].
func (c *Client) Extender() schedule.Extender {
	e := schedule.Extender{Name: c.name, Interested: c.Interested, Ignorable: c.config.Ignorable}
	if c.config.FilterVerb != "" {
		e.Filter = c.filter
	}
	if c.config.PrioritizeVerb != "" {
		e.Prioritize = c.prioritize
	}
	if c.config.PreemptVerb != "" {
		e.Preempt = c.victims
	}
	if c.config.BindVerb != "" {
		e.Bind = c.bind
	}
	return e
}

// victims is preempt for a schedule.Extender.
func (c *Client) victims(ctx context.Context, pod *corev1.Pod, found []schedule.Preemption) (map[string]schedule.VictimUIDs, error) {
	answer, err := c.preempt(ctx, pod, found)
	if err != nil {
		return nil, err
	}
	all := make(map[string]schedule.VictimUIDs, len(answer))
	for node, v := range answer {
		var uids schedule.VictimUIDs
		if v != nil {
			uids.Violations = int(v.NumPDBViolations)
			for _, p := range v.Pods {
				if p != nil {
					uids.UIDs = append(uids.UIDs, types.UID(p.UID))
				}
			}
		}
		all[node] = uids
	}
	return all, nil
}
