//lint:file-ignore SA1019 clients still read and write Endpoints

package typed

import (
	"github.com/planekit/planekit/client"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Services are those of the core group.
func Services(c *client.Client) client.Resource[*corev1.Service] {
	return resource[corev1.Service](c, "", "Service", "services", true)
}

// Endpoints are those of the core group.
func Endpoints(c *client.Client) client.Resource[*corev1.Endpoints] {
	return resource[corev1.Endpoints](c, "", "Endpoints", "endpoints", true)
}

// LimitRanges are those of the core group.
func LimitRanges(c *client.Client) client.Resource[*corev1.LimitRange] {
	return resource[corev1.LimitRange](c, "", "LimitRange", "limitranges", true)
}

// PersistentVolumeClaims are those of the core group.
func PersistentVolumeClaims(c *client.Client) client.Resource[*corev1.PersistentVolumeClaim] {
	return resource[corev1.PersistentVolumeClaim](c, "", "PersistentVolumeClaim", "persistentvolumeclaims", true)
}

// PersistentVolumes are those of the core group.
func PersistentVolumes(c *client.Client) client.Resource[*corev1.PersistentVolume] {
	return resource[corev1.PersistentVolume](c, "", "PersistentVolume", "persistentvolumes", false)
}

// PodTemplates are those of the core group.
func PodTemplates(c *client.Client) client.Resource[*corev1.PodTemplate] {
	return resource[corev1.PodTemplate](c, "", "PodTemplate", "podtemplates", true)
}

// ReplicationControllers are those of the core group.
func ReplicationControllers(c *client.Client) client.Resource[*corev1.ReplicationController] {
	return resource[corev1.ReplicationController](c, "", "ReplicationController", "replicationcontrollers", true)
}

// ResourceQuotas are those of the core group.
func ResourceQuotas(c *client.Client) client.Resource[*corev1.ResourceQuota] {
	return resource[corev1.ResourceQuota](c, "", "ResourceQuota", "resourcequotas", true)
}

// ControllerRevisions are those of the group apps.
func ControllerRevisions(c *client.Client) client.Resource[*appsv1.ControllerRevision] {
	return resource[appsv1.ControllerRevision](c, "apps", "ControllerRevision", "controllerrevisions", true)
}

// DaemonSets are those of the group apps.
func DaemonSets(c *client.Client) client.Resource[*appsv1.DaemonSet] {
	return resource[appsv1.DaemonSet](c, "apps", "DaemonSet", "daemonsets", true)
}

// StatefulSets are those of the group apps.
func StatefulSets(c *client.Client) client.Resource[*appsv1.StatefulSet] {
	return resource[appsv1.StatefulSet](c, "apps", "StatefulSet", "statefulsets", true)
}

// CronJobs are those of the group batch.
func CronJobs(c *client.Client) client.Resource[*batchv1.CronJob] {
	return resource[batchv1.CronJob](c, "batch", "CronJob", "cronjobs", true)
}

// EndpointSlices are those of the group discovery.k8s.io.
func EndpointSlices(c *client.Client) client.Resource[*discoveryv1.EndpointSlice] {
	return resource[discoveryv1.EndpointSlice](c, "discovery.k8s.io", "EndpointSlice", "endpointslices", true)
}

// FlowSchemas are those of the group flowcontrol.apiserver.k8s.io.
func FlowSchemas(c *client.Client) client.Resource[*flowcontrolv1.FlowSchema] {
	return resource[flowcontrolv1.FlowSchema](c, "flowcontrol.apiserver.k8s.io", "FlowSchema", "flowschemas", false)
}

// PriorityLevelConfigurations are those of the group flowcontrol.apiserver.k8s.io.
func PriorityLevelConfigurations(c *client.Client) client.Resource[*flowcontrolv1.PriorityLevelConfiguration] {
	return resource[flowcontrolv1.PriorityLevelConfiguration](c, "flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", "prioritylevelconfigurations", false)
}

// Ingresses are those of the group networking.k8s.io.
func Ingresses(c *client.Client) client.Resource[*networkingv1.Ingress] {
	return resource[networkingv1.Ingress](c, "networking.k8s.io", "Ingress", "ingresses", true)
}

// IngressClasses are those of the group networking.k8s.io.
func IngressClasses(c *client.Client) client.Resource[*networkingv1.IngressClass] {
	return resource[networkingv1.IngressClass](c, "networking.k8s.io", "IngressClass", "ingressclasses", false)
}

// NetworkPolicies are those of the group networking.k8s.io.
func NetworkPolicies(c *client.Client) client.Resource[*networkingv1.NetworkPolicy] {
	return resource[networkingv1.NetworkPolicy](c, "networking.k8s.io", "NetworkPolicy", "networkpolicies", true)
}

// IPAddresses are those of the group networking.k8s.io.
func IPAddresses(c *client.Client) client.Resource[*networkingv1.IPAddress] {
	return resource[networkingv1.IPAddress](c, "networking.k8s.io", "IPAddress", "ipaddresses", false)
}

// ServiceCIDRs are those of the group networking.k8s.io.
func ServiceCIDRs(c *client.Client) client.Resource[*networkingv1.ServiceCIDR] {
	return resource[networkingv1.ServiceCIDR](c, "networking.k8s.io", "ServiceCIDR", "servicecidrs", false)
}

// RuntimeClasses are those of the group node.k8s.io.
func RuntimeClasses(c *client.Client) client.Resource[*nodev1.RuntimeClass] {
	return resource[nodev1.RuntimeClass](c, "node.k8s.io", "RuntimeClass", "runtimeclasses", false)
}

// PodDisruptionBudgets are those of the group policy.
func PodDisruptionBudgets(c *client.Client) client.Resource[*policyv1.PodDisruptionBudget] {
	return resource[policyv1.PodDisruptionBudget](c, "policy", "PodDisruptionBudget", "poddisruptionbudgets", true)
}

// PriorityClasses are those of the group scheduling.k8s.io.
func PriorityClasses(c *client.Client) client.Resource[*schedulingv1.PriorityClass] {
	return resource[schedulingv1.PriorityClass](c, "scheduling.k8s.io", "PriorityClass", "priorityclasses", false)
}

// CSIDrivers are those of the group storage.k8s.io.
func CSIDrivers(c *client.Client) client.Resource[*storagev1.CSIDriver] {
	return resource[storagev1.CSIDriver](c, "storage.k8s.io", "CSIDriver", "csidrivers", false)
}

// CSINodes are those of the group storage.k8s.io.
func CSINodes(c *client.Client) client.Resource[*storagev1.CSINode] {
	return resource[storagev1.CSINode](c, "storage.k8s.io", "CSINode", "csinodes", false)
}

// CSIStorageCapacities are those of the group storage.k8s.io.
func CSIStorageCapacities(c *client.Client) client.Resource[*storagev1.CSIStorageCapacity] {
	return resource[storagev1.CSIStorageCapacity](c, "storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", true)
}

// StorageClasses are those of the group storage.k8s.io.
func StorageClasses(c *client.Client) client.Resource[*storagev1.StorageClass] {
	return resource[storagev1.StorageClass](c, "storage.k8s.io", "StorageClass", "storageclasses", false)
}

// VolumeAttachments are those of the group storage.k8s.io.
func VolumeAttachments(c *client.Client) client.Resource[*storagev1.VolumeAttachment] {
	return resource[storagev1.VolumeAttachment](c, "storage.k8s.io", "VolumeAttachment", "volumeattachments", false)
}

// MutatingWebhookConfigurations are those of the group admissionregistration.k8s.io.
func MutatingWebhookConfigurations(c *client.Client) client.Resource[*admissionregistrationv1.MutatingWebhookConfiguration] {
	return resource[admissionregistrationv1.MutatingWebhookConfiguration](c, "admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false)
}

// ValidatingAdmissionPolicies are those of the group admissionregistration.k8s.io.
func ValidatingAdmissionPolicies(c *client.Client) client.Resource[*admissionregistrationv1.ValidatingAdmissionPolicy] {
	return resource[admissionregistrationv1.ValidatingAdmissionPolicy](c, "admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false)
}

// ValidatingAdmissionPolicyBindings are those of the group admissionregistration.k8s.io.
func ValidatingAdmissionPolicyBindings(c *client.Client) client.Resource[*admissionregistrationv1.ValidatingAdmissionPolicyBinding] {
	return resource[admissionregistrationv1.ValidatingAdmissionPolicyBinding](c, "admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false)
}

// ValidatingWebhookConfigurations are those of the group admissionregistration.k8s.io.
func ValidatingWebhookConfigurations(c *client.Client) client.Resource[*admissionregistrationv1.ValidatingWebhookConfiguration] {
	return resource[admissionregistrationv1.ValidatingWebhookConfiguration](c, "admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false)
}
