package owner

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// attempts holds, by owner, the names of pods whose creation may have succeeded and that the cache
// does not show yet. Such a name is tried again before any other name, so that a pod that does
// exist refuses its twin.
type attempts struct {
	mu sync.Mutex
	// byOwner is guarded by mu.
	byOwner map[string][]string
}

func (a *attempts) add(owner, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byOwner == nil {
		a.byOwner = make(map[string][]string)
	}
	if !slices.Contains(a.byOwner[owner], name) {
		a.byOwner[owner] = append(a.byOwner[owner], name)
	}
}

func (a *attempts) forget(owner, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keep(owner, func(n string) bool { return n != name })
}

// observe forgets the names that are among pods.
func (a *attempts) observe(owner string, pods []*corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.byOwner[owner]) == 0 {
		return
	}
	seen := make(map[string]bool, len(pods))
	for _, pod := range pods {
		seen[pod.Name] = true
	}
	a.keep(owner, func(n string) bool { return !seen[n] })
}

func (a *attempts) names(owner string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.byOwner[owner])
}

// keep keeps the names for which keep is true. The caller holds mu.
func (a *attempts) keep(owner string, keep func(string) bool) {
	left := slices.DeleteFunc(a.byOwner[owner], func(n string) bool { return !keep(n) })
	if len(left) == 0 {
		delete(a.byOwner, owner)
		return
	}
	a.byOwner[owner] = left
}

// drop forgets owner.
func (a *attempts) drop(owner string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byOwner, owner)
}

// deletions holds the pods whose deletion was requested and that the cache does not show as deleted yet.
type deletions struct {
	mu sync.Mutex
	// pods holds, by owner and UID, whether the API has confirmed the deletion.
	// Guarded by mu.
	pods map[string]map[types.UID]bool
}

func (d *deletions) set(owner string, uid types.UID, confirmed bool) {
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

func (d *deletions) forget(owner string, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pods[owner], uid)
	if len(d.pods[owner]) == 0 {
		delete(d.pods, owner)
	}
}

// split divides all cached pods of owner into those that stay, those whose deletion must be tried
// again, and those that are being deleted. It forgets the pods that the cache no longer shows, or shows
// as being deleted.
func (d *deletions) split(owner string, pods []*corev1.Pod) (staying, retry, going []*corev1.Pod) {
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
