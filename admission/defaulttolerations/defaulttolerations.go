// Package defaulttolerations limits how long pods stay on an unreachable node: the
// DefaultTolerationSeconds plugin of Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaulttolerationseconds).
//
//	plugin, err := defaulttolerations.New(defaulttolerations.Config{})
//	chain := admission.Chain{Mutators: []admission.Mutator{plugin}}
//
// A pod without a toleration for the taints node.kubernetes.io/not-ready and
// node.kubernetes.io/unreachable with the effect NoExecute gets one of five minutes for each.
// Existing tolerations are not changed.
package defaulttolerations

import (
	"context"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "DefaultTolerationSeconds"

// Seconds is the default duration of a toleration, as in Kubernetes.
const Seconds = 300

// Config sets the duration of the tolerations in seconds. Nil means [Seconds]; zero or less evicts
// at once.
type Config struct {
	// NotReady is --default-not-ready-toleration-seconds.
	NotReady *int64
	// Unreachable is --default-unreachable-toleration-seconds.
	Unreachable *int64
}

// Plugin is an [admission.Mutator].
type Plugin struct {
	notReady, unreachable int64
}

// New returns the plugin. The error is always nil; it is there for uniformity with other plugins.
func New(c Config) (*Plugin, error) {
	p := &Plugin{notReady: Seconds, unreachable: Seconds}
	if c.NotReady != nil {
		p.notReady = *c.NotReady
	}
	if c.Unreachable != nil {
		p.unreachable = *c.Unreachable
	}
	return p, nil
}

// Mutate adds the missing tolerations to a pod.
func (p *Plugin) Mutate(_ context.Context, r *admission.Request) error {
	pod, ok := podspec.Of(r)
	if !ok {
		return nil
	}
	list := pod.Spec.Tolerations
	notReady := concerns(list, corev1.TaintNodeNotReady)
	unreachable := concerns(list, corev1.TaintNodeUnreachable)
	if notReady && unreachable {
		return nil
	}
	// Copy the list, because its array may be shared with other pods.
	list = slices.Grow(slices.Clip(list), 2)
	if !notReady {
		list = append(list, tolerate(corev1.TaintNodeNotReady, p.notReady))
	}
	if !unreachable {
		list = append(list, tolerate(corev1.TaintNodeUnreachable, p.unreachable))
	}
	pod.Spec.Tolerations = list
	return nil
}

// concerns reports whether a toleration in list matches taint with the effect NoExecute. An empty
// key or effect matches too.
func concerns(list []corev1.Toleration, taint string) bool {
	for i := range list {
		t := &list[i]
		if (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}

func tolerate(taint string, seconds int64) corev1.Toleration {
	return corev1.Toleration{
		Key:               taint,
		Operator:          corev1.TolerationOpExists,
		Effect:            corev1.TaintEffectNoExecute,
		TolerationSeconds: &seconds,
	}
}
