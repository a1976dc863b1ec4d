// Package defaulttolerations says how long pods stay on a node that is lost: the
// DefaultTolerationSeconds plugin of Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaulttolerationseconds).
//
//	plugin, err := defaulttolerations.New(defaulttolerations.Config{})
//	chain := admission.Chain{Mutators: []admission.Mutator{plugin}}
//
// A pod that does not say how it takes the taints node.kubernetes.io/not-ready and
// node.kubernetes.io/unreachable with the effect NoExecute tolerates each for five
// minutes. What a pod says itself is left as it is.
package defaulttolerations

import (
	"context"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
)

// Name is what the plugin is called in --enable-admission-plugins.
const Name = "DefaultTolerationSeconds"

// Seconds is for how long a taint is tolerated by default, as in Kubernetes.
const Seconds = 300

// Config says for how many seconds each taint is tolerated. Nil is [Seconds];
// what is not above zero evicts at once.
type Config struct {
	// NotReady is what --default-not-ready-toleration-seconds says.
	NotReady *int64
	// Unreachable is what --default-unreachable-toleration-seconds says.
	Unreachable *int64
}

// Plugin is an [admission.Mutator].
type Plugin struct {
	notReady, unreachable int64
}

// New returns the plugin. It never fails; the error is there for all plugins to be
// made alike.
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

// Mutate adds what is missing to a pod.
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
	// The list may be shared with other pods behind its end.
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

// concerns reports whether a toleration in list is about taint with the effect
// NoExecute, be it by leaving key or effect open.
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
