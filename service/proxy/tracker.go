package proxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// tracker collects which services changed, with their slices.
type tracker struct {
	// changed holds at most one token, for the goroutine that waits for changes.
	changed chan struct{}
	// queued is called for every change.
	queued func()

	mu sync.Mutex
	// The fields below are guarded by mu.
	services map[string]*corev1.Service
	slices   map[string]map[string]*discoveryv1.EndpointSlice // by the service's key and the slice's name
	dirty    map[string]bool
	// triggers are the times of changes of pods that the dirty services follow.
	triggers []time.Time
	// settled means that the caches are full; before, changes are old.
	settled bool
}

func newTracker(queued func()) *tracker {
	return &tracker{
		queued: queued, changed: make(chan struct{}, 1), services: map[string]*corev1.Service{},
		slices: map[string]map[string]*discoveryv1.EndpointSlice{}, dirty: map[string]bool{},
	}
}

func (t *tracker) notify() {
	t.queued()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func (t *tracker) service(old, new *corev1.Service) {
	t.mu.Lock()
	if old != nil {
		delete(t.services, localcache.KeyOf(old))
		t.dirty[localcache.KeyOf(old)] = true
	}
	if new != nil {
		t.services[localcache.KeyOf(new)] = new
		t.dirty[localcache.KeyOf(new)] = true
	}
	t.mu.Unlock()
	t.notify()
}

func (t *tracker) slice(old, new *discoveryv1.EndpointSlice) {
	t.mu.Lock()
	if key := serviceOf(old); key != "" {
		delete(t.slices[key], old.Name)
		if len(t.slices[key]) == 0 {
			delete(t.slices, key)
		}
		t.dirty[key] = true
	}
	if key := serviceOf(new); key != "" {
		if t.slices[key] == nil {
			t.slices[key] = map[string]*discoveryv1.EndpointSlice{}
		}
		t.slices[key][new.Name] = new
		t.dirty[key] = true
		if at, err := time.Parse(time.RFC3339Nano, new.Annotations[corev1.EndpointsLastChangeTriggerTime]); err == nil && t.settled {
			t.triggers = append(t.triggers, at)
		}
	}
	t.mu.Unlock()
	t.notify()
}

// serviceOf returns the key of the service of a slice; empty for none.
func serviceOf(s *discoveryv1.EndpointSlice) string {
	if s == nil || s.Labels[discoveryv1.LabelServiceName] == "" {
		return ""
	}
	return localcache.Key(s.Namespace, s.Labels[discoveryv1.LabelServiceName])
}

// all marks every service as changed.
func (t *tracker) all() {
	t.mu.Lock()
	for key := range t.services {
		t.dirty[key] = true
	}
	t.mu.Unlock()
	t.notify()
}

// An update holds the new state of one service. The service is nil if it is gone.
type update struct {
	key     string
	service *corev1.Service
	slices  []*discoveryv1.EndpointSlice
}

// take returns the services that changed since the last call, in the order of their keys.
func (t *tracker) take() ([]update, []time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []update
	for _, key := range slices.Sorted(maps.Keys(t.dirty)) {
		all = append(all, t.updateLocked(key))
	}
	clear(t.dirty)
	triggers := t.triggers
	t.triggers, t.settled = nil, true
	return all, triggers
}

func (t *tracker) updateLocked(key string) update {
	u := update{key: key, service: t.services[key]}
	if u.service != nil {
		u.slices = slices.SortedFunc(maps.Values(t.slices[key]), func(a, b *discoveryv1.EndpointSlice) int {
			return strings.Compare(a.Name, b.Name)
		})
	}
	return u
}

// rank orders services that want the same address: the oldest has it.
func rank(s *corev1.Service) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%020d", s.CreationTimestamp.Unix())
}
