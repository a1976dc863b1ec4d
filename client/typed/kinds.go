//lint:file-ignore SA1019 clients still read and write Endpoints

package typed

import (
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kinds"
	"github.com/planekit/planekit/kinds/apiregistration"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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
func ConfigMaps(c *client.Client) client.Resource[*corev1.ConfigMap] { return For(c, kinds.ConfigMaps) }

// Endpoints returns the resource of the core group.
func Endpoints(c *client.Client) client.Resource[*corev1.Endpoints] { return For(c, kinds.Endpoints) }

// Events returns the resource of the core group.
func Events(c *client.Client) client.Resource[*corev1.Event] { return For(c, kinds.Events) }

// LimitRanges returns the resource of the core group.
func LimitRanges(c *client.Client) client.Resource[*corev1.LimitRange] {
	return For(c, kinds.LimitRanges)
}

// Namespaces returns the resource of the core group.
func Namespaces(c *client.Client) client.Resource[*corev1.Namespace] { return For(c, kinds.Namespaces) }

// Nodes returns the resource of the core group.
func Nodes(c *client.Client) client.Resource[*corev1.Node] { return For(c, kinds.Nodes) }

// PersistentVolumeClaims returns the resource of the core group.
func PersistentVolumeClaims(c *client.Client) client.Resource[*corev1.PersistentVolumeClaim] {
	return For(c, kinds.PersistentVolumeClaims)
}

// PersistentVolumes returns the resource of the core group.
func PersistentVolumes(c *client.Client) client.Resource[*corev1.PersistentVolume] {
	return For(c, kinds.PersistentVolumes)
}

// Pods returns the resource of the core group.
func Pods(c *client.Client) client.Resource[*corev1.Pod] { return For(c, kinds.Pods) }

// PodTemplates returns the resource of the core group.
func PodTemplates(c *client.Client) client.Resource[*corev1.PodTemplate] {
	return For(c, kinds.PodTemplates)
}

// ReplicationControllers returns the resource of the core group.
func ReplicationControllers(c *client.Client) client.Resource[*corev1.ReplicationController] {
	return For(c, kinds.ReplicationControllers)
}

// ResourceQuotas returns the resource of the core group.
func ResourceQuotas(c *client.Client) client.Resource[*corev1.ResourceQuota] {
	return For(c, kinds.ResourceQuotas)
}

// Secrets returns the resource of the core group.
func Secrets(c *client.Client) client.Resource[*corev1.Secret] { return For(c, kinds.Secrets) }

// ServiceAccounts returns the resource of the core group.
func ServiceAccounts(c *client.Client) client.Resource[*corev1.ServiceAccount] {
	return For(c, kinds.ServiceAccounts)
}

// Services returns the resource of the core group.
func Services(c *client.Client) client.Resource[*corev1.Service] { return For(c, kinds.Services) }

// ControllerRevisions returns the resource of the group apps.
func ControllerRevisions(c *client.Client) client.Resource[*appsv1.ControllerRevision] {
	return For(c, kinds.ControllerRevisions)
}

// DaemonSets returns the resource of the group apps.
func DaemonSets(c *client.Client) client.Resource[*appsv1.DaemonSet] { return For(c, kinds.DaemonSets) }

// Deployments returns the resource of the group apps.
func Deployments(c *client.Client) client.Resource[*appsv1.Deployment] {
	return For(c, kinds.Deployments)
}

// ReplicaSets returns the resource of the group apps.
func ReplicaSets(c *client.Client) client.Resource[*appsv1.ReplicaSet] {
	return For(c, kinds.ReplicaSets)
}

// StatefulSets returns the resource of the group apps.
func StatefulSets(c *client.Client) client.Resource[*appsv1.StatefulSet] {
	return For(c, kinds.StatefulSets)
}

// CronJobs returns the resource of the group batch.
func CronJobs(c *client.Client) client.Resource[*batchv1.CronJob] { return For(c, kinds.CronJobs) }

// Jobs returns the resource of the group batch.
func Jobs(c *client.Client) client.Resource[*batchv1.Job] { return For(c, kinds.Jobs) }

// APIServices returns the resource of the group apiregistration.k8s.io.
func APIServices(c *client.Client) client.Resource[*apiregistration.APIService] {
	return For(c, kinds.APIServices)
}

// ValidatingAdmissionPolicies returns the resource of the group admissionregistration.k8s.io.
func ValidatingAdmissionPolicies(c *client.Client) client.Resource[*admissionregistrationv1.ValidatingAdmissionPolicy] {
	return For(c, kinds.ValidatingAdmissionPolicies)
}

// ValidatingAdmissionPolicyBindings returns the resource of the group admissionregistration.k8s.io.
func ValidatingAdmissionPolicyBindings(c *client.Client) client.Resource[*admissionregistrationv1.ValidatingAdmissionPolicyBinding] {
	return For(c, kinds.ValidatingAdmissionPolicyBindings)
}

// MutatingWebhookConfigurations returns the resource of the group admissionregistration.k8s.io.
func MutatingWebhookConfigurations(c *client.Client) client.Resource[*admissionregistrationv1.MutatingWebhookConfiguration] {
	return For(c, kinds.MutatingWebhookConfigurations)
}

// ValidatingWebhookConfigurations returns the resource of the group admissionregistration.k8s.io.
func ValidatingWebhookConfigurations(c *client.Client) client.Resource[*admissionregistrationv1.ValidatingWebhookConfiguration] {
	return For(c, kinds.ValidatingWebhookConfigurations)
}

// ClusterTrustBundles returns the resource of the group certificates.k8s.io.
func ClusterTrustBundles(c *client.Client) client.Resource[*certificatesv1beta1.ClusterTrustBundle] {
	return For(c, kinds.ClusterTrustBundles)
}

// Leases returns the resource of the group coordination.k8s.io.
func Leases(c *client.Client) client.Resource[*coordinationv1.Lease] { return For(c, kinds.Leases) }

// EndpointSlices returns the resource of the group discovery.k8s.io.
func EndpointSlices(c *client.Client) client.Resource[*discoveryv1.EndpointSlice] {
	return For(c, kinds.EndpointSlices)
}

// FlowSchemas returns the resource of the group flowcontrol.apiserver.k8s.io.
func FlowSchemas(c *client.Client) client.Resource[*flowcontrolv1.FlowSchema] {
	return For(c, kinds.FlowSchemas)
}

// PriorityLevelConfigurations returns the resource of the group flowcontrol.apiserver.k8s.io.
func PriorityLevelConfigurations(c *client.Client) client.Resource[*flowcontrolv1.PriorityLevelConfiguration] {
	return For(c, kinds.PriorityLevelConfigurations)
}

// IngressClasses returns the resource of the group networking.k8s.io.
func IngressClasses(c *client.Client) client.Resource[*networkingv1.IngressClass] {
	return For(c, kinds.IngressClasses)
}

// Ingresses returns the resource of the group networking.k8s.io.
func Ingresses(c *client.Client) client.Resource[*networkingv1.Ingress] {
	return For(c, kinds.Ingresses)
}

// IPAddresses returns the resource of the group networking.k8s.io.
func IPAddresses(c *client.Client) client.Resource[*networkingv1.IPAddress] {
	return For(c, kinds.IPAddresses)
}

// NetworkPolicies returns the resource of the group networking.k8s.io.
func NetworkPolicies(c *client.Client) client.Resource[*networkingv1.NetworkPolicy] {
	return For(c, kinds.NetworkPolicies)
}

// ServiceCIDRs returns the resource of the group networking.k8s.io.
func ServiceCIDRs(c *client.Client) client.Resource[*networkingv1.ServiceCIDR] {
	return For(c, kinds.ServiceCIDRs)
}

// RuntimeClasses returns the resource of the group node.k8s.io.
func RuntimeClasses(c *client.Client) client.Resource[*nodev1.RuntimeClass] {
	return For(c, kinds.RuntimeClasses)
}

// PodDisruptionBudgets returns the resource of the group policy.
func PodDisruptionBudgets(c *client.Client) client.Resource[*policyv1.PodDisruptionBudget] {
	return For(c, kinds.PodDisruptionBudgets)
}

// ClusterRoleBindings returns the resource of the group rbac.authorization.k8s.io.
func ClusterRoleBindings(c *client.Client) client.Resource[*rbacv1.ClusterRoleBinding] {
	return For(c, kinds.ClusterRoleBindings)
}

// ClusterRoles returns the resource of the group rbac.authorization.k8s.io.
func ClusterRoles(c *client.Client) client.Resource[*rbacv1.ClusterRole] {
	return For(c, kinds.ClusterRoles)
}

// RoleBindings returns the resource of the group rbac.authorization.k8s.io.
func RoleBindings(c *client.Client) client.Resource[*rbacv1.RoleBinding] {
	return For(c, kinds.RoleBindings)
}

// Roles returns the resource of the group rbac.authorization.k8s.io.
func Roles(c *client.Client) client.Resource[*rbacv1.Role] { return For(c, kinds.Roles) }

// PriorityClasses returns the resource of the group scheduling.k8s.io.
func PriorityClasses(c *client.Client) client.Resource[*schedulingv1.PriorityClass] {
	return For(c, kinds.PriorityClasses)
}

// CSIDrivers returns the resource of the group storage.k8s.io.
func CSIDrivers(c *client.Client) client.Resource[*storagev1.CSIDriver] {
	return For(c, kinds.CSIDrivers)
}

// CSINodes returns the resource of the group storage.k8s.io.
func CSINodes(c *client.Client) client.Resource[*storagev1.CSINode] { return For(c, kinds.CSINodes) }

// CSIStorageCapacities returns the resource of the group storage.k8s.io.
func CSIStorageCapacities(c *client.Client) client.Resource[*storagev1.CSIStorageCapacity] {
	return For(c, kinds.CSIStorageCapacities)
}

// StorageClasses returns the resource of the group storage.k8s.io.
func StorageClasses(c *client.Client) client.Resource[*storagev1.StorageClass] {
	return For(c, kinds.StorageClasses)
}

// VolumeAttachments returns the resource of the group storage.k8s.io.
func VolumeAttachments(c *client.Client) client.Resource[*storagev1.VolumeAttachment] {
	return For(c, kinds.VolumeAttachments)
}
