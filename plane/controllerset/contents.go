package controllerset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/discovery"
	"github.com/planekit/planekit/kinds"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/reconcile/controllers/namespace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// owners are the resources that make other objects, owners of owners first. A
// namespace is emptied of them before the rest, so that nothing is made again.
var owners = []string{
	kinds.CronJobs.Plural, kinds.Deployments.Plural, kinds.StatefulSets.Plural, kinds.DaemonSets.Plural,
	kinds.ReplicationControllers.Plural, kinds.ReplicaSets.Plural, kinds.Jobs.Plural, kinds.Pods.Plural,
}

// contents are the resources in namespaces that the server has now, those of
// aggregated servers among them. Events go last: deleting makes more.
func (e *Env) contents(ctx context.Context) ([]namespace.Content, error) {
	catalog, err := discovery.Fetch(ctx, e.Client)
	if err != nil {
		return nil, err
	}
	var failed []error
	for version, err := range catalog.Failed {
		failed = append(failed, fmt.Errorf("%s: %w", version, err))
	}
	rank := func(r discovery.Mapping) int {
		if r.Plural == kinds.Events.Plural {
			return len(owners) + 1
		}
		if i := slices.Index(owners, r.Plural); i >= 0 {
			return i
		}
		return len(owners)
	}
	resources := slices.Clone(catalog.Mappings)
	slices.SortStableFunc(resources, func(a, b discovery.Mapping) int { return rank(a) - rank(b) })
	var out []namespace.Content
	seen := map[schema.GroupResource]bool{}
	for _, r := range resources {
		resource := schema.GroupResource{Group: r.Group, Resource: r.Plural}
		if !r.Namespaced || seen[resource] || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
			continue
		}
		seen[resource] = true // the versions of a resource have the same objects
		out = append(out, namespace.Content{Resource: resource, Empty: e.emptier(r)})
	}
	return out, errors.Join(failed...)
}

// emptier deletes all objects of a resource in a namespace: at once if the
// resource can, else one by one.
func (e *Env) emptier(r discovery.Mapping) func(context.Context, string) (namespace.Remaining, error) {
	objects := client.For(e.Client, kind.Define(kind.Kind[*metav1.PartialObjectMetadata]{
		Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, Namespaced: true,
	}))
	background := metav1.DeletePropagationBackground
	return func(ctx context.Context, name string) (namespace.Remaining, error) {
		var failed error
		if slices.Contains(r.Verbs, "deletecollection") {
			failed = objects.DeleteCollection(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
		}
		left, _, err := objects.List(ctx, name, metav1.ListOptions{})
		if err != nil {
			return namespace.Remaining{}, errors.Join(failed, err)
		}
		remains := namespace.Remaining{Objects: len(left), Finalizers: map[string]int{}}
		for _, o := range left {
			for _, finalizer := range o.Finalizers {
				remains.Finalizers[finalizer]++
			}
			if o.DeletionTimestamp == nil && !slices.Contains(r.Verbs, "deletecollection") {
				err := objects.Delete(ctx, name, o.Name, metav1.DeleteOptions{PropagationPolicy: &background})
				failed = errors.Join(failed, err)
			}
		}
		return remains, failed
	}
}

// finalizer writes the finalizers of namespaces, which have a subresource of
// their own.
type finalizer struct{ api *client.Client }

func (f finalizer) Finalize(ctx context.Context, namespace *corev1.Namespace) error {
	whole := namespace.DeepCopy()
	whole.APIVersion, whole.Kind = "v1", "Namespace"
	body, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	_, err = f.api.Do(ctx, client.Request{
		Method: http.MethodPut, Path: "/api/v1/namespaces/" + namespace.Name + "/finalize", Body: body,
	})
	return err
}
