//lint:file-ignore SA1019 clients still read and write Endpoints

package kinds

import (
	"github.com/planekit/planekit/kinds/apiregistration"
	"github.com/planekit/planekit/kinds/kind"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The kinds of the core group.
var (
	ConfigMaps = kind.Kind[*corev1.ConfigMap]{
		Version: "v1", Kind: "ConfigMap", Plural: "configmaps", ShortNames: []string{"cm"}, Namespaced: true,
		New: object[corev1.ConfigMap], NewList: list[corev1.ConfigMapList],
	}
	Endpoints = kind.Kind[*corev1.Endpoints]{
		Version: "v1", Kind: "Endpoints", Plural: "endpoints", ShortNames: []string{"ep"}, Namespaced: true,
		New: object[corev1.Endpoints], NewList: list[corev1.EndpointsList],
	}
	Events = kind.Kind[*corev1.Event]{
		Version: "v1", Kind: "Event", Plural: "events", ShortNames: []string{"ev"}, Namespaced: true,
		New: object[corev1.Event], NewList: list[corev1.EventList],
	}
	LimitRanges = kind.Kind[*corev1.LimitRange]{
		Version: "v1", Kind: "LimitRange",
		Plural: "limitranges", ShortNames: []string{"limits"}, Namespaced: true,
		New: object[corev1.LimitRange], NewList: list[corev1.LimitRangeList],
	}
	Namespaces = kind.Kind[*corev1.Namespace]{
		Version: "v1", Kind: "Namespace", Plural: "namespaces", ShortNames: []string{"ns"},
		New: object[corev1.Namespace], NewList: list[corev1.NamespaceList],
	}
	Nodes = kind.Kind[*corev1.Node]{
		Version: "v1", Kind: "Node", Plural: "nodes", ShortNames: []string{"no"},
		New: object[corev1.Node], NewList: list[corev1.NodeList],
	}
	PersistentVolumeClaims = kind.Kind[*corev1.PersistentVolumeClaim]{
		Version: "v1", Kind: "PersistentVolumeClaim",
		Plural: "persistentvolumeclaims", ShortNames: []string{"pvc"}, Namespaced: true,
		New: object[corev1.PersistentVolumeClaim], NewList: list[corev1.PersistentVolumeClaimList],
	}
	PersistentVolumes = kind.Kind[*corev1.PersistentVolume]{
		Version: "v1", Kind: "PersistentVolume", Plural: "persistentvolumes", ShortNames: []string{"pv"},
		New: object[corev1.PersistentVolume], NewList: list[corev1.PersistentVolumeList],
	}
	Pods = kind.Kind[*corev1.Pod]{
		Version: "v1", Kind: "Pod",
		Plural: "pods", ShortNames: []string{"po"}, Categories: []string{"all"}, Namespaced: true,
		New: object[corev1.Pod], NewList: list[corev1.PodList],
	}
	PodTemplates = kind.Kind[*corev1.PodTemplate]{
		Version: "v1", Kind: "PodTemplate", Plural: "podtemplates", Namespaced: true,
		New: object[corev1.PodTemplate], NewList: list[corev1.PodTemplateList],
	}
	ReplicationControllers = kind.Kind[*corev1.ReplicationController]{
		Version: "v1", Kind: "ReplicationController",
		Plural: "replicationcontrollers", ShortNames: []string{"rc"}, Categories: []string{"all"}, Namespaced: true,
		New: object[corev1.ReplicationController], NewList: list[corev1.ReplicationControllerList],
	}
	ResourceQuotas = kind.Kind[*corev1.ResourceQuota]{
		Version: "v1", Kind: "ResourceQuota",
		Plural: "resourcequotas", ShortNames: []string{"quota"}, Namespaced: true,
		New: object[corev1.ResourceQuota], NewList: list[corev1.ResourceQuotaList],
	}
	Secrets = kind.Kind[*corev1.Secret]{
		Version: "v1", Kind: "Secret", Plural: "secrets", Namespaced: true,
		New: object[corev1.Secret], NewList: list[corev1.SecretList],
	}
	ServiceAccounts = kind.Kind[*corev1.ServiceAccount]{
		Version: "v1", Kind: "ServiceAccount",
		Plural: "serviceaccounts", ShortNames: []string{"sa"}, Namespaced: true,
		New: object[corev1.ServiceAccount], NewList: list[corev1.ServiceAccountList],
	}
	Services = kind.Kind[*corev1.Service]{
		Version: "v1", Kind: "Service",
		Plural: "services", ShortNames: []string{"svc"}, Categories: []string{"all"}, Namespaced: true,
		New: object[corev1.Service], NewList: list[corev1.ServiceList],
	}
)

// The kinds of the group apps.
var (
	ControllerRevisions = kind.Kind[*appsv1.ControllerRevision]{
		Group: appsv1.GroupName, Version: "v1", Kind: "ControllerRevision",
		Plural: "controllerrevisions", Namespaced: true,
		New: object[appsv1.ControllerRevision], NewList: list[appsv1.ControllerRevisionList],
	}
	DaemonSets = kind.Kind[*appsv1.DaemonSet]{
		Group: appsv1.GroupName, Version: "v1", Kind: "DaemonSet",
		Plural: "daemonsets", ShortNames: []string{"ds"}, Categories: []string{"all"}, Namespaced: true,
		New: object[appsv1.DaemonSet], NewList: list[appsv1.DaemonSetList],
	}
	Deployments = kind.Kind[*appsv1.Deployment]{
		Group: appsv1.GroupName, Version: "v1", Kind: "Deployment",
		Plural: "deployments", ShortNames: []string{"deploy"}, Categories: []string{"all"}, Namespaced: true,
		New: object[appsv1.Deployment], NewList: list[appsv1.DeploymentList],
	}
	ReplicaSets = kind.Kind[*appsv1.ReplicaSet]{
		Group: appsv1.GroupName, Version: "v1", Kind: "ReplicaSet",
		Plural: "replicasets", ShortNames: []string{"rs"}, Categories: []string{"all"}, Namespaced: true,
		New: object[appsv1.ReplicaSet], NewList: list[appsv1.ReplicaSetList],
	}
	StatefulSets = kind.Kind[*appsv1.StatefulSet]{
		Group: appsv1.GroupName, Version: "v1", Kind: "StatefulSet",
		Plural: "statefulsets", ShortNames: []string{"sts"}, Categories: []string{"all"}, Namespaced: true,
		New: object[appsv1.StatefulSet], NewList: list[appsv1.StatefulSetList],
	}
)

// The kinds of the group autoscaling.
var (
	HorizontalPodAutoscalers = kind.Kind[*autoscalingv2.HorizontalPodAutoscaler]{
		Group: autoscalingv2.GroupName, Version: "v2", Kind: "HorizontalPodAutoscaler",
		Plural: "horizontalpodautoscalers", ShortNames: []string{"hpa"}, Categories: []string{"all"}, Namespaced: true,
		New: object[autoscalingv2.HorizontalPodAutoscaler], NewList: list[autoscalingv2.HorizontalPodAutoscalerList],
	}
)

// The kinds of the group batch.
var (
	CronJobs = kind.Kind[*batchv1.CronJob]{
		Group: batchv1.GroupName, Version: "v1", Kind: "CronJob",
		Plural: "cronjobs", ShortNames: []string{"cj"}, Categories: []string{"all"}, Namespaced: true,
		New: object[batchv1.CronJob], NewList: list[batchv1.CronJobList],
	}
	Jobs = kind.Kind[*batchv1.Job]{
		Group: batchv1.GroupName, Version: "v1", Kind: "Job",
		Plural: "jobs", Categories: []string{"all"}, Namespaced: true,
		New: object[batchv1.Job], NewList: list[batchv1.JobList],
	}
)

// The kinds of the group apiregistration.k8s.io.
var (
	APIServices = kind.Kind[*apiregistration.APIService]{
		Group: apiregistration.GroupName, Version: "v1", Kind: "APIService",
		Plural: "apiservices", Categories: []string{"api-extensions"},
		New: object[apiregistration.APIService], NewList: list[apiregistration.APIServiceList],
	}
)

// The kinds of the group admissionregistration.k8s.io.
var (
	ValidatingAdmissionPolicies = kind.Kind[*admissionregistrationv1.ValidatingAdmissionPolicy]{
		Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "ValidatingAdmissionPolicy",
		Plural: "validatingadmissionpolicies", Categories: []string{"api-extensions"},
		New:     object[admissionregistrationv1.ValidatingAdmissionPolicy],
		NewList: list[admissionregistrationv1.ValidatingAdmissionPolicyList],
	}
	ValidatingAdmissionPolicyBindings = kind.Kind[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{
		Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "ValidatingAdmissionPolicyBinding",
		Plural: "validatingadmissionpolicybindings", Categories: []string{"api-extensions"},
		New:     object[admissionregistrationv1.ValidatingAdmissionPolicyBinding],
		NewList: list[admissionregistrationv1.ValidatingAdmissionPolicyBindingList],
	}
	MutatingAdmissionPolicies = kind.Kind[*admissionregistrationv1.MutatingAdmissionPolicy]{
		Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "MutatingAdmissionPolicy",
		Plural: "mutatingadmissionpolicies", Categories: []string{"api-extensions"},
		New:     object[admissionregistrationv1.MutatingAdmissionPolicy],
		NewList: list[admissionregistrationv1.MutatingAdmissionPolicyList],
	}
	MutatingAdmissionPolicyBindings = kind.Kind[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{
		Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "MutatingAdmissionPolicyBinding",
		Plural: "mutatingadmissionpolicybindings", Categories: []string{"api-extensions"},
		New:     object[admissionregistrationv1.MutatingAdmissionPolicyBinding],
		NewList: list[admissionregistrationv1.MutatingAdmissionPolicyBindingList],
	}
	MutatingWebhookConfigurations = kind.Kind[*admissionregistrationv1.MutatingWebhookConfiguration]{
		Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "MutatingWebhookConfiguration",
		Plural: "mutatingwebhookconfigurations", Categories: []string{"api-extensions"},
		New:     object[admissionregistrationv1.MutatingWebhookConfiguration],
		NewList: list[admissionregistrationv1.MutatingWebhookConfigurationList],
	}
	ValidatingWebhookConfigurations = kind.Kind[*admissionregistrationv1.ValidatingWebhookConfiguration]{
		Group: admissionregistrationv1.GroupName, Version: "v1", Kind: "ValidatingWebhookConfiguration",
		Plural: "validatingwebhookconfigurations", Categories: []string{"api-extensions"},
		New:     object[admissionregistrationv1.ValidatingWebhookConfiguration],
		NewList: list[admissionregistrationv1.ValidatingWebhookConfigurationList],
	}
)

// The kinds of the group certificates.k8s.io.
var (
	CertificateSigningRequests = kind.Kind[*certificatesv1.CertificateSigningRequest]{
		Group: certificatesv1.GroupName, Version: "v1", Kind: "CertificateSigningRequest",
		Plural: "certificatesigningrequests", ShortNames: []string{"csr"},
		New: object[certificatesv1.CertificateSigningRequest], NewList: list[certificatesv1.CertificateSigningRequestList],
	}
	ClusterTrustBundles = kind.Kind[*certificatesv1beta1.ClusterTrustBundle]{
		Group: certificatesv1beta1.GroupName, Version: "v1beta1", Kind: "ClusterTrustBundle", Plural: "clustertrustbundles",
		New: object[certificatesv1beta1.ClusterTrustBundle], NewList: list[certificatesv1beta1.ClusterTrustBundleList],
	}
)

// The kinds of the group coordination.k8s.io.
var (
	Leases = kind.Kind[*coordinationv1.Lease]{
		Group: coordinationv1.GroupName, Version: "v1", Kind: "Lease", Plural: "leases", Namespaced: true,
		New: object[coordinationv1.Lease], NewList: list[coordinationv1.LeaseList],
	}
)

// The kinds of the group events.k8s.io.
var (
	EventsGroupEvents = kind.Kind[*eventsv1.Event]{
		Group: eventsv1.GroupName, Version: "v1", Kind: "Event",
		Plural: "events", ShortNames: []string{"ev"}, Namespaced: true,
		New: object[eventsv1.Event], NewList: list[eventsv1.EventList],
	}
)

// The kinds of the group discovery.k8s.io.
var (
	EndpointSlices = kind.Kind[*discoveryv1.EndpointSlice]{
		Group: discoveryv1.GroupName, Version: "v1", Kind: "EndpointSlice",
		Plural: "endpointslices", Namespaced: true,
		New: object[discoveryv1.EndpointSlice], NewList: list[discoveryv1.EndpointSliceList],
	}
)

// The kinds of the group flowcontrol.apiserver.k8s.io.
var (
	FlowSchemas = kind.Kind[*flowcontrolv1.FlowSchema]{
		Group: flowcontrolv1.GroupName, Version: "v1", Kind: "FlowSchema", Plural: "flowschemas",
		New: object[flowcontrolv1.FlowSchema], NewList: list[flowcontrolv1.FlowSchemaList],
	}
	PriorityLevelConfigurations = kind.Kind[*flowcontrolv1.PriorityLevelConfiguration]{
		Group: flowcontrolv1.GroupName, Version: "v1", Kind: "PriorityLevelConfiguration",
		Plural:  "prioritylevelconfigurations",
		New:     object[flowcontrolv1.PriorityLevelConfiguration],
		NewList: list[flowcontrolv1.PriorityLevelConfigurationList],
	}
)

// The kinds of the group networking.k8s.io.
var (
	IngressClasses = kind.Kind[*networkingv1.IngressClass]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "IngressClass", Plural: "ingressclasses",
		New: object[networkingv1.IngressClass], NewList: list[networkingv1.IngressClassList],
	}
	Ingresses = kind.Kind[*networkingv1.Ingress]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "Ingress",
		Plural: "ingresses", ShortNames: []string{"ing"}, Namespaced: true,
		New: object[networkingv1.Ingress], NewList: list[networkingv1.IngressList],
	}
	IPAddresses = kind.Kind[*networkingv1.IPAddress]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "IPAddress",
		Plural: "ipaddresses", ShortNames: []string{"ip"},
		New: object[networkingv1.IPAddress], NewList: list[networkingv1.IPAddressList],
	}
	NetworkPolicies = kind.Kind[*networkingv1.NetworkPolicy]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "NetworkPolicy",
		Plural: "networkpolicies", ShortNames: []string{"netpol"}, Namespaced: true,
		New: object[networkingv1.NetworkPolicy], NewList: list[networkingv1.NetworkPolicyList],
	}
	ServiceCIDRs = kind.Kind[*networkingv1.ServiceCIDR]{
		Group: networkingv1.GroupName, Version: "v1", Kind: "ServiceCIDR", Plural: "servicecidrs",
		New: object[networkingv1.ServiceCIDR], NewList: list[networkingv1.ServiceCIDRList],
	}
)

