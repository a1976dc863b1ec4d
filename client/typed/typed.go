//lint:file-ignore SA1019 clients still read and write Endpoints

// Package typed has a typed resource for each of Kubernetes' kinds.
//
//	pods, revision, err := typed.Pods(c).List(ctx, "default", metav1.ListOptions{})
//
// The functions are short for [client.For] with a row of the table in package kinds.
package typed

import (
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kinds"
	"github.com/planekit/planekit/kinds/apiregistration"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
)

// ConfigMaps returns the resource of the core group.
func ConfigMaps(c *client.Client) client.Resource[*corev1.ConfigMap] {
	return client.For(c, kinds.ConfigMaps)
}

// Endpoints returns the resource of the core group.
func Endpoints(c *client.Client) client.Resource[*corev1.Endpoints] {
	return client.For(c, kinds.Endpoints)
}

// Events returns the resource of the core group.
func Events(c *client.Client) client.Resource[*corev1.Event] { return client.For(c, kinds.Events) }

// LimitRanges returns the resource of the core group.
func LimitRanges(c *client.Client) client.Resource[*corev1.LimitRange] {
	return client.For(c, kinds.LimitRanges)
}

// Namespaces returns the resource of the core group.
func Namespaces(c *client.Client) client.Resource[*corev1.Namespace] {
	return client.For(c, kinds.Namespaces)
}

// Nodes returns the resource of the core group.
func Nodes(c *client.Client) client.Resource[*corev1.Node] { return client.For(c, kinds.Nodes) }

// PersistentVolumeClaims returns the resource of the core group.
func PersistentVolumeClaims(c *client.Client) client.Resource[*corev1.PersistentVolumeClaim] {
	return client.For(c, kinds.PersistentVolumeClaims)
}

// PersistentVolumes returns the resource of the core group.
func PersistentVolumes(c *client.Client) client.Resource[*corev1.PersistentVolume] {
	return client.For(c, kinds.PersistentVolumes)
}

// Pods returns the resource of the core group.
func Pods(c *client.Client) client.Resource[*corev1.Pod] { return client.For(c, kinds.Pods) }

// PodTemplates returns the resource of the core group.
func PodTemplates(c *client.Client) client.Resource[*corev1.PodTemplate] {
	return client.For(c, kinds.PodTemplates)
}

// ReplicationControllers returns the resource of the core group.
func ReplicationControllers(c *client.Client) client.Resource[*corev1.ReplicationController] {
	return client.For(c, kinds.ReplicationControllers)
}

// ResourceQuotas returns the resource of the core group.
func ResourceQuotas(c *client.Client) client.Resource[*corev1.ResourceQuota] {
	return client.For(c, kinds.ResourceQuotas)
}

// Secrets returns the resource of the core group.
func Secrets(c *client.Client) client.Resource[*corev1.Secret] {
	return client.For(c, kinds.Secrets)
}

// ServiceAccounts returns the resource of the core group.
func ServiceAccounts(c *client.Client) client.Resource[*corev1.ServiceAccount] {
	return client.For(c, kinds.ServiceAccounts)
}

// Services returns the resource of the core group.
func Services(c *client.Client) client.Resource[*corev1.Service] {
	return client.For(c, kinds.Services)
}

// ControllerRevisions returns the resource of the group apps.
func ControllerRevisions(c *client.Client) client.Resource[*appsv1.ControllerRevision] {
	return client.For(c, kinds.ControllerRevisions)
}

// DaemonSets returns the resource of the group apps.
func DaemonSets(c *client.Client) client.Resource[*appsv1.DaemonSet] {
	return client.For(c, kinds.DaemonSets)
}

// Deployments returns the resource of the group apps.
func Deployments(c *client.Client) client.Resource[*appsv1.Deployment] {
	return client.For(c, kinds.Deployments)
}

// ReplicaSets returns the resource of the group apps.
func ReplicaSets(c *client.Client) client.Resource[*appsv1.ReplicaSet] {
	return client.For(c, kinds.ReplicaSets)
}

