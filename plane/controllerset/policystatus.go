package controllerset

import (
	"context"

	"github.com/planekit/planekit/admission/policy"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/discovery"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/internal/kubecel/openapi"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/policystatus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (e *Env) policyStatus() (controllers.Runner, error) {
	checker, err := policy.NewTypeChecker(described{e.Client})
	if err != nil {
		return nil, err
	}
	return policystatus.New(policystatus.Config{
		Policies: e.Caches.AdmissionPolicies,
		Writer:   typed.ValidatingAdmissionPolicies(e.Client),
		Check:    checker.Check,
		Workers:  e.Workers,
		Metrics:  e.Metrics,
		Log:      e.Log,
	})
}

// described are the kinds that the server describes now. Policies change rarely, so it is asked each time.
type described struct{ api *client.Client }

// Kinds implements [policy.Types].
func (d described) Kinds(ctx context.Context) (map[schema.GroupVersionResource]schema.GroupVersionKind, error) {
	catalog, err := discovery.Fetch(ctx, d.api)
	if err != nil {
		return nil, err
	}
	kinds := map[schema.GroupVersionResource]schema.GroupVersionKind{}
	for _, m := range catalog.Mappings {
		kinds[schema.GroupVersionResource{Group: m.Group, Version: m.Version, Resource: m.Plural}] = schema.GroupVersionKind{Group: m.Group, Version: m.Version, Kind: m.Kind}
	}
	return kinds, nil
}

// Document implements [policy.Types].
func (d described) Document(ctx context.Context, version schema.GroupVersion) (*openapi.Document, error) {
	path := "/openapi/v3/apis/" + version.String()
	if version.Group == "" {
		path = "/openapi/v3/api/" + version.Version
	}
	response, err := d.api.Do(ctx, client.Request{Path: path})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return openapi.Parse(response.Body)
}
