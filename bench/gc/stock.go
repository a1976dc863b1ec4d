package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

type partial = metav1.PartialObjectMetadata

var (
	podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	setKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
)

// stock is an API with objects in memory, and counts its requests.
type stock struct {
	pods, sets []*partial
	setNames   map[string]*partial

	reads, deletions atomic.Int64
	lost             int64
	collected        chan struct{} // closed by the last deletion
	mu               sync.Mutex
	deleted          map[string]bool // guarded by mu
}

// newStock creates objects: of every six one is a replica set that owns the other five, which are
// pods. It also creates lost pods whose replica sets do not exist.
func newStock(objects, lost int) *stock {
	s := &stock{setNames: map[string]*partial{}, lost: int64(lost), collected: make(chan struct{}), deleted: map[string]bool{}}
	sets := objects / 6
	for i := range sets {
		set := object(setKind, fmt.Sprintf("set-%06d", i), i)
		s.sets = append(s.sets, set)
		s.setNames[set.Namespace+"/"+set.Name] = set
	}
	for i := range objects - sets {
		s.pods = append(s.pods, owned(fmt.Sprintf("pod-%06d", i), s.sets[i%sets]))
	}
	for i := range lost {
		s.pods = append(s.pods, owned(fmt.Sprintf("lost-%06d", i), object(setKind, fmt.Sprintf("gone-%06d", i), i)))
	}
	return s
}

func object(kind schema.GroupVersionKind, name string, i int) *partial {
	o := &partial{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprintf("namespace-%03d", i%100), Name: name, ResourceVersion: "1",
		UID: types.UID("00000000-0000-4000-8000-" + name),
	}}
	o.SetGroupVersionKind(kind)
	return o
}

func owned(name string, owner *partial) *partial {
	o := object(podKind, name, 0)
	o.Namespace = owner.Namespace
	o.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, setKind)}
	return o
}

// resource is one of the two resources in the form that planekit's collector uses.
type resource struct {
	stock *stock
	kind  schema.GroupVersionKind
}

func (r resource) Get(_ context.Context, namespace, name string) (*partial, error) {
	if r.kind == setKind {
		r.stock.reads.Add(1)
		if set := r.stock.setNames[namespace+"/"+name]; set != nil {
			return set, nil
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "replicasets"}, name)
	}
	// kube-controller-manager reads an object before it deletes it.
	for i := len(r.stock.pods) - 1; i >= 0; i-- {
		if p := r.stock.pods[i]; p.Name == name && p.Namespace == namespace {
			return p, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

func (r resource) Delete(_ context.Context, namespace, name string, _ metav1.DeleteOptions) error {
	r.stock.mu.Lock()
	defer r.stock.mu.Unlock()
	if r.stock.deleted[namespace+"/"+name] {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
	}
	r.stock.deleted[namespace+"/"+name] = true
	if r.stock.deletions.Add(1) == r.stock.lost {
		close(r.stock.collected)
	}
	return nil
}

func (r resource) Patch(_ context.Context, namespace, name string, _ types.PatchType, _ []byte, _ ...string) (*partial, error) {
	return nil, fmt.Errorf("a patch of %s/%s, which nothing calls for", namespace, name)
}
