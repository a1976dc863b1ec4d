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
// A program with fewer kinds makes a [Group] of its own, and links no more than these:
//
//	var group caches.Group
//	roles, err := caches.Add(&group, "roles", typed.Roles(api), log)
//	group.Start(stack)
//
// [Caches.Kinds] describes each kind that has a cache to the garbage collector and
// to resource quota, so that a kind is listed once. Kinds that nothing but those two
// read are cached as metadata alone. Events, namespaces and leases (but those of
// nodes) are not collected: nothing owns them, or they are too short-lived.
//
// [Caches.Custom] has the metadata of the objects of kinds that come and go, such as those of
// CustomResourceDefinitions.
package caches

import (
	"errors"

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
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	"github.com/planekit/planekit/reconcile/controllers/node"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	"github.com/planekit/planekit/reconcile/controllers/quota"
	"github.com/planekit/planekit/reconcile/controllers/serviceaddress"
	"github.com/planekit/planekit/reconcile/controllers/volume"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	IPAddresses             *informer.Informer[*networkingv1.IPAddress]
	ServiceCIDRs            *informer.Informer[*networkingv1.ServiceCIDR]
	Endpoints               *informer.Informer[*corev1.Endpoints]
	EndpointSlices          *informer.Informer[*discoveryv1.EndpointSlice]
	APIServices             *informer.Informer[*apiregistration.APIService]
	Deployments             *informer.Informer[*appsv1.Deployment]
	ReplicaSets             *informer.Informer[*appsv1.ReplicaSet]
	ReplicationControllers  *informer.Informer[*corev1.ReplicationController]
	PodDisruptionBudgets    *informer.Informer[*policyv1.PodDisruptionBudget]
	Autoscalers             *informer.Informer[*autoscalingv2.HorizontalPodAutoscaler]
	Jobs                    *informer.Informer[*batchv1.Job]
	Roles                   *informer.Informer[*rbacv1.Role]
	RoleBindings            *informer.Informer[*rbacv1.RoleBinding]
	ClusterRoles            *informer.Informer[*rbacv1.ClusterRole]
	ClusterRoleBindings     *informer.Informer[*rbacv1.ClusterRoleBinding]
	PersistentVolumes       *informer.Informer[*corev1.PersistentVolume]
	PersistentVolumeClaims  *informer.Informer[*corev1.PersistentVolumeClaim]
	IngressClasses          *informer.Informer[*networkingv1.IngressClass]
	StorageClasses          *informer.Informer[*storagev1.StorageClass]
	VolumeAttachments       *informer.Informer[*storagev1.VolumeAttachment]
	CSINodes                *informer.Informer[*storagev1.CSINode]
	PriorityClasses         *informer.Informer[*schedulingv1.PriorityClass]
	SigningRequests         *informer.Informer[*certificatesv1.CertificateSigningRequest]
	ClusterTrustBundles     *informer.Informer[*certificatesv1beta1.ClusterTrustBundle]
	RuntimeClasses          *informer.Informer[*nodev1.RuntimeClass]
	LimitRanges             *informer.Informer[*corev1.LimitRange]
	ResourceQuotas          *informer.Informer[*corev1.ResourceQuota]
	MutatingWebhooks        *informer.Informer[*admissionv1.MutatingWebhookConfiguration]
	ValidatingWebhooks      *informer.Informer[*admissionv1.ValidatingWebhookConfiguration]
	AdmissionPolicies       *informer.Informer[*admissionv1.ValidatingAdmissionPolicy]
	AdmissionPolicyBindings *informer.Informer[*admissionv1.ValidatingAdmissionPolicyBinding]
	MutatingPolicies        *informer.Informer[*admissionv1.MutatingAdmissionPolicy]
	MutatingPolicyBindings  *informer.Informer[*admissionv1.MutatingAdmissionPolicyBinding]
	PriorityLevels          *informer.Informer[*flowcontrolv1.PriorityLevelConfiguration]
	FlowSchemas             *informer.Informer[*flowcontrolv1.FlowSchema]
	PodsByController        *informer.Index[types.UID, *corev1.Pod]
	ReplicaSetsByController *informer.Index[types.UID, *appsv1.ReplicaSet]
	PodsByNode              *informer.Index[string, *corev1.Pod]
	PodsByNamespace         *informer.Index[string, *corev1.Pod]
	PodsByClaim             *informer.Index[string, *corev1.Pod]
	ServicesByNamespace     *informer.Index[string, *corev1.Service]
	ServicesByAddress       *informer.Index[string, *corev1.Service]
	BudgetsByNamespace      *informer.Index[string, *policyv1.PodDisruptionBudget]
	SecretsByNamespace      *informer.Index[string, *corev1.Secret]
	LimitRangesByNamespace  *informer.Index[string, *corev1.LimitRange]
	QuotasByNamespace       *informer.Index[string, *corev1.ResourceQuota]
	AttachmentsByNode       *informer.Index[string, *storagev1.VolumeAttachment]
	// SlicesByService has the keys of [aggregate.ByService].
	SlicesByService *informer.Index[string, *discoveryv1.EndpointSlice]

	// Kinds has a row for each kind that can be collected, in no particular order.
	Kinds []Kind
	// Custom has the kinds that come and go.
	Custom *Custom

	Group
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

// New returns caches that read from the server of api, and starts none. The server must serve the
// built-in resources and those in more. A cache of a resource without a field in [Caches] holds only
// the metadata of objects.
func New(api *client.Client, log logr.Logger, more ...apiserver.Resource) (*Caches, error) {
	c := &Caches{Custom: newCustom(api, log.WithName("custom"))}
	m := &maker{Caches: c, api: api, log: log, unseen: append(kube.Resources(), more...)}
	none := []error{
		addKind(m, &c.Namespaces, kinds.Namespaces, nil),
		addKind(m, &c.ServiceAccounts, kinds.ServiceAccounts, nil),
		addKind(m, &c.ConfigMaps, kinds.ConfigMaps, nil),
		addKind(m, &c.Secrets, kinds.Secrets, nil),
		addKind(m, &c.Nodes, kinds.Nodes, nil),
		addKind(m, &c.NodeLeases, kinds.Leases, typed.Leases(api).Where(corev1.NamespaceNodeLease, "", "")),
		// Pods alone come by the thousand from one template.
		addKind(m, &c.Pods, kinds.Pods, typed.Pods(api).WithUnmarshal(intern.New().UnmarshalPod)),
		addKind(m, &c.Services, kinds.Services, nil),
		addKind(m, &c.IPAddresses, kinds.IPAddresses, nil),
		addKind(m, &c.ServiceCIDRs, kinds.ServiceCIDRs, nil),
		addKind(m, &c.Endpoints, kinds.Endpoints, nil),
		addKind(m, &c.EndpointSlices, kinds.EndpointSlices, nil),
		addKind(m, &c.APIServices, kinds.APIServices, nil),
		addKind(m, &c.Deployments, kinds.Deployments, nil),
		addKind(m, &c.ReplicaSets, kinds.ReplicaSets, nil),
		addKind(m, &c.ReplicationControllers, kinds.ReplicationControllers, nil),
		addKind(m, &c.PodDisruptionBudgets, kinds.PodDisruptionBudgets, nil),
		addKind(m, &c.Autoscalers, kinds.HorizontalPodAutoscalers, nil),
		addKind(m, &c.Jobs, kinds.Jobs, nil),
		addKind(m, &c.Roles, kinds.Roles, nil),
		addKind(m, &c.RoleBindings, kinds.RoleBindings, nil),
		addKind(m, &c.ClusterRoles, kinds.ClusterRoles, nil),
		addKind(m, &c.ClusterRoleBindings, kinds.ClusterRoleBindings, nil),
		addKind(m, &c.PersistentVolumes, kinds.PersistentVolumes, nil),
		addKind(m, &c.VolumeAttachments, kinds.VolumeAttachments, nil),
		addKind(m, &c.CSINodes, kinds.CSINodes, nil),
		addKind(m, &c.IngressClasses, kinds.IngressClasses, nil),
		addKind(m, &c.StorageClasses, kinds.StorageClasses, nil),
		addKind(m, &c.PriorityClasses, kinds.PriorityClasses, nil),
		addKind(m, &c.SigningRequests, kinds.CertificateSigningRequests, nil),
		addKind(m, &c.ClusterTrustBundles, kinds.ClusterTrustBundles, nil),
		addKind(m, &c.RuntimeClasses, kinds.RuntimeClasses, nil),
		addKind(m, &c.PersistentVolumeClaims, kinds.PersistentVolumeClaims, nil),
		addKind(m, &c.LimitRanges, kinds.LimitRanges, nil),
		addKind(m, &c.ResourceQuotas, kinds.ResourceQuotas, nil),
		addKind(m, &c.MutatingWebhooks, kinds.MutatingWebhookConfigurations, nil),
		addKind(m, &c.ValidatingWebhooks, kinds.ValidatingWebhookConfigurations, nil),
		addKind(m, &c.AdmissionPolicies, kinds.ValidatingAdmissionPolicies, nil),
		addKind(m, &c.AdmissionPolicyBindings, kinds.ValidatingAdmissionPolicyBindings, nil),
		addKind(m, &c.MutatingPolicies, kinds.MutatingAdmissionPolicies, nil),
		addKind(m, &c.MutatingPolicyBindings, kinds.MutatingAdmissionPolicyBindings, nil),
		addKind(m, &c.PriorityLevels, kinds.PriorityLevelConfigurations, nil),
		addKind(m, &c.FlowSchemas, kinds.FlowSchemas, nil),
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
	c.ServicesByAddress = informer.NewIndex(c.Services, serviceaddress.ByAddress)
	c.BudgetsByNamespace = informer.NewIndex(c.PodDisruptionBudgets, controllers.ByNamespace[*policyv1.PodDisruptionBudget])
	c.SecretsByNamespace = informer.NewIndex(c.Secrets, controllers.ByNamespace[*corev1.Secret])
	c.LimitRangesByNamespace = informer.NewIndex(c.LimitRanges, controllers.ByNamespace[*corev1.LimitRange])
	c.QuotasByNamespace = informer.NewIndex(c.ResourceQuotas, controllers.ByNamespace[*corev1.ResourceQuota])
	c.AttachmentsByNode = informer.NewIndex(c.VolumeAttachments, func(a *storagev1.VolumeAttachment) []string { return []string{a.Spec.NodeName} })
	c.SlicesByService = informer.NewIndex(c.EndpointSlices, aggregate.ByService)
}

// uncollected are not owned by anything, or too short-lived to matter.
var uncollected = []schema.GroupResource{
	kinds.Events.GroupResource(),
	kinds.EventsGroupEvents.GroupResource(),
	kinds.Leases.GroupResource(),
	kinds.Namespaces.GroupResource(),
	{Resource: "componentstatuses"},
}
