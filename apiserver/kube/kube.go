package kube

import (
	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Resources returns the resources that this package knows, core first. The
// slice belongs to the caller.
func Resources() []apiserver.Resource { return ResourcesFor(Config{}) }

// ResourcesFor returns the resources as c wants them.
func ResourcesFor(c Config) []apiserver.Resource {
	return []apiserver.Resource{
		configMaps(),
		endpoints(),
		events(),
		limitRanges(),
		namespaces(),
		nodes(),
		persistentVolumeClaims(),
		persistentVolumes(),
		pods(),
		podTemplates(),
		replicationControllers(),
		resourceQuotas(),
		secrets(),
		serviceAccounts(),
		services(c),
		controllerRevisions(),
		daemonSets(),
		deployments(),
		replicaSets(),
		statefulSets(),
		cronJobs(),
		jobs(),
		apiServices(),
		admissionPolicies(),
		admissionPolicyBindings(),
		mutatingWebhooks(),
		validatingWebhooks(),
		leases(),
		newerEvents(),
		endpointSlices(),
		flowSchemas(),
		priorityLevels(),
		ingressClasses(),
		ingresses(),
		ipAddresses(),
		networkPolicies(),
		serviceCIDRs(),
		runtimeClasses(),
		podDisruptionBudgets(),
		clusterRoleBindings(),
		clusterRoles(),
		roleBindings(),
		roles(),
		priorityClasses(),
		csiDrivers(),
		csiNodes(),
		csiStorageCapacities(),
		storageClasses(),
		volumeAttachments(),
	}
}

// Namespaces returns the namespaces every cluster begins with, complete but for
// what the server gives an object: UID and creation time.
func Namespaces() []*corev1.Namespace {
	var out []*corev1.Namespace
	for _, name := range []string{
		metav1.NamespaceDefault,
		metav1.NamespaceSystem,
		metav1.NamespacePublic,
		corev1.NamespaceNodeLease,
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		completeNamespace(ns)
		createNamespace(ns)
		out = append(out, ns)
	}
	return out
}
