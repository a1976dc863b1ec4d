package convergence

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// kinds are the resources that are watched and compared. Events are compared in
// their own way.
var kinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "namespaces"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "endpoints"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "resourcequotas"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Version: "v1", Resource: "replicationcontrollers"},
	{Version: "v1", Resource: "events"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "replicasets"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	{Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "servicecidrs"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
}

// record remembers every object that was ever seen on a side, and when something
// last happened in each room.
type record struct {
	mu sync.Mutex
	// Guarded by mu: the objects as last seen, by UID; their order of appearance;
	// the last change of each room.
	seen    map[types.UID]*unstructured.Unstructured
	order   map[types.UID]int
	changed map[string]time.Time
}

// newRecord begins to watch. It returns when it has seen what there is.
func newRecord(ctx context.Context, client dynamic.Interface) (*record, error) {
	r := &record{
		seen: map[types.UID]*unstructured.Unstructured{}, order: map[types.UID]int{}, changed: map[string]time.Time{},
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	for _, kind := range kinds {
		_, err := factory.ForResource(kind).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    r.note,
			UpdateFunc: func(_, object any) { r.note(object) },
			DeleteFunc: r.note,
		})
		if err != nil {
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, fmt.Errorf("watch %v: %w", kind, ctx.Err())
		}
	}
	return r, nil
}

func (r *record) note(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	u := object.(*unstructured.Unstructured)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.order[u.GetUID()]
	if !known {
		r.order[u.GetUID()] = len(r.order)
	}
	r.seen[u.GetUID()] = u
	if known && repeats(u) {
		return // for as long as there is the autoscaler
	}
	r.changed[roomOf(u)] = time.Now()
}

// repeats reports whether u is an Event about a failure that a controller of autoscalers meets once
// more in each period.
func repeats(u *unstructured.Unstructured) bool {
	component, _, _ := unstructured.NestedString(u.Object, "source", "component")
	kind, _, _ := unstructured.NestedString(u.Object, "type")
	return u.GetKind() == "Event" && component == "horizontal-pod-autoscaler" && kind == "Warning"
}

// roomOf is the scenario that an object belongs to: that of its namespace's name,
// or, where it is in none, the one before the colon in its own.
func roomOf(u *unstructured.Unstructured) string {
	if u.GetNamespace() != "" {
		return u.GetNamespace()
	}
	room, _, _ := strings.Cut(u.GetName(), ":")
	return room
}

// touch says that something happens in a room, though it is not seen yet.
func (r *record) touch(room string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed[room] = time.Now()
}

// quietFor is how long nothing has happened in a room.
func (r *record) quietFor(room string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.changed[room])
}

// place is the order of an object's appearance.
func (r *record) place(uid types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order[uid]
}

// history is every object that was ever in a room, in the order of appearance.
func (r *record) history(room string) []*unstructured.Unstructured {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*unstructured.Unstructured, len(r.order))
	for uid, i := range r.order {
		if u := r.seen[uid]; roomOf(u) == room {
			all[i] = u
		}
	}
	var out []*unstructured.Unstructured
	for _, u := range all {
		if u != nil {
			out = append(out, u)
		}
	}
	return out
}