// The kinds of the group node.k8s.io.
var (
	RuntimeClasses = kind.Kind[*nodev1.RuntimeClass]{
		Group: nodev1.GroupName, Version: "v1", Kind: "RuntimeClass", Plural: "runtimeclasses",
		New: object[nodev1.RuntimeClass], NewList: list[nodev1.RuntimeClassList],
	}
)

// The kinds of the group policy.
var (
	PodDisruptionBudgets = kind.Kind[*policyv1.PodDisruptionBudget]{
		Group: policyv1.GroupName, Version: "v1", Kind: "PodDisruptionBudget",
		Plural: "poddisruptionbudgets", ShortNames: []string{"pdb"}, Namespaced: true,
		New: object[policyv1.PodDisruptionBudget], NewList: list[policyv1.PodDisruptionBudgetList],
	}
)

// The kinds of the group rbac.authorization.k8s.io.
var (
	ClusterRoleBindings = kind.Kind[*rbacv1.ClusterRoleBinding]{
		Group: rbacv1.GroupName, Version: "v1", Kind: "ClusterRoleBinding", Plural: "clusterrolebindings",
		New: object[rbacv1.ClusterRoleBinding], NewList: list[rbacv1.ClusterRoleBindingList],
	}
	ClusterRoles = kind.Kind[*rbacv1.ClusterRole]{
		Group: rbacv1.GroupName, Version: "v1", Kind: "ClusterRole", Plural: "clusterroles",
		New: object[rbacv1.ClusterRole], NewList: list[rbacv1.ClusterRoleList],
	}
	RoleBindings = kind.Kind[*rbacv1.RoleBinding]{
		Group: rbacv1.GroupName, Version: "v1", Kind: "RoleBinding", Plural: "rolebindings", Namespaced: true,
		New: object[rbacv1.RoleBinding], NewList: list[rbacv1.RoleBindingList],
	}
	Roles = kind.Kind[*rbacv1.Role]{
		Group: rbacv1.GroupName, Version: "v1", Kind: "Role", Plural: "roles", Namespaced: true,
		New: object[rbacv1.Role], NewList: list[rbacv1.RoleList],
	}
)

