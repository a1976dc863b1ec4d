//lint:file-ignore SA1019 clients still read Endpoints

// Package caches holds the local caches of the built-in kinds that the parts of one
// control plane share, with the indexes that controllers need.
//
//	all, err := caches.New(api, log)
//	all.Start(stack, all.Roles, all.RoleBindings) // what is needed first
//	all.Start(stack)                              // all others
//	pod, ok := all.Pods.Get("default/web")
//
// New makes every cache and reads nothing. A cache that was not started stays empty,
// and its Synced channel open. All of them keep the contract of package localcache:
// they may be old, and objects are shared by all readers.
//
// [Caches.Kinds] describes each kind that has a cache to the garbage collector and
// to resource quota, so that a kind is listed once. Kinds that nothing but those two
// read are cached as metadata alone. Events, namespaces and leases (but those of
// nodes) are not collected: nothing owns them, or they are too short-lived.
package caches

import (
	"errors"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/intern"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/kinds"
	"github.com/planekit/planekit/kinds/apiregistration"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	"github.com/planekit/planekit/reconcile/controllers/node"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	"github.com/planekit/planekit/reconcile/controllers/quota"
	"github.com/planekit/planekit/reconcile/controllers/volume"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Caches are the local caches of one control plane. Make them with New.
type Caches struct {
	Namespaces              *informer.Informer[*corev1.Namespace]
	ServiceAccounts         *informer.Informer[*corev1.ServiceAccount]
	ConfigMaps              *informer.Informer[*corev1.ConfigMap]
	Secrets                 *informer.Informer[*corev1.Secret]
	Nodes                   *informer.Informer[*corev1.Node]
	NodeLeases              *informer.Informer[*coordinationv1.Lease]
	Pods                    *informer.Informer[*corev1.Pod]
	Services                *informer.Informer[*corev1.Service]
	Endpoints               *informer.Informer[*corev1.Endpoints]
	EndpointSlices          *informer.Informer[*discoveryv1.EndpointSlice]
	APIServices             *informer.Informer[*apiregistration.APIService]
	Deployments             *informer.Informer[*appsv1.Deployment]
	ReplicaSets             *informer.Informer[*appsv1.ReplicaSet]
	ReplicationControllers  *informer.Informer[*corev1.ReplicationController]
	PodDisruptionBudgets    *informer.Informer[*policyv1.PodDisruptionBudget]
	Jobs                    *informer.Informer[*batchv1.Job]
	Roles                   *informer.Informer[*rbacv1.Role]
	RoleBindings            *informer.Informer[*rbacv1.RoleBinding]
	ClusterRoles            *informer.Informer[*rbacv1.ClusterRole]
	ClusterRoleBindings     *informer.Informer[*rbacv1.ClusterRoleBinding]
	PersistentVolumes       *informer.Informer[*corev1.PersistentVolume]
	PersistentVolumeClaims  *informer.Informer[*corev1.PersistentVolumeClaim]
	StorageClasses          *informer.Informer[*storagev1.StorageClass]
	VolumeAttachments       *informer.Informer[*storagev1.VolumeAttachment]
	PriorityClasses         *informer.Informer[*schedulingv1.PriorityClass]
	ClusterTrustBundles     *informer.Informer[*certificatesv1beta1.ClusterTrustBundle]
	RuntimeClasses          *informer.Informer[*nodev1.RuntimeClass]
	LimitRanges             *informer.Informer[*corev1.LimitRange]
	ResourceQuotas          *informer.Informer[*corev1.ResourceQuota]
	MutatingWebhooks        *informer.Informer[*admissionv1.MutatingWebhookConfiguration]
	ValidatingWebhooks      *informer.Informer[*admissionv1.ValidatingWebhookConfiguration]
	PriorityLevels          *informer.Informer[*flowcontrolv1.PriorityLevelConfiguration]
	FlowSchemas             *informer.Informer[*flowcontrolv1.FlowSchema]
	PodsByController        *informer.Index[types.UID, *corev1.Pod]
	ReplicaSetsByController *informer.Index[types.UID, *appsv1.ReplicaSet]
	PodsByNode              *informer.Index[string, *corev1.Pod]
	PodsByNamespace         *informer.Index[string, *corev1.Pod]
	PodsByClaim             *informer.Index[string, *corev1.Pod]
	ServicesByNamespace     *informer.Index[string, *corev1.Service]
	BudgetsByNamespace      *informer.Index[string, *policyv1.PodDisruptionBudget]
	SecretsByNamespace      *informer.Index[string, *corev1.Secret]
	LimitRangesByNamespace  *informer.Index[string, *corev1.LimitRange]
	QuotasByNamespace       *informer.Index[string, *corev1.ResourceQuota]
	// SlicesByService has the keys of [aggregate.ByService].
	SlicesByService *informer.Index[string, *discoveryv1.EndpointSlice]

	// Kinds has a row for each kind that can be collected, in no particular order.
	Kinds []Kind

	starts []start
}

// A Kind describes a kind that has a cache.
type Kind struct {
	schema.GroupVersionKind
	Plural     string
	Namespaced bool
	// Garbage describes the kind to a garbage collector that acts by api.
	Garbage func(api *client.Client) garbage.Kind
	// Quota describes the kind to the controller of resource quota.
	Quota func() quota.Kind
}

// start is a cache that can be started. Its name is the plural of its kind.
type start struct {
	name  string
	cache controllers.Runner
}

// New returns caches that read from the server of api, and starts none. The server must serve the
// built-in resources and those in more. A cache of a resource without a field in [Caches] holds only
// the metadata of objects.
func New(api *client.Client, log logr.Logger, more ...apiserver.Resource) (*Caches, error) {
	c := &Caches{}
	m := &maker{Caches: c, api: api, log: log, unseen: append(kube.Resources(), more...)}
	none := []error{
		add(m, &c.Namespaces, kinds.Namespaces, nil),
		add(m, &c.ServiceAccounts, kinds.ServiceAccounts, nil),
		add(m, &c.ConfigMaps, kinds.ConfigMaps, nil),
		add(m, &c.Secrets, kinds.Secrets, nil),
		add(m, &c.Nodes, kinds.Nodes, nil),
		add(m, &c.NodeLeases, kinds.Leases, typed.Leases(api).Where(corev1.NamespaceNodeLease, "", "")),
		// Pods alone come by the thousand from one template.
		add(m, &c.Pods, kinds.Pods, typed.Pods(api).WithUnmarshal(intern.New().UnmarshalPod)),
		add(m, &c.Services, kinds.Services, nil),
		add(m, &c.Endpoints, kinds.Endpoints, nil),
		add(m, &c.EndpointSlices, kinds.EndpointSlices, nil),
		add(m, &c.APIServices, kinds.APIServices, nil),
		add(m, &c.Deployments, kinds.Deployments, nil),
		add(m, &c.ReplicaSets, kinds.ReplicaSets, nil),
		add(m, &c.ReplicationControllers, kinds.ReplicationControllers, nil),
		add(m, &c.PodDisruptionBudgets, kinds.PodDisruptionBudgets, nil),
		add(m, &c.Jobs, kinds.Jobs, nil),
		add(m, &c.Roles, kinds.Roles, nil),
		add(m, &c.RoleBindings, kinds.RoleBindings, nil),
		add(m, &c.ClusterRoles, kinds.ClusterRoles, nil),
		add(m, &c.ClusterRoleBindings, kinds.ClusterRoleBindings, nil),
		add(m, &c.PersistentVolumes, kinds.PersistentVolumes, nil),
		add(m, &c.VolumeAttachments, kinds.VolumeAttachments, nil),
		add(m, &c.StorageClasses, kinds.StorageClasses, nil),
		add(m, &c.PriorityClasses, kinds.PriorityClasses, nil),
		add(m, &c.ClusterTrustBundles, kinds.ClusterTrustBundles, nil),
		add(m, &c.RuntimeClasses, kinds.RuntimeClasses, nil),
		add(m, &c.PersistentVolumeClaims, kinds.PersistentVolumeClaims, nil),
		add(m, &c.LimitRanges, kinds.LimitRanges, nil),
		add(m, &c.ResourceQuotas, kinds.ResourceQuotas, nil),
		add(m, &c.MutatingWebhooks, kinds.MutatingWebhookConfigurations, nil),
		add(m, &c.ValidatingWebhooks, kinds.ValidatingWebhookConfigurations, nil),
		add(m, &c.PriorityLevels, kinds.PriorityLevelConfigurations, nil),
		add(m, &c.FlowSchemas, kinds.FlowSchemas, nil),
		m.addMetadata(),
	}
	if err := errors.Join(none...); err != nil {
		return nil, err
	}
	c.index()
	return c, nil
}

// index adds the indexes, which must be there before a cache is started.
func (c *Caches) index() {
	c.PodsByController = informer.NewIndex(c.Pods, owner.ByController[*corev1.Pod])
	c.ReplicaSetsByController = informer.NewIndex(c.ReplicaSets, owner.ByController[*appsv1.ReplicaSet])
	c.PodsByNode = informer.NewIndex(c.Pods, node.ByNode)
	c.PodsByNamespace = informer.NewIndex(c.Pods, controllers.ByNamespace[*corev1.Pod])
	c.PodsByClaim = informer.NewIndex(c.Pods, volume.ByClaim)
	c.ServicesByNamespace = informer.NewIndex(c.Services, controllers.ByNamespace[*corev1.Service])
	c.BudgetsByNamespace = informer.NewIndex(c.PodDisruptionBudgets, controllers.ByNamespace[*policyv1.PodDisruptionBudget])
	c.SecretsByNamespace = informer.NewIndex(c.Secrets, controllers.ByNamespace[*corev1.Secret])
	c.LimitRangesByNamespace = informer.NewIndex(c.LimitRanges, controllers.ByNamespace[*corev1.LimitRange])
	c.QuotasByNamespace = informer.NewIndex(c.ResourceQuotas, controllers.ByNamespace[*corev1.ResourceQuota])
	c.SlicesByService = informer.NewIndex(c.EndpointSlices, aggregate.ByService)
}

// Start starts caches that have not been started: those named, or all others if none
// is named. They fill at the same time.
func (c *Caches) Start(s *stack.Stack, only ...controllers.Runner) {
	c.starts = slices.DeleteFunc(c.starts, func(one start) bool {
		wanted := len(only) == 0 || slices.Contains(only, one.cache)
		if wanted {
			s.Start("informer of "+one.name, one.cache.Run)
		}
		return wanted
	})
}

// Of returns the cache of what source has.
func Of[T client.Object](source informer.Source[T], log logr.Logger) (*informer.Informer[T], error) {
	config := informer.ConfigFor(source)
	config.Log = log
	return informer.New(config)
}

// uncollected are not owned by anything, or too short-lived to matter.
var uncollected = []schema.GroupResource{
	kinds.Events.GroupResource(),
	kinds.EventsGroupEvents.GroupResource(),
	kinds.Leases.GroupResource(),
	kinds.Namespaces.GroupResource(),
	{Resource: "componentstatuses"},
}
