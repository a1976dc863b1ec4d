package controllers

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// vertex is what the collector knows of an object. It never changes; a change
// of the object makes a new one.
type vertex struct {
	kind   int
	object metav1.Object
}

func (v *vertex) deleting(finalizer string) bool {
	return v.object.GetDeletionTimestamp() != nil && slices.Contains(v.object.GetFinalizers(), finalizer)
}

// graph knows who owns whom, by UID. It enqueues what a change may concern.
type graph struct {
	enqueue func(types.UID)

	// mu guards the fields below.
	mu       sync.Mutex
	vertices map[types.UID]*vertex
	// dependents has an entry for each owner, present or not.
	dependents map[types.UID]map[types.UID]struct{}
}

// change takes note of what a local copy reports.
func (g *graph) change(kind int, old, new metav1.Object) {
	if old != nil && new != nil && old.GetUID() != new.GetUID() {
		g.change(kind, old, nil) // another object of the same name
		old = nil
	}
	var concerned []types.UID
	defer func() {
		for _, uid := range concerned {
			g.enqueue(uid)
		}
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vertices == nil {
		g.vertices = make(map[types.UID]*vertex)
		g.dependents = make(map[types.UID]map[types.UID]struct{})
	}
	var before, after []metav1.OwnerReference
	if old != nil {
		before = old.GetOwnerReferences()
	}
	if new != nil {
		after = new.GetOwnerReferences()
		g.vertices[new.GetUID()] = &vertex{kind, new}
		concerned = append(concerned, new.GetUID())
		for i := range after {
			g.link(after[i].UID, new.GetUID())
		}
	} else {
		delete(g.vertices, old.GetUID())
	}
	for i := range before {
		owner := before[i].UID
		if !slices.ContainsFunc(after, func(o metav1.OwnerReference) bool { return o.UID == owner }) {
			g.unlink(owner, old.GetUID())
		}
		// One that waits for its dependents has one less, or one that blocks no more.
		concerned = append(concerned, owner)
	}
	if new == nil || new.GetDeletionTimestamp() != nil && (old == nil || old.GetDeletionTimestamp() == nil) {
		gone := old
		if gone == nil {
			gone = new
		}
		for uid := range g.dependents[gone.GetUID()] {
			concerned = append(concerned, uid)
		}
	}
}

func (g *graph) link(owner, dependent types.UID) {
	if g.dependents[owner] == nil {
		g.dependents[owner] = make(map[types.UID]struct{})
	}
	g.dependents[owner][dependent] = struct{}{}
}

func (g *graph) unlink(owner, dependent types.UID) {
	delete(g.dependents[owner], dependent)
	if len(g.dependents[owner]) == 0 {
		delete(g.dependents, owner)
	}
}

func (g *graph) vertex(uid types.UID) (*vertex, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.vertices[uid]
	return v, ok
}

// owned returns the objects that refer to uid as an owner.
func (g *graph) owned(uid types.UID) []*vertex {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*vertex
	for dependent := range g.dependents[uid] {
		if v, ok := g.vertices[dependent]; ok {
			list = append(list, v)
		}
	}
	return list
}
