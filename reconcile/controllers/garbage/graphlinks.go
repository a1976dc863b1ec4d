package garbage

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// vertexOf returns the vertex of uid. It creates one if there is none.
func (g *graph) vertexOf(uid types.UID) int32 {
	if v := g.numbers.find(uid); v != 0 {
		return v
	}
	v := g.freeVertex
	if v == 0 {
		g.vertices = append(g.vertices, vertex{})
		v = int32(len(g.vertices) - 1)
	} else {
		g.freeVertex = g.vertices[v].owners
	}
	g.vertices[v] = vertex{uid: uid}
	g.numbers.add(v)
	return v
}

// releaseUnused frees a vertex that has no object and no edges.
func (g *graph) releaseUnused(v int32) {
	if g.vertices[v].object != nil || g.vertices[v].dependents != 0 {
		return
	}
	g.numbers.remove(v)
	g.vertices[v] = vertex{owners: g.freeVertex}
	g.freeVertex = v
}

// relink sets the owners of v.
func (g *graph) relink(v int32, owners []metav1.OwnerReference) {
	first := g.vertices[v].owners
	g.vertices[v].owners = 0
	for i := range owners {
		if owner := g.vertexOf(owners[i].UID); !g.linked(v, owner) {
			g.link(v, owner)
		}
	}
	// Unlink after linking, so that an owner in both lists is not freed in between.
	for e := first; e != 0; {
		next := g.edges[e].nextOwner
		g.unlink(e)
		e = next
	}
}

func (g *graph) linked(dependent, owner int32) bool {
	for e := g.vertices[dependent].owners; e != 0; e = g.edges[e].nextOwner {
		if g.edges[e].owner == owner {
			return true
		}
	}
	return false
}

func (g *graph) link(dependent, owner int32) {
	e := g.freeEdge
	if e == 0 {
		g.edges = append(g.edges, edge{})
		e = int32(len(g.edges) - 1)
	} else {
		g.freeEdge = g.edges[e].nextOwner
	}
	next := g.vertices[owner].dependents
	g.edges[e] = edge{owner: owner, dependent: dependent, nextOwner: g.vertices[dependent].owners, next: next}
	if next != 0 {
		g.edges[next].previous = e
	}
	g.vertices[owner].dependents = e
	g.vertices[dependent].owners = e
}

// unlink removes e from the list of its owner. The caller removes it from the list of its
// dependent.
func (g *graph) unlink(e int32) {
	gone := g.edges[e]
	if gone.previous != 0 {
		g.edges[gone.previous].next = gone.next
	} else {
		g.vertices[gone.owner].dependents = gone.next
	}
	if gone.next != 0 {
		g.edges[gone.next].previous = gone.previous
	}
	g.edges[e] = edge{nextOwner: g.freeEdge}
	g.freeEdge = e
	g.releaseUnused(gone.owner)
}
