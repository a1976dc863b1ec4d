// Package workload says which pods belong together with a pod, so that a scheduler can spread them:
//
//	together, err := workload.New(workload.Config{ServicesByNamespace: services, ReplicaSets: replicaSets})
//	defaults := schedule.SpreadDefaults{Selector: together.Selector}
package workload

import (
	"errors"

	"github.com/planekit/planekit/internal/selector"
	"github.com/planekit/planekit/localcache"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Config configures a Finder. ServicesByNamespace is required. Of a kind of controller whose cache is nil,
// the selectors are not looked at.
type Config struct {
	ServicesByNamespace    localcache.Index[string, *corev1.Service]
	ReplicationControllers localcache.Getter[*corev1.ReplicationController]
	ReplicaSets            localcache.Getter[*appsv1.ReplicaSet]
	StatefulSets           localcache.Getter[*appsv1.StatefulSet]
}

// Finder finds the pods that belong together with a pod. It is safe for concurrent use.
type Finder struct{ config Config }

// New returns a Finder, or an error if config is invalid.
func New(config Config) (*Finder, error) {
	if config.ServicesByNamespace == nil {
		return nil, errors.New("workload: ServicesByNamespace must be set")
	}
	return &Finder{config}, nil
}

// Selector returns what selects the pods of all services of a pod and of its controller together. It is
// empty if the pod has none of them.
func (f *Finder) Selector(pod *corev1.Pod) labels.Selector {
	equal := labels.Set{}
	for service := range f.config.ServicesByNamespace.Get(pod.Namespace) {
		// A service without a selector selects nothing.
		if s := service.Spec.Selector; s != nil && labels.SelectorFromSet(s).Matches(labels.Set(pod.Labels)) {
			equal = labels.Merge(equal, s)
		}
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return equal.AsSelector()
	}
	key := localcache.Key(pod.Namespace, owner.Name)
	var more *metav1.LabelSelector
	switch owner.APIVersion + "/" + owner.Kind {
	case "v1/ReplicationController":
		if rc, ok := get(f.config.ReplicationControllers, key); ok {
			equal = labels.Merge(equal, rc.Spec.Selector)
		}
	case "apps/v1/ReplicaSet":
		if set, ok := get(f.config.ReplicaSets, key); ok {
			more = set.Spec.Selector
		}
	case "apps/v1/StatefulSet":
		if set, ok := get(f.config.StatefulSets, key); ok {
			more = set.Spec.Selector
		}
	}
	if more != nil {
		if s, err := selector.Of(more); err == nil {
			return selector.And(s, equal)
		}
	}
	return equal.AsSelector()
}

func get[T any](cache localcache.Getter[T], key string) (object T, ok bool) {
	if cache == nil {
		return object, false
	}
	return cache.Get(key)
}