// StatefulSets returns the resource of the group apps.
func StatefulSets(c *client.Client) client.Resource[*appsv1.StatefulSet] {
	return client.For(c, kinds.StatefulSets)
}

// CronJobs returns the resource of the group batch.
func CronJobs(c *client.Client) client.Resource[*batchv1.CronJob] {
	return client.For(c, kinds.CronJobs)
}

// Jobs returns the resource of the group batch.
func Jobs(c *client.Client) client.Resource[*batchv1.Job] { return client.For(c, kinds.Jobs) }

// APIServices returns the resource of the group apiregistration.k8s.io.
func APIServices(c *client.Client) client.Resource[*apiregistration.APIService] {
	return client.For(c, kinds.APIServices)
}

// ValidatingAdmissionPolicies returns the resource of the group admissionregistration.k8s.io.
func ValidatingAdmissionPolicies(c *client.Client) client.Resource[*admissionregistrationv1.ValidatingAdmissionPolicy] {
	return client.For(c, kinds.ValidatingAdmissionPolicies)
}

// ValidatingAdmissionPolicyBindings returns the resource of the group admissionregistration.k8s.io.
func ValidatingAdmissionPolicyBindings(c *client.Client) client.Resource[*admissionregistrationv1.ValidatingAdmissionPolicyBinding] {
	return client.For(c, kinds.ValidatingAdmissionPolicyBindings)
}

// MutatingAdmissionPolicies returns the resource of the group admissionregistration.k8s.io.
func MutatingAdmissionPolicies(c *client.Client) client.Resource[*admissionregistrationv1.MutatingAdmissionPolicy] {
	return client.For(c, kinds.MutatingAdmissionPolicies)
}

// MutatingAdmissionPolicyBindings returns the resource of the group admissionregistration.k8s.io.
func MutatingAdmissionPolicyBindings(c *client.Client) client.Resource[*admissionregistrationv1.MutatingAdmissionPolicyBinding] {
	return client.For(c, kinds.MutatingAdmissionPolicyBindings)
}

// MutatingWebhookConfigurations returns the resource of the group admissionregistration.k8s.io.
func MutatingWebhookConfigurations(c *client.Client) client.Resource[*admissionregistrationv1.MutatingWebhookConfiguration] {
	return client.For(c, kinds.MutatingWebhookConfigurations)
}

// ValidatingWebhookConfigurations returns the resource of the group admissionregistration.k8s.io.
func ValidatingWebhookConfigurations(c *client.Client) client.Resource[*admissionregistrationv1.ValidatingWebhookConfiguration] {
	return client.For(c, kinds.ValidatingWebhookConfigurations)
}

// CertificateSigningRequests returns the resource of the group certificates.k8s.io.
func CertificateSigningRequests(c *client.Client) client.Resource[*certificatesv1.CertificateSigningRequest] {
	return client.For(c, kinds.CertificateSigningRequests)
}

// ClusterTrustBundles returns the resource of the group certificates.k8s.io.
func ClusterTrustBundles(c *client.Client) client.Resource[*certificatesv1beta1.ClusterTrustBundle] {
	return client.For(c, kinds.ClusterTrustBundles)
}

// Leases returns the resource of the group coordination.k8s.io.
func Leases(c *client.Client) client.Resource[*coordinationv1.Lease] {
	return client.For(c, kinds.Leases)
}

// EndpointSlices returns the resource of the group discovery.k8s.io.
func EndpointSlices(c *client.Client) client.Resource[*discoveryv1.EndpointSlice] {
	return client.For(c, kinds.EndpointSlices)
}

// FlowSchemas returns the resource of the group flowcontrol.apiserver.k8s.io.
func FlowSchemas(c *client.Client) client.Resource[*flowcontrolv1.FlowSchema] {
	return client.For(c, kinds.FlowSchemas)
}

// PriorityLevelConfigurations returns the resource of the group flowcontrol.apiserver.k8s.io.
func PriorityLevelConfigurations(c *client.Client) client.Resource[*flowcontrolv1.PriorityLevelConfiguration] {
	return client.For(c, kinds.PriorityLevelConfigurations)
}

