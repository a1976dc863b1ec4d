package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/discovery"
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

// contents are the resources in namespaces that the server has now, those of
// aggregated servers among them. Events go last: deleting makes more.
func (m *manager) contents(ctx context.Context) ([]controllers.NamespaceContent, error) {
	catalog, err := discovery.Fetch(ctx, m.api)
	if err != nil {
		return nil, err
	}
	var failed []error
	for version, err := range catalog.Failed {
		failed = append(failed, fmt.Errorf("%s: %w", version, err))
	}
	rank := func(r discovery.Mapping) int {
		if r.Plural == "events" {
			return len(makers) + 1
		}
		if i := slices.Index(makers, r.Plural); i >= 0 {
			return i
		}
		return len(makers)
	}
	resources := slices.Clone(catalog.Mappings)
	slices.SortStableFunc(resources, func(a, b discovery.Mapping) int { return rank(a) - rank(b) })
	var out []controllers.NamespaceContent
	seen := map[schema.GroupResource]bool{}
	for _, r := range resources {
		resource := schema.GroupResource{Group: r.Group, Resource: r.Plural}
		if !r.Namespaced || seen[resource] || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
			continue
		}
		seen[resource] = true // the versions of a resource have the same objects
		out = append(out, controllers.NamespaceContent{Resource: resource, Empty: m.emptier(r)})
	}
	return out, errors.Join(failed...)
}

// emptier deletes all objects of a resource in a namespace: at once if the
// resource can, else one by one.
func (m *manager) emptier(r discovery.Mapping) func(context.Context, string) (controllers.Remains, error) {
	objects := client.For(m.api, client.Type[*metav1.PartialObjectMetadata]{
		Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, Namespaced: true,
		New: func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
	})
	background := metav1.DeletePropagationBackground
	return func(ctx context.Context, namespace string) (controllers.Remains, error) {
		var failed error
		if slices.Contains(r.Verbs, "deletecollection") {
			failed = objects.DeleteCollection(ctx, namespace, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
		}
		left, _, err := objects.List(ctx, namespace, metav1.ListOptions{})
		if err != nil {
			return controllers.Remains{}, errors.Join(failed, err)
		}
		remains := controllers.Remains{Objects: len(left), Finalizers: map[string]int{}}
		for _, o := range left {
			for _, finalizer := range o.Finalizers {
				remains.Finalizers[finalizer]++
			}
			if o.DeletionTimestamp == nil && !slices.Contains(r.Verbs, "deletecollection") {
				err := objects.Delete(ctx, namespace, o.Name, metav1.DeleteOptions{PropagationPolicy: &background})
				failed = errors.Join(failed, err)
			}
		}
		return remains, failed
	}
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