// The kinds of the group scheduling.k8s.io.
var (
	PriorityClasses = kind.Kind[*schedulingv1.PriorityClass]{
		Group: schedulingv1.GroupName, Version: "v1", Kind: "PriorityClass",
		Plural: "priorityclasses", ShortNames: []string{"pc"},
		New: object[schedulingv1.PriorityClass], NewList: list[schedulingv1.PriorityClassList],
	}
)

// The kinds of the group storage.k8s.io.
var (
	CSIDrivers = kind.Kind[*storagev1.CSIDriver]{
		Group: storagev1.GroupName, Version: "v1", Kind: "CSIDriver", Plural: "csidrivers",
		New: object[storagev1.CSIDriver], NewList: list[storagev1.CSIDriverList],
	}
	CSINodes = kind.Kind[*storagev1.CSINode]{
		Group: storagev1.GroupName, Version: "v1", Kind: "CSINode", Plural: "csinodes",
		New: object[storagev1.CSINode], NewList: list[storagev1.CSINodeList],
	}
	CSIStorageCapacities = kind.Kind[*storagev1.CSIStorageCapacity]{
		Group: storagev1.GroupName, Version: "v1", Kind: "CSIStorageCapacity",
		Plural: "csistoragecapacities", Namespaced: true,
		New: object[storagev1.CSIStorageCapacity], NewList: list[storagev1.CSIStorageCapacityList],
	}
	StorageClasses = kind.Kind[*storagev1.StorageClass]{
		Group: storagev1.GroupName, Version: "v1", Kind: "StorageClass",
		Plural: "storageclasses", ShortNames: []string{"sc"},
		New: object[storagev1.StorageClass], NewList: list[storagev1.StorageClassList],
	}
	VolumeAttachments = kind.Kind[*storagev1.VolumeAttachment]{
		Group: storagev1.GroupName, Version: "v1", Kind: "VolumeAttachment", Plural: "volumeattachments",
		New: object[storagev1.VolumeAttachment], NewList: list[storagev1.VolumeAttachmentList],
	}
)