// IngressClasses returns the resource of the group networking.k8s.io.
func IngressClasses(c *client.Client) client.Resource[*networkingv1.IngressClass] {
	return client.For(c, kinds.IngressClasses)
}

// Ingresses returns the resource of the group networking.k8s.io.
func Ingresses(c *client.Client) client.Resource[*networkingv1.Ingress] {
	return client.For(c, kinds.Ingresses)
}

// IPAddresses returns the resource of the group networking.k8s.io.
func IPAddresses(c *client.Client) client.Resource[*networkingv1.IPAddress] {
	return client.For(c, kinds.IPAddresses)
}

// NetworkPolicies returns the resource of the group networking.k8s.io.
func NetworkPolicies(c *client.Client) client.Resource[*networkingv1.NetworkPolicy] {
	return client.For(c, kinds.NetworkPolicies)
}

// ServiceCIDRs returns the resource of the group networking.k8s.io.
func ServiceCIDRs(c *client.Client) client.Resource[*networkingv1.ServiceCIDR] {
	return client.For(c, kinds.ServiceCIDRs)
}

// HorizontalPodAutoscalers returns the resource of the group autoscaling.
func HorizontalPodAutoscalers(c *client.Client) client.Resource[*autoscalingv2.HorizontalPodAutoscaler] {
	return client.For(c, kinds.HorizontalPodAutoscalers)
}

// RuntimeClasses returns the resource of the group node.k8s.io.
func RuntimeClasses(c *client.Client) client.Resource[*nodev1.RuntimeClass] {
	return client.For(c, kinds.RuntimeClasses)
}

// PodDisruptionBudgets returns the resource of the group policy.
func PodDisruptionBudgets(c *client.Client) client.Resource[*policyv1.PodDisruptionBudget] {
	return client.For(c, kinds.PodDisruptionBudgets)
}

// ClusterRoleBindings returns the resource of the group rbac.authorization.k8s.io.
func ClusterRoleBindings(c *client.Client) client.Resource[*rbacv1.ClusterRoleBinding] {
	return client.For(c, kinds.ClusterRoleBindings)
}

// ClusterRoles returns the resource of the group rbac.authorization.k8s.io.
func ClusterRoles(c *client.Client) client.Resource[*rbacv1.ClusterRole] {
	return client.For(c, kinds.ClusterRoles)
}

// RoleBindings returns the resource of the group rbac.authorization.k8s.io.
func RoleBindings(c *client.Client) client.Resource[*rbacv1.RoleBinding] {
	return client.For(c, kinds.RoleBindings)
}

// Roles returns the resource of the group rbac.authorization.k8s.io.
func Roles(c *client.Client) client.Resource[*rbacv1.Role] { return client.For(c, kinds.Roles) }

// PriorityClasses returns the resource of the group scheduling.k8s.io.
func PriorityClasses(c *client.Client) client.Resource[*schedulingv1.PriorityClass] {
	return client.For(c, kinds.PriorityClasses)
}

// CSIDrivers returns the resource of the group storage.k8s.io.
func CSIDrivers(c *client.Client) client.Resource[*storagev1.CSIDriver] {
	return client.For(c, kinds.CSIDrivers)
}

// CSINodes returns the resource of the group storage.k8s.io.
func CSINodes(c *client.Client) client.Resource[*storagev1.CSINode] {
	return client.For(c, kinds.CSINodes)
}

// CSIStorageCapacities returns the resource of the group storage.k8s.io.
func CSIStorageCapacities(c *client.Client) client.Resource[*storagev1.CSIStorageCapacity] {
	return client.For(c, kinds.CSIStorageCapacities)
}

// StorageClasses returns the resource of the group storage.k8s.io.
func StorageClasses(c *client.Client) client.Resource[*storagev1.StorageClass] {
	return client.For(c, kinds.StorageClasses)
}

// VolumeAttachments returns the resource of the group storage.k8s.io.
func VolumeAttachments(c *client.Client) client.Resource[*storagev1.VolumeAttachment] {
	return client.For(c, kinds.VolumeAttachments)
}
