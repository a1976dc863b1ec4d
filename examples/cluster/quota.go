package main

import (
	"context"

	"github.com/planekit/planekit/admission/limitranger"
	"github.com/planekit/planekit/admission/resourcequota"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// limits are the limit ranges and the quotas of each namespace.
type limits struct {
	ranges localcache.Index[string, *corev1.LimitRange]
	quotas localcache.Index[string, *corev1.ResourceQuota]
}

// newLimits adds indexes to copies, which must not have been started.
func newLimits(c *copies) limits {
	return limits{
		ranges: informer.NewIndex(c.limitRanges, func(l *corev1.LimitRange) []string { return []string{l.Namespace} }),
		quotas: informer.NewIndex(c.resourceQuotas, func(q *corev1.ResourceQuota) []string { return []string{q.Namespace} }),
	}
}

func (g *gate) limitRanger() (any, error) {
	return limitranger.New(limitranger.Config{ByNamespace: g.cluster.limits.ranges, Lookup: listOf(typed.LimitRanges(g.api))})
}

func (g *gate) resourceQuota() (any, error) {
	quotas := typed.ResourceQuotas(g.api)
	return resourcequota.New(resourcequota.Config{ByNamespace: g.cluster.limits.quotas, Lookup: listOf(quotas), Writer: quotas})
}

// listOf reads what a namespace has of a resource from where it is stored.
func listOf[T client.Object](resource client.Resource[T]) func(context.Context, string) ([]T, error) {
	return func(ctx context.Context, namespace string) ([]T, error) {
		all, _, err := resource.List(ctx, namespace, metav1.ListOptions{})
		return all, err
	}
}

// resourceQuota counts what namespaces use.
func (m *manager) resourceQuota() (runner, error) {
	return controllers.NewResourceQuota(controllers.ResourceQuotaConfig{
		ResourceQuotas: m.copies.resourceQuotas,
		Kinds:          m.counted(),
		Status:         typed.ResourceQuotas(m.api),
		Workers:        m.workersOf("concurrent-resource-quota-syncs"),
		Log:            m.log,
	})
}

// counted are the kinds that a quota can count: all that lie in namespaces and
// that there are copies of.
func (m *manager) counted() []controllers.QuotaKind {
	core := func(resource string) schema.GroupResource { return corev1.Resource(resource) }
	kinds := []controllers.QuotaKind{
		controllers.NewQuotaKind(core("pods"), m.copies.pods),
		controllers.NewQuotaKind(core("services"), m.copies.services),
		controllers.NewQuotaKind(core("persistentvolumeclaims"), m.copies.claims),
		controllers.NewQuotaKind(core("secrets"), m.copies.secrets),
		controllers.NewQuotaKind(core("configmaps"), m.copies.configMaps),
		controllers.NewQuotaKind(core("resourcequotas"), m.copies.resourceQuotas),
		controllers.NewQuotaKind(core("limitranges"), m.copies.limitRanges),
		controllers.NewQuotaKind(core("serviceaccounts"), m.copies.serviceAccounts),
		controllers.NewQuotaKind(appsv1.Resource("deployments"), m.copies.deployments),
		controllers.NewQuotaKind(appsv1.Resource("replicasets"), m.copies.replicaSets),
		controllers.NewQuotaKind(batchv1.Resource("jobs"), m.copies.jobs),
		controllers.NewQuotaKind(core("endpoints"), m.copies.legacyEndpoints),
		controllers.NewQuotaKind(discoveryv1.Resource("endpointslices"), m.copies.endpointSlices),
	}
	for _, o := range m.copies.others {
		if o.Namespaced {
			kinds = append(kinds, controllers.NewQuotaKind(schema.GroupResource{Group: o.Group, Resource: o.Plural}, o.copy))
		}
	}
	return kinds
}
