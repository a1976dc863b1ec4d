package garbage

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// graph has the owner references of all objects, by UID. For an object it keeps the pointer of the
// cache and numbers, some 80 bytes with one owner. It reports which objects a change affects. An
// object whose owners all exist, and are not being deleted, is not affected.
type graph struct {
	enqueue func(types.UID)
	// isAt reports whether owner has the coordinates that the reference of dependent implies.
	isAt func(dependent node, reference *metav1.OwnerReference, owner node) bool

	// mu guards the fields below.
	mu sync.Mutex
	// vertices and edges refer to each other by index. Index zero of each is unused: it means none.
	vertices []vertex
	edges    []edge
	numbers  uidTable
	// freeVertex and freeEdge begin the lists of free places, which are linked by vertex.owners and
	// edge.nextOwner.
	freeVertex, freeEdge int32
}

// vertex is an object, or an owner that a reference names and that is in no cache.
type vertex struct {
	uid    types.UID
	object metav1.Object // nil if not seen
	kind   int32
	// owners begins the list of the edges to its owners, dependents that of the edges to its
	// dependents.
	owners, dependents int32
}

// edge is an owner reference from one vertex to another.
type edge struct {
	owner, dependent int32
	// nextOwner is the next edge of the same dependent.
	nextOwner int32
	// next and previous are the neighbours among the edges of the same owner.
	next, previous int32
}

// node is an object as the collector sees it. It is immutable.
type node struct {
	kind   int
	object metav1.Object
}

func (n node) deleting(finalizer string) bool {
	return n.object.GetDeletionTimestamp() != nil && slices.Contains(n.object.GetFinalizers(), finalizer)
}

func newGraph(enqueue func(types.UID), isAt func(node, *metav1.OwnerReference, node) bool) *graph {
	g := &graph{enqueue: enqueue, isAt: isAt, vertices: make([]vertex, 1), edges: make([]edge, 1)}
	g.numbers = newUIDTable(func(v int32) types.UID { return g.vertices[v].uid })
	return g
}

// change applies a change that a cache reports.
func (g *graph) change(kind int, old, new metav1.Object) {
	if old != nil && new != nil && old.GetUID() != new.GetUID() {
		g.change(kind, old, nil) // another object of the same name
		old = nil
	}
	var concerned []types.UID
	g.mu.Lock()
	if new == nil {
		concerned = g.forget(old)
		g.shrink()
	} else {
		concerned = g.note(kind, old, new)
	}
	g.mu.Unlock()
	for _, uid := range concerned {
		g.enqueue(uid)
	}
}

// note stores object and returns the UIDs of the objects that must be judged again.
func (g *graph) note(kind int, old, object metav1.Object) (concerned []types.UID) {
	v := g.vertexOf(object.GetUID())
	g.vertices[v].object, g.vertices[v].kind = object, int32(kind)
	// An owner that waits for its dependents may have one less, or one that no longer blocks.
	concerned = g.waiting(v, concerned)
	if old == nil || !sameOwners(old, object) {
		g.relink(v, object.GetOwnerReferences())
		concerned = g.waiting(v, concerned)
	}
	if g.hasWork(v) {
		concerned = append(concerned, object.GetUID())
	}
	if g.foreground(v) && (old == nil || !(node{object: old}).deleting(metav1.FinalizerDeleteDependents)) {
		concerned = g.dependentsOf(v, concerned)
	}
	return concerned
}

// forget removes a deleted object and returns the UIDs of the objects that must be judged again.
func (g *graph) forget(object metav1.Object) (concerned []types.UID) {
	v := g.numbers.find(object.GetUID())
	if v == 0 || g.vertices[v].object == nil {
		return nil
	}
	concerned = g.dependentsOf(v, g.waiting(v, nil))
	g.relink(v, nil)
	g.vertices[v].object = nil
	g.releaseUnused(v)
	return concerned
}

// hasWork reports whether the collector must process v.
func (g *graph) hasWork(v int32) bool {
	dependent, _ := g.node(v)
	if dependent.object.GetDeletionTimestamp() != nil {
		return dependent.deleting(metav1.FinalizerOrphanDependents) || dependent.deleting(metav1.FinalizerDeleteDependents)
	}
	owners := dependent.object.GetOwnerReferences()
	for i := range owners {
		o := g.numbers.find(owners[i].UID)
		if owner, ok := g.node(o); !ok || g.foreground(o) || !g.isAt(dependent, &owners[i], owner) {
			return true
		}
	}
	return false
}

// foreground reports whether v waits for the deletion of its dependents.
func (g *graph) foreground(v int32) bool {
	object := g.vertices[v].object
	return object != nil && node{object: object}.deleting(metav1.FinalizerDeleteDependents)
}

// waiting appends the owners of v that wait for their dependents.
func (g *graph) waiting(v int32, list []types.UID) []types.UID {
	for e := g.vertices[v].owners; e != 0; e = g.edges[e].nextOwner {
		if owner := g.edges[e].owner; g.foreground(owner) {
			list = append(list, g.vertices[owner].uid)
		}
	}
	return list
}

// dependentsOf appends the dependents of v.
func (g *graph) dependentsOf(v int32, list []types.UID) []types.UID {
	for e := g.vertices[v].dependents; e != 0; e = g.edges[e].next {
		list = append(list, g.vertices[g.edges[e].dependent].uid)
	}
	return list
}

// object returns the object with a UID, if it is known.
func (g *graph) object(uid types.UID) (node, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.node(g.numbers.find(uid))
}

// owned returns the objects that name uid as an owner.
func (g *graph) owned(uid types.UID) (list []node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.numbers.find(uid)
	for e := g.vertices[v].dependents; e != 0; e = g.edges[e].next {
		if n, ok := g.node(g.edges[e].dependent); ok {
			list = append(list, n)
		}
	}
	return list
}

// inCircle reports whether uid owns itself through objects that wait for their dependents.
func (g *graph) inCircle(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	start := g.numbers.find(uid)
	seen := map[int32]bool{}
	next := []int32{start}
	for len(next) > 0 {
		v := next[len(next)-1]
		next = next[:len(next)-1]
		for e := g.vertices[v].dependents; e != 0; e = g.edges[e].next {
			d := g.edges[e].dependent
			if d == start {
				return true
			}
			if !seen[d] && g.foreground(d) {
				seen[d] = true
				next = append(next, d)
			}
		}
	}
	return false
}

func (g *graph) node(v int32) (node, bool) {
	n := node{int(g.vertices[v].kind), g.vertices[v].object}
	return n, n.object != nil
}

func sameOwners(a, b metav1.Object) bool {
	return slices.EqualFunc(a.GetOwnerReferences(), b.GetOwnerReferences(), func(x, y metav1.OwnerReference) bool { return x.UID == y.UID })
}
