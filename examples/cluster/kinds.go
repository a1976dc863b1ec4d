package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// makers are the resources that make other objects, makers of makers first. A
// namespace is emptied of them before the rest, so that nothing is made anew.
var makers = []string{
	"cronjobs", "deployments", "statefulsets", "daemonsets", "replicationcontrollers", "replicasets", "jobs", "pods",
}

// emptiers delete what a namespace contains. Events go last: deleting makes more.
func (m *manager) emptiers() []controllers.Emptier {
	resources := kube.Resources()
	rank := func(r apiserver.Resource) int {
		if r.Plural == "events" {
			return len(makers) + 1
		}
		if i := slices.Index(makers, r.Plural); i >= 0 {
			return i
		}
		return len(makers)
	}
	slices.SortStableFunc(resources, func(a, b apiserver.Resource) int { return rank(a) - rank(b) })
	var out []controllers.Emptier
	for _, r := range resources {
		if r.Namespaced && r.Answer == nil {
			out = append(out, m.emptier(r))
		}
	}
	return out
}

// emptier deletes all objects of a resource in a namespace.
func (m *manager) emptier(r apiserver.Resource) controllers.Emptier {
	return func(ctx context.Context, namespace string) (int, error) {
		path := collection(r, namespace)
		_, err := m.api.Do(ctx, client.Request{Method: http.MethodDelete, Path: path, Query: url.Values{"propagationPolicy": {"Background"}}})
		left, listErr := m.api.Do(ctx, client.Request{Path: path})
		if listErr != nil {
			return 0, errors.Join(err, listErr)
		}
		n, countErr := countItems(left.Body)
		return n, errors.Join(err, countErr)
	}
}

// countItems counts the objects of a list in JSON.
func countItems(list []byte) (int, error) {
	var items struct{ Items []json.RawMessage }
	err := json.Unmarshal(list, &items)
	return len(items.Items), err
}

// collection is the path of a resource in a namespace.
func collection(r apiserver.Resource, namespace string) string {
	root := "/apis/" + r.Group
	if r.Group == "" {
		root = "/api"
	}
	return strings.Join([]string{root, r.Version, "namespaces", namespace, r.Plural}, "/")
}

// otherKind is one of which only the garbage collector has a copy: of nothing
// but metadata.
type otherKind struct {
	client.Type[*metav1.PartialObjectMetadata]
	copy *informer.Informer[*metav1.PartialObjectMetadata]
}

// uncollected are not owned by anything, or too short-lived to matter.
var uncollected = []string{"events", "leases", "namespaces", "componentstatuses"}

// addOthers adds copies of all kinds that have none.
func (c *copies) addOthers(api *client.Client, log logr.Logger) error {
	for _, r := range kube.Resources() {
		if c.names[r.Plural] || slices.Contains(uncollected, r.Plural) {
			continue
		}
		o := otherKind{Type: client.Type[*metav1.PartialObjectMetadata]{
			Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, Namespaced: r.Namespaced,
			New: func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
		}}
		if err := add(c, &o.copy, r.Plural, client.For(api, o.Type), log); err != nil {
			return err
		}
		c.others = append(c.others, o)
	}
	return nil
}

// otherGarbage are the kinds that have no copy for others, to the garbage
// collector.
func (m *manager) otherGarbage() []controllers.GarbageKind {
	var out []controllers.GarbageKind
	for _, o := range m.copies.others {
		kind := schema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind}
		out = append(out, controllers.NewGarbageKind(kind, o.Namespaced, o.copy, client.For(m.api, o.Type)))
	}
	return out
}
