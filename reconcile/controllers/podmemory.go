package controllers

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tried has the names of pods whose creation was tried and may have succeeded,
// and that are not yet to be seen in the local copy. Until it is known, such a
// name is tried again before any other is: a pod that does exist then refuses
// its twin.
type tried struct {
	mu sync.Mutex
	// byOwner is guarded by mu.
	byOwner map[string][]string
}

func (t *tried) add(owner, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byOwner == nil {
		t.byOwner = make(map[string][]string)
	}
	if !slices.Contains(t.byOwner[owner], name) {
		t.byOwner[owner] = append(t.byOwner[owner], name)
	}
}

func (t *tried) forget(owner, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(owner, func(n string) bool { return n != name })
}

// observe forgets the names that are among pods.
func (t *tried) observe(owner string, pods []*corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byOwner[owner]) == 0 {
		return
	}
	seen := make(map[string]bool, len(pods))
	for _, pod := range pods {
		seen[pod.Name] = true
	}
	t.keep(owner, func(n string) bool { return !seen[n] })
}

func (t *tried) names(owner string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.byOwner[owner])
}

// keep is called with mu held.
func (t *tried) keep(owner string, keep func(string) bool) {
	left := slices.DeleteFunc(t.byOwner[owner], func(n string) bool { return !keep(n) })
	if len(left) == 0 {
		delete(t.byOwner, owner)
		return
	}
	t.byOwner[owner] = left
}

// drop forgets an owner.
func (t *tried) drop(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byOwner, owner)
}

// doomed has the pods whose deletion was asked for and is not yet to be seen
// in the local copy.
type doomed struct {
	mu sync.Mutex
	// pods is guarded by mu. By owner and UID it tells whether the API has
	// confirmed the deletion.
	pods map[string]map[types.UID]bool
}

func (d *doomed) set(owner string, uid types.UID, confirmed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pods == nil {
		d.pods = make(map[string]map[types.UID]bool)
	}
	if d.pods[owner] == nil {
		d.pods[owner] = make(map[types.UID]bool)
	}
	d.pods[owner][uid] = confirmed
}

func (d *doomed) forget(owner string, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pods[owner], uid)
	if len(d.pods[owner]) == 0 {
		delete(d.pods, owner)
	}
}

// split divides pods, all that owner has in the local copy, into those that
// are not about to go, those whose deletion must be tried again, and the rest.
// What the copy shows by now is forgotten.
func (d *doomed) split(owner string, pods []*corev1.Pod) (staying, retry, going []*corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, after := d.pods[owner], make(map[types.UID]bool)
	for _, pod := range pods {
		confirmed, found := before[pod.UID]
		switch {
		case pod.DeletionTimestamp != nil:
			going = append(going, pod)
		case !found:
			staying = append(staying, pod)
		default:
			after[pod.UID] = confirmed
			if !confirmed {
				retry = append(retry, pod)
			} else {
				going = append(going, pod)
			}
		}
	}
	delete(d.pods, owner)
	if len(after) > 0 {
		d.pods[owner] = after
	}
	return staying, retry, going
}
