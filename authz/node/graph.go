package node

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// graph maps objects to the nodes that may read them. A path of several edges, such as from a
// secret by a volume and a claim to the pods of a node, is stored as one edge, so that a decision
// is one lookup. For updates, claims keep the objects that they open.
type graph struct {
	mu sync.RWMutex
	// mu guards the fields below.

	// nodes counts, for each object and node, the pods, attachments and volumes that allow the node
	// to read the object.
	nodes map[object]map[string]int
	// opens counts, for each claim, the volumes that allow the nodes of the claim to read an
	// object.
	opens map[object]map[object]int
	// changed is closed by the next change; nil if no caller waits for one.
	changed chan struct{}
}

func newGraph() *graph {
	return &graph{nodes: map[object]map[string]int{}, opens: map[object]map[object]int{}}
}

func (g *graph) has(o object, node string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.nodes[o][node] > 0
}

// await is has, but gives a relation that is not there yet until the end of ctx to appear.
func (g *graph) await(ctx context.Context, o object, node string) bool {
	for {
		g.mu.Lock()
		found := g.nodes[o][node] > 0
		if !found && g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		if found {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// unlock ends a change.
func (g *graph) unlock() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
	g.mu.Unlock()
}

// pod applies a change of a pod. Most changes affect only its status and change nothing here.
func (g *graph) pod(old, new *corev1.Pod) {
	var before, after []object
	var from, to string
	if old != nil && old.Spec.NodeName != "" {
		from, before = old.Spec.NodeName, references(old)
	}
	if new != nil && new.Spec.NodeName != "" {
		to, after = new.Spec.NodeName, references(new)
	}
	if from == to && slices.Equal(before, after) {
		return
	}
	g.mu.Lock()
	defer g.unlock()
	// Add first, so that edges that stay do not disappear meanwhile.
	for _, o := range after {
		g.connect(o, to)
	}
	for _, o := range before {
		g.disconnect(o, from)
	}
}

// volume applies a change of a persistent volume.
func (g *graph) volume(old, new *corev1.PersistentVolume) {
	var before, after []object
	var from, to object
	if old != nil {
		from, before, _ = bound(old)
	}
	if new != nil {
		to, after, _ = bound(new)
	}
	if from == to && slices.Equal(before, after) {
		return
	}
	g.mu.Lock()
	defer g.unlock()
	for _, o := range after {
		if increment(g.opens, to, o) {
			for node := range g.nodes[to] {
				g.connect(o, node)
			}
		}
	}
	for _, o := range before {
		if decrement(g.opens, from, o) {
			for node := range g.nodes[from] {
				g.disconnect(o, node)
			}
		}
	}
}

// attachment applies a change of a volume attachment.
func (g *graph) attachment(old, new *storagev1.VolumeAttachment) {
	g.mu.Lock()
	defer g.unlock()
	if new != nil && new.Spec.NodeName != "" {
		g.connect(object{attachments, "", new.Name}, new.Spec.NodeName)
	}
	if old != nil && old.Spec.NodeName != "" {
		g.disconnect(object{attachments, "", old.Name}, old.Spec.NodeName)
	}
}

// slice applies a change of a resource slice.
func (g *graph) slice(old, new *resourcev1.ResourceSlice) {
	from, to := ofNode(old), ofNode(new)
	if from == to {
		return
	}
	g.mu.Lock()
	defer g.unlock()
	if to != "" {
		g.connect(object{resourceSlices, "", new.Name}, to)
	}
	if from != "" {
		g.disconnect(object{resourceSlices, "", old.Name}, from)
	}
}

// ofNode returns the node of a slice, if it belongs to one node.
func ofNode(s *resourcev1.ResourceSlice) string {
	if s == nil || s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

// connect adds an edge. The first edge of a claim also connects the objects that it opens.
func (g *graph) connect(o object, node string) {
	if increment(g.nodes, o, node) && o.resource == claims {
		for opened := range g.opens[o] {
			g.connect(opened, node)
		}
	}
}

// disconnect undoes one connect.
func (g *graph) disconnect(o object, node string) {
	if decrement(g.nodes, o, node) && o.resource == claims {
		for opened := range g.opens[o] {
			g.disconnect(opened, node)
		}
	}
}

// increment increments a count and reports whether it was zero.
func increment[K, L comparable](counts map[K]map[L]int, k K, l L) bool {
	of := counts[k]
	if of == nil {
		of = map[L]int{}
		counts[k] = of
	}
	of[l]++
	return of[l] == 1
}

// decrement decrements a count and reports whether it is zero now.
func decrement[K, L comparable](counts map[K]map[L]int, k K, l L) bool {
	of := counts[k]
	if of[l] != 1 {
		if of[l] > 1 {
			of[l]--
		}
		return false
	}
	delete(of, l)
	if len(of) == 0 {
		delete(counts, k)
	}
	return true
}

// size returns the number of objects.
func (g *graph) size() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.nodes) + len(g.opens)
}
